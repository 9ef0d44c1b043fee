/**
 * Followers of `nodeChanges` for the subject `relabel`, in a process of their own, so that their CPU is not the
 * service's: sockets with a minimal graphql-transport-ws, which count the nodes that they receive with the new label.
 */
import { WebSocket } from "ws";

export interface Follower {
  readonly variables: object;
  /** Number of nodes that its filter matches. */
  readonly nodes: number;
}

/** Messages of the parent: open these followers; wait until each has all its nodes with this label. */
export type ToClients =
  | { readonly open: { readonly url: string; readonly query: string; readonly followers: readonly Follower[] } }
  | { readonly awaited: string };

/** Replies: all followers are live; all have all their nodes. Times are of the wall clock, in milliseconds. */
export type FromClients =
  | { readonly live: true }
  | {
      readonly firstAt: number;
      readonly medianAt: number;
      readonly lastAt: number;
      readonly items: number;
      readonly bytes: number;
      /** Items of nodes that a follower already had with the label, or that its filter does not match. */
      readonly surplus: number;
    };

const OPENING = 25;
const ID = /"node":\{"id":"([^"]+)"/;

interface State {
  readonly follower: Follower;
  readonly seen: Set<string>;
}

const states: State[] = [];
const completeAt: number[] = [];
let awaited = "";
let [items, bytes, surplus] = [0, 0, 0];

const now = () => performance.timeOrigin + performance.now();
const reply = (message: FromClients) => process.send?.(message);

function take({ follower, seen }: State, text: string): void {
  const id = ID.exec(text)?.[1];
  if (id === undefined || awaited === "" || !text.includes(awaited)) return;
  items += 1;
  bytes += text.length;
  if (seen.has(id) || seen.size === follower.nodes) {
    surplus += 1;
    return;
  }
  seen.add(id);
  if (seen.size < follower.nodes) return;
  completeAt.push(now());
  if (completeAt.length < states.length) return;
  const [firstAt = 0] = completeAt;
  reply({
    firstAt,
    medianAt: completeAt[Math.floor(completeAt.length / 2)] ?? firstAt,
    lastAt: completeAt.at(-1) ?? firstAt,
    items,
    bytes,
    surplus,
  });
}

function open(url: string, query: string, follower: Follower): Promise<void> {
  const state: State = { follower, seen: new Set() };
  states.push(state);
  return new Promise((resolve, reject) => {
    const options = { perMessageDeflate: false, skipUTF8Validation: true };
    const socket = new WebSocket(`${url.replace("http", "ws")}/graphql`, "graphql-transport-ws", options);
    socket.on("open", () => socket.send('{"type":"connection_init"}'));
    socket.on("error", reject);
    socket.on("close", (code) => {
      throw new Error(`A follower was disconnected with ${code}.`);
    });
    socket.on("message", (data: Buffer) => {
      const text = data.toString("latin1");
      if (text.includes("NodeUpserted")) take(state, text);
      else if (text.includes("connection_ack"))
        socket.send(JSON.stringify({ type: "subscribe", id: "1", payload: { query, variables: follower.variables } }));
      else if (text.includes('"caughtUp":true')) resolve();
      else if (/"errors"|"code"/.test(text)) throw new Error(`A follower received ${text}`);
    });
  });
}

async function openAll({ url, query, followers }: Extract<ToClients, { open: unknown }>["open"]): Promise<void> {
  let opened = 0;
  const lane = async () => {
    for (let follower = followers[opened++]; follower; follower = followers[opened++]) await open(url, query, follower);
  };
  await Promise.all(Array.from({ length: OPENING }, lane));
  reply({ live: true });
}

process.on("message", (message: ToClients) => {
  if ("awaited" in message) {
    ({ awaited } = message);
    return;
  }
  openAll(message.open).catch((error: unknown) => {
    throw error;
  });
});
