/** /metrics for Prometheus, on every replica. Requires the token if one is configured. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { identify } from "../access/access.ts";
import type { NoteFailedLogin } from "./port/failed-logins.ts";
import { isMeantForUs } from "./port/origins.ts";
import { sendJson } from "./graphql/respond.ts";

export interface MetricsParts {
  /** Required token; null if none is required. */
  readonly token: string | null;
  readonly noteFailedLogin?: NoteFailedLogin | undefined;
  scrape(): Promise<{ readonly contentType: string; readonly text: string }>;
}

export const METRICS = "/metrics";

export async function serveMetrics(
  { token, noteFailedLogin, scrape }: MetricsParts,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (!isMeantForUs(request, { origins: [], token }))
    return sendJson(response, 421, { error: "Without a token /metrics answers only to local host names." });
  if (!identify(request.headers.authorization, token)) {
    noteFailedLogin?.(request, request.headers.authorization);
    response.setHeader("www-authenticate", "Bearer");
    return sendJson(response, 401, {
      error: "Send the token as `Authorization: Bearer …`; in Prometheus: authorization: { credentials_file: … }.",
    });
  }
  const { contentType, text } = await scrape();
  response.writeHead(200, { "content-type": contentType, "cache-control": "no-store" }).end(text);
}
