/**
 * The document that a request names by its id, over every transport, and what a token may send that is bound to
 * documents. It happens before anything is parsed: an id follows from the text, so that a text is a registered one
 * exactly if its id is. A request never registers a document.
 */
import { isDeepStrictEqual } from "node:util";
import { GraphQLError } from "graphql";
import type { RequestErrorCode } from "../../errors.ts";
import type { Awaitable } from "../../runtime/awaitable.ts";
import { documentIdOf } from "../../runtime/document-id.ts";
import { isRecord } from "../../runtime/json-values.ts";
import type { DocumentRow } from "../../store/access/documents.ts";
import type { JsonObject } from "../../store/records.ts";
import { databaseUnavailable, withStatus } from "../base/error-masking.ts";
import { isDatabaseUnavailable } from "../../store/postgres/connection-errors.ts";
import type { Context } from "../base/context.ts";
import { denied } from "./audited.ts";
import { defaultsOf } from "./document-reading.ts";

/** The parameters of a request, whose types nothing has checked. */
interface RequestParams {
  readonly query?: unknown;
  readonly variables?: unknown;
  readonly extensions?: unknown;
  readonly documentId?: unknown;
}

/** The parameters with the text that is executed. */
interface Found<Params> {
  readonly params: Params;
  /** The id of the registered document that is executed, if it was looked up. */
  readonly document?: string;
}

/** Whether a request names a document in place of sending its text. */
export function lacksText({ query, ...params }: RequestParams): boolean {
  return !query && (idsOf(params).length > 0 || hasPersistedQuery(params));
}

/** The parameters with the text that is executed, and with the variables that the token fixes. */
export function withDocument<Params extends RequestParams>(params: Params, caller: Context): Awaitable<Found<Params>> {
  const ids = idsOf(params);
  const bound = caller.actor.identity.documents;
  const { query } = params;
  // Yoga refuses a query of another type.
  if (query != null && typeof query !== "string") return { params: { ...params, documentId: undefined } };
  const text = query ?? "";
  if (ids.length === 0 && text === "" && hasPersistedQuery(params)) throw persistedQueryNotSupported();
  // A request without a text is refused by Yoga.
  if (ids.length === 0 && (text === "" || bound === null)) return { params };
  const [id = documentIdOf(text), ...others] = ids;
  if (others.length > 0) throw badRequest("The request names several documents. Send one id.");
  if (typeof id !== "string") throw badRequest("The id of a document is a string: `sha256:` and its hash.");
  if (text !== "" && documentIdOf(text) !== id)
    throw badRequest("The id is that of another text. Send the id alone, or the text alone.");
  if (text !== "" && bound === null) return { params: { ...params, documentId: undefined } };
  return withRegistered(params, id, caller);
}

async function withRegistered<Params extends RequestParams>(
  params: Params,
  id: string,
  caller: Context,
): Promise<Found<Params>> {
  const { actor, services } = caller;
  const bound = actor.identity.documents;
  // A caller without a role is refused, whether there is a document or not.
  const isKnown = actor.scope !== null || bound !== null;
  const document = isKnown ? await documentOf(services, id) : undefined;
  if (!document && !params.query) throw notInList(id, params);
  const mine = bound?.find((one) => one.id === document?.id);
  if (!document || (params.query && params.query !== document.text) || (bound !== null && !mine))
    return denied(caller, DENIED, forbidden(NOT_BOUND));
  const lack = mine && fixedFlaw(params.variables, mine.variables, document);
  if (lack != null) return denied({ ...caller, document: id }, DENIED, forbidden(lack));
  const variables = mine ? withFixed(params.variables, mine.variables) : params.variables;
  return { params: { ...params, query: document.text, variables, documentId: undefined }, document: id };
}

/** The action of a denied document in the audit. */
const DENIED = "DOCUMENT";
const NOT_BOUND = "The token is bound to documents, and this is none of them. Send one by its id or its exact text.";

async function documentOf({ access }: Context["services"], id: string): Promise<DocumentRow | undefined> {
  try {
    return await access.document(id);
  } catch (error) {
    throw isDatabaseUnavailable(error) ? databaseUnavailable() : error;
  }
}

/** Why a fixed variable has another value, in the request or by default; null if none has. */
function fixedFlaw(given: unknown, fixed: JsonObject, { text }: DocumentRow): string | null {
  // Yoga refuses variables that are not an object.
  if (!isRecord(given ?? {})) return null;
  const sent = (given ?? {}) as Readonly<Record<string, unknown>>;
  const names = Object.keys(fixed);
  const defaults = names.every((name) => Object.hasOwn(sent, name)) ? new Map<string, unknown>() : defaultsOf(text);
  for (const name of names) {
    const isSent = Object.hasOwn(sent, name);
    if (!isSent && !defaults.has(name)) continue;
    if (!isDeepStrictEqual(isSent ? sent[name] : defaults.get(name), fixed[name]))
      return `The token fixes the variable $${name} to another value${isSent ? "" : " than its default"}. Send that value${isSent ? ", or leave the variable out" : ""}.`;
  }
  return null;
}

/** The variables with the fixed ones. */
function withFixed(given: unknown, fixed: JsonObject): unknown {
  return isRecord(given) || given == null ? { ...given, ...fixed } : given;
}

/** The ids by which a request names its document; all are the same one in a good request. */
function idsOf({ documentId, extensions }: RequestParams): unknown[] {
  const extended = isRecord(extensions) ? extensions : {};
  const { persistedQuery: persisted } = extended;
  const hash = isRecord(persisted) && persisted["version"] === 1 ? persisted["sha256Hash"] : null;
  const given = [documentId, extended["documentId"], typeof hash === "string" ? `sha256:${hash}` : null];
  return [...new Set(given.filter((id) => id != null))];
}

/** Whether a request is one of automatic persisted queries, as Apollo Client sends them. */
function hasPersistedQuery({ extensions }: RequestParams): boolean {
  return isRecord(extensions) && "persistedQuery" in extensions;
}

/** Message on which Apollo Client and urql send the query itself, whatever the code. */
const SEND_THE_QUERY = "PersistedQueryNotSupported";

function persistedQueryNotSupported(): GraphQLError {
  return refusal(SEND_THE_QUERY, "PERSISTED_QUERY_NOT_SUPPORTED", 200);
}

/** Characters of an id that a message repeats. */
const ID_SHOWN = 80;

function notInList(id: string, params: RequestParams): GraphQLError {
  const code = "PERSISTED_QUERY_NOT_IN_LIST";
  if (hasPersistedQuery(params)) return refusal(SEND_THE_QUERY, code, 200);
  const message = `No document ${JSON.stringify(id.slice(0, ID_SHOWN))} is registered. Send its text, or ask an administrator to register it with registerDocuments.`;
  return refusal(message, code, 404);
}

function badRequest(message: string): GraphQLError {
  return refusal(message, "BAD_REQUEST", 400);
}

function forbidden(message: string): GraphQLError {
  return refusal(message, "FORBIDDEN", 403);
}

/** Clients that accept `application/graphql-response+json` get the status; others 200. */
function refusal(message: string, code: RequestErrorCode, status: number): GraphQLError {
  return withStatus(new GraphQLError(message, { extensions: { code } }), { spec: true, status });
}
