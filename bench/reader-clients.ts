/**
 * Readers for the subjects `readers` and `behind`, in a separate process. `start`: sockets that read a whole log from
 * its beginning, and again from its beginning as soon as they are through, so that there are catching-up streams for as
 * long as it takes to measure. `catchUp`: sockets that each read changes of nodes from a cursor until they have caught
 * up, each with a filter of its own, which every node matches, so that they share nothing.
 */
import { WebSocket } from "ws";

interface Start {
  readonly url: string;
  readonly count: number;
}

/** Streams that `start` can read. */
export type ReadStream = "nodeTransitions" | "nodeChanges";

/** Messages of the parent: open this many readers; later, end. */
export type ToReaders =
  | { readonly start: Start & { readonly stream: ReadStream } }
  | { readonly catchUp: Start & { readonly after: string } }
  | { readonly end: true };
/** Replies: all readers have received items; then, or when all have caught up, the number of items of all of them. */
export type FromReaders = { readonly reading: true } | { readonly items: number; readonly rounds: number };

const TRANSITIONS =
  'subscription { nodeTransitions(after: "0") { __typename ... on Transition { cursor nodeUuid nodeName sequence from to event at } ... on StreamBookmark { caughtUp } } }';

const CHANGES = `subscription Behind($after: String, $filter: NodeFilter) {
  nodeChanges(after: $after, filter: $filter) {
    __typename
    ... on NodeUpserted { cursor changed node { id name state revision description labels { key value } } }
    ... on NodeLeft { cursor id }
    ... on StreamBookmark { cursor caughtUp }
    ... on StreamReset { cursor code }
  }
}`;

let items = 0;
let rounds = 0;

function read(url: string, stream: ReadStream): Promise<void> {
  const payload =
    stream === "nodeChanges" ? { query: CHANGES, variables: { after: "c0", filter: null } } : { query: TRANSITIONS };
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, "graphql-transport-ws");
    let id = 0;
    const subscribe = () => {
      id += 1;
      socket.send(JSON.stringify({ type: "subscribe", id: String(id), payload }));
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

function catchUp(url: string, after: string, index: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, "graphql-transport-ws");
    const variables = { after, filter: { not: { hostGroup: `reader-${index}` } } };
    socket.on("open", () => socket.send('{"type":"connection_init"}'));
    socket.on("error", reject);
    socket.on("message", (data: Buffer) => {
      const text = data.toString("latin1");
      if (text.includes('"NodeUpserted"')) items += 1;
      else if (text.includes("connection_ack"))
        socket.send(JSON.stringify({ type: "subscribe", id: "1", payload: { query: CHANGES, variables } }));
      else if (text.includes('"caughtUp":true')) {
        socket.close();
        resolve();
      } else if (!text.includes('"StreamBookmark"')) reject(new Error(`A reader received ${text}`));
    });
  });
}

const reply = (message: FromReaders) => process.send?.(message);

process.on("message", (message: ToReaders) => {
  if ("end" in message) return void reply({ items, rounds });
  const fail = (error: unknown) => {
    throw error;
  };
  if ("catchUp" in message) {
    const { url, count, after } = message.catchUp;
    const all = Array.from({ length: count }, (_, index) => catchUp(url, after, index));
    return void Promise.all(all).then(() => reply({ items, rounds }), fail);
  }
  const { url, count, stream } = message.start;
  Promise.all(Array.from({ length: count }, () => read(url, stream))).then(() => reply({ reading: true }), fail);
});
