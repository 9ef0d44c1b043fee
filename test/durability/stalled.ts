/**
 * `npm run tool -- stalled`: readers that do not read. One healthy subscriber receives 20 transitions a second.
 * Meanwhile 100 others (half over WebSocket, half over server-sent events) stop reading after their first item and
 * reconnect whenever they are disconnected, one reads a row a second, and 10,000 connect and disconnect. Prints the
 * memory of the service and the latency of the healthy subscriber every ten seconds. Finally memory is at its initial
 * value, and the healthy subscriber has missed nothing.
 *
 * Options: --seconds 180 --readers 100 --leavers 10000.
 */
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { WebSocket } from "ws";
import { move } from "../support/moves.ts";
import { openServedLab } from "./served-lab.ts";
import type { ServedLab } from "./served-lab.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "180" },
    readers: { type: "string", default: "100" },
    leavers: { type: "string", default: "10000" },
  },
});
const SECONDS = Number(values.seconds);
const READERS = Number(values.readers);
const LEAVERS = Number(values.leavers);
const NODES = 100;
const EVERY_MS = 50;
const REPORT_MS = 10_000;
/** Pause before the readers connect, and after they have disconnected. */
const QUIET_MS = 15_000;
const LEAVING_AT_A_TIME = 10;
/** Allowed growth of the service's memory, in MB of heap and buffers. */
const GROWTH_MAX = 40;
const CALLER = { actor: "stalled", project: "default", scope: "ADMIN" as const };

/** Each item has 20 kB, so that the buffers fill quickly. */
const HEAVY =
  "subscription Heavy { nodeTransitions { __typename ... on Transition { cursor node { cluster { variables } } } } }";
const LIGHT = "subscription Light { nodeTransitions { __typename ... on Transition { cursor } } }";
const CURSOR = /"cursor":"(\d+)/;

let over = false;
const committedAt = new Map<number, number>();

/** Opens a socket and subscribes; `onItem` is called with each message from the first item on. */
async function subscribeBySocket(
  url: string,
  query: string,
  onItem: (socket: WebSocket, text: string) => void,
): Promise<WebSocket> {
  const socket = new WebSocket(`${url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
  socket.on("error", () => {});
  socket.on("message", (data: Buffer) => {
    const text = data.toString("latin1");
    if (text.includes("connection_ack"))
      socket.send(JSON.stringify({ type: "subscribe", id: "1", payload: { query } }));
    else onItem(socket, text);
  });
  await once(socket, "open");
  socket.send('{"type":"connection_init"}');
  return socket;
}

function subscribeByEvents(url: string, query: string) {
  const { hostname, port, host } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  const body = JSON.stringify({ query });
  socket.write(
    `POST /graphql HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\naccept: text/event-stream\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  return socket;
}

/** A client that stops reading, until it is ended. */
interface Stalled {
  end(): void;
}

async function stallBySocket(url: string): Promise<Stalled> {
  const socket = await subscribeBySocket(url, HEAVY, (of) => of.pause());
  return { end: () => socket.terminate() };
}

async function stallByEvents(url: string): Promise<Stalled> {
  const socket = subscribeByEvents(url, HEAVY);
  await once(socket, "data");
  socket.pause();
  return { end: () => socket.destroy() };
}

/** Stops reading after the first item, and reconnects when it is disconnected. Returns the number of reconnects. */
async function stall(url: string, way: "socket" | "events"): Promise<number> {
  let cuts = 0;
  while (!over) {
    const socket = await (way === "socket" ? stallBySocket(url) : stallByEvents(url)).catch(() => null);
    if (!socket) {
      await delay(1_000);
      continue;
    }
    // A paused socket does not notice its end, so it polls.
    for (let waited = 0; waited < 45_000 && !over; waited += 500) await delay(500);
    socket.end();
    cuts += 1;
  }
  return cuts;
}

/** Reads for a second, then pauses for a second. */
async function readSlowly(url: string): Promise<number> {
  let rows = 0;
  while (!over) {
    const socket = subscribeByEvents(url, HEAVY);
    let isOpen = true;
    socket.on("close", () => {
      isOpen = false;
    });
    socket.on("data", (chunk: Buffer) => {
      rows += chunk.toString("latin1").split("event: next").length - 1;
      socket.pause();
    });
    while (isOpen && !over) {
      await delay(1_000);
      socket.resume();
    }
    socket.destroy();
  }
  return rows;
}

async function connectAndLeave(url: string): Promise<number> {
  let left = 0;
  const lane = async () => {
    while (left < LEAVERS && !over) {
      left += 1;
      const first = Promise.withResolvers<void>();
      const socket = await subscribeBySocket(url, LIGHT, () => first.resolve()).catch(() => null);
      if (!socket) continue;
      socket.on("close", () => first.resolve());
      // Half of them disconnect before the first message.
      if (left % 2 === 0) await first.promise;
      socket.terminate();
    }
  };
  await Promise.all(Array.from({ length: LEAVING_AT_A_TIME }, lane));
  return left;
}

/** A client that reads everything, and measures the latency. */
async function healthy(url: string): Promise<{ take(): readonly number[]; readonly seen: number[] }> {
  let waits: number[] = [];
  const seen: number[] = [];
  const ready = Promise.withResolvers<void>();
  await subscribeBySocket(url, LIGHT, (_socket, text) => {
    ready.resolve();
    const cursor = Number(CURSOR.exec(text)?.[1] ?? 0);
    if (cursor === 0) return;
    seen.push(cursor);
    const at = committedAt.get(cursor);
    waits.push(at === undefined ? 0 : performance.now() - at);
  });
  await ready.promise;
  return {
    seen,
    take() {
      const taken = waits;
      waits = [];
      return taken.toSorted((a, b) => a - b);
    },
  };
}

async function write(lab: ServedLab, ids: readonly string[]): Promise<number> {
  let position = ids.length;
  for (let index = 0; !over || index === 0; index += 1) {
    await lab.transact((work) =>
      move(work, [ids[index % ids.length] ?? ""], { from: "ENROLLED", event: "recover" }, CALLER),
    );
    committedAt.set((position += 1), performance.now());
    await delay(EVERY_MS);
  }
  return position;
}

const began = Date.now();
async function report(lab: ServedLab, what: string, waits: readonly number[]): Promise<number> {
  const { rss, heap, buffers } = await lab.memory();
  const share = (part: number) => (waits[Math.max(0, Math.ceil(part * waits.length) - 1)] ?? Number.NaN).toFixed(0);
  console.log(
    `${String(Math.round((Date.now() - began) / 1_000)).padStart(5)} s  ${what.padEnd(10)} rss ${rss.toFixed(0)} MB, heap ${heap.toFixed(1)} MB, buffers ${buffers.toFixed(1)} MB; healthy p50 ${share(0.5)} ms, p99 ${share(0.99)} ms`,
  );
  return heap + buffers;
}

await using lab = await openServedLab();
console.log(`${READERS} readers that stall for ${SECONDS} s, one that reads slowly, ${LEAVERS} that leave`);
await lab.engine.createCluster(CALLER, { name: "heavy", variables: { ballast: "x".repeat(20_000) } });
const { nodeIds } = await lab.engine.registerNodes(
  CALLER,
  Array.from({ length: NODES }, (_, index) => ({ name: `s-${index}`, driver: "fake", cluster: { name: "heavy" } })),
);
const one = await healthy(lab.url);
const writing = write(lab, nodeIds);
await delay(QUIET_MS);
const before = await report(lab, "before", one.take());

const stalling = Array.from({ length: READERS }, (_, index) => stall(lab.url, index % 2 === 0 ? "socket" : "events"));
const slow = readSlowly(lab.url);
const leaving = connectAndLeave(lab.url).then((left) => {
  console.log(`         ${left} have connected and left`);
  return left;
});
for (const until = Date.now() + SECONDS * 1_000; Date.now() < until;) {
  await delay(REPORT_MS);
  await report(lab, "meanwhile", one.take());
}
await leaving;
over = true;
const last = await writing;
await Promise.all(stalling);
console.log(`         the slow one has read ${await slow} rows`);
await delay(QUIET_MS);
const after = await report(lab, "after", one.take());

const whole =
  one.seen.every((cursor, index) => index === 0 || cursor === (one.seen[index - 1] ?? 0) + 1) &&
  one.seen.at(-1) === last;
console.log(`${whole ? "ok  " : "FAIL"} the healthy one has seen all ${one.seen.length} transitions`);
const grown = after - before;
console.log(`${grown < GROWTH_MAX ? "ok  " : "FAIL"} heap and buffers have grown by ${grown.toFixed(1)} MB`);
process.exitCode = whole && grown < GROWTH_MAX ? 0 : 1;
await lab[Symbol.asyncDispose]();
process.exit();
