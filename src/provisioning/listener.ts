/**
 * The server that machines reach, on the provisioning network. It serves what they need to boot, to work and to report,
 * and nothing else: the API has a port of its own. Paths can contain secrets, so no path is logged. One port speaks
 * HTTP, for firmware, iPXE, BMCs and installed systems, which know no certificate of the service; the other TLS, for
 * agents.
 *
 * Shutdown: the port closes, idle connections end, running requests have some time; then downloads are cut. Agents and
 * boot scripts repeat what was cut.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { cutIfStuck, inOrder } from "../http/graphql/in-order.ts";
import { listen } from "../http/port/listen.ts";
import type { ListenSetting } from "../http/port/listen.ts";
import { createWebServer } from "../http/port/web-server.ts";
import type { KeyPair, WebServer } from "../http/port/web-server.ts";
import { hasLeft, pathOf, sendJson } from "../http/graphql/respond.ts";
import type { MachineRequest, Observer } from "../observer.ts";
import { createAgentApi } from "./agent-api.ts";
import { macOf } from "../runtime/mac-address.ts";
import { isUuid } from "../runtime/uuid.ts";
import { createBootFiles } from "./boot-files.ts";
import type { BootFileName, BootFilesOptions } from "./boot-files.ts";
import { fingerprintOf } from "./machine-certificate.ts";
import { createGuard, refuseUnknown } from "./guard.ts";
import type { GuardLimits } from "./guard.ts";

export const PROVISION_SETTING = { variable: "OSTLER_PROVISION", flag: "provision-port" };
export const PROVISION_TLS_SETTING = {
  variable: "OSTLER_PROVISION",
  portVariable: "OSTLER_PROVISION_TLS_PORT",
  flag: "provision-tls-port",
};

export interface ListenerOptions extends Omit<BootFilesOptions, "guard" | "stallMs" | "contact"> {
  readonly host: string;
  readonly port: number;
  readonly tlsPort: number;
  /** How agents reach the port of TLS. */
  readonly agentUrl: string;
  readonly certificate: KeyPair;
  readonly observer: Observer;
  readonly limits?: Partial<GuardLimits>;
  /** Time that a client has to read more of its response, in milliseconds. */
  readonly stallMs?: number;
}

export interface Listener extends AsyncDisposable {
  readonly port: number;
  readonly tlsPort: number;
}

/** Time for a complete request, for its headers, and between requests, in milliseconds. */
const REQUEST_MS = 30_000;
const HEADERS_MS = 10_000;
const KEEP_ALIVE_MS = 15_000;
/** Interval of checking these, in milliseconds. */
const CHECK_MS = 1_000;
/** Requests on one connection before it is closed: balances replicas behind one address. */
const REQUESTS_PER_CONNECTION_MAX = 1_000;
const STALL_MS = 30_000;
/** Time for running requests at shutdown, in milliseconds. */
const ANSWER_MS = 2_000;
const HEADER_BYTES_MAX = 8 * 1024;

const SERVER = {
  requestTimeout: REQUEST_MS,
  headersTimeout: HEADERS_MS,
  keepAliveTimeout: KEEP_ALIVE_MS,
  connectionsCheckingInterval: CHECK_MS,
  maxHeaderSize: HEADER_BYTES_MAX,
} as const;

export async function startListener(options: ListenerOptions): Promise<Listener> {
  const { host, url, certificate, log, observer, stallMs = STALL_MS } = options;
  const guard = createGuard(options.limits);
  const contact = { url: options.agentUrl, fingerprint: fingerprintOf(certificate) };
  const route = createRoutes({ ...options, contact, guard, stallMs });
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    response.setHeader("x-content-type-options", "nosniff");
    const routed = route(request, response);
    response.once("close", () =>
      observer.machineAnswered(routed.kind, response.writableFinished ? response.statusCode : null),
    );
    inOrder(request, response, routed.answer).catch((error: unknown) => {
      if (hasLeft(request, error)) return;
      log.error({ err: error }, "a request of a machine failed");
      if (response.headersSent) return void response.destroy();
      // 503 and not 500: agents and boot scripts repeat the request.
      response.setHeader("retry-after", "5");
      sendJson(response, 503, { error: "Unexpected error. Try again in 5 s." });
    });
  };
  await using parts = new AsyncDisposableStack();
  const open = async (port: number, pair: KeyPair | null, setting: ListenSetting): Promise<number> => {
    const web = createWebServer(SERVER, pair, answer);
    web.server.on("connection", (socket) => guard.admit(socket));
    web.server.maxRequestsPerSocket = REQUESTS_PER_CONNECTION_MAX;
    cutIfStuck(web.server, stallMs);
    const at = await listen(web.server, port, host, setting);
    parts.defer(() => close(web));
    return at;
  };
  const port = await open(options.port, null, PROVISION_SETTING);
  const tlsPort = await open(options.tlsPort, certificate, PROVISION_TLS_SETTING);
  log.info({ host, port, tlsPort, url, agents: contact }, "serving machines on the provisioning network");
  const running = parts.move();
  return { port, tlsPort, [Symbol.asyncDispose]: () => running.disposeAsync() };
}

async function close({ server, silent }: WebServer): Promise<void> {
  const closed = new Promise<void>((done) => server.close(() => done()));
  const sweep = setInterval(() => server.closeIdleConnections(), 20);
  const cut = setTimeout(() => {
    server.closeAllConnections();
    for (const socket of silent.values()) socket.destroy();
  }, ANSWER_MS);
  server.closeIdleConnections();
  await closed;
  clearTimeout(cut);
  clearInterval(sweep);
}

interface Routed {
  readonly kind: MachineRequest;
  readonly answer: () => Promise<void>;
}

type Route = (request: IncomingMessage, response: ServerResponse) => Routed;

function createRoutes(options: BootFilesOptions & Pick<ListenerOptions, "observer">): Route {
  const { agents, observer, guard } = options;
  const api = createAgentApi({ agents, guard, observer });
  const files = createBootFiles(options);

  async function leased(request: IncomingMessage, response: ServerResponse, query: URLSearchParams): Promise<void> {
    request.resume();
    if (!guard.mayAsk(request, response)) return;
    const mac = macOf(query.get("mac") ?? "");
    if (mac === null) return sendJson(response, 400, { error: "mac must be the MAC of a machine." });
    // The same answer for every MAC: it must not reveal which machines exist.
    if (await guard.ask(request, response, () => agents.leased(mac))) response.writeHead(204).end();
  }

  return (request, response) => {
    const to = (kind: MachineRequest, answer: () => Promise<void>): Routed => ({ kind, answer });
    const path = pathOf(request);
    const [, first, second, third, ...rest] = path.split("/");
    const isRead = request.method === "GET" || request.method === "HEAD";
    switch (`${request.method} ${path}`) {
      case "POST /agent/v1/poll":
        return to("agent_poll", () => api.poll(request, response));
      case "POST /agent/v1/result":
        return to("agent_result", () => api.result(request, response));
      case "GET /boot/ipxe":
        return to("boot_script", () => files.script(request, response, queryOf(request)));
      case "POST /boot/dhcp":
        return to("lease", () => leased(request, response, queryOf(request)));
    }
    if (request.method === "POST" && first === "home" && second !== undefined && third === undefined)
      return to("call_home", () => api.callHome(request, response, second));
    if (isRead && first === "images" && second !== undefined && third === undefined)
      return to("image", () => files.image(request, response, second));
    if (isRead && first === "media" && second !== undefined && third === "agent.iso" && rest.length === 0)
      return to("boot_medium", () => files.iso(request, response, second));
    const name = isRead ? bootFileOf(path, queryOf(request)) : null;
    if (name) return to("boot_file", () => files.file(request, response, name));
    return to("none", async () => refuseUnknown(request, response));
  };
}

function bootFileOf(path: string, query: URLSearchParams): BootFileName | null {
  const [, folder, file] = /^\/boot\/agent\/(x64|arm64)\/(vmlinuz|initrd|ipxe\.efi)$/.exec(path) ?? [];
  if (file !== "vmlinuz" && file !== "initrd" && file !== "ipxe.efi") return null;
  const session = query.get("session") ?? "";
  return { architecture: folder === "x64" ? "X64" : "ARM64", file, session: isUuid(session) ? session : null };
}

function queryOf(request: IncomingMessage): URLSearchParams {
  return new URLSearchParams((request.url ?? "").split("?").slice(1).join("?"));
}
