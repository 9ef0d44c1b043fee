/** Work that is repeated at an interval, and sooner after a failure. */
import { withTimeout } from "./timeout.ts";

const AFTER_FAILURE_MS = 1_000;
/** How long one repetition may take before it counts as failed. */
const WORK_MS = 4_000;

export function startPeriodic(
  everyMs: number,
  work: () => Promise<void>,
  onFailure: (error: unknown) => void,
): { stop(): void } {
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  const next = (afterMs: number) => {
    if (!stopped) timer = setTimeout(() => void once(), afterMs);
  };
  const once = async () => {
    try {
      await withTimeout(WORK_MS, work());
      next(everyMs);
    } catch (error) {
      onFailure(error);
      next(AFTER_FAILURE_MS);
    }
  };
  next(everyMs);
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
