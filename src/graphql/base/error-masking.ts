/**
 * Masks errors in responses. Errors for the caller keep their message, without the values that graphql-js prints into
 * it: the input around a typing error may contain a password. All other errors are logged and replaced.
 */
import { GraphQLError } from "graphql";
import { REQUEST_ERRORS } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { isDatabaseUnavailable, isOutOfTime } from "../../store/postgres/connection-errors.ts";
import { SecretError } from "../../store/secrets/keyring.ts";

/** An error as the caller may see it. */
export function maskError(error: unknown, requestId: string, log: Log): GraphQLError {
  if (isForCaller(error)) return shown(error);
  if (isDatabaseUnavailable(error)) {
    log.warn({ err: error, requestId }, "a request failed because the database is not available");
    return databaseUnavailable(error instanceof GraphQLError ? error.path : undefined);
  }
  const cause = error instanceof GraphQLError ? error.originalError : error;
  if (cause instanceof SecretError) {
    log.error({ err: cause, requestId }, "a request failed because a secret cannot be encrypted or read");
    return new GraphQLError(cause.message, { extensions: { code: "SECRET_UNREADABLE" } });
  }
  if (isOutOfTime(error)) {
    log.warn({ err: error, requestId }, "a request failed because a statement took too long");
    return outOfTime(error instanceof GraphQLError ? error.path : undefined);
  }
  log.error({ err: error, requestId }, "unexpected error");
  const path = error instanceof GraphQLError ? (error.path ?? null) : null;
  return new GraphQLError(`Unexpected error. The log has the cause under request ${requestId}.`, {
    path,
    extensions: { code: "INTERNAL", requestId },
  });
}

const UNAVAILABLE = 503;
const RETRY_SECONDS = 5;

/** The error of a request that the database did not answer. */
export function databaseUnavailable(path?: GraphQLError["path"]): GraphQLError {
  const error = new GraphQLError(
    `The database is not available. Send the request again in ${RETRY_SECONDS} s; a mutation may have taken effect, so send it with the same idempotency key.`,
    { path: path ?? null, extensions: { code: "DATABASE_UNAVAILABLE" } },
  );
  return withStatus(error, { spec: true, status: UNAVAILABLE, headers: { "retry-after": String(RETRY_SECONDS) } });
}

function outOfTime(path: GraphQLError["path"]): GraphQLError {
  const message = "The database took too long. Ask for less at a time, or send the request again later.";
  return withStatus(new GraphQLError(message, { path: path ?? null, extensions: { code: "TIMEOUT" } }), {
    spec: true,
    status: 504,
  });
}

/** Whether an error is for the caller: it was created as a GraphQL error and does not wrap another exception. */
export function isForCaller(error: unknown): error is GraphQLError {
  return (
    error instanceof GraphQLError &&
    (error.originalError === undefined ||
      error.originalError === null ||
      error.originalError instanceof GraphQLError) &&
    error.extensions["code"] !== "INTERNAL"
  );
}

/** An error for the caller, with a documented code and without values. */
export function shown(error: GraphQLError): GraphQLError {
  const given = error.extensions["code"] ?? (error.path ? "BAD_USER_INPUT" : "GRAPHQL_VALIDATION_FAILED");
  const code = typeof given === "string" && given in REQUEST_ERRORS ? given : "BAD_REQUEST";
  const { http, ...extensions } = error.extensions;
  const made = new GraphQLError(withoutValues(error.message), {
    nodes: error.nodes ?? null,
    source: error.source ?? null,
    positions: error.positions ?? null,
    path: error.path ?? null,
    extensions: { ...extensions, code },
  });
  return http === undefined ? made : withStatus(made, http);
}

/**
 * How Yoga answers an error over HTTP. `spec`: the status applies only to clients that accept
 * `application/graphql-response+json`.
 */
export interface HttpHint {
  readonly spec?: boolean;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The error with an HTTP hint that is not enumerable: Yoga reads it, and messages over WebSocket do not contain it. */
export function withStatus(error: GraphQLError, http: HttpHint): GraphQLError {
  Object.defineProperty(error.extensions, "http", {
    value: { ...http },
    enumerable: false,
    configurable: true,
    writable: true,
  });
  return error;
}

/** Messages of graphql-js that end with a printed value. */
const PRINTED: readonly RegExp[] = [
  /(cannot represent [\w -]*value): [\s\S]*$/,
  /(Expected value of type [\s\S]*?)[,;] found: [\s\S]*$/,
  /(Expected value of type [\s\S]*?[.?]) Found: [\s\S]*$/,
];
const INVALID_VALUE = /(got invalid value) (?:"(?:[^"\\]|\\.)*"|[^"{[\s;]+)(?= at |;)/;
const NO_SUCH_VALUE = /Value "(?:[^"\\]|\\.)*" does not exist in/;
/** A syntax error at a value of the document. */
const UNEXPECTED = /^(Syntax Error: [\s\S]*\b(?:String|BlockString|Int|Float)) "[\s\S]*$/;

/** An index in a path, which a variable that is a list begins with. */
const INDEX = /(?<=[\w\]]|invalid value at )\[\d{1,10}\]/y;

/**
 * The message without the values that graphql-js printed into it. Every object and list becomes `{…}` or `[…]`,
 * wherever it is. Type names in quotes and list indexes (`nodes[0]`) stay.
 */
export function withoutValues(message: string): string {
  let text = message.replace(INVALID_VALUE, "$1").replace(NO_SUCH_VALUE, "The value does not exist in");
  for (const printed of [...PRINTED, UNEXPECTED])
    text = text.replace(printed, (_all, kept: string) => (/[.?]$/.test(kept) ? kept : `${kept}.`));
  return withoutObjects(text);
}

function withoutObjects(message: string): string {
  let kept = "";
  let depth = 0;
  for (let at = 0; at < message.length; at += 1) {
    const character = message[at] ?? "";
    INDEX.lastIndex = at;
    const place = depth === 0 ? INDEX.exec(message)?.[0] : undefined;
    if (place !== undefined) {
      kept += place;
      at += place.length - 1;
    } else if (character === '"') {
      const end = endOfString(message, at);
      if (depth === 0) kept += message.slice(at, end + 1);
      at = end;
    } else if (character === "{" || character === "[") {
      if (depth === 0) kept += `${character}…${character === "{" ? "}" : "]"}`;
      depth += 1;
    } else if (character === "}" || character === "]") {
      depth = Math.max(0, depth - 1);
    } else if (depth === 0) {
      kept += character;
    }
  }
  return kept;
}

/** Index of the closing quotation mark; the end of the message if there is none. */
function endOfString(message: string, start: number): number {
  for (let at = start + 1; at < message.length; at += 1) {
    if (message[at] === "\\") at += 1;
    else if (message[at] === '"') return at;
  }
  return message.length;
}
