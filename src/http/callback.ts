/**
 * Callbacks of machines: a waiting step receives a report from the holder of its token. Machines have no other login,
 * so anything can call: a token that is none costs nothing, few callbacks use the database at the same time, and an
 * address that sends many rejected ones has to wait.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { CallbackAnswer } from "../engine/views.ts";
import type { Engine } from "../engine/engine.ts";
import { isCallbackToken } from "../engine/views.ts";
import { unstorable } from "../graphql/base/storable.ts";
import { createSlots } from "../runtime/concurrency.ts";
import { parseExactly } from "../runtime/exact-json.ts";
import { createRejectionLimit } from "../runtime/rejection-limit.ts";
import type { StoredJson } from "../store/records.ts";
import { readBody, refuseBody, sendJson } from "./graphql/respond.ts";
import type { Senders } from "./port/senders.ts";

const CALLBACK_BYTES_MAX = 64 * 1024;
/**
 * Maximum number of callbacks that use the database at the same time, of waiting ones, and of their wait in
 * milliseconds.
 */
const AT_ONCE_MAX = 8;
const WAITING_MAX = 1_000;
const WAIT_MS = 5_000;
/**
 * Rejected callbacks of one address. Generous: many machines may share an address, and each may repeat its callback.
 */
const REJECTED_BURST = 1_000;
const REJECTED_PER_SECOND = 20;
const RETRY_SECONDS = 5;

export interface Callbacks {
  /** Answers a callback; `token` is the last part of its path. */
  serve(request: IncomingMessage, response: ServerResponse, token: string): Promise<void>;
}

export interface CallbackLimits {
  readonly atOnceMax: number;
  readonly waitingMax: number;
  readonly rejectedBurst: number;
  readonly rejectedPerSecond: number;
}

const LIMITS: CallbackLimits = {
  atOnceMax: AT_ONCE_MAX,
  waitingMax: WAITING_MAX,
  rejectedBurst: REJECTED_BURST,
  rejectedPerSecond: REJECTED_PER_SECOND,
};

export function createCallbacks(
  engine: Pick<Engine, "receiveCallback">,
  senders: Senders,
  { atOnceMax, waitingMax, rejectedBurst, rejectedPerSecond }: CallbackLimits = LIMITS,
): Callbacks {
  const slots = createSlots(atOnceMax, waitingMax, WAIT_MS);
  const rejections = createRejectionLimit(rejectedBurst, rejectedPerSecond);

  async function receive(token: string, value: StoredJson): Promise<CallbackAnswer | null> {
    const release = await slots.take();
    if (!release) return null;
    try {
      return await engine.receiveCallback(token, value);
    } finally {
      release();
    }
  }

  return {
    async serve(request, response, token) {
      const address = senders.addressOf(request);
      if (!isCallbackToken(token)) return unknown(request, response);
      if (!rejections.mayTry(address)) return refuseBusy(request, response, 429);
      const value = await readValue(request, response);
      if (value === undefined) return;
      const answer = await receive(token, value);
      if (answer === null) return refuseBusy(request, response, 503);
      if (answer !== "TAKEN") rejections.count(address);
      sendAnswer(request, response, answer);
    },
  };
}

/** The JSON value of the body; undefined if it was refused. */
async function readValue(request: IncomingMessage, response: ServerResponse): Promise<StoredJson | undefined> {
  const body = await readBody(request, CALLBACK_BYTES_MAX);
  if (body === null) {
    refuseBody(request, response, {
      error: `The callback has more than ${CALLBACK_BYTES_MAX} bytes. Send a shorter body.`,
    });
    return undefined;
  }
  let value: StoredJson;
  try {
    value = body.length === 0 ? {} : (parseExactly(body.toString()) as StoredJson);
  } catch {
    sendJson(response, 400, { error: "The body of a callback must be valid JSON or empty." });
    return undefined;
  }
  const flaw = unstorable(value);
  if (flaw === null) return value;
  sendJson(response, 400, { error: flaw });
  return undefined;
}

function sendAnswer(request: IncomingMessage, response: ServerResponse, answer: CallbackAnswer): void {
  switch (answer) {
    case "TAKEN":
      return sendJson(response, 202, { taken: true });
    // The same response for both: once the step has continued, a repeated report looks like a late one.
    case "LATE":
    case "DUPLICATE":
      return sendJson(response, 409, {
        error: "This callback was already received, or is too late: the step has continued. Nothing was changed.",
      });
    // The same response for both: it must not reveal which runs exist.
    case "FORGED":
    case "UNKNOWN":
      return unknown(request, response);
  }
}

function unknown(request: IncomingMessage, response: ServerResponse): void {
  request.resume();
  sendJson(response, 404, { error: "No step expects this callback. Check its URL." });
}

function refuseBusy(request: IncomingMessage, response: ServerResponse, status: 429 | 503): void {
  request.resume();
  response.setHeader("retry-after", String(RETRY_SECONDS));
  const why = status === 429 ? "This address has sent too many rejected callbacks" : "Too many callbacks are waiting";
  sendJson(response, status, { error: `${why}. Nothing was done; send the callback again in ${RETRY_SECONDS} s.` });
}
