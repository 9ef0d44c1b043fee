/**
 * The one table of refusals. A code is permanent: clients switch on it. A refusal is a value, not an exception;
 * `Refused` carries one through code that has nothing else to say, and the edge turns it back into a value.
 */

/** Code → the HTTP status it stands for. The order is the order of the documentation. */
export const ERROR_STATUS = {
  INVALID_INPUT: 400,
  UNSUPPORTED_BY_DRIVER: 400,
  FORBIDDEN: 403,
  NOT_INTERRUPTIBLE: 403,
  PROTECTED: 403,
  NOT_FOUND: 404,
  NOTHING_RUNNING: 404,
  NOTHING_TO_RESTART: 404,
  BUSY: 409,
  INVALID_STATE: 409,
  IN_MAINTENANCE: 409,
  CLUSTER_LOCKED: 409,
  STALE_REVISION: 409,
  IDEMPOTENCY_MISMATCH: 409,
  INTERRUPTED: 409,
  CAPACITY: 429,
  BACKEND_FAILED: 502,
  TIMEOUT: 504,
  STOP_TIMEOUT: 504,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;

/** What each code means, as the schema's documentation says it. */
export const ERROR_MEANING: Readonly<Record<ErrorCode, string>> = {
  INVALID_INPUT: "400: an input is malformed or out of range, or a list is empty.",
  UNSUPPORTED_BY_DRIVER: "400: the driver of the node cannot do this.",
  FORBIDDEN: "403: the caller lacks the scope.",
  NOT_INTERRUPTIBLE: "403: the running step cannot be interrupted; do not repeat, or ask for AFTER_STEP.",
  PROTECTED: "403: the node is protected or retired.",
  NOT_FOUND: "404: no such node, cluster or operation.",
  NOTHING_RUNNING: "404: nothing is running that could be aborted or stopped.",
  NOTHING_TO_RESTART: "404: nothing is stopped, failed or aborted that could be restarted.",
  BUSY: "409: another operation works on the node.",
  INVALID_STATE: "409: the verb is not allowed in this state.",
  IN_MAINTENANCE: "409: the node is in maintenance.",
  CLUSTER_LOCKED: "409: an operation on the cluster is deploying or stopping.",
  STALE_REVISION: "409: `ifRevision` is out of date, or what would be done is no longer what `planHash` says.",
  IDEMPOTENCY_MISMATCH: "409: the idempotency key was used with another input.",
  INTERRUPTED:
    "409: the process ended under a step that must not be run twice; restart it when you know how far it came.",
  CAPACITY: "429: a limit is reached; try later.",
  BACKEND_FAILED: "502: the driver, BMC or agent failed.",
  TIMEOUT: "504: the driver, BMC or agent did not answer in time.",
  STOP_TIMEOUT: "504: the step was still running when the time for a graceful stop was over.",
};

/** What a request as a whole may be answered with, in GraphQL's own `errors` as `extensions.code`: all that there are. */
export const REQUEST_ERRORS = {
  BAD_REQUEST:
    "The request is no GraphQL request, or one that is not taken in this way: its method, its type, its size, a batch, a page of another origin.",
  GRAPHQL_PARSE_FAILED: "The document has an error of syntax.",
  GRAPHQL_VALIDATION_FAILED: "The document does not fit the schema.",
  BAD_USER_INPUT: "A variable or an argument has a value that cannot be meant.",
  LIMIT_EXCEEDED:
    "The request asks for more than is allowed: `limit` says of what, `max` how much is allowed, `requested` how much was asked, where that is known.",
  UNAUTHENTICATED: "The token is missing, or is not the right one.",
  FORBIDDEN: "The caller may not ask this.",
  NOT_FOUND: "What a stream is asked of does not exist.",
  CURSOR_EXPIRED:
    "What follows the cursor is not kept any more, or the cursor is not of this log; `cursor` is the earliest that is good.",
  CAPACITY: "More at a time than one connection, or the service, may have. Nothing was done; send it again later.",
  SHUTTING_DOWN:
    "The process ended before the answer was there. Whether the request took effect is not known: send it again with the same idempotency key.",
  INTERNAL: "A fault of ours. The log has the cause under `requestId`.",
} as const;

export type RequestErrorCode = keyof typeof REQUEST_ERRORS;

/** An expected refusal, with what the caller needs to act on it. */
export interface Refusal {
  readonly code: ErrorCode;
  /** What happened, to what, and what to do. */
  readonly message: string;
  /** Path to the offending input, from `input` down. */
  readonly path?: readonly string[];
  /** NOT_FOUND: what was asked for. */
  readonly missing?: readonly string[];
  /** Conflicts: the node in the way, by id. */
  readonly nodeId?: string;
  /** BUSY, IDEMPOTENCY_MISMATCH: the operation in the way, by id. */
  readonly operationId?: string;
  /** INVALID_STATE: the states in which the verb is allowed. */
  readonly allowedStates?: readonly string[];
  /** NOT_INTERRUPTIBLE: the step that must end first. */
  readonly step?: string;
}

/** Carries refusals out of a transaction, which it rolls back. */
export class RefusalError extends Error {
  readonly refusals: readonly Refusal[];
  constructor(refusals: readonly Refusal[]) {
    super(refusals.map((refusal) => refusal.message).join(" "));
    this.name = "Refused";
    this.refusals = refusals;
  }
}

/** The text of anything thrown. */
export function messageOf(thrown: unknown): string {
  // Of several addresses of one name Node says only what came of each.
  if (thrown instanceof AggregateError && thrown.message === "") return thrown.errors.map(messageOf).join("; ");
  return thrown instanceof Error ? thrown.message : String(thrown);
}
