/** How long a call has until its deadline, however the clock is set while it is under way. */

/** By the clock that nobody sets, for each deadline that was looked at. */
const ends = new WeakMap<Date, number>();

/** In milliseconds; 0: it is over. */
export function timeLeft({ deadline }: { readonly deadline: Date }): number {
  const now = performance.now();
  const end = ends.get(deadline) ?? now + deadline.getTime() - Date.now();
  ends.set(deadline, end);
  return Math.max(0, end - now);
}
