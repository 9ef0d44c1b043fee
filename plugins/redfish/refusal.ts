/**
 * How a refused change can be sent again. The messages of the answer name what is missing, what is not taken, another
 * resource or another moment (DSP0266, 8.6; DSP2065 describes the registries). Vendors have messages of their own, so
 * that the text decides where the ID does not.
 */
import type { HttpAnswer } from "./connection.ts";
import { messageKeys, messageWords, resourceOf } from "./messages.ts";
import { isResource } from "./resource.ts";
import type { Resource } from "./resource.ts";

/** A change as it was sent. */
export interface SentChange {
  readonly path: string;
  readonly body: Resource;
  /** Values of members that the body does not have, and that some BMCs require. */
  readonly spare: Resource;
  /** Members, at any depth, without which the change can be sent too. */
  readonly optional: readonly string[];
  /** Whether a resource below this one, as its settings for the next start, may take the change. */
  readonly mayMove: boolean;
  /** Whether the change may be made minutes later. */
  readonly mayWait: boolean;
}

export type Remedy =
  | { readonly kind: "BODY"; readonly body: Resource }
  /** Without a path: the pending settings of the resource, if it has them. */
  | { readonly kind: "PATH"; readonly path?: string }
  | { readonly kind: "WAIT" };

/** The next thing to try; undefined if the answer names nothing. */
export function remedyOf(
  answer: HttpAnswer,
  { path, body, spare, optional, mayMove, mayWait }: SentChange,
): Remedy | undefined {
  const refusal = resourceOf(answer.body) ?? {};
  const keys = messageKeys(refusal);
  const words = messageWords(refusal);
  const isNamed = (name: string) => new RegExp(`\\b${name}\\b`).test(words);
  const lacking = Object.keys(spare).find((name) => isNamed(name) && !(name in body));
  if (lacking !== undefined) return { kind: "BODY", body: { ...body, [lacking]: spare[lacking] } };
  const sent = optional.filter((name) => without(body, [name]) !== body);
  const unwanted = answer.status === 400 || keys.includes("PropertyNotWritable") ? sent.filter(isNamed) : [];
  if (unwanted.length > 0) return { kind: "BODY", body: without(body, unwanted) };
  if (mayWait && (keys.some((key) => NOT_NOW.has(key)) || NOT_NOW_TEXT.test(words))) return { kind: "WAIT" };
  if (mayMove && (answer.status === 405 || keys.some((key) => ELSEWHERE.has(key)) || ELSEWHERE_TEXT.test(words))) {
    const own = `${path.replace(/\/$/, "")}/`;
    const named = words.match(/\/redfish\/v1\/[\w./~%-]*[\w~%]/g)?.find((one) => one.startsWith(own));
    return { kind: "PATH", ...(named !== undefined && { path: named }) };
  }
  return answer.status === 400 && sent.length > 0 ? { kind: "BODY", body: without(body, sent) } : undefined;
}

/** Messages about a condition that passes. */
const NOT_NOW: ReadonlySet<string> = new Set([
  "ServiceTemporarilyUnavailable",
  "UnableToModifyDuringSystemPOST",
  "ServerInPOST",
  "ResourceInPOST",
]);
const NOT_NOW_TEXT =
  /\b(in|during|until|after|completes?|finish(es)?) (the )?(system |server )?POST\b(?! (request|body|method|data|payload|operation|call))|\bPOST (is )?(in progress|complet|finish)|\bat this time\b|\btemporarily\b|\btry (it )?again later\b|\bis (re)?(starting|booting|initiali[sz]ing)\b/i;

/** Messages about a member that is changed at another resource, or a resource that takes no changes. */
const ELSEWHERE: ReadonlySet<string> = new Set(["PropertyNotWritable", "OperationNotAllowed", "ActionNotSupported"]);
const ELSEWHERE_TEXT = /\b(must|should|can only|needs? to) be (set|written|changed|modified|sent|done)\b|\binstead\b/i;

/** The same body if it has none of the members. */
function without(body: Resource, names: readonly string[]): Resource {
  const entries = Object.entries(body).flatMap(([name, value]) =>
    names.includes(name) ? [] : [[name, isResource(value) ? without(value, names) : value] as const],
  );
  const isSame = entries.length === Object.keys(body).length && entries.every(([name, value]) => body[name] === value);
  return isSame ? body : Object.fromEntries(entries);
}

/** Whether a resource already has all values of a change. */
export function holds(resource: Resource, change: Resource): boolean {
  return Object.entries(change).every(([name, value]) => {
    if (name.startsWith("@")) return true;
    const found = resource[name];
    if (isResource(value)) return isResource(found) && holds(found, value);
    return JSON.stringify(found) === JSON.stringify(value);
  });
}

/** The values of If-Match to try: some BMCs refuse the ETag that they have sent, but take another form or any state. */
export function conditionsOf(etag: string | undefined): readonly (string | undefined)[] {
  if (etag === undefined) return [undefined, "*"];
  const other = etag.startsWith("W/") ? etag.slice(2) : `W/${etag}`;
  return [etag, other, "*", undefined];
}
