/** Counts and logs requests with an invalid token: one line a minute for each address, so that a flood does not fill the log. */
import type { IncomingMessage } from "node:http";
import type { Log } from "../log.ts";
import { noopObserver } from "../observer.ts";
import type { Observer } from "../observer.ts";
import { LruMap } from "../runtime/lru-map.ts";

const LINE_MS = 60_000;
const ADDRESSES_MAX = 10_000;

/** Notes a request that is refused because its token is invalid. A request without a token is not an attempt. */
export type NoteFailedLogin = (request: IncomingMessage) => void;

export function createFailedLogins(
  log: Log,
  observer: Observer = noopObserver,
  now: () => number = () => performance.now(),
): NoteFailedLogin {
  const addresses = new LruMap<string, { loggedAt: number; count: number }>(ADDRESSES_MAX);
  return ({ socket }) => {
    observer.loginFailed();
    const address = socket.remoteAddress ?? "unknown";
    const known = addresses.get(address) ?? { loggedAt: -Infinity, count: 0 };
    known.count += 1;
    addresses.set(address, known);
    if (now() - known.loggedAt < LINE_MS) return;
    log.warn({ address, count: known.count }, `${address} sent an invalid token`);
    known.loggedAt = now();
    known.count = 0;
  };
}
