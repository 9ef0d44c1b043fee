/**
 * The protocol graphql-transport-ws: graphql-ws with our authentication, limits and execution. A document is parsed,
 * validated and executed through Yoga's plugins, as over HTTP, so the same limits apply.
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { GraphQLError } from "graphql";
import type { ExecutionArgs, ExecutionResult, FormattedExecutionResult, GraphQLFormattedError } from "graphql";
import { isAsyncIterable } from "graphql-yoga";
import { CloseCode, makeServer } from "graphql-ws";
import type { ServerOptions, SubscribePayload } from "graphql-ws";
import { isRejection } from "../../access/access.ts";
import type { Actor } from "../../access/access.ts";
import { createContext } from "../../graphql/base/context.ts";
import type { Context, RequestFacts, Services } from "../../graphql/base/context.ts";
import { shown } from "../../graphql/base/error-masking.ts";
import { unnamedOperation } from "../../graphql/execution/guards.ts";
import { lacksText, withDocument } from "../../graphql/execution/requested-document.ts";
import type { EventBudget } from "../../graphql/execution/event-budget.ts";
import type { ReadyResult } from "../../graphql/execution/shared-executions.ts";
import { withLogged } from "../../log.ts";
import { markInexact } from "../../runtime/exact-json.ts";
import { isRecord } from "../../runtime/json-values.ts";
import { showsCost } from "../graphql/cost-header.ts";
import type { Logins } from "../port/logins.ts";
import type { Yoga } from "../graphql/graphql.ts";
import { SentResults } from "../graphql/sent-results.ts";

/** Time within which the first message, `connection_init`, must arrive, in milliseconds. */
const INIT_MS = 3_000;
/** Maximum number of concurrent operations on one socket. */
export const OPERATIONS_MAX = 100;

const FORBIDDEN: number = CloseCode.Forbidden;
/** Maximum length of a reason, in bytes. */
const REASON_MAX = 123;
const SEND_TOKEN = `Send {"authorization": "Bearer TOKEN"} as the payload of connection_init.`;
/** Reasons of closes by code, in place of those of graphql-ws: what to send. At most 123 bytes each. */
const CLOSE_REASONS: Readonly<Record<number, string>> = {
  [CloseCode.BadRequest]: "Invalid message. Send JSON as graphql-transport-ws says: type, id and payload.query.",
  [CloseCode.Unauthorized]: "Send connection_init first, and wait for connection_ack.",
  [CloseCode.Forbidden]: `Missing token. ${SEND_TOKEN}`,
  [CloseCode.SubprotocolNotAcceptable]: "Unknown subprotocol. Connect with graphql-transport-ws.",
  [CloseCode.ConnectionInitialisationTimeout]: `Send connection_init within ${INIT_MS / 1_000} s of connecting.`,
  [CloseCode.TooManyInitialisationRequests]: "Send connection_init once.",
};

/** The reason of a close, for the client; `rejection`: why its credential was rejected, if it was. */
export function closeReason(code: number, reason = "", rejection: string | null = null): string {
  if (rejection === null || code !== FORBIDDEN) return CLOSE_REASONS[code] ?? reason;
  // A longer reason throws, and other characters have several bytes.
  const why = rejection.replaceAll(/[^ -~]/g, "?");
  const text = `${why} ${SEND_TOKEN}`;
  return text.length > REASON_MAX ? why.slice(0, REASON_MAX) : text;
}

export interface ProtocolParts {
  readonly yoga: Yoga;
  readonly services: Services;
  readonly logins: Logins;
}

/** The state of a socket. */
export interface SocketState {
  readonly request: IncomingMessage;
  /** The budget of its subscriptions. */
  readonly budget: EventBudget;
  /** Operations that their client has not completed, by id. */
  operations: Readonly<Record<string, unknown>>;
  /**
   * Sends a message. Returns undefined while less than a page waits for the client; otherwise it settles when the
   * message has left for the kernel, or when the socket is closed. A stream pulls its next item only then.
   */
  send(message: string): Promise<void> | undefined;
  /** The caller, as of the beginning of the connection; null until it is known. */
  readonly actor: Actor | null;
  /** Sets the caller. The socket closes when the credential ends. */
  login(actor: Actor): void;
  /** Why the credential of its client was rejected; null if it was not. */
  rejection: string | null;
  /** Whether reading is paused until an operation has ended. */
  isFull: boolean;
}

/** A client that has authenticated, with its operations. */
export interface Client {
  readonly subscriptions: object;
}

type Options = ServerOptions<Record<string, unknown>, SocketState>;

/** `clients` has the authenticated clients that are connected. */
export function createProtocol(parts: ProtocolParts, clients: Set<Client>) {
  const onConnect: Options["onConnect"] = async (client) => {
    const { extra } = client;
    const authorization = authorizationOf(client);
    const found = await parts.logins.identify(extra.request, authorization);
    extra.operations = client.subscriptions;
    if (isRejection(found)) {
      extra.rejection = found.rejected === "MISSING" || authorization === "" ? null : found.message;
      return false;
    }
    extra.login(found);
    clients.add(client);
    return true;
  };
  const onSubscribe: Options["onSubscribe"] = (client, id, payload) => {
    const { actor: begun } = client.extra;
    const actor = begun && parts.services.access.present(begun);
    if (!actor || isRejection(actor))
      return [refusal("The token is no longer valid. Connect with the present one.", "UNAUTHENTICATED")];
    if (Object.keys(client.subscriptions).length > OPERATIONS_MAX)
      return [
        refusal(`A socket has at most ${OPERATIONS_MAX} operations; end one, or open another socket.`, "CAPACITY"),
      ];
    const { request } = client.extra;
    const facts: RequestFacts = {
      actor,
      requestId: randomUUID(),
      showsCost: showsCost(request),
      address: parts.logins.addressOf(request),
      transport: "WEBSOCKET",
    };
    return prepare(parts, payload, { facts, state: client.extra, id });
  };
  return makeServer<Record<string, unknown>, SocketState>({
    connectionInitWaitTimeout: INIT_MS,
    jsonMessageReviver: (key, value, ...context) => markInexact(key, withQuery(key, value), ...context),
    onConnect,
    onClose: (client) => void clients.delete(client),
    onSubscribe,
    execute: (args) => withLogged(requestOf(args), () => executorsOf(args).execute(args)),
    subscribe: (args) => withLogged(requestOf(args), () => executorsOf(args).subscribe(args)),
    onComplete({ subscriptions }, id) {
      if (parts.services.tail.closed && isStream(subscriptions[id])) throw LEFT_OPEN;
    },
    onNext: (...[, , , , result]) => withFormattedErrors(result),
    // An error that ends a stream is wrapped, which would hide its code.
    onError: (_client, _id, _payload, errors) =>
      errors.map((error) => formatted(error.cause instanceof GraphQLError ? error.cause : error)),
  });
}

/**
 * Thrown instead of a `complete` when the process shuts down. A client takes a completed stream for finished; one that
 * is open when its socket closes is subscribed again, at the next process.
 */
export const LEFT_OPEN = new Error("The stream stays open until its socket closes.");

/**
 * Null for a query, a mutation, and a stream that has not begun; undefined if it has failed or the client has completed
 * it.
 */
function isStream(operation: unknown): boolean {
  return operation !== null && operation !== undefined;
}

function refusal(message: string, code: "UNAUTHENTICATED" | "CAPACITY"): GraphQLError {
  return new GraphQLError(message, { extensions: { code } });
}

interface Connecting {
  readonly connectionParams?: Readonly<Record<string, unknown>>;
}

/**
 * The credential in the parameters of a connection; undefined: that of its request, if any. One that is not a text is
 * an empty one, so that no other takes its place.
 */
function authorizationOf({ connectionParams }: Connecting): string | undefined {
  const given = connectionParams?.["authorization"] ?? connectionParams?.["Authorization"];
  return given === undefined || given === null || typeof given === "string" ? (given ?? undefined) : "";
}

/**
 * Parses and validates an operation. Returns its errors: one that is thrown would close the socket with all its
 * streams.
 */
async function prepare(
  { yoga, services }: ProtocolParts,
  payload: SubscribePayload,
  { facts, state, id }: { readonly facts: RequestFacts; readonly state: SocketState; readonly id: string },
) {
  try {
    const { params, document: registered } = await withDocument(payload, createContext(services, facts));
    const { schema, parse, validate, execute, subscribe, contextFactory } = yoga.getEnveloped({
      context: {
        ...createContext(services, { ...facts, ...(registered !== undefined && { document: registered }) }),
        budget: state.budget,
      },
    });
    const { query, variables } = params;
    const document = parse(query);
    const errors = validate(schema, document);
    if (errors.length > 0) return errors;
    const unnamed = unnamedOperation(document, payload.operationName);
    if (unnamed) return [unnamed];
    return {
      schema,
      document,
      operationName: payload.operationName,
      variableValues: variables,
      contextValue: await contextFactory(),
      rootValue: { execute, subscribe: (args: ExecutionArgs) => sent(subscribe(args), { state, id }) },
    };
  } catch (error) {
    return [error instanceof GraphQLError ? shown(error) : new GraphQLError("Unexpected error.")];
  }
}

/** A message as graphql-ws accepts it: it would close the socket for an operation with the id of a document only. */
function withQuery(key: string, value: unknown): unknown {
  if (key !== "" || !isRecord(value) || value["type"] !== "subscribe") return value;
  const { payload } = value;
  return isRecord(payload) && lacksText(payload) ? { ...value, payload: { ...payload, query: "" } } : value;
}

/** `prepare` passes Yoga's functions on as the root value. */
function executorsOf({ rootValue }: { readonly rootValue?: unknown }) {
  return rootValue as Readonly<Record<"execute" | "subscribe", (args: unknown) => never>>;
}

function requestOf({ contextValue }: { readonly contextValue?: unknown }): Pick<Context, "requestId"> {
  return { requestId: (contextValue as Context).requestId };
}

/** The results of a subscription, sent to the socket as they come; its result if it was refused. */
async function sent(
  subscribed: unknown,
  { state, id }: { readonly state: SocketState; readonly id: string },
): Promise<unknown> {
  const results = await subscribed;
  if (!isAsyncIterable<ExecutionResult>(results)) return results;
  const begin = `{"id":${JSON.stringify(id)},"type":"next","payload":`;
  return new SentResults(results[Symbol.asyncIterator](), (result) => state.send(`${begin}${payloadOf(result)}}`));
}

/** The text of a result. A shared result comes with it. */
function payloadOf(result: ExecutionResult & Partial<ReadyResult>): string {
  if (result.stringify && !result.errors) return result.stringify(result);
  return JSON.stringify(withFormattedErrors(result));
}

function withFormattedErrors(result: {
  readonly errors?: readonly GraphQLError[] | undefined;
}): FormattedExecutionResult {
  const { errors, ...rest } = result;
  return errors ? { ...rest, errors: errors.map(formatted) } : rest;
}

/** An error as a message over a socket has it, without its HTTP status. */
function formatted(error: GraphQLError): GraphQLFormattedError {
  const { extensions = {}, ...rest } = error.toJSON();
  const { http: _, ...visible } = extensions;
  return { ...rest, ...(Object.keys(visible).length > 0 && { extensions: visible }) };
}

/** Whether a client sent a message that only servers send. graphql-ws throws as for an error of its own. */
export function isForServers(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("Unexpected message of type");
}
