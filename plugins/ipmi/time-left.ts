/** Time until the deadline of a call, unaffected by changes of the system clock during the call. */

/** Deadline → its time on the monotonic clock, fixed on first use. */
const ends = new WeakMap<Date, number>();

/** In milliseconds; 0 once the deadline has passed. */
export function timeLeft({ deadline }: { readonly deadline: Date }): number {
  const now = performance.now();
  const end = ends.get(deadline) ?? now + deadline.getTime() - Date.now();
  ends.set(deadline, end);
  return Math.max(0, end - now);
}
