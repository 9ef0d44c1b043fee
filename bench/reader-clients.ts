/**
 * Readers for subject `readers`, in a separate process: sockets that read the whole log from cursor "0", and again from
 * its beginning as soon as they are through, so that there are catching-up streams for as long as it takes to measure.
 */
import { WebSocket } from "ws";

/** Messages of the parent: open this many readers; later, end. */
export type ToReaders = { readonly start: { readonly url: string; readonly count: number } } | { readonly end: true };
/** Replies: all readers have received items; then the number of items that all of them received. */
export type FromReaders = { readonly reading: true } | { readonly items: number; readonly rounds: number };

const QUERY =
  'subscription { nodeTransitions(after: "0") { __typename ... on Transition { cursor nodeUuid nodeName sequence from to event at } ... on StreamBookmark { caughtUp } } }';

let items = 0;
let rounds = 0;

function read(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, "graphql-transport-ws");
    let id = 0;
    const subscribe = () => {
      id += 1;
      socket.send(JSON.stringify({ type: "subscribe", id: String(id), payload: { query: QUERY } }));
    };
    socket.on("open", () => socket.send('{"type":"connection_init"}'));
    socket.on("error", reject);
    socket.on("message", (data: Buffer) => {
      const text = data.toString("latin1");
      if (text.includes('"cursor":')) {
        items += 1;
        resolve();
      } else if (text.includes("connection_ack")) subscribe();
      else if (text.includes('"caughtUp":true')) {
        rounds += 1;
        socket.send(JSON.stringify({ type: "complete", id: String(id) }));
        subscribe();
      }
    });
  });
}

const reply = (message: FromReaders) => process.send?.(message);

process.on("message", (message: ToReaders) => {
  if ("end" in message) return void reply({ items, rounds });
  const { url, count } = message.start;
  Promise.all(Array.from({ length: count }, () => read(url))).then(
    () => reply({ reading: true }),
    (error: unknown) => {
      throw error;
    },
  );
});
