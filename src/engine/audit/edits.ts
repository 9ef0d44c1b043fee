/** The changes of an edit, as the audit records them: only the values that differ, and no secrets. Pure. */
import { isSameJson } from "../../runtime/canonical-json.ts";
import { isRecord } from "../../runtime/json-values.ts";
import type { AuditEdit } from "../../store/log/audit-records.ts";
import type { JsonObject, StoredJson } from "../../store/records.ts";
import { MASK } from "../../store/secrets/secrets.ts";

/** As many edits as a row records, and one more, so that it shows that it lacks some. */
export const EDITS_MAX = 101;
/** API tokens, JWTs, and logins in URLs, which a message may have cut: sent in place of an id, for example. */
const CREDENTIAL =
  /(ost_)[0-9A-Za-z]{11,}|eyJ[\w-]+\.[\w-]+\.[\w-]+|(:\/\/)(?:[^\s/]+(?=@)|[^\s/:@[]+:(?!\d{1,5}\b)[^\s/]+)/g;
/** Longer values are recorded as their length. */
const VALUE_LENGTH_MAX = 1_000;

/**
 * The difference of an object before and after an edit; none if there is no difference. Null: before its creation, or
 * after its deletion. `secret`: names of members whose values are masked, wherever they are.
 */
export function editOf(
  target: string,
  before: object | null,
  after: object | null,
  secret: Iterable<string> = [],
): AuditEdit[] {
  const names = new Set(secret);
  const [was, is] = differingMembers([plain(before), plain(after)], names);
  if (before !== null && after !== null && Object.keys({ ...was, ...is }).length === 0) return [];
  return [{ target, before: before && was, after: after && is }];
}

/** A text without the credentials that can be recognized in it. */
export function withoutCredentials(text: string): string {
  return text.replaceAll(CREDENTIAL, `$1$2${MASK}`);
}

/** As JSON has it: dates are texts. */
function plain(object: object | null): JsonObject {
  return JSON.parse(JSON.stringify(object ?? {})) as JsonObject;
}

function differingMembers(
  [before, after]: readonly [JsonObject, JsonObject],
  secret: ReadonlySet<string>,
): readonly [JsonObject, JsonObject] {
  const [was, is]: [Map<string, StoredJson>, Map<string, StoredJson>] = [new Map(), new Map()];
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [one, other] = [memberOf(before, name), memberOf(after, name)];
    if (isSameJson(one, other)) continue;
    const [inner, innerAfter] =
      isJsonObject(one) && isJsonObject(other) && !secret.has(name) ? differingMembers([one, other], secret) : [];
    if (one !== undefined) was.set(name, inner ?? shown(name, one, secret));
    if (other !== undefined) is.set(name, innerAfter ?? shown(name, other, secret));
  }
  return [Object.fromEntries(was), Object.fromEntries(is)];
}

/** Callers choose the names: `constructor` is a variable, not what every object inherits. */
function memberOf(object: JsonObject, name: string): StoredJson | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

function shown(name: string, value: StoredJson, secret: ReadonlySet<string>): StoredJson {
  const masked = secret.has(name) ? MASK : withoutSecrets(value, secret);
  const { length } = JSON.stringify(masked);
  return length > VALUE_LENGTH_MAX ? `(${length} characters)` : masked;
}

function withoutSecrets(value: StoredJson, secret: ReadonlySet<string>): StoredJson {
  // A longer one is not shown, and would take long to search.
  if (typeof value === "string") return value.length > VALUE_LENGTH_MAX ? value : withoutCredentials(value);
  if (isList(value)) return value.map((one) => withoutSecrets(one, secret));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [name, secret.has(name) ? MASK : withoutSecrets(one, secret)]),
  );
}

function isJsonObject(value: StoredJson | undefined): value is JsonObject {
  return isRecord(value);
}

function isList(value: StoredJson): value is readonly StoredJson[] {
  return Array.isArray(value);
}
