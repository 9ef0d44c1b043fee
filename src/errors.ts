/**
 * Error codes and refusals. A code never changes its meaning, because clients depend on it. A refusal is a value, not
 * an exception; `RefusalError` carries one out of a transaction, and the engine turns it back into a value.
 */

/** HTTP status per code, in the order of the documentation. */
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
  MAC_TAKEN: 409,
  IDENTITY_CONFLICT: 409,
  CLUSTER_LOCKED: 409,
  STALE_REVISION: 409,
  IDEMPOTENCY_MISMATCH: 409,
  IN_USE: 409,
  GROUP_REQUIRED: 409,
  LAST_OF_GROUP: 409,
  TOLERANCE_EXCEEDED: 409,
  CRITICAL_NODE_FAILED: 409,
  IMAGE_UNFIT: 409,
  IMAGE_TOO_LARGE: 409,
  DISK_NOT_FOUND: 409,
  DISK_AMBIGUOUS: 409,
  INTERRUPTED: 409,
  ABORTED: 409,
  CAPACITY: 429,
  SECRET_UNREADABLE: 500,
  BACKEND_FAILED: 502,
  AGENT_UNAVAILABLE: 503,
  TIMEOUT: 504,
  STOP_TIMEOUT: 504,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;

const IMAGE_REFUSALS: readonly ErrorCode[] = ["IMAGE_UNFIT", "IMAGE_TOO_LARGE", "DISK_NOT_FOUND", "DISK_AMBIGUOUS"];

/** Whether an image was refused because of the machine, before anything on it was changed. */
export function isImageRefusal(code: ErrorCode | undefined): boolean {
  return code !== undefined && IMAGE_REFUSALS.includes(code);
}

/** Descriptions of the codes in the schema and the documentation. */
export const ERROR_MEANING: Readonly<Record<ErrorCode, string>> = {
  INVALID_INPUT: "400: an input is malformed or out of range, or a required list is empty.",
  UNSUPPORTED_BY_DRIVER: "400: the node's driver does not support this.",
  FORBIDDEN: "403: the caller does not have the required scope.",
  NOT_INTERRUPTIBLE:
    "403: the running step cannot be interrupted; use `mode: AFTER_STEP`. Repeating the same request does not help.",
  PROTECTED: "403: the node is protected or retired, or no administrator would be left.",
  NOT_FOUND: "404: a node, cluster, operation or other object does not exist.",
  NOTHING_RUNNING: "404: there is no unfinished work to abort or stop.",
  NOTHING_TO_RESTART: "404: there is no stopped, failed or aborted work to restart.",
  BUSY: "409: the node has an unfinished run of another operation.",
  INVALID_STATE: "409: the verb is not allowed in the present state.",
  IN_MAINTENANCE: "409: the node is in maintenance, which the verb has to wait for.",
  MAC_TAKEN: "409: another node has the MAC address; the message names both.",
  IDENTITY_CONFLICT:
    "409: another node seems to be the same machine: it has the same management controller, UUID, serial number or MAC address. The message names both.",
  CLUSTER_LOCKED: "409: the cluster is DEPLOYING or STOPPING.",
  STALE_REVISION:
    "409: the object no longer has the revision that the request names, the plan no longer has the hash in `planHash`, or the selection no longer has as many nodes as `expectedCount`. As the failure of a step: its driver's files have changed since the plan.",
  IDEMPOTENCY_MISMATCH: "409: the idempotency key was used with another input.",
  IN_USE: "409: an unfinished operation, a node, a principal or a token uses the object.",
  GROUP_REQUIRED:
    "409: the node's host group begins after nodes of other host groups, which neither the cluster nor the request can make ACTIVE.",
  LAST_OF_GROUP: "409: too few nodes of the host group would stay in service (`minActive`).",
  TOLERANCE_EXCEEDED: "409: more nodes of a host group failed than it tolerates, which ended the operation.",
  CRITICAL_NODE_FAILED: "409: a node of a host group failed that tolerates no failure, which ended the operation.",
  IMAGE_UNFIT: "409: the image does not fit the machine; the refusal says in what: architecture, boot mode or size.",
  IMAGE_TOO_LARGE: "409: the image is larger than the root disk that the agent has found.",
  DISK_NOT_FOUND: "409: no disk that the agent has found is the root disk.",
  DISK_AMBIGUOUS: "409: several disks that the agent has found may be the root disk.",
  INTERRUPTED:
    "409: the process ended during a step that must not run twice, or three times during any step; find out how far it came, then restart the work.",
  ABORTED: "409: an abort ended the work; the message states the step and who requested it.",
  CAPACITY:
    "429: not enough is free now: fewer nodes than `pick` needs, or no call of the driver in the time of a reading; try again later.",
  SECRET_UNREADABLE: "500: a stored secret cannot be decrypted; the message names its place and its key.",
  BACKEND_FAILED: "502: the driver, BMC or agent failed.",
  AGENT_UNAVAILABLE:
    "503: a step needs the agent, and the service has no provisioning listener or no agent for the node's architecture; the message says what to set up.",
  TIMEOUT: "504: the driver, BMC or agent did not answer before the timeout.",
  STOP_TIMEOUT: "504: the step was still running when the timeout of a graceful stop expired.",
};

/** The remedy for each code: a sentence for people, without the names of objects, which the message has. */
export const ERROR_REMEDY: Readonly<Record<ErrorCode, string>> = {
  INVALID_INPUT: "Correct the input that the message names, then send the request again.",
  UNSUPPORTED_BY_DRIVER:
    "Use steps that the driver has, give the node a driver with this ability, or load the driver that it names.",
  FORBIDDEN: "Use a token with the scope that the message names.",
  NOT_INTERRUPTIBLE: "Abort with mode: AFTER_STEP, wait for the end of the step, or abort with mode: FORCE.",
  PROTECTED: "Remove the protection with updateNodes, or end the retirement with clearRetired.",
  NOT_FOUND: "Correct the name or the ID.",
  NOTHING_RUNNING: "Nothing has to be done: no work is running.",
  NOTHING_TO_RESTART: "Start a verb instead.",
  BUSY: "Wait for the end of the work, stop it, or abort it.",
  INVALID_STATE: "Bring the node into one of the states that the message names.",
  IN_MAINTENANCE: "End the maintenance with clearMaintenance.",
  MAC_TAKEN: "Remove the MAC address from the other node.",
  IDENTITY_CONFLICT:
    "Delete one of the two nodes, correct its address, or say that the value is shared: `sharedController` of the node, `sharedIdentities` of the site.",
  CLUSTER_LOCKED: "Wait for the end of the operation on the cluster, stop it, or abort it.",
  STALE_REVISION: "Read the object or the plan again, and repeat the request; restart a run.",
  IDEMPOTENCY_MISMATCH: "Use another idempotency key.",
  IN_USE: "Wait until nothing uses the object.",
  GROUP_REQUIRED: "Include nodes of the host groups that the message names, or deploy them first.",
  LAST_OF_GROUP: "Bring other nodes of the group into service first, or send force: true with a reason.",
  TOLERANCE_EXCEEDED: "Fix the failed nodes, then restart the operation.",
  CRITICAL_NODE_FAILED: "Fix the failed node, then restart the operation.",
  IMAGE_UNFIT: "Choose an image that fits the machine, or correct the settings that the message names.",
  IMAGE_TOO_LARGE: "Choose a smaller image, or name a larger disk in the root disk hints.",
  DISK_NOT_FOUND: "Name a disk that the message lists in the root disk hints, or inspect the node again.",
  DISK_AMBIGUOUS: "Name one disk that the message lists in the root disk hints.",
  INTERRUPTED: "Find out on the machine how far the step came, then restart the work.",
  ABORTED: "Restart the work if it is still wanted.",
  CAPACITY: "Try again later, or request fewer nodes.",
  SECRET_UNREADABLE: "Restore the key that the message names, or set the secret again.",
  BACKEND_FAILED: "Fix the problem named in the message, then restart.",
  AGENT_UNAVAILABLE: "Set up what the message names, then restart the work.",
  TIMEOUT: "Check whether the machine answers, then restart the work.",
  STOP_TIMEOUT: "Check the machine, then restart the work.",
};

/** Causes of a failure as drivers classify them, and where to look. */
export const FAILURE_KIND_MEANING = {
  AUTHENTICATION: "The machine refused the login: check the user and the password.",
  UNREACHABLE: "The machine did not answer at all: check its power, the network and the address.",
  TIMEOUT: "The machine answered, but did not finish in time.",
  REFUSED: "The machine refused the request.",
  UNSUPPORTED: "The machine or its driver lacks the ability.",
  OTHER: "Anything else, also an error that the driver did not classify: see the message.",
} as const;

export type FailureKind = keyof typeof FAILURE_KIND_MEANING;
export const FAILURE_KINDS = Object.keys(FAILURE_KIND_MEANING) as readonly FailureKind[];

/** All codes of errors of a whole request, in `extensions.code` of GraphQL's own `errors`. */
export const REQUEST_ERRORS = {
  BAD_REQUEST:
    "The request is not a GraphQL request, or the service does not accept it in this form: because of its method, content type or size, because it is a batch, or because it comes from a page of another origin.",
  PERSISTED_QUERY_NOT_SUPPORTED:
    "The request has `extensions.persistedQuery` in another form than `{ version: 1, sha256Hash }`, and not the query. Send the query itself, as Apollo Client then does.",
  PERSISTED_QUERY_NOT_IN_LIST:
    "No document with this id or hash is registered, and a request registers none. Send the query itself, as Apollo Client and urql then do.",
  GRAPHQL_PARSE_FAILED: "The document has a syntax error.",
  GRAPHQL_VALIDATION_FAILED: "The document does not match the schema.",
  BAD_USER_INPUT: "A variable or an argument has an invalid value.",
  LIMIT_EXCEEDED:
    "The request exceeds a limit: `limit` is its name, `max` the allowed value, and `requested` the requested value if known.",
  UNAUTHENTICATED:
    "The token is missing, wrong, revoked or expired, its account is disabled, or the session has ended.",
  ISSUER_UNAVAILABLE:
    "The keys of the token's issuer cannot be read at this time. Send the request again later; the token may be valid.",
  RATE_LIMITED: "Too many requests of this address had no valid token. Correct the token, and try again in a second.",
  FORBIDDEN: "The caller is not allowed to send this request.",
  NOT_FOUND: "The object of a stream does not exist.",
  CURSOR_EXPIRED:
    "The log after the cursor is no longer kept, or the cursor is not from this log; `cursor` is the earliest valid one.",
  CAPACITY:
    "The connection or the service has reached its limit of concurrent requests. Nothing was done; try again later.",
  DATABASE_UNAVAILABLE:
    "The service does not reach its database. Send the request again later; a mutation may have taken effect, so send it with the same idempotency key.",
  TIMEOUT:
    "The service has cancelled a read of its database that took too long. Ask for less, or send the request again later.",
  SECRET_UNREADABLE: "A secret cannot be encrypted or read with the keys of this replica. The message names the key.",
  SHUTTING_DOWN:
    "The process shut down before the request was answered. The request may have taken effect: send it again with the same idempotency key.",
  INTERNAL: "Unexpected error in the service. The log has the cause under `requestId`.",
} as const;

export type RequestErrorCode = keyof typeof REQUEST_ERRORS;

/** Properties of an image that a machine can contradict. */
export const IMAGE_MISMATCHES = {
  ARCHITECTURE: "The image is for another processor architecture.",
  BOOT_MODE: "The firmware of the machine starts in a mode that the image does not support.",
  SIZE: "No disk that may hold the system is large enough.",
} as const;
export type ImageMismatch = keyof typeof IMAGE_MISMATCHES;

/** An expected refusal, with the data that the caller needs to react. */
export interface Refusal {
  readonly code: ErrorCode;
  /** A sentence: what happened, to which object, and what to do. */
  readonly message: string;
  /** Path to the invalid input, starting with `input`. */
  readonly path?: readonly string[];
  /** NOT_FOUND: names and IDs that do not exist. */
  readonly missing?: readonly string[];
  /** Conflicts: id of the conflicting node. */
  readonly nodeId?: string;
  /** BUSY, IN_USE, IDEMPOTENCY_MISMATCH: id of the conflicting operation. */
  readonly operationId?: string;
  /** INVALID_STATE: the states in which the verb is allowed. */
  readonly allowedStates?: readonly string[];
  /** NOT_INTERRUPTIBLE: the step that must end first. */
  readonly step?: string;
  /** IMAGE_UNFIT, IMAGE_TOO_LARGE: the property of the image that the machine contradicts. */
  readonly imageMismatch?: ImageMismatch;
  /** CAPACITY of a `pick`: the number of nodes that can be picked. */
  readonly available?: number;
  /**
   * Nodes that are refused with the same code, if this refusal stands for several. The other data is the first one's.
   */
  readonly nodes?: { readonly count: number; readonly refs: readonly string[] };
}

/** Reasons why nothing is done, in place of an answer. */
export interface Refused {
  readonly refusals: readonly Refusal[];
}

/** The refusal of an input that is malformed or out of range. */
export function invalidInput(message: string, path: readonly string[]): Refusal {
  return { code: "INVALID_INPUT", message, path };
}

/** The flaw of an input, for a list of flaws, which is empty if the input is right. */
export function flawIf(isWrong: boolean, message: string, path: readonly string[]): Refusal[] {
  return isWrong ? [invalidInput(message, path)] : [];
}

/** The refusal of names or IDs that do not exist. */
export function notFound(message: string, missing: readonly string[], path: readonly string[]): Refusal {
  return { code: "NOT_FOUND", message, missing, path };
}

/** The refusal of one node. */
export function nodeRefusal(
  code: ErrorCode,
  nodeId: string,
  message: string,
  more: Omit<Partial<Refusal>, "code" | "nodeId" | "message"> = {},
): Refusal {
  return { code, message, nodeId, ...more };
}

/** Carries refusals out of a transaction, which it rolls back. */
export class RefusalError extends Error {
  readonly refusals: readonly Refusal[];
  constructor(refusals: readonly Refusal[]) {
    super(refusals.map((refusal) => refusal.message).join(" "));
    this.name = "RefusalError";
    this.refusals = refusals;
  }
}

/** A setting with which no start succeeds before someone acts; the message is for the operator. */
export class SettingError extends Error {}

/** The text of anything thrown. */
export function messageOf(thrown: unknown): string {
  // A failed connection to a name with several addresses has an empty message and one error per address.
  if (thrown instanceof AggregateError && thrown.message === "") return thrown.errors.map(messageOf).join("; ");
  return thrown instanceof Error ? thrown.message : String(thrown);
}
