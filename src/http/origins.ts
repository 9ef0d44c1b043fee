/** Which pages a browser may let talk to us. */
import type { IncomingMessage } from "node:http";

/** Whether a request comes from no page, or from one of our own: a page of somebody else's must not open our sockets. */
export function isOwnOrigin(request: IncomingMessage): boolean {
  const { origin, host } = request.headers;
  if (origin === undefined) return true;
  try {
    return new URL(origin).host === host;
  } catch {
    return false;
  }
}
