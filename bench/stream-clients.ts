/**
 * Subscribers for the fan-out, in a separate process so that their CPU is not counted as the service's: sockets with a
 * minimal graphql-transport-ws, which record the arrival of each state of a node. Items have the fields `uuid` and
 * `sequence` of the node, in this order.
 */
import { setTimeout as delay } from "node:timers/promises";
import { WebSocket } from "ws";
import { percentile } from "./figures.ts";

export interface Subscription {
  readonly query: string;
  readonly variables?: object;
}

/** Messages of the parent: start subscribers; later, the time at which each commit was acknowledged. */
export type ToClients =
  | {
      readonly start: {
        readonly url: string;
        readonly count: number;
        readonly subscriptions: readonly Subscription[];
        /** Tokens that the subscribers use in turns; none if it is empty. */
        readonly tokens: readonly string[];
      };
    }
  | { readonly commits: Commits };

type Commits = readonly (readonly [state: string, at: number])[];

/**
 * The reply: over all commits and subscribers, in ms, as soon as all have arrived; empty when all subscribers are live.
 */
export interface Latencies {
  readonly p50: number;
  readonly p99: number;
  readonly worst: number;
  /** Number of arrivals that did not happen. */
  readonly missing: number;
}

/** Number of sockets that are opened at a time. */
const OPENING = 50;
/** Time after which an arrival is missing, and interval of the checks. */
const ARRIVE_MS = 20_000;
const CHECK_MS = 100;
const STATE = /"uuid":"([^"]+)","sequence":(\d+)/;

const now = () => performance.timeOrigin + performance.now();
/** State of a node → its arrival times at the subscribers. */
const arrivals = new Map<string, number[]>();
let count = 0;

function open(url: string, subscription: Subscription, token: string | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, "graphql-transport-ws");
    const payload = token === undefined ? {} : { authorization: `Bearer ${token}` };
    socket.on("open", () => socket.send(JSON.stringify({ type: "connection_init", payload })));
    socket.on("error", reject);
    socket.on("message", (data: Buffer) => {
      const at = now();
      const text = data.toString("latin1");
      const [, uuid, sequence] = STATE.exec(text) ?? [];
      if (uuid !== undefined && sequence !== undefined) {
        const times = arrivals.get(`${uuid} ${sequence}`) ?? [];
        if (times.push(at) === 1) arrivals.set(`${uuid} ${sequence}`, times);
      } else if (text.includes("connection_ack"))
        socket.send(JSON.stringify({ type: "subscribe", id: "1", payload: subscription }));
      else if (text.includes('"caughtUp":true')) resolve();
      else if (text.includes('"type":"error"')) reject(new Error(text));
    });
  });
}

async function start({
  url,
  subscriptions,
  tokens,
}: Extract<ToClients, { readonly start: unknown }>["start"]): Promise<Latencies> {
  let opened = 0;
  const lane = async () => {
    while (opened < count) {
      const subscription = subscriptions[opened % subscriptions.length] ?? { query: "" };
      const token = tokens[opened % tokens.length];
      opened += 1;
      await open(url, subscription, token);
    }
  };
  await Promise.all(Array.from({ length: OPENING }, lane));
  return latenciesOf([]);
}

/** Waits until all subscribers have received the commits. */
async function arrived(commits: Commits): Promise<Latencies> {
  const until = now() + ARRIVE_MS;
  while (missing(commits) > 0 && now() < until) await delay(CHECK_MS);
  return latenciesOf(commits);
}

function missing(commits: Commits): number {
  return commits.reduce((sum, [state]) => sum + count - (arrivals.get(state)?.length ?? 0), 0);
}

function latenciesOf(commits: Commits): Latencies {
  const latencies = commits.flatMap(([state, at]) =>
    (arrivals.get(state) ?? []).map((arrival) => Math.max(0, arrival - at)),
  );
  const [p50 = 0, p99 = 0, worst = 0] = [0.5, 0.99, 1].map((share) => percentile(latencies, share));
  return { p50, p99, worst, missing: missing(commits) };
}

process.on("message", (message: ToClients) => {
  if ("start" in message) ({ count } = message.start);
  ("start" in message ? start(message.start) : arrived(message.commits)).then(
    (latencies) => process.send?.(latencies),
    (error: unknown) => {
      throw error;
    },
  );
});
