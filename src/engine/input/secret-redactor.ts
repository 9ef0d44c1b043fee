/** Output of drivers, made fit to be stored, logged and shown: plain texts, in which secrets are masked. */
import { createMask } from "../../drivers/secret-masking.ts";
import { plainText } from "../../runtime/text.ts";
import type { StoredJson } from "../../store/records.ts";

export interface Redactor {
  text(text: string): string;
  json(value: StoredJson): StoredJson;
  /** Masks further secrets from now on. */
  hide(secrets: readonly string[]): void;
}

/** A redactor that masks further secrets too. */
export function withSecrets(redactor: Redactor, secrets: readonly string[]): Redactor {
  if (secrets.length === 0) return redactor;
  const more = createRedactor(secrets);
  return {
    text: (text) => more.text(redactor.text(text)),
    json: (value) => more.json(redactor.json(value)),
    hide: redactor.hide,
  };
}

export function createRedactor(secrets: readonly string[]): Redactor {
  const known = new Set(secrets);
  let mask = createMask(known);
  const text = (given: string) => mask.all(plainText(given)).replaceAll(SESSION, "$1***");
  const json = (value: StoredJson): StoredJson => {
    if (typeof value === "string") return text(value);
    if (Array.isArray(value)) return value.map(json);
    if (value !== null && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([key, member]) => [text(key), json(member)]));
    return value;
  };
  const hide = (more: readonly string[]) => {
    mask = createMask(more.reduce((all, one) => all.add(one), known));
  };
  return { text, json, hide };
}

/** ID and secret of an agent's session, as in the URL of a medium that an earlier process has inserted. */
const SESSION = /([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}(?:\.|%2e))[\w-]{43}/gi;
/** Shorter parts of a URL are words. */
const RANDOM = [/^(?=.*\d)(?=.*[a-z])(?=.*[A-Z])[\w-]{16,}$/, /^[\da-f]{16,}$/i];

/** Parts of a URL that may be secret: the whole, its password, and parts that look random. */
export function urlSecrets(url: string): readonly string[] {
  if (!URL.canParse(url)) return [url];
  const { pathname, search, password } = new URL(url);
  const random = `${pathname}${search}`.split(/[/.?&=]/).filter((part) => RANDOM.some((pattern) => pattern.test(part)));
  return [url, ...random, ...(password === "" ? [] : [decodeURIComponent(password)])];
}
