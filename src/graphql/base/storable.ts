/**
 * Rejects values that the database cannot store, before anything runs. Otherwise a statement would fail, and its error
 * would contain everything that it was to store.
 */

/** Maximum nesting of arguments, input objects and JSON values together. */
const NESTING_MAX = 32;

/** Whether the database can hold a text: it takes neither U+0000 nor half of a surrogate pair. */
export function isStorable(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}

/** Why a value cannot be stored as JSON, as a sentence with the path of the fault; null if it can. */
export function unstorable(value: unknown, path: readonly string[] = []): string | null {
  const place = path.slice(0, 6).join(".") || "The value";
  if (path.length > NESTING_MAX) return `${place} is nested more than ${NESTING_MAX} levels deep; make it flatter.`;
  if (typeof value === "string")
    return isStorable(value)
      ? null
      : `${place} contains a character that cannot be stored: U+0000, or half of a surrogate pair. Remove it.`;
  if (typeof value !== "object" || value === null || value instanceof Date) return null;
  for (const [key, member] of Object.entries(value)) {
    const flaw = isStorable(key)
      ? unstorable(member, [...path, key])
      : `${place} has a key with a character that cannot be stored: U+0000, or half of a surrogate pair.`;
    if (flaw !== null) return flaw;
  }
  return null;
}
