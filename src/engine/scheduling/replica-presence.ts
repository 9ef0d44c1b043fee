/** A replica that only serves the API says so in its log when runs wait and no replica takes work. */
import type { Log } from "../../log.ts";
import type { Queue } from "../jobs/queue.ts";

const EVERY_MS = 30_000;
/** Longer than a takeover takes. */
const UNATTENDED_SECONDS = 45;

export interface ReplicaPresence {
  close(): void;
}

/** Polls the queue. Logs once when no replica takes work, and once when one does again. */
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
    () => void look().catch((error: unknown) => log.debug({ err: error }, "the queue could not be read")),
    everyMs,
  );
  return { close: () => clearInterval(timer) };
}
