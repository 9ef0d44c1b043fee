/**
 * HTTP to one BMC for the duration of one call of the driver. Each answer is limited in size and time, redirects to
 * other hosts are refused, and certificates are checked as the settings say.
 */
import { Readable } from "node:stream";
import { Agent, buildConnector, request as sendRequest } from "undici";
import type { MachineCall } from "../../src/drivers/driver.ts";
import { RedfishError, connectionError } from "./error.ts";
import { pause } from "./poll.ts";
import { isError, resourceOf, saysWhy } from "./messages.ts";
import { bmcName } from "../bmc-settings.ts";
import { originOf } from "./settings.ts";
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
  /** Limit of the whole request. Default: 30 seconds. */
  readonly seconds?: number;
  /** True for requests that open and close sessions: they do not change the machine. */
  readonly isLogin?: true;
}

export interface HttpAnswer {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
  readonly body: string;
}

export interface Connection {
  readonly origin: string;
  /** Whether the BMC has made a change of the machine, or may be making one, that this connection has sent. */
  readonly hasChanged: boolean;
  /** Sends a request, and repeats it while the BMC asks for that (status 503 with Retry-After). */
  send(request: HttpRequest): Promise<HttpAnswer>;
  close(): Promise<void>;
}

const ANSWER_BYTES_MAX = 16 * 1024 * 1024;
const CONNECT_MILLISECONDS = 10_000;
/** The slowest request of a measured BMC took 21 seconds. Half of the limit of a read is left for another driver. */
const REQUEST_SECONDS = 30;
/** Share of the time that is left of a call: a request ends before the call, so that the driver reports the timeout. */
const DEADLINE_SHARE = 0.9;
const REDIRECTS_MAX = 3;
const BUSY_TRIES = 4;
const BUSY_SECONDS_MAX = 30;

export function connect(call: RedfishCall): Connection {
  const { settings } = call;
  const origin = originOf(settings);
  const agent = new Agent({
    connect: connectorOf(settings),
    connections: 4,
    pipelining: 1,
    maxResponseSize: ANSWER_BYTES_MAX,
  });
  let changes = 0;
  const exchangeAt = async (given: HttpRequest, url: URL) => {
    const isChange = given.method !== "GET" && given.isLogin !== true;
    if (isChange) changes += 1;
    try {
      const answer = await exchange(call, agent, { ...given, url, isChange, withoutEffect: changes === 0 });
      if (isChange && isRefusal(answer)) changes -= 1;
      return answer;
    } catch (error) {
      if (isChange && error instanceof RedfishError && error.effect === "NONE") changes -= 1;
      throw error;
    }
  };
  const followed = async (given: HttpRequest) => {
    let url = urlOf(settings, origin, given.path);
    for (let redirects = 0; ; redirects += 1) {
      const answer = await exchangeAt(given, url);
      const location = answer.header("location");
      const isRedirect = answer.status >= 300 && answer.status < 400 && location !== undefined;
      if (!isRedirect || (given.method !== "GET" && !isMoved(answer, given, location, url))) return answer;
      if (redirects === REDIRECTS_MAX && given.method !== "GET") return answer;
      if (redirects === REDIRECTS_MAX) throw misdirected(settings, "redirects without end");
      url = urlOf(settings, origin, new URL(location, url).href);
    }
  };
  return {
    origin,
    get hasChanged() {
      return changes > 0;
    },
    async send(given) {
      for (let tries = 1; ; tries += 1) {
        const answer = await followed(given);
        const seconds = retryAfter(answer);
        const isOver = seconds === undefined || tries === BUSY_TRIES || given.body instanceof Readable;
        if (isOver || Date.now() + seconds * 1000 > call.deadline.getTime()) return answer;
        await pause(seconds, call.signal);
      }
    },
    close: () => agent.destroy(),
  };
}

/**
 * Whether an answer says that the BMC has not begun what it was asked for. Other failures may come from a gateway in
 * front of it, or from a BMC that failed after it began.
 */
export function isRefusal(answer: HttpAnswer): boolean {
  const { status } = answer;
  if (status === 501 || (status >= 300 && status < 500)) return status !== 408;
  const body = resourceOf(answer.body) ?? {};
  if (status === 503) return answer.header("retry-after") !== undefined || isError(body);
  return status >= 500 && status !== 502 && status !== 504 && saysWhy(body);
}

/** Whether a change was not made, and can be sent to another place of the service; a page, as of a login, is none. */
function isMoved({ status }: HttpAnswer, { body }: HttpRequest, location: string, url: URL): boolean {
  const to = URL.canParse(location, url) ? new URL(location, url) : undefined;
  const isOfService = to?.origin === url.origin && to.pathname.startsWith("/redfish/");
  return isOfService && status !== 303 && !(body instanceof Readable);
}

/** Seconds to wait before a busy BMC is asked again; undefined if it has answered. */
function retryAfter(answer: HttpAnswer): number | undefined {
  const given = answer.header("retry-after");
  if (answer.status !== 503 || given === undefined) return undefined;
  const seconds = Number(given);
  return Math.min(seconds >= 0 ? seconds : 1, BUSY_SECONDS_MAX);
}

/** A URL of the BMC; throws for one of another host, to which the login must not be sent. */
function urlOf(settings: Login, origin: string, path: string): URL {
  const url = URL.canParse(path, origin) ? new URL(path, origin) : undefined;
  if (url?.origin === new URL(origin).origin) return url;
  throw misdirected(settings, `points to another address (${url?.origin ?? "an invalid one"})`);
}

function misdirected(settings: Login, what: string): RedfishError {
  const message = `BMC ${bmcName(settings)} ${what}; set the BMC's own address in the node's settings.`;
  return new RedfishError({ kind: "REFUSED", message });
}

async function exchange(
  call: RedfishCall,
  agent: Agent,
  request: HttpRequest & { readonly url: URL; readonly isChange: boolean; readonly withoutEffect: boolean },
): Promise<HttpAnswer> {
  const { method, url, headers, body, task, seconds = REQUEST_SECONDS, isChange, withoutEffect } = request;
  call.signal.throwIfAborted();
  const left = (call.deadline.getTime() - Date.now()) * DEADLINE_SHARE;
  const milliseconds = Math.max(1, Math.floor(Math.min(seconds * 1000, left)));
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
      const answer = await sendRequest(url, options);
      const text = await answer.body.text();
      return { status: answer.statusCode, header: (name) => headerOf(answer.headers[name]), body: text };
    } catch (error) {
      call.signal.throwIfAborted();
      const isPartial = body instanceof Readable && !body.readableEnded;
      const failed = { bmc: bmcName(call.settings), task, withoutEffect, ...(isChange && { change: { isPartial } }) };
      throw connectionError(failed, limit.aborted ? limit.reason : error);
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
