/** Questions about JSON values. */
import { isStorableText } from "./text.ts";

/** An object, as opposed to an array or null. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether all texts and keys of a JSON value can be stored as they are. */
export function isStorable(value: unknown): boolean {
  if (typeof value === "string") return isStorableText(value);
  if (Array.isArray(value)) return value.every(isStorable);
  return isRecord(value)
    ? Object.entries(value).every(([key, member]) => isStorableText(key) && isStorable(member))
    : true;
}
