/** Finds the word that a misspelled one was meant to be. */

/** The closest of some words, if at most a third of its characters differ; otherwise null. */
export function nearest(given: string, words: readonly string[]): string | null {
  let found: string | null = null;
  let least = Math.max(1, Math.floor(given.length / 3)) + 1;
  for (const word of words) {
    const distance =
      given.length > 64 ? Number.POSITIVE_INFINITY : editDistance(given.toLowerCase(), word.toLowerCase());
    if (distance < least) [found, least] = [word, distance];
  }
  return found;
}

/** Insertions, deletions and replacements that make one text of the other. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [index, letter] of Array.from(a).entries()) {
    const next = [index + 1];
    for (const [column, other] of Array.from(b).entries())
      next.push(
        Math.min((row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1, (row[column] ?? 0) + (letter === other ? 0 : 1)),
      );
    row = next;
  }
  return row[b.length] ?? 0;
}
