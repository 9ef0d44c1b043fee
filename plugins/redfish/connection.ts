/**
 * HTTP to one BMC for the duration of one call of the driver. Each answer is limited in size and time, redirects to
 * other hosts are refused, and certificates are checked as the settings say.
 */
import type { Readable } from "node:stream";
import { Agent, buildConnector, request } from "undici";
import type { MachineCall } from "../../src/drivers/driver.ts";
import { RedfishError, connectionError } from "./error.ts";
import { bmcName, originOf } from "./settings.ts";
import type { Login } from "./settings.ts";

/** The part of a driver's call that requests need. */
export type RedfishCall<Settings extends Login = Login> = Pick<
  MachineCall<Settings>,
  "settings" | "signal" | "deadline" | "log" | "timed"
>;

export interface HttpRequest {
  readonly method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  /** A path on the BMC, or a whole URL of it. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Readable;
  /** For messages: the end of "the BMC was asked to …". */
  readonly task: string;
  /** Limit of the whole request. Default: 60 seconds. */
  readonly seconds?: number;
}

export interface HttpAnswer {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
  readonly body: string;
}

export interface Connection {
  readonly origin: string;
  send(request: HttpRequest): Promise<HttpAnswer>;
  close(): Promise<void>;
}

const ANSWER_BYTES_MAX = 16 * 1024 * 1024;
const CONNECT_MILLISECONDS = 10_000;
const REQUEST_SECONDS = 60;
const REDIRECTS_MAX = 3;

export function connect(call: RedfishCall): Connection {
  const { settings } = call;
  const origin = originOf(settings);
  const agent = new Agent({
    connect: connectorOf(settings),
    connections: 4,
    pipelining: 1,
    maxResponseSize: ANSWER_BYTES_MAX,
  });
  const sendOnce = (given: HttpRequest, url: URL) => exchange(call, agent, given, url);
  return {
    origin,
    async send(given) {
      let url = urlOf(settings, origin, given.path);
      for (let redirects = 0; ; redirects += 1) {
        const answer = await sendOnce(given, url);
        const location = answer.header("location");
        const isRedirect = answer.status >= 300 && answer.status < 400 && location !== undefined;
        if (!isRedirect || given.method !== "GET") return answer;
        if (redirects === REDIRECTS_MAX) throw misdirected(settings, "redirects without end");
        url = urlOf(settings, origin, new URL(location, url).href);
      }
    },
    close: () => agent.destroy(),
  };
}

/** A URL of the BMC; throws for one of another host, to which the login must not be sent. */
function urlOf(settings: Login, origin: string, path: string): URL {
  const url = URL.canParse(path, origin) ? new URL(path, origin) : undefined;
  if (url?.origin === new URL(origin).origin) return url;
  throw misdirected(settings, `points to another host (${url?.origin ?? "an invalid address"})`);
}

function misdirected(settings: Login, what: string): RedfishError {
  const message = `BMC ${bmcName(settings)} ${what}; set the BMC's own address in the node's settings.`;
  return new RedfishError({ kind: "REFUSED", message });
}

async function exchange(
  call: RedfishCall,
  agent: Agent,
  { method, headers, body, task, seconds = REQUEST_SECONDS }: HttpRequest,
  url: URL,
): Promise<HttpAnswer> {
  call.signal.throwIfAborted();
  const milliseconds = Math.max(1, Math.min(seconds * 1000, call.deadline.getTime() - Date.now()));
  const limit = AbortSignal.timeout(milliseconds);
  const options = {
    dispatcher: agent,
    method,
    headers: { accept: "application/json", "odata-version": "4.0", ...headers },
    body: body ?? null,
    signal: AbortSignal.any([call.signal, limit]),
    headersTimeout: milliseconds,
    bodyTimeout: milliseconds,
  };
  return call.timed(`redfish ${method.toLowerCase()}`, async () => {
    try {
      const answer = await request(url, options);
      const text = await answer.body.text();
      return { status: answer.statusCode, header: (name) => headerOf(answer.headers[name]), body: text };
    } catch (error) {
      call.signal.throwIfAborted();
      throw connectionError(bmcName(call.settings), task, limit.aborted ? limit.reason : error);
    }
  });
}

function headerOf(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

function connectorOf(settings: Login): buildConnector.connector {
  const { certificateAuthority, fingerprint, verifyCertificate } = settings;
  const base = buildConnector({
    timeout: CONNECT_MILLISECONDS,
    rejectUnauthorized: verifyCertificate && fingerprint === undefined,
    // A resumed TLS session has no certificate to compare with the fingerprint.
    maxCachedSessions: 0,
    ...(certificateAuthority !== undefined && { ca: certificateAuthority }),
  });
  if (fingerprint === undefined || settings.scheme === "HTTP") return base;
  return (options, callback) => {
    base(options, (error, socket) => {
      if (error) return callback(error, null);
      const found = "getPeerCertificate" in socket ? socket.getPeerCertificate().fingerprint256 : "";
      if (digitsOf(found) === digitsOf(fingerprint)) return callback(null, socket);
      socket.destroy();
      const mismatch = new Error(`The certificate of the BMC has the fingerprint ${found}.`);
      callback(Object.assign(mismatch, { code: "FINGERPRINT_MISMATCH" }), null);
    });
  };
}

function digitsOf(fingerprint: string): string {
  return fingerprint.replaceAll(":", "").toLowerCase();
}
