/** Which session a download belongs to. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Bearer, BootTicket } from "../engine/agents/agents.ts";
import { FreshMap } from "../runtime/fresh-map.ts";
import type { refuseBearer, Guard } from "./guard.ts";

/** BMCs read an ISO in thousands of ranges: the session is read again after this time, in milliseconds. */
const TICKET_MS = 1_000;
const TICKETS_MAX = 1_000;

interface Tickets<Ticket> {
  /** The open session of a bearer; null if the request was answered, with `refuseUnknown` if there is none. */
  take(
    request: IncomingMessage,
    response: ServerResponse,
    bearer: Bearer | null,
    refuseUnknown: typeof refuseBearer,
  ): Promise<Ticket | null>;
}

/** `read` asks the engine for the session of a bearer. */
export function createTickets<Ticket extends BootTicket | true>(
  read: (bearer: Bearer) => Promise<Ticket | null>,
  guard: Guard,
): Tickets<Ticket> {
  const known = new FreshMap<Ticket>(TICKET_MS, TICKETS_MAX);
  return {
    async take(request, response, bearer, refuseUnknown) {
      if (!guard.mayTry(request, response)) return null;
      const key = bearer === null ? "" : `${bearer.session}.${bearer.secret}`;
      const recent = known.get(key);
      if (recent) return recent;
      const answer = bearer && (await guard.ask(request, response, () => read(bearer)));
      if (bearer && !answer) return null;
      const ticket = answer?.found ?? null;
      if (ticket) known.set(key, ticket);
      else {
        guard.countRejected(request);
        refuseUnknown(request, response);
      }
      return ticket;
    },
  };
}
