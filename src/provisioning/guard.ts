/**
 * The limits that every request of a machine passes: on rejected requests, on requests that use the database at the
 * same time, and on transfers. Machines have no login before they have a session, so anything can call.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { readBody, refuseBody, sendJson } from "../http/graphql/respond.ts";
import { createSlots } from "../runtime/concurrency.ts";
import { parseReport } from "../runtime/exact-json.ts";
import { createRejectionLimit } from "../runtime/rejection-limit.ts";
import { admit, createFairPlaces } from "../runtime/fair-places.ts";
import type { FairPlaces } from "../runtime/fair-places.ts";
import { addressOf } from "../runtime/ip-addresses.ts";

/** Maximum wait of a request that uses the database, in milliseconds. */
const WAIT_MS = 5_000;
const RETRY_SECONDS = 5;

const LIMITS = {
  /** Maximum number of requests that use the database at the same time, and of waiting ones. */
  atOnceMax: 8,
  waitingMax: 1_000,
  /** Rejected requests of one address. Generous: machines behind a NAT or a proxy share an address. */
  rejectedBurst: 200,
  rejectedPerSecond: 10,
  /** Requests of one address without a secret that use the database: boot scripts and reports of leases. */
  openBurst: 200,
  openPerSecond: 10,
  /** Maximum number of connections; addresses share them. */
  connectionsMax: 2_000,
  /** Maximum number of files that are sent at the same time, and to one address; the same for results that are read. */
  downloadsMax: 64,
  downloadsPerAddressMax: 24,
};

export type GuardLimits = Readonly<typeof LIMITS>;

export type Guard = ReturnType<typeof createGuard>;

export function createGuard(given: Partial<GuardLimits> = {}) {
  const limits = { ...LIMITS, ...given };
  const slots = createSlots(limits.atOnceMax, limits.waitingMax, WAIT_MS);
  const rejections = createRejectionLimit(limits.rejectedBurst, limits.rejectedPerSecond);
  const open = createRejectionLimit(limits.openBurst, limits.openPerSecond);
  const { downloadsMax: most, downloadsPerAddressMax: perAddress } = limits;
  const connections = createFairPlaces(limits.connectionsMax);
  const downloads = createFairPlaces(most, { perAddress });
  const uploads = createFairPlaces(most, { perAddress });
  const start = (places: FairPlaces, request: IncomingMessage, response: ServerResponse) => {
    const end = places.take(addressOf(request.socket), () => request.socket.destroy());
    if (!end) refuse(request, response, 503, "Too many transfers are running");
    return end;
  };

  return {
    /** Gives a connection its place, or ends it. */
    admit: (socket: Socket) => void admit(connections, socket),
    /** Whether a request with a secret may be tried; answers it otherwise. */
    mayTry(request: IncomingMessage, response: ServerResponse): boolean {
      if (rejections.mayTry(addressOf(request.socket))) return true;
      refuse(request, response, 429, "This address has sent too many rejected requests");
      return false;
    },
    countRejected(request: IncomingMessage): void {
      rejections.count(addressOf(request.socket));
    },
    /** Whether a request without a secret may be tried; answers it otherwise. */
    mayAsk(request: IncomingMessage, response: ServerResponse): boolean {
      const address = addressOf(request.socket);
      if (open.mayTry(address)) {
        open.count(address);
        return true;
      }
      refuse(request, response, 429, "This address has sent too many requests");
      return false;
    },
    /** The result of `ask`, which uses the database; null if the request was answered because too many wait. */
    async ask<Result>(
      request: IncomingMessage,
      response: ServerResponse,
      ask: () => Promise<Result>,
    ): Promise<{ readonly found: Result } | null> {
      const release = await slots.take();
      if (!release) {
        refuse(request, response, 503, "Too many requests are waiting");
        return null;
      }
      try {
        return { found: await ask() };
      } finally {
        release();
      }
    },
    /** Counts the sending of a file until the result is called; null if the request was refused. */
    startDownload: (request: IncomingMessage, response: ServerResponse) => start(downloads, request, response),
    /** Counts the reading of a large body until the result is called; null if the request was refused. */
    startUpload: (request: IncomingMessage, response: ServerResponse) => start(uploads, request, response),
  };
}

/** The JSON value of a body, if it has at most `bytesMax`; undefined if the request was refused. */
export async function readJson(
  request: IncomingMessage,
  response: ServerResponse,
  bytesMax: number,
): Promise<{ readonly value: unknown } | undefined> {
  const body = await readText(request, response, bytesMax);
  if (body === undefined) return undefined;
  try {
    return { value: body === "" ? {} : parseReport(body) };
  } catch {
    sendJson(response, 400, { error: "The body must be JSON." });
    return undefined;
  }
}

/** The text of a body; undefined if the request was refused. */
export async function readText(
  request: IncomingMessage,
  response: ServerResponse,
  bytesMax: number,
): Promise<string | undefined> {
  const body = await readBody(request, bytesMax);
  if (body !== null) return body.toString();
  refuseBody(request, response, { error: `The body has more than ${bytesMax} bytes.` });
  return undefined;
}

/** The response to unknown paths, and to unknown or wrong secrets in a path. */
export function refuseUnknown(request: IncomingMessage, response: ServerResponse): void {
  request.resume();
  sendJson(response, 404, { error: "There is nothing at this address." });
}

/** The response to unknown sessions and to wrong secrets: it must not reveal which sessions exist. */
export function refuseBearer(request: IncomingMessage, response: ServerResponse): void {
  request.resume();
  response.setHeader("www-authenticate", "Bearer");
  sendJson(response, 401, { error: "The session is unknown, or its secret is wrong." });
}

export function refuse(request: IncomingMessage, response: ServerResponse, status: number, why: string): void {
  request.resume();
  response.setHeader("retry-after", String(RETRY_SECONDS));
  sendJson(response, status, { error: `${why}. Try again in ${RETRY_SECONDS} s.` });
}
