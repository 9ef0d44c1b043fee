/** What an error of the database says by its code: what was refused, and whether the database was there at all. */

/** SQLSTATE of what the database refused, looked for along the chain of causes. */
export function sqlState(error: unknown): string | undefined {
  return codesOf(error).find((code) => /^[0-9A-Z]{5}$/.test(code));
}

/** Of a server that takes no writes: a standby, or one that has become one. */
export const READ_ONLY = "25006";

const LOST = new Set([
  // postgres.js
  "CONNECTION_CLOSED",
  "CONNECTION_ENDED",
  "CONNECTION_DESTROYED",
  "CONNECT_TIMEOUT",
  // the network, and the names on it, which change in a failover
  "ECONNREFUSED",
  "ECONNRESET",
  "ENOENT",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  // the server: going down, crashed, starting, full, idle for too long, at rest between two roles
  "57P01",
  "57P02",
  "57P03",
  "57P05",
  "25P03",
  "53300",
  READ_ONLY,
]);

/** What pg says of it, the queue's driver, which gives it no code. */
const LOST_IN_WORDS = /^(Connection terminated|Query read timeout|timeout exceeded when trying to connect)/;

/** Whether a statement failed because the database was not there, so that it may succeed later. */
export function isConnectionLoss(error: unknown): boolean {
  return codesOf(error).some((code) => LOST.has(code) || code.startsWith("08")) || isLossInWords(error);
}

function isLossInWords(error: unknown): boolean {
  return error instanceof Error && (LOST_IN_WORDS.test(error.message) || isLossInWords(error.cause));
}

/** Codes along the chain of causes. Of several attempts at one name, those of each. */
function codesOf(error: unknown): string[] {
  const codes: string[] = [];
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    const { code, errors } = at as { code?: unknown; errors?: unknown };
    if (typeof code === "string") codes.push(code);
    if (Array.isArray(errors)) codes.push(...errors.flatMap(codesOf));
  }
  return codes;
}
