/** What every replica serves, whatever its role: whether it lives, whether it is ready, and its metrics. One that only works serves nothing else. */
import { withinTime } from "../runtime/timeout.ts";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { listen, shownUrl } from "./listen.ts";
import type { Services } from "../graphql/base/context.ts";
import { METRICS, serveMetrics } from "./metrics.ts";
import type { MetricsParts } from "./metrics.ts";
import { pathOf, sendJson, sendText } from "./respond.ts";

export interface HealthParts {
  readonly database: Pick<Services["database"], "reader">;
  /** Whether it takes part at all: not while it is leaving. */
  isTakingPart(): boolean;
  /** Absent: it has none. */
  readonly metrics?: MetricsParts | undefined;
}

/** Answers a request for the replica's health; false when it asks for something else. */
export async function serveHealth(
  { database, isTakingPart, metrics }: HealthParts,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<boolean> {
  if (request.method !== "GET" && request.method !== "HEAD") return false;
  switch (pathOf(request)) {
    case "/livez":
      sendText(response, 200, "ok\n");
      return true;
    case "/readyz": {
      const isReady = isTakingPart() && (await isThere(database));
      sendText(response, isReady ? 200 : 503, isReady ? "ok\n" : "not ready\n");
      return true;
    }
    case METRICS:
      if (!metrics) return false;
      await serveMetrics(metrics, request, response);
      return true;
    default:
      return false;
  }
}

/** How long the database may take to answer. One that has gone without a word would be waited for for minutes. */
const THERE_MS = 3_000;

async function isThere({ reader }: HealthParts["database"]): Promise<boolean> {
  const asked = reader.execute("select 1").then(
    () => true,
    () => false,
  );
  return withinTime(THERE_MS, asked, false);
}

export interface HealthServer extends AsyncDisposable {
  /** Where it listens, as http://host:port. */
  readonly url: string;
  /** Not ready from now on. */
  rest(): void;
}

const ELSEWHERE =
  "This replica works and serves no requests: its OSTLER_ROLE is engine. Ask a replica whose role is api or all.";
/** How long answers that are due may take when the service ends. */
const ANSWER_MS = 1_000;

/** The server of a replica that only works. */
export async function startHealthServer({
  host,
  port,
  ...health
}: { readonly host: string; readonly port: number } & Pick<
  HealthParts,
  "database" | "metrics"
>): Promise<HealthServer> {
  let isTakingPart = true;
  const parts = { ...health, isTakingPart: () => isTakingPart };
  const server = createServer((request, response) => {
    response.setHeader("x-content-type-options", "nosniff");
    serveHealth(parts, request, response).then(
      (isServed) => {
        // 421: the request is good, and was sent to the wrong one of several.
        if (!isServed) sendJson(response, 421, { error: ELSEWHERE });
      },
      () => response.destroy(),
    );
  });
  const at = await listen(server, port, host);
  return {
    url: shownUrl(host, at),
    rest() {
      isTakingPart = false;
    },
    async [Symbol.asyncDispose]() {
      isTakingPart = false;
      const closed = new Promise<void>((done) => server.close(() => done()));
      server.closeIdleConnections();
      const cut = setTimeout(() => server.closeAllConnections(), ANSWER_MS);
      await closed;
      clearTimeout(cut);
    },
  };
}
