/** What the database can hold, checked at the edge: what it cannot hold would fail inside, with all that was to be stored in the error. */

/** Of arguments, input objects and JSON values together. */
const NESTING_MAX = 32;

/** Whether the database can hold a text: it takes neither U+0000 nor half of a surrogate pair. */
export function isStorable(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}

/** Why a value cannot be stored as JSON, in a sentence that names the place; null when it can be. */
export function unstorable(value: unknown, path: readonly string[] = []): string | null {
  const place = path.slice(0, 6).join(".") || "The value";
  if (path.length > NESTING_MAX) return `${place} is nested deeper than ${NESTING_MAX} levels.`;
  if (typeof value === "string")
    return isStorable(value)
      ? null
      : `${place} holds a character that cannot be stored: U+0000, or half of a surrogate pair.`;
  if (typeof value !== "object" || value === null || value instanceof Date) return null;
  for (const [key, member] of Object.entries(value)) {
    const flaw = isStorable(key) ? unstorable(member, [...path, key]) : `${place} has a key that cannot be stored.`;
    if (flaw !== null) return flaw;
  }
  return null;
}
