/**
 * What a driver says, made fit to be stored, logged and shown: the node's secrets are masked, and characters that
 * PostgreSQL stores in no text (U+0000 and halves of surrogate pairs) are replaced.
 */
import { createMask } from "../../drivers/secret-masking.ts";
import type { StoredJson } from "../../store/records.ts";

export interface Redactor {
  text(text: string): string;
  json(value: StoredJson): StoredJson;
}

export function createRedactor(secrets: readonly string[]): Redactor {
  const mask = createMask(secrets);
  const text = (given: string) => mask.all(storableText(given));
  const json = (value: StoredJson): StoredJson => {
    if (typeof value === "string") return text(value);
    if (Array.isArray(value)) return value.map(json);
    if (value !== null && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([key, member]) => [text(key), json(member)]));
    return value;
  };
  return { text, json };
}

/** The beginning of a text, and never half a character of it: half of one can be stored nowhere. */
export function cutTo(text: string, most: number): string {
  return text.slice(0, most).toWellFormed();
}

/** Words of a driver as a sentence of ours. */
export function sentence(reason: string): string {
  return /[.!?…]$/.test(reason) ? reason : `${reason}.`;
}

function storableText(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\uFFFD");
}

/** Whether a JSON value can be stored as it is. */
export function isStorable(value: StoredJson): boolean {
  if (typeof value === "string") return storableText(value) === value;
  if (Array.isArray(value)) return value.every(isStorable);
  if (value !== null && typeof value === "object")
    return Object.entries(value).every(([key, member]) => storableText(key) === key && isStorable(member));
  return true;
}
