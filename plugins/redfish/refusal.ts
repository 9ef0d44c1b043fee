/**
 * How a refused change can be sent again. The messages of the answer name what is missing, what is not taken, another
 * resource or another moment (DSP0266, 8.6; DSP2065 describes the registries). Vendors have messages of their own, so
 * that the text decides where the ID does not.
 */
import type { HttpAnswer } from "./connection.ts";
import { messageKeys, resourceOf, wordsOf } from "./messages.ts";
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
}

export type Remedy =
  | { readonly kind: "BODY"; readonly body: Resource }
  /** Without a path: the pending settings of the resource, if it has them. */
  | { readonly kind: "PATH"; readonly path?: string }
  | { readonly kind: "WAIT" };

/** The next thing to try; undefined if the answer names nothing. */
export function remedyOf(answer: HttpAnswer, { path, body, spare, optional, mayMove }: SentChange): Remedy | undefined {
  const { status } = answer;
  const keys = messageKeys(resourceOf(answer.body) ?? {});
  const words = wordsOf(answer.body);
  const completed = withNamed(body, spare, words);
  if (completed) return { kind: "BODY", body: completed };
  const sent = optional.filter((name) => without(body, [name]) !== body);
  const isAboutBody = status !== 409 || keys.some((key) => /^(Property|ActionParameter)/.test(key));
  const unwanted = isAboutBody ? sent.filter((name) => new RegExp(`\\b${name}\\b`).test(words)) : [];
  if (unwanted.length > 0) return { kind: "BODY", body: without(body, unwanted) };
  if (isNotNow(answer)) return { kind: "WAIT" };
  if (mayMove && (status === 405 || keys.some((key) => ELSEWHERE.has(key)) || ELSEWHERE_TEXT.test(words))) {
    const own = `${path.replace(/\/$/, "")}/`;
    const named = words.match(/\/redfish\/v1\/[\w./~%-]*[\w~%]/g)?.find((one) => one.startsWith(own));
    return { kind: "PATH", ...(named !== undefined && { path: named }) };
  }
  return BAD_BODY.has(status) && sent.length > 0 ? { kind: "BODY", body: without(body, sent) } : undefined;
}

/** Whether a refusal is for a condition that passes. */
export function isNotNow({ status, body }: HttpAnswer): boolean {
  const keys = messageKeys(resourceOf(body) ?? {});
  return NOT_NOW_STATUS.has(status) || keys.some((key) => NOT_NOW.test(key)) || NOT_NOW_TEXT.test(wordsOf(body));
}

const BAD_BODY: ReadonlySet<number> = new Set([400, 422]);

/** Statuses and messages about a condition that passes. */
const NOT_NOW_STATUS: ReadonlySet<number> = new Set([423, 425, 429]);
const NOT_NOW =
  /^(ServiceTemporarilyUnavailable|ResourceInUse)$|(In|During|Under)(System)?Post$|(Busy|NotReady(Retry)?|InTransition)$/i;
const NOT_NOW_TEXT =
  /\bperforming POST\b|\b(in|under|during|until|after|completes?|finish(es)?) (the )?(system |server )?POST\b(?! (request|body|method|data|payload|operation|call))|\bPOST (is |has )?(not )?(yet )?(in progress|complet|finish)|\bat this time\b|\btemporarily\b|\btry (it )?again later\b|\bnot (yet )?ready\b|\bretry (\w+ ){0,3}(later|after (a|some|several|\d+) )|\b(is|in) (currently |already )?((re)?(starting|booting|initiali[sz]ing)|busy|transition)\b/i;

/** Messages about a member that is changed at another resource, or a resource that takes no changes. */
const ELSEWHERE: ReadonlySet<string> = new Set(["PropertyNotWritable", "OperationNotAllowed", "ActionNotSupported"]);
const ELSEWHERE_TEXT = /\b(must|should|can only|needs? to) be (set|written|changed|modified|sent|done)\b|\binstead\b/i;

/** The body with the first spare member that is named and that it lacks, also in a member; else undefined. */
function withNamed(body: Resource, spare: Resource, words: string): Resource | undefined {
  for (const [name, value] of Object.entries(spare)) {
    const own = body[name];
    const inner = isResource(own) && isResource(value) && withNamed(own, value, words);
    if (inner) return { ...body, [name]: inner };
    if (own === undefined && new RegExp(`\\b${name}\\b`, "i").test(words)) return { ...body, [name]: value };
  }
  return undefined;
}

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

/** Whether a change is refused for its condition, or for having none. */
export function isAboutCondition({ status, body }: HttpAnswer): boolean {
  const isRefused = status >= 400 && status < 500;
  return status === 412 || status === 428 || (isRefused && /\b(if-match|etag)\b|\bPrecondition/i.test(wordsOf(body)));
}

/** The values of If-Match to try: some BMCs refuse the ETag that they have sent, but take another form or any state. */
export function conditionsOf(etags: readonly string[]): readonly (string | undefined)[] {
  const forms = etags.flatMap((etag) => {
    const bare = etag.replace(/^W\//, "").replaceAll('"', "");
    return [etag, `"${bare}"`, `W/"${bare}"`, bare];
  });
  return [...new Set([...forms, "*", undefined])];
}
