/**
 * The baseline of subject `streams`, without GraphQL: it follows the same tail of the log, stringifies each row once
 * and sends it to all subscribers, even to those that cannot keep up. `node bare-broadcast.ts <database url>`
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { WebSocketServer } from "ws";
import type { WebSocket } from "ws";
import { createTail } from "../src/feed/log/tail.ts";
import { createLog } from "../src/log.ts";
import { createNotifier } from "../src/store/postgres/notifier.ts";
import { openDatabase } from "../src/store/postgres/database.ts";

const PAGE = 100;

const database = await openDatabase({ connection: { url: process.argv[2] ?? "" } });
const notifier = await createNotifier(database, () => {});
const tail = await createTail({ database, notifier, log: createLog("error") });
const server = createServer();
const subscribers = new Set<WebSocket>();

new WebSocketServer({ server, perMessageDeflate: false }).on("connection", (socket) => {
  socket.on("message", (data: Buffer) => {
    if (data.includes("connection_init")) socket.send('{"type":"connection_ack"}');
    else {
      subscribers.add(socket);
      socket.send(
        '{"id":"1","type":"next","payload":{"data":{"nodeTransitions":{"__typename":"StreamBookmark","caughtUp":true}}}}',
      );
    }
  });
});

let sent = tail.head;
tail.onAdvance(() => {
  for (const { position, nodeId, nodeName, sequence, fromState, toState, event, at } of tail.recent(sent, PAGE) ?? []) {
    const transition = {
      __typename: "Transition",
      cursor: String(position),
      uuid: nodeId,
      sequence,
      nodeName,
      from: fromState,
      to: toState,
      event,
      at,
    };
    const message = `{"id":"1","type":"next","payload":${JSON.stringify({ data: { nodeTransitions: transition } })}}`;
    for (const socket of subscribers) socket.send(message);
    sent = position;
  }
});

server.listen(0, "127.0.0.1", () =>
  console.log(`Ostler is ready: http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`),
);
