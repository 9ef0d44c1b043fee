/** Messages of error responses and tasks (DSP0266, 8.6), and what they say about the operation that was asked for. */
import { at, isResource, items, number, text } from "./resource.ts";
import type { Resource } from "./resource.ts";

/** The resource in the body of an answer; undefined if it is not a JSON object. */
export function resourceOf(body: string): Resource | undefined {
  // Some BMCs have control characters in texts, as of a part's memory, which JSON does not allow.
  const value = parsed(body) ?? parsed(body.replaceAll(/\p{Cc}/gu, " "));
  return isResource(value) ? value : undefined;
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

/** The state of a task or a job, its letters in lower case; undefined if the resource is neither. */
export function stateOf(resource: Resource): string | undefined {
  const state = text(resource, "TaskState") ?? text(resource, "JobState");
  return state?.toLowerCase().replaceAll(/[^a-z]/g, "") ?? (isTask(resource) ? "" : undefined);
}

/** Some BMCs have tasks without a state. */
function isTask(resource: Resource): boolean {
  return (
    /^#\w*(Task|Job)\./.test(text(resource, "@odata.type") ?? "") && number(resource, "PercentComplete") !== undefined
  );
}

export function messagesOf(body: Resource): string[] {
  const messages = extendedInfo(body).flatMap((info) => text(info, "Message") ?? text(info, "MessageId") ?? []);
  return messages.length > 0 ? messages : [text(at(body, "error"), "message") ?? ""].filter((one) => one !== "");
}

/** Whether the messages are about the operation itself, and not about the login, the path or the state of the BMC. */
export function saysWhy(body: Resource): boolean {
  const keys = messageKeys(body);
  return keys.some((key) => !VAGUE.has(key)) && !keys.some((key) => ELSEWHERE.has(key));
}

/** Whether a body is of Redfish, and not of a web server before it. */
export function isError(body: Resource): boolean {
  return messageKeys(body).length > 0;
}

/** Whether one of the messages reports an error. */
export function reportsError(body: Resource): boolean {
  return extendedInfo(body).some((info) =>
    /critical/i.test(text(info, "MessageSeverity") ?? text(info, "Severity") ?? ""),
  );
}

/** Every text of a refusal: BMCs name a parameter in a message, an argument, a path or an annotation, or in no JSON. */
export function wordsOf(body: string): string {
  const resource = resourceOf(body);
  return resource ? JSON.stringify(resource) : body;
}

/** The messages without registry and version, as "PropertyValueNotInList". */
export function messageKeys(body: Resource): string[] {
  const ids = extendedInfo(body).flatMap((info) => text(info, "MessageId") ?? text(info, "MessageID") ?? []);
  const code = text(at(body, "error"), "code");
  return (ids.length > 0 ? ids : code === undefined ? [] : [code]).map((id) => id.split(".").at(-1) ?? id);
}

/** Messages about a body, or about a member of it. Some BMCs have one in place of the list. */
function extendedInfo(body: Resource): Resource[] {
  return Object.entries(body).flatMap(([name, value]) => {
    if (name.endsWith("@Message.ExtendedInfo")) return isResource(value) ? [value] : items(body, name);
    return isResource(value) ? extendedInfo(value) : [];
  });
}

/** Messages that name no reason. */
const VAGUE: ReadonlySet<string> = new Set(["GeneralError", "ExtendedInfo", "InternalError"]);

/** Messages about the request, which say nothing about the operation that it asks for or after. */
const ELSEWHERE: ReadonlySet<string> = new Set([
  "AccessDenied",
  "InsufficientPrivilege",
  "InvalidURI",
  "NoValidSession",
  "PasswordChangeRequired",
  "ResourceAtUriInUnknownFormat",
  "ResourceAtUriUnauthorized",
  "ResourceMissingAtURI",
  "ResourceNotFound",
  "ServiceDisabled",
  "ServiceInUnknownState",
  "ServiceShuttingDown",
  "ServiceTemporarilyUnavailable",
  "SessionLimitExceeded",
  "SessionTerminated",
]);
