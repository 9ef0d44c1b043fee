/** The values of rows of the audit. */
import type { JsonObject } from "../records.ts";

/** How a request came. */
export const AUDIT_TRANSPORTS = {
  HTTP: "One response.",
  SSE: "Server-sent events.",
  WEBSOCKET: "A WebSocket.",
  NONE: "No request: the service itself, or a command in a shell.",
} as const;
export type AuditTransport = keyof typeof AUDIT_TRANSPORTS;

export const AUDIT_OUTCOMES = {
  ACCEPTED: "It took effect.",
  REFUSED: "It was refused and changed nothing; `errorCode` and `reason` have the first error.",
  REPLAYED: "It repeated an earlier request by its idempotency key, and changed nothing.",
  FORBIDDEN: "The caller may not do it, or is not known.",
  FAILED: "It ended with an error of the service. What it changed before has a row of its own.",
} as const;
export type AuditOutcome = keyof typeof AUDIT_OUTCOMES;

/** The change of one object: the values that differ, before and after. Null: there was no object, or is none now. */
export interface AuditEdit {
  readonly target: string;
  readonly before: JsonObject | null;
  readonly after: JsonObject | null;
}

export interface AuditChange {
  readonly edits: readonly AuditEdit[];
  /** False: there were too many, and the last ones are left out. */
  readonly complete: boolean;
}
