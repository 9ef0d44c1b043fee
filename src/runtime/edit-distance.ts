/** Finds the name that a misspelled one was meant to be. */

/** Names up to this length may differ by one edit, longer ones by two. */
const SHORT = 4;

/** The closest of some names, if it is so close that the given one is likely a misspelling of it; otherwise null. */
export function nearest(given: string, names: readonly string[]): string | null {
  const limit = given.length <= SHORT ? 1 : 2;
  let found: string | null = null;
  let least = limit + 1;
  for (const name of names) {
    if (Math.abs(name.length - given.length) >= least) continue;
    const distance = editDistance(given.toLowerCase(), name.toLowerCase());
    if (distance < least) [found, least] = [name, distance];
  }
  return found;
}

/** Number of insertions, deletions, replacements and swaps of neighbors that make one text of the other. */
export function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const isSame = a[row - 1] === b[column - 1];
      const isSwap = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      current.push(
        Math.min(
          (last[column] ?? 0) + 1,
          (current[column - 1] ?? 0) + 1,
          (last[column - 1] ?? 0) + (isSame ? 0 : 1),
          isSwap ? (beforeLast[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
        ),
      );
    }
    [beforeLast, last] = [last, current];
  }
  return last[b.length] ?? 0;
}
