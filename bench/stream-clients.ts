/**
 * Subscribers for subject `streams`, in a process of their own so that their work is not counted as the service's: bare
 * sockets that speak just enough of graphql-transport-ws, and note when each transition came to each of them.
 */
import { WebSocket } from "ws";

/** What the parent says: who to be, then when each commit was acknowledged. */
export type ToClients =
  | { readonly be: { readonly url: string; readonly count: number; readonly query: "one for all" | "one each" } }
  | { readonly commits: readonly (readonly [cursor: number, at: number])[] };
/** What is answered: that all are live; then how long each transition took to each subscriber, in ms. */
export type FromClients =
  | { readonly live: true }
  | { readonly p50: number; readonly p99: number; readonly worst: number; readonly missing: number };

/** Sockets that are opened at a time. */
const OPENING = 50;
const CURSOR = /"cursor":"(\d+)"/;

const now = () => performance.timeOrigin + performance.now();
const documentOf = (name: string) =>
  `subscription ${name} { nodeTransitions { __typename ... on Transition { cursor nodeUuid nodeName sequence from to event at } ... on StreamBookmark { caughtUp } } }`;

/** Cursor → when it came to whom. */
const arrivals = new Map<number, number[]>();

function open(url: string, query: string): Promise<void> {
  return new Promise((live, fail) => {
    const socket = new WebSocket(url, "graphql-transport-ws");
    socket.on("open", () => socket.send('{"type":"connection_init"}'));
    socket.on("error", fail);
    socket.on("message", (data: Buffer) => {
      const at = now();
      const text = data.toString("latin1");
      const cursor = CURSOR.exec(text)?.[1];
      if (cursor !== undefined) {
        const came = arrivals.get(Number(cursor)) ?? [];
        if (came.push(at) === 1) arrivals.set(Number(cursor), came);
      } else if (text.includes("connection_ack"))
        socket.send(JSON.stringify({ type: "subscribe", id: "1", payload: { query } }));
      else if (text.includes('"caughtUp":true')) live();
    });
  });
}

async function be({ url, count, query }: Extract<ToClients, { be: unknown }>["be"]): Promise<void> {
  let begun = 0;
  const lane = async () => {
    while (begun < count) {
      begun += 1;
      await open(url, documentOf(query === "one each" ? `Subscriber${begun}` : "Subscriber"));
    }
  };
  await Promise.all(Array.from({ length: OPENING }, lane));
}

const tell = (message: FromClients) => process.send?.(message);

process.on("message", (message: ToClients) => {
  if ("be" in message) {
    const { be: whom } = message;
    be(whom).then(
      () => tell({ live: true }),
      (error: unknown) => {
        throw error;
      },
    );
    count = whom.count;
    return;
  }
  const latencies = message.commits.flatMap(([cursor, at]) =>
    (arrivals.get(cursor) ?? []).map((came) => Math.max(0, came - at)),
  );
  const sorted = Float64Array.from(latencies).toSorted();
  const share = (part: number) =>
    sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)] ?? Number.NaN;
  tell({ p50: share(0.5), p99: share(0.99), worst: share(1), missing: message.commits.length * count - sorted.length });
});
let count = 0;
