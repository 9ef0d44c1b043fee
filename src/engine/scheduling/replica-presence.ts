/** A replica that only serves the API says so in its log when runs wait and no replica takes work. */
import type { Log } from "../../log.ts";

const EVERY_MS = 30_000;
/** Longer than a takeover takes. */
const UNATTENDED_SECONDS = 45;

/** Logs once when no replica takes work, and once when one does again. */
export function watchReplicaPresence({
  isUnattended,
  log,
  everyMs = EVERY_MS,
  seconds = UNATTENDED_SECONDS,
}: {
  /** Whether work has been due for this time while no replica takes any. */
  readonly isUnattended: (seconds: number) => Promise<boolean>;
  readonly log: Log;
  readonly everyMs?: number;
  readonly seconds?: number;
}): { close(): void } {
  let warned = false;
  const look = async () => {
    const isAlone = await isUnattended(seconds);
    if (isAlone && !warned)
      log.warn({ seconds }, "runs wait and no replica takes work; start one with OSTLER_ROLE=engine or all");
    if (!isAlone && warned) log.info("a replica takes work again");
    warned = isAlone;
  };
  const timer = setInterval(
    () => void look().catch((error: unknown) => log.debug({ err: error }, "the due runs could not be read")),
    everyMs,
  );
  return { close: () => clearInterval(timer) };
}
