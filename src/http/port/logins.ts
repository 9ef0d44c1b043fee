/** The caller of a request, by any of the ways in: the API over HTTP and WebSocket, metrics, the schema as text. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Actor, Rejection } from "../../access/access.ts";
import { isRejection, lackOfPage } from "../../access/access.ts";
import type { Authenticator } from "../../access/authenticator.ts";
import type { Engine } from "../../engine/engine.ts";
import type { RequestErrorCode } from "../../errors.ts";
import type { NoteFailedLogin } from "./failed-logins.ts";
import { isRepeated } from "./origins.ts";
import { requestIdOf } from "../graphql/respond.ts";
import { countedSession } from "../sign-in/cookies.ts";
import type { Senders } from "./senders.ts";

export interface Logins {
  /** Whether callers need no credential. */
  readonly isOpen: boolean;
  /** Address of the sender of a request. */
  addressOf(request: IncomingMessage): string;
  /**
   * The caller of a request; a failure is noted. The first of these counts: its header, `authorization`, which a
   * connection has sent, and its cookie.
   */
  identify(request: IncomingMessage, authorization?: string): Promise<Actor | Rejection>;
  /** The caller of a request for a page, such as `/metrics`, if it may read it; a denial is noted. */
  readerOf(request: IncomingMessage, page: string): Promise<Actor | Rejection>;
  /** Notes a login that failed in another way. */
  readonly noteFailure: NoteFailedLogin;
}

export function createLogins(
  authenticator: Pick<Authenticator, "identify" | "isOpen">,
  senders: Senders,
  noteFailure: NoteFailedLogin,
  noteAudit: Engine["noteAudit"] = () => {},
): Logins {
  const logins: Logins = {
    isOpen: authenticator.isOpen,
    addressOf: senders.addressOf,
    noteFailure,
    async identify(request, given) {
      const authorization = request.headers.authorization ?? given;
      const session = authorization === undefined ? countedSession(request, senders) : undefined;
      const found = await authenticator.identify({
        authorization,
        session,
        address: senders.addressOf(request),
        isAmbiguous: isRepeated(request, "authorization"),
      });
      if (isRejection(found)) noteFailure(request, authorization ?? session, { ...found, ...rejectionStatus(found) });
      return found;
    },
    async readerOf(request, page) {
      const found = await logins.identify(request);
      const lack = isRejection(found) ? null : lackOfPage(page, found);
      if (isRejection(found) || lack === null) return found;
      const { subject, displayName, identity } = found;
      const who = { subject, displayName, credential: identity.id, address: senders.addressOf(request) };
      const asked = { ...who, transport: "HTTP", requestId: requestIdOf(request), action: page } as const;
      noteAudit(asked, { outcome: "FORBIDDEN", code: "FORBIDDEN", reason: lack });
      return { rejected: "DENIED", message: lack };
    },
  };
  return logins;
}

/** A rejected request as its status and its error. */
export function rejectionStatus({ rejected }: Rejection): { readonly status: number; readonly code: RequestErrorCode } {
  switch (rejected) {
    case "AMBIGUOUS":
      return { status: 400, code: "BAD_REQUEST" };
    case "TOO_MANY":
      return { status: 429, code: "RATE_LIMITED" };
    case "UNAVAILABLE":
      return { status: 503, code: "ISSUER_UNAVAILABLE" };
    case "DENIED":
      return { status: 403, code: "FORBIDDEN" };
    default:
      return { status: 401, code: "UNAUTHENTICATED" };
  }
}

/** Sets the headers that show a client how to log in, or when to try again. */
export function setRejectionHeaders(response: ServerResponse, status: number): void {
  if (status === 401) response.setHeader("www-authenticate", "Bearer");
  if (status === 429 || status === 503) response.setHeader("retry-after", "1");
}
