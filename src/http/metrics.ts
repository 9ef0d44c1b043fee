/** /metrics for Prometheus, on every replica. Requires the scope READ. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { isRejection } from "../access/access.ts";
import { rejectionStatus, setRejectionHeaders } from "./port/logins.ts";
import type { Logins } from "./port/logins.ts";
import { isMeantForUs } from "./port/origins.ts";
import { sendJson } from "./graphql/respond.ts";

export interface MetricsParts {
  readonly logins: Logins;
  scrape(): Promise<{ readonly contentType: string; readonly text: string }>;
}

export const METRICS = "/metrics";

export async function serveMetrics(
  { logins, scrape }: MetricsParts,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (!isMeantForUs(request, { origins: [], isOpen: logins.isOpen }))
    return sendJson(response, 421, { error: "Without a token /metrics answers only to local host names." });
  const actor = await logins.readerOf(request, METRICS);
  if (isRejection(actor)) {
    const { status } = rejectionStatus(actor);
    setRejectionHeaders(response, status);
    const remedy = " Send it as `Authorization: Bearer …`; in Prometheus: authorization: { credentials_file: … }.";
    return sendJson(response, status, { error: `${actor.message}${status === 401 ? remedy : ""}` });
  }
  const { contentType, text } = await scrape();
  response.writeHead(200, { "content-type": contentType, "cache-control": "no-store" }).end(text);
}
