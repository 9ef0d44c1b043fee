/** Classifies errors of the database: rejected by the server, or caused by a lost connection. */

import { QUERY_CANCELED, StatementTimeoutError } from "./workarounds/statement-queue.ts";

/** SQLSTATE of an error, looked for along the chain of causes; undefined if the server did not reject anything. */
export function sqlState(error: unknown): string | undefined {
  return codesOf(error).find((code) => /^[0-9A-Z]{5}$/.test(code));
}

/** SQLSTATE of a server that rejects writes: a standby, or a primary that became one. */
export const READ_ONLY = "25006";

const LOSS_CODES = new Set([
  // postgres.js
  "CONNECTION_CLOSED",
  "CONNECTION_ENDED",
  "CONNECTION_DESTROYED",
  "CONNECT_TIMEOUT",
  // network and host names, which change in a failover
  "ECONNREFUSED",
  "ECONNRESET",
  "ENOENT",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  // the server: shutting down, crashed, starting, timeouts of sessions, too many connections, a standby
  "57P01",
  "57P02",
  "57P03",
  "57P05",
  "25P03",
  "25P04",
  "53300",
  READ_ONLY,
]);

/** True if a statement failed because the database was unreachable, so that a retry may succeed. */
export function isConnectionLoss(error: unknown): boolean {
  return codesOf(error).some((code) => LOSS_CODES.has(code) || code.startsWith("08"));
}

/**
 * The server refuses the login or lacks the database, or is out of disk space, memory or working disks. A start fails
 * with these; a service that runs waits until an operator has acted.
 */
const NEEDS_OPERATOR = new Set(["28000", "28P01", "3D000", "57P04", "53000", "53100", "53200", "58030"]);

/** True if the database serves nothing now, so that a retry may succeed later. */
export function isDatabaseUnavailable(error: unknown): boolean {
  return isConnectionLoss(error) || codesOf(error).some((code) => NEEDS_OPERATOR.has(code));
}

/** True if a statement of ours took longer than it may, or waited too long for a connection. */
export function isOutOfTime(error: unknown): boolean {
  return codesOf(error).some((code) => code === QUERY_CANCELED || code === StatementTimeoutError.code);
}

/** Name of the constraint that a write violated; undefined for other errors. */
export function violatedConstraint(error: unknown): string | undefined {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    const { constraint_name: name } = at as { constraint_name?: unknown };
    if (typeof name === "string") return name;
  }
  return undefined;
}

/** Codes along the chain of causes, those of each failed attempt to connect included. */
function codesOf(error: unknown): string[] {
  const codes: string[] = [];
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    const { code, errors } = at as { code?: unknown; errors?: unknown };
    if (typeof code === "string") codes.push(code);
    if (Array.isArray(errors)) codes.push(...errors.flatMap(codesOf));
  }
  return codes;
}
