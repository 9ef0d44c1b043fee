/**
 * HTTP to one BMC for the duration of one call of the driver. Each answer is limited in size and time, redirects to
 * other hosts are refused, and certificates are checked as the settings say.
 */
import { Readable } from "node:stream";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { Agent, buildConnector, request as sendRequest } from "undici";
import type { MachineCall } from "../../src/drivers/driver.ts";
import { RedfishError, connectionError, hasBroken } from "./error.ts";
import { pause } from "./poll.ts";
import { isError, messageKeys, resourceOf, saysWhy } from "./messages.ts";
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
  /** Whether one of these changes must not be made twice. */
  readonly hasActed: boolean;
  /** Sends a request, and repeats it for some seconds if the BMC asks for that (status 503 with Retry-After). */
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
/** A BMC that is away for longer is waited for by the engine, which has steps only wait. */
const BUSY_SECONDS = 10;

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
  let actions = 0;
  const exchangeAt = async (given: HttpRequest, url: URL) => {
    const isChange = given.method !== "GET" && given.isLogin !== true;
    const isAction = isChange && given.method !== "PATCH";
    const known = { isChange, isAction, hasActed: actions > 0 };
    const count = (by: number) => {
      if (isChange) changes += by;
      if (isAction) actions += by;
    };
    count(1);
    try {
      const answer = await exchange(call, agent, { ...given, ...known, url, withoutEffect: changes === 0 });
      if (isRefusal(answer)) count(-1);
      return answer;
    } catch (error) {
      if (error instanceof RedfishError && error.effect === "NONE") count(-1);
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
    get hasActed() {
      return actions > 0;
    },
    async send(given) {
      const end = Math.min(call.deadline.getTime(), Date.now() + BUSY_SECONDS * 1000);
      for (let isFirst = true; ; isFirst = false) {
        const answer = await followed(given).catch((error: unknown) => {
          // BMCs close connections that are kept, and some do so while a request is on its way.
          if (isFirst && given.method === "GET" && hasBroken(error)) return undefined;
          throw error;
        });
        if (!answer) continue;
        const seconds = given.body instanceof Readable ? undefined : retryAfter(answer);
        if (seconds === undefined || Date.now() + seconds * 1000 > end) return answer;
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
  if (isAnsweredElsewhere(answer)) return false;
  if (status === 501 || (status >= 300 && status < 500)) return status !== 408;
  const body = resourceOf(answer.body) ?? {};
  if (status === 503) return answer.header("retry-after") !== undefined || isError(body);
  return status >= 500 && status !== 502 && status !== 504 && saysWhy(body);
}

/** Whether a request was processed, and its result is at another place of the service (RFC 9110, 15.4.4). */
export function isAnsweredElsewhere({ status, header }: HttpAnswer): boolean {
  const [location, base] = [header("location") ?? "", "http://bmc"];
  return status === 303 && URL.canParse(location, base) && new URL(location, base).pathname.startsWith("/redfish/");
}

/** Whether an answer is that of a BMC that restarts, or of the gateway in front of it. */
export function isAway({ status, body }: HttpAnswer): boolean {
  const isFull = messageKeys(resourceOf(body) ?? {}).includes("SessionLimitExceeded");
  return status === 502 || status === 504 || (status === 503 && !isFull);
}

/** Whether a change was not made, and can be sent to another place of the service; a page, as of a login, is none. */
function isMoved({ status }: HttpAnswer, { body }: HttpRequest, location: string, url: URL): boolean {
  const to = URL.canParse(location, url) ? new URL(location, url) : undefined;
  const isOfService = to?.origin === url.origin && to.pathname.startsWith("/redfish/");
  return isOfService && status !== 303 && !(body instanceof Readable);
}

/** Seconds to wait before a busy BMC is asked again; undefined if it does not name them. */
function retryAfter(answer: HttpAnswer): number | undefined {
  const given = answer.header("retry-after");
  if ((answer.status !== 503 && answer.status !== 429) || given === undefined) return undefined;
  const seconds = /^\d+$/.test(given) ? Number(given) : (Date.parse(given) - Date.now()) / 1000;
  return seconds > 0 ? seconds : 1;
}

/** A URL of the BMC; throws for one of another host, to which the login must not be sent. */
function urlOf(settings: Login, origin: string, path: string): URL {
  const url = URL.canParse(path, origin) ? new URL(path, origin) : undefined;
  if (url?.origin === new URL(origin).origin) return url;
  throw misdirected(settings, `points to another address (${url?.origin ?? "an invalid one"})`);
}

function misdirected(settings: Login, what: string): RedfishError {
  const message = `BMC ${bmcName(settings)} ${what}; set the BMC's own address, port and scheme in the node's settings.`;
  return new RedfishError({ kind: "REFUSED", message });
}

async function exchange(
  call: RedfishCall,
  agent: Agent,
  request: HttpRequest & {
    readonly url: URL;
    readonly isChange: boolean;
    readonly isAction: boolean;
    readonly withoutEffect: boolean;
    readonly hasActed: boolean;
  },
): Promise<HttpAnswer> {
  const { method, url, headers, body, task, seconds = REQUEST_SECONDS } = request;
  const { isChange, isAction, withoutEffect, hasActed } = request;
  call.signal.throwIfAborted();
  const left = (call.deadline.getTime() - Date.now()) * DEADLINE_SHARE;
  const milliseconds = Math.max(1, Math.floor(Math.min(seconds * 1000, left)));
  const limit = AbortSignal.timeout(milliseconds);
  const options = {
    dispatcher: agent,
    method,
    headers: { accept: "application/json", "accept-encoding": "gzip", "odata-version": "4.0", ...headers },
    body: body ?? null,
    signal: AbortSignal.any([call.signal, limit]),
    headersTimeout: milliseconds,
    bodyTimeout: milliseconds,
  };
  return call.timed(`redfish ${method.toLowerCase()}`, async () => {
    try {
      const answer = await sendRequest(url, options);
      const text = await unpacked(await answer.body.bytes().catch(errorBody(answer.statusCode)));
      return { status: answer.statusCode, header: (name) => [answer.headers[name]].flat()[0], body: text };
    } catch (error) {
      call.signal.throwIfAborted();
      const isPartial = body instanceof Readable && !body.readableEnded;
      const change = isChange && { change: { isPartial, isAction } };
      const failed = { bmc: bmcName(call.settings), task, withoutEffect, hasActed, ...change };
      throw connectionError(failed, limit.aborted ? limit.reason : error);
    }
  });
}

/** Some BMCs close the connection in the body of an error, whose status says enough. */
function errorBody(status: number): (error: unknown) => Uint8Array {
  return (error) => {
    if (status < 400) throw error;
    return new Uint8Array();
  };
}

/** The text of a body. BMCs compress some resources for every client, and refuse clients that do not accept that. */
async function unpacked(bytes: Uint8Array): Promise<string> {
  const isCompressed = bytes[0] === 0x1f && bytes[1] === 0x8b;
  return new TextDecoder().decode(isCompressed ? await gunzipped(bytes, { maxOutputLength: ANSWER_BYTES_MAX }) : bytes);
}

const gunzipped = promisify(gunzip);

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
