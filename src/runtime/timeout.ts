/** A limit on how long an answer is awaited. On a connection that was lost silently no answer comes. */

/** The result of `work`; rejects with `lateError`, by default a message with the time, if that takes longer. */
export async function withTimeout<T>(ms: number, work: Promise<T>, lateError?: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(lateError?.() ?? new Error(`There was no answer within ${ms / 1000} s.`)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The result of `work`, or `late` if that takes longer. The work continues; its later failure is ignored. */
export async function withinTime<T, Late>(ms: number, work: Promise<T>, late: Late): Promise<T | Late> {
  const { promise: over, resolve } = Promise.withResolvers<Late>();
  const timer = setTimeout(() => resolve(late), ms);
  work.catch(() => {});
  try {
    return await Promise.race([work, over]);
  } finally {
    clearTimeout(timer);
  }
}
