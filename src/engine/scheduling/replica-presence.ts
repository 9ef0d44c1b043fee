/** A replica that only serves the API says so in its log when runs wait and no replica takes work. */
import type { Log } from "../../log.ts";
import type { Queue } from "../jobs/queue.ts";

const EVERY_MS = 30_000;
/** Longer than a take-over lasts. */
const UNATTENDED_SECONDS = 45;

export interface ReplicaPresence {
  close(): void;
}

/** Looks again and again; warns once, and once more when somebody works again. */
export function watchReplicaPresence({
  queue,
  log,
  everyMs = EVERY_MS,
  seconds = UNATTENDED_SECONDS,
}: {
  readonly queue: Queue;
  readonly log: Log;
  readonly everyMs?: number;
  readonly seconds?: number;
}): ReplicaPresence {
  let warned = false;
  const look = async () => {
    const isUnattended = await queue.isUnattended(seconds);
    if (isUnattended && !warned)
      log.warn({ seconds }, "runs wait and no replica takes work; start one with OSTLER_ROLE=engine or all");
    if (!isUnattended && warned) log.info("a replica takes work again");
    warned = isUnattended;
  };
  const timer = setInterval(
    () => void look().catch((error: unknown) => log.debug({ err: error }, "whether anybody works could not be read")),
    everyMs,
  );
  return { close: () => clearInterval(timer) };
}
