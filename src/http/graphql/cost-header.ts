/** The header of a request, or of the upgrade to a WebSocket, whose responses state their cost. */
import type { IncomingMessage } from "node:http";

const COST = "x-ostler-cost";

export function showsCost({ headers }: IncomingMessage): boolean {
  return headers[COST] === "1";
}
