/**
 * Subscribers for subject `streams`, in a separate process so that their CPU is not counted as the service's: sockets
 * with a minimal graphql-transport-ws, which record the arrival of each transition.
 */
import { WebSocket } from "ws";

/** Messages of the parent: start subscribers; later, the time at which each commit was acknowledged. */
export type ToClients =
  | { readonly start: { readonly url: string; readonly count: number; readonly query: "shared" | "separate" } }
  | { readonly commits: readonly (readonly [cursor: number, at: number])[] };
/** Replies: all subscribers are live; then the latencies over all transitions and subscribers, in ms. */
export type FromClients =
  | { readonly live: true }
  | { readonly p50: number; readonly p99: number; readonly worst: number; readonly missing: number };

/** Number of sockets that are opened at a time. */
const OPENING = 50;
const CURSOR = /"cursor":"(\d+)/;

const now = () => performance.timeOrigin + performance.now();
const documentOf = (name: string) =>
  `subscription ${name} { nodeTransitions { __typename ... on Transition { cursor nodeUuid nodeName sequence from to event at } ... on StreamBookmark { caughtUp } } }`;

/** Cursor → its arrival times at the subscribers. */
const arrivals = new Map<number, number[]>();

function open(url: string, query: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, "graphql-transport-ws");
    socket.on("open", () => socket.send('{"type":"connection_init"}'));
    socket.on("error", reject);
    socket.on("message", (data: Buffer) => {
      const at = now();
      const text = data.toString("latin1");
      const cursor = CURSOR.exec(text)?.[1];
      if (cursor !== undefined) {
        const times = arrivals.get(Number(cursor)) ?? [];
        if (times.push(at) === 1) arrivals.set(Number(cursor), times);
      } else if (text.includes("connection_ack"))
        socket.send(JSON.stringify({ type: "subscribe", id: "1", payload: { query } }));
      else if (text.includes('"caughtUp":true')) resolve();
    });
  });
}

async function start({ url, count, query }: Extract<ToClients, { start: unknown }>["start"]): Promise<void> {
  let opened = 0;
  const lane = async () => {
    while (opened < count) {
      opened += 1;
      await open(url, documentOf(query === "separate" ? `Subscriber${opened}` : "Subscriber"));
    }
  };
  await Promise.all(Array.from({ length: OPENING }, lane));
}

const reply = (message: FromClients) => process.send?.(message);

process.on("message", (message: ToClients) => {
  if ("start" in message) {
    const { start: options } = message;
    start(options).then(
      () => reply({ live: true }),
      (error: unknown) => {
        throw error;
      },
    );
    count = options.count;
    return;
  }
  const latencies = message.commits.flatMap(([cursor, at]) =>
    (arrivals.get(cursor) ?? []).map((arrival) => Math.max(0, arrival - at)),
  );
  const sorted = Float64Array.from(latencies).toSorted();
  const share = (part: number) =>
    sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)] ?? Number.NaN;
  reply({
    p50: share(0.5),
    p99: share(0.99),
    worst: share(1),
    missing: message.commits.length * count - sorted.length,
  });
});
let count = 0;
