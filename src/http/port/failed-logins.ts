/**
 * Counts and logs requests without a valid token, at most one line a minute for each address, so that a flood does not
 * fill the log. The first request of an address is logged at once. The others are counted, and their number is logged
 * when the minute is over or the service stops. The audit limits their rows (src/engine/audit/denied-rows.ts).
 */
import type { IncomingMessage } from "node:http";
import type { Rejection } from "../../access/access.ts";
import type { Engine } from "../../engine/engine.ts";
import type { RequestErrorCode } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { noopObserver } from "../../observer.ts";
import type { LoginFailure, Observer } from "../../observer.ts";
import { requestIdOf } from "../graphql/respond.ts";
import type { Senders } from "./senders.ts";

const LINE_MS = 60_000;
/** How often to look for minutes that are over. */
const CHECK_MS = 5_000;
/** Addresses with a count of their own. */
const ADDRESSES_MAX = 10_000;
const OTHERS = "other addresses";

/**
 * Notes a request that is refused because its token is wrong or missing. `authorization`: the header, or the parameter
 * of a connection.
 */
export type NoteFailedLogin = (
  request: IncomingMessage,
  authorization: string | undefined,
  rejection: RejectedLogin,
) => void;

type RejectedLogin = Pick<Rejection, "message" | "owner"> & { readonly code: RequestErrorCode };

interface FailedLogins extends Disposable {
  readonly note: NoteFailedLogin;
}

type Counts = Record<LoginFailure, number>;

type NoteAudit = Engine["noteAudit"];

interface FailedLoginsOptions {
  readonly senders: Pick<Senders, "addressOf">;
  readonly log: Log;
  readonly observer?: Observer | undefined;
  /** Notes a row of the audit. */
  readonly noteAudit?: NoteAudit;
  readonly now?: () => number;
}

export function createFailedLogins({
  senders,
  log,
  observer = noopObserver,
  noteAudit = () => {},
  now = () => performance.now(),
}: FailedLoginsOptions): FailedLogins {
  const addresses = new Map<string, { loggedAt: number; counts: Counts }>();

  function logLine(address: string, { missing, wrong }: Counts): void {
    if (missing + wrong > 0) log.warn({ address, missing, wrong }, `requests of ${address} had no valid token`);
  }

  function check(): void {
    for (const [address, known] of addresses) {
      if (now() - known.loggedAt < LINE_MS) continue;
      logLine(address, known.counts);
      if (known.counts.missing + known.counts.wrong === 0) addresses.delete(address);
      else addresses.set(address, { loggedAt: now(), counts: { missing: 0, wrong: 0 } });
    }
  }

  const timer = setInterval(check, CHECK_MS).unref();
  return {
    note(request, authorization, rejection) {
      const reason = authorization ? "wrong" : "missing";
      observer.loginFailed(reason);
      const sender = senders.addressOf(request) || "unknown";
      const address = addresses.has(sender) || addresses.size < ADDRESSES_MAX ? sender : OTHERS;
      const known = addresses.get(address) ?? { loggedAt: now(), counts: { missing: 0, wrong: 0 } };
      if (addresses.has(address)) known.counts[reason] += 1;
      else {
        addresses.set(address, known);
        logLine(address, { missing: 0, wrong: 0, [reason]: 1 });
      }
      noteAudit(...rowOf(sender, request, rejection));
    },
    [Symbol.dispose]() {
      clearInterval(timer);
      for (const [address, { counts }] of addresses) logLine(address, counts);
      addresses.clear();
    },
  };
}

function rowOf(
  address: string,
  request: IncomingMessage,
  { code, message, owner }: RejectedLogin,
): Parameters<NoteAudit> {
  const way =
    request.headers.upgrade === undefined
      ? ({ transport: "HTTP", requestId: requestIdOf(request) } as const)
      : ({ transport: "WEBSOCKET" } as const);
  const known = owner && { displayName: owner.displayName, credential: owner.id };
  return [
    { subject: owner?.subject ?? "unknown", ...known, ...way, action: "LOGIN_FAILED", address },
    { outcome: "FORBIDDEN", code, reason: message },
  ];
}
