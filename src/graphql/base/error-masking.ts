/**
 * Errors on their way out. What was meant for the caller goes out, but without the values that graphql-js prints into
 * its messages: an input with a typing error may hold a password beside it. Anything else is logged and masked.
 */
import { GraphQLError } from "graphql";
import { REQUEST_ERRORS } from "../../errors.ts";
import type { Log } from "../../log.ts";

/** An error as the caller may see it. */
export function maskError(error: unknown, requestId: string, log: Log): GraphQLError {
  if (isForCaller(error)) return shown(error);
  log.error({ err: error, requestId }, "unexpected error");
  const path = error instanceof GraphQLError ? (error.path ?? null) : null;
  return new GraphQLError(`Unexpected error; the log has it under request ${requestId}.`, {
    path,
    extensions: { code: "INTERNAL", requestId },
  });
}

/** Whether an error was meant for the caller: it was made as one of GraphQL, and is not what something else threw. */
export function isForCaller(error: unknown): error is GraphQLError {
  return (
    error instanceof GraphQLError &&
    (error.originalError === undefined ||
      error.originalError === null ||
      error.originalError instanceof GraphQLError) &&
    error.extensions["code"] !== "INTERNAL"
  );
}

/** An error that was meant for the caller, with a code of ours and without values. */
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

/** What Yoga is told of the HTTP answer to an error. `spec`: only for clients that accept `application/graphql-response+json`. */
export interface HttpHint {
  readonly spec?: boolean;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The same error with such a hint, where only Yoga comes by it: over WebSocket nobody would take it out. */
export function withStatus(error: GraphQLError, http: HttpHint): GraphQLError {
  Object.defineProperty(error.extensions, "http", {
    value: { ...http },
    enumerable: false,
    configurable: true,
    writable: true,
  });
  return error;
}

/** What is said of a value that is printed after it, at the end of the message. */
const PRINTED: readonly RegExp[] = [
  /(cannot represent [\w -]*value): [\s\S]*$/,
  /(Expected value of type [\s\S]*?)[,;] found: [\s\S]*$/,
  /(Expected value of type [\s\S]*?[.?]) Found: [\s\S]*$/,
];
const INVALID_VALUE = /(got invalid value) (?:"(?:[^"\\]|\\.)*"|[^"{[\s;]+)(?= at |;)/;
const NO_SUCH_VALUE = /Value "(?:[^"\\]|\\.)*" does not exist in/;
/** A value of the document that the parser did not expect where it stands. */
const UNEXPECTED = /^(Syntax Error: [\s\S]*\b(?:String|BlockString|Int|Float)) "[\s\S]*$/;

/**
 * The message without the values that graphql-js printed into it. What it may print anywhere goes as well: every object and
 * list becomes `{…}`, `[…]`. Type names stand in quotes and stay, as do places in a list: `nodes[0]`.
 */
export function withoutValues(message: string): string {
  let text = message.replace(INVALID_VALUE, "$1").replace(NO_SUCH_VALUE, "The value does not exist in");
  for (const printed of [...PRINTED, UNEXPECTED])
    text = text.replace(printed, (_all, said: string) => (/[.?]$/.test(said) ? said : `${said}.`));
  return withoutObjects(text);
}

function withoutObjects(message: string): string {
  let kept = "";
  let depth = 0;
  for (let at = 0; at < message.length; at += 1) {
    const character = message[at] ?? "";
    const place =
      depth === 0 && /\w/.test(message[at - 1] ?? "") ? /^\[\d+\]/.exec(message.slice(at, at + 12))?.[0] : undefined;
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

/** Where the string that begins at a quotation mark ends; a string that does not end takes the rest of the message. */
function endOfString(message: string, start: number): number {
  for (let at = start + 1; at < message.length; at += 1) {
    if (message[at] === "\\") at += 1;
    else if (message[at] === '"') return at;
  }
  return message.length;
}
