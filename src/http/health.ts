/**
 * Liveness, readiness and metrics, which every replica serves. A replica with the role `engine` serves nothing else.
 */
import { withinTime } from "../runtime/timeout.ts";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createPort } from "./port/certificate.ts";
import type { TlsParts } from "./port/certificate.ts";
import type { Authenticator } from "../access/authenticator.ts";
import { createFailedLogins } from "./port/failed-logins.ts";
import { createLogins } from "./port/logins.ts";
import { listen, shownUrl } from "./port/listen.ts";
import type { Engine } from "../engine/engine.ts";
import type { Services } from "../graphql/base/context.ts";
import { METRICS, serveMetrics } from "./metrics.ts";
import type { MetricsParts } from "./metrics.ts";
import { isRepeated } from "./port/origins.ts";
import { createSenders } from "./port/senders.ts";
import { pathOf, refuseTwoHosts, requestIdOf, sendJson, sendText } from "./graphql/respond.ts";

interface HealthParts {
  readonly database: Pick<Services["database"], "reader" | "refusesWrites">;
  /** Whether the replica takes requests: false while it shuts down. */
  isTakingPart(): boolean;
  /** Absent if there are no metrics. */
  readonly metrics?: MetricsParts | undefined;
}

/** Answers a request for health or metrics; false if the request is for something else. */
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

/**
 * Time for the database to answer, in milliseconds. Without a limit, a silent one would delay the response for minutes.
 */
const THERE_MS = 3_000;

/** Whether the database answers and accepts writes: a standby, or a server whose disk is full, does not. */
async function isThere({ reader, refusesWrites }: HealthParts["database"]): Promise<boolean> {
  if (refusesWrites()) return false;
  const asked = reader
    .execute<{ writable: boolean }>("select current_setting('transaction_read_only') = 'off' as writable")
    .then(
      ([row]) => row?.writable === true,
      () => false,
    );
  return withinTime(THERE_MS, asked, false);
}

export interface HealthServer extends AsyncDisposable {
  /** Address as http://host:port, or https. */
  readonly url: string;
  /** Makes the replica not ready. */
  rest(): void;
}

interface HealthServerOptions extends Pick<HealthParts, "database">, TlsParts {
  /** Absent if there are no metrics. */
  readonly metrics?: {
    readonly authenticator: Pick<Authenticator, "identify" | "isOpen">;
    readonly scrape: MetricsParts["scrape"];
  };
  /** Notes rows of the audit of failed logins and denials. */
  readonly noteAudit: Engine["noteAudit"];
  readonly host: string;
  readonly port: number;
  /** Networks of proxies. */
  readonly proxies?: readonly string[];
}

const ELSEWHERE =
  "This replica does not serve the API, because its OSTLER_ROLE is engine. Use a replica whose role is api or all.";
/** Time for running requests at shutdown, in milliseconds. */
const ANSWER_MS = 1_000;

/** The server of a replica with the role `engine`. */
export async function startHealthServer({
  host,
  port,
  database,
  metrics,
  noteAudit,
  proxies = [],
  ...secured
}: HealthServerOptions): Promise<HealthServer> {
  let isTakingPart = true;
  const senders = createSenders(proxies);
  const failedLogins = createFailedLogins({ senders, log: secured.log, observer: secured.observer, noteAudit });
  const parts: HealthParts = {
    database,
    isTakingPart: () => isTakingPart,
    ...(metrics && {
      metrics: {
        scrape: metrics.scrape,
        logins: createLogins(metrics.authenticator, senders, failedLogins.note, noteAudit),
      },
    }),
  };
  const { server, silent } = await createPort({}, secured, (request, response) => {
    response.setHeader("x-request-id", requestIdOf(request));
    response.setHeader("x-content-type-options", "nosniff");
    if (isRepeated(request, "host")) return refuseTwoHosts(response);
    serveHealth(parts, request, response).then(
      (isServed) => {
        // 421: a valid request to the wrong replica.
        if (!isServed) sendJson(response, 421, { error: ELSEWHERE });
      },
      () => response.destroy(),
    );
  });
  const at = await listen(server, port, host);
  return {
    url: shownUrl(host, at, Boolean(secured.tls)),
    rest() {
      isTakingPart = false;
    },
    async [Symbol.asyncDispose]() {
      isTakingPart = false;
      const closed = new Promise<void>((done) => server.close(() => done()));
      server.closeIdleConnections();
      const cut = setTimeout(() => {
        server.closeAllConnections();
        for (const socket of silent.values()) socket.destroy();
      }, ANSWER_MS);
      await closed;
      clearTimeout(cut);
      failedLogins[Symbol.dispose]();
    },
  };
}
