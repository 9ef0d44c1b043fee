/** Masks the secrets of a node in any text or JSON before it is stored, logged or shown. */
import type { StoredJson } from "../store/records.ts";

const MASK = "***";
/** Shorter ones would mask half of every text; drivers should not have such secrets. */
const SECRET_LENGTH_MIN = 3;

export interface Redactor {
  text(text: string): string;
  json(value: StoredJson): StoredJson;
}

export function createRedactor(secrets: readonly string[]): Redactor {
  const long = secrets.filter((secret) => secret.length >= SECRET_LENGTH_MIN).toSorted((a, b) => b.length - a.length);
  const text = (given: string) => long.reduce((masked, secret) => masked.replaceAll(secret, MASK), given);
  const json = (value: StoredJson): StoredJson => {
    if (typeof value === "string") return text(value);
    if (Array.isArray(value)) return value.map(json);
    if (value !== null && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, json(member)]));
    return value;
  };
  return { text, json: long.length === 0 ? (value) => value : json };
}
