/**
 * Counts and logs requests without a valid token, at most one line a minute for each address, so that a flood does not
 * fill the log. The first request of an address is logged at once. The others are counted, and their number is logged
 * when the minute is over or the service stops. The audit gets ten rows a minute and address, and then their number.
 */
import type { IncomingMessage } from "node:http";
import type { Rejection } from "../../access/access.ts";
import type { Engine } from "../../engine/engine.ts";
import type { RequestErrorCode } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { noopObserver } from "../../observer.ts";
import type { LoginFailure, Observer } from "../../observer.ts";
import type { Senders } from "./senders.ts";

const LINE_MS = 60_000;
/** How often to look for minutes that are over. */
const CHECK_MS = 5_000;
/** Addresses with a count of their own. */
const ADDRESSES_MAX = 10_000;
const OTHERS = "other addresses";
/** Rows of the audit for an address and a minute. */
const ROWS_MAX = 10;

/**
 * Notes a request that is refused because its token is wrong or missing. `authorization`: the header, or the parameter
 * of a connection.
 */
export type NoteFailedLogin = (
  request: IncomingMessage,
  authorization: string | undefined,
  rejection: RejectedLogin,
) => void;

export type RejectedLogin = Pick<Rejection, "message" | "owner"> & { readonly code: RequestErrorCode };

export interface FailedLogins extends Disposable {
  readonly note: NoteFailedLogin;
}

type Counts = Record<LoginFailure, number>;

type NoteAudit = Engine["noteAudit"];

export interface FailedLoginsOptions {
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
  const addresses = new Map<string, { loggedAt: number; counts: Counts; rows: number }>();

  function logLine(address: string, { missing, wrong }: Counts): void {
    if (missing + wrong > 0) log.warn({ address, missing, wrong }, `requests of ${address} had no valid token`);
  }

  function noteRest(address: string, rows: number): void {
    if (rows <= ROWS_MAX) return;
    const reason = `${(rows - ROWS_MAX).toLocaleString("en")} more failed logins of this address within a minute.`;
    noteAudit(requestOf(address), { outcome: "FORBIDDEN", code: "UNAUTHENTICATED", reason });
  }

  function check(): void {
    for (const [address, known] of addresses) {
      if (now() - known.loggedAt < LINE_MS) continue;
      logLine(address, known.counts);
      noteRest(address, known.rows);
      if (known.counts.missing + known.counts.wrong === 0) addresses.delete(address);
      else addresses.set(address, { loggedAt: now(), counts: { missing: 0, wrong: 0 }, rows: 0 });
    }
  }

  const timer = setInterval(check, CHECK_MS).unref();
  return {
    note(request, authorization, rejection) {
      const reason = authorization ? "wrong" : "missing";
      observer.loginFailed(reason);
      const sender = senders.addressOf(request) || "unknown";
      const address = addresses.has(sender) || addresses.size < ADDRESSES_MAX ? sender : OTHERS;
      const known = addresses.get(address) ?? { loggedAt: now(), counts: { missing: 0, wrong: 0 }, rows: 0 };
      if (addresses.has(address)) known.counts[reason] += 1;
      else {
        addresses.set(address, known);
        logLine(address, { missing: 0, wrong: 0, [reason]: 1 });
      }
      known.rows += 1;
      if (known.rows <= ROWS_MAX) noteAudit(...rowOf(sender, request, rejection));
    },
    [Symbol.dispose]() {
      clearInterval(timer);
      for (const [address, { counts, rows }] of addresses) {
        logLine(address, counts);
        noteRest(address, rows);
      }
      addresses.clear();
    },
  };
}

function requestOf(address: string) {
  return { subject: "unknown", action: "LOGIN_FAILED", address };
}

function rowOf(
  address: string,
  { headers }: IncomingMessage,
  { code, message, owner }: RejectedLogin,
): Parameters<NoteAudit> {
  const transport = headers.upgrade === undefined ? "HTTP" : "WEBSOCKET";
  const known = owner && { subject: owner.subject, displayName: owner.displayName, credential: owner.id };
  return [
    { ...requestOf(address), ...known, transport },
    { outcome: "FORBIDDEN", code, reason: message },
  ];
}
