/**
 * Rejects values that the database cannot store, before anything runs. Otherwise a statement would fail, and its error
 * would contain everything that it was to store.
 */

import { cutTo, isStorableText } from "../../runtime/text.ts";

/** Maximum nesting of arguments, input objects and JSON values together. */
const NESTING_MAX = 32;
/** Maximum length of a path in a message: its keys are the caller's. */
const PLACE_MAX = 300;

/** Why a value cannot be stored as JSON, as a sentence with the path of the fault; null if it can. */
export function unstorable(value: unknown, path: readonly string[] = []): string | null {
  const place = cutTo(path.join("."), PLACE_MAX) || "The value";
  if (path.length > NESTING_MAX) return `${place} is nested more than ${NESTING_MAX} levels deep; make it flatter.`;
  if (typeof value === "string")
    return isStorableText(value)
      ? null
      : `${place} contains a character that cannot be stored: U+0000, or half of a surrogate pair. Remove it.`;
  if (typeof value === "number") return Number.isFinite(value) ? null : inexactNumber(place);
  if (typeof value !== "object" || value === null || value instanceof Date) return null;
  for (const [key, member] of Object.entries(value)) {
    const flaw = isStorableText(key)
      ? unstorable(member, [...path, key])
      : `${place} has a key with a character that cannot be stored: U+0000, or half of a surrogate pair.`;
    if (flaw !== null) return flaw;
  }
  return null;
}

/** Why a number is refused that would be stored as another one. */
export function inexactNumber(place: string): string {
  return `${place} is a number that cannot be kept: it has too many digits, or is out of range. Round it, or send it as text.`;
}
