/** Errors that end a stream, and causes that only interrupt it. */

/** A failure that a retry cannot resolve. */
export class WatchError extends Error {
  override readonly name = "WatchError";
  /** Code of the service's error, such as NOT_FOUND; null if the socket was closed. */
  readonly code: string | null;
  /** Close code of the WebSocket, if its closure is the reason. 4403: the token is missing or wrong. */
  readonly closeCode: number | null;

  constructor(
    message: string,
    { code = null, closeCode = null }: Partial<Pick<WatchError, "code" | "closeCode">> = {},
  ) {
    super(message);
    this.code = code;
    this.closeCode = closeCode;
  }
}

/** The service refuses the token. */
const FORBIDDEN = 4403;
const WRONG_TOKEN = "The token is missing or wrong. Pass the token of the service as `token`.";
/**
 * Close codes after which another attempt would end in the same way: forbidden as the answer to the token, and no
 * common subprotocol. The other codes of graphql-ws name an error of the client; this client makes none, but a service
 * in trouble or a proxy may send them.
 */
const FATAL_CLOSE_CODES = new Set([FORBIDDEN, 4406]);
/** Errors that a retry can resolve. UNAUTHENTICATED: the token has ended, and the service is closing the socket. */
const TRANSIENT_CODES = /^(INTERNAL|CAPACITY|DATABASE_UNAVAILABLE|SHUTTING_DOWN|TIMEOUT|RATE_LIMITED|UNAUTHENTICATED)$/;

function closeCodeOf(cause: unknown): number | null {
  const code = typeof cause === "object" && cause !== null && "code" in cause ? cause.code : null;
  return typeof code === "number" ? code : null;
}

export function isForbidden(cause: unknown): boolean {
  return closeCodeOf(cause) === FORBIDDEN;
}

/** Why a connection ended, as a sentence without its point. */
export function reasonOf(cause: unknown): string {
  const { reason, message } = cause as { readonly reason?: string; readonly message?: string };
  const code = closeCodeOf(cause);
  if (code !== null) return `the socket was closed with ${code}${reason ? `: ${reason}` : ""}`;
  return message || "the service cannot be reached";
}

/** The cause of the end of a subscription: the reason if a retry can resolve it, or else the error of the stream. */
export function judgeErrors(cause: unknown): string | WatchError {
  if (Array.isArray(cause)) {
    const errors = cause as readonly { readonly message: string; readonly extensions?: { readonly code?: unknown } }[];
    const why = errors.map(({ message }) => message).join(" ");
    const codes = errors.map(({ extensions }) => extensions?.code);
    return codes.every((code) => TRANSIENT_CODES.test(String(code)))
      ? why
      : new WatchError(why, { code: (codes[0] as string | undefined) ?? null });
  }
  const closeCode = closeCodeOf(cause);
  if (closeCode === null || !FATAL_CLOSE_CODES.has(closeCode)) return reasonOf(cause);
  const why = isForbidden(cause) ? WRONG_TOKEN : `The service rejects this client: ${reasonOf(cause)}.`;
  return new WatchError(why, { closeCode });
}
