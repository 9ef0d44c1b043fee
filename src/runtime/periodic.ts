/** Work that is done again and again, and answers that are not waited for for ever: on a connection that was lost unnoticed none comes. */

/** How soon work that failed is tried again. */
const AGAIN_MS = 1_000;
/** How long the answer to one time is waited for. */
const ANSWER_MS = 4_000;

/** Does work every so often; sooner when it failed, which is told. */
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
      await withTimeout(ANSWER_MS, work());
      next(everyMs);
    } catch (error) {
      onFailure(error);
      next(AGAIN_MS);
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

/** What the work answers; rejects when that takes longer. */
export async function withTimeout<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`There was no answer within ${ms / 1000} s.`)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
