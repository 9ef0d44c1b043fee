/** Output of drivers, made fit to be stored, logged and shown: secrets are masked, unstorable characters replaced. */
import { createMask } from "../../drivers/secret-masking.ts";
import { storableText } from "../../runtime/text.ts";
import type { StoredJson } from "../../store/records.ts";

export interface Redactor {
  text(text: string): string;
  json(value: StoredJson): StoredJson;
}

/** A redactor that masks further secrets too. */
export function withSecrets(redactor: Redactor, secrets: readonly string[]): Redactor {
  if (secrets.length === 0) return redactor;
  const more = createRedactor(secrets);
  return { text: (text) => more.text(redactor.text(text)), json: (value) => more.json(redactor.json(value)) };
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
