/** Intervals on the monotonic clock: times of faults, and how much of a wait falls into them. */

export interface Interval {
  readonly from: number;
  readonly to: number;
}

/** Sorts the intervals and joins those that touch. */
export function joined(intervals: readonly Interval[]): readonly Interval[] {
  const all: { from: number; to: number }[] = [];
  for (const { from, to } of intervals.toSorted((a, b) => a.from - b.from)) {
    const last = all.at(-1);
    if (last && from <= last.to) last.to = Math.max(last.to, to);
    else all.push({ from, to });
  }
  return all;
}

/** Index of the first of some joined intervals that ends at `t` or later. */
function firstUntil(intervals: readonly Interval[], t: number): number {
  let [low, high] = [0, intervals.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((intervals[middle]?.to ?? Infinity) < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Milliseconds of `from` to `to` that lie in one of some joined intervals. */
export function overlap(intervals: readonly Interval[], from: number, to: number): number {
  let sum = 0;
  for (let index = firstUntil(intervals, from); index < intervals.length; index += 1) {
    const one = intervals[index];
    if (!one || one.from >= to) break;
    sum += Math.max(0, Math.min(one.to, to) - Math.max(one.from, from));
  }
  return sum;
}

/** Whether one of some joined intervals touches `from` to `to`. */
export function touches(intervals: readonly Interval[], from: number, to: number): boolean {
  return (intervals[firstUntil(intervals, from)]?.from ?? Infinity) <= to;
}

/** Extends each interval at both ends. */
export function widened(intervals: readonly Interval[], before: number, after: number): readonly Interval[] {
  return joined(intervals.map(({ from, to }) => ({ from: from - before, to: to + after })));
}

/** Parts of `from` to `to` outside all intervals. */
export function without(intervals: readonly Interval[], from: number, to: number): readonly Interval[] {
  const left: Interval[] = [];
  let at = from;
  for (const one of joined(intervals)) {
    if (one.from >= to) break;
    if (one.from > at) left.push({ from: at, to: one.from });
    at = Math.max(at, one.to);
  }
  return at < to ? [...left, { from: at, to }] : left;
}

/** Parts of `from` to `to` that lie in every set. */
export function common(sets: readonly (readonly Interval[])[], from: number, to: number): readonly Interval[] {
  // A moment lies in every set if no set lacks it.
  return without(
    sets.flatMap((set) => without(set, from, to)),
    from,
    to,
  );
}

/** Percentile of the values; undefined if there are none. */
export function percentile(values: readonly number[], share: number): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))];
}
