/**
 * A subscriber that can stop reading: it then leaves what comes in the buffers of the kernel, as a client does whose
 * program hangs, or whose machine sleeps. Over WebSocket or server-sent events, without a library in between that
 * would read on.
 */
import { Agent, request } from "node:http";
import type { IncomingMessage } from "node:http";
import { WebSocket } from "ws";
import type { Transport } from "../durability/subscriber.ts";

export interface SubscriptionBody {
  readonly query: string;
  readonly variables?: Readonly<Record<string, unknown>>;
}

export interface StoppingReader {
  /** Settles with the first message of the subscription, or when the connection has ended. */
  readonly first: Promise<void>;
  /** How the connection ended, as far as the reader has read: the close code of the socket, or `ended`. */
  readonly ended: Promise<number | "ended">;
  /** Reads nothing more. */
  stop(): void;
  /** Reads on. */
  resume(): void;
  end(): void;
}

/** `onMessage` is called with the text of each result, such as `{"data":…}`. */
export function openReader(
  transport: Transport,
  url: string,
  body: SubscriptionBody,
  onMessage: (text: string, reader: StoppingReader) => void = () => {},
): StoppingReader {
  return transport === "WebSocket" ? overSocket(url, body, onMessage) : overEvents(url, body, onMessage);
}

type OnMessage = (text: string, reader: StoppingReader) => void;

/** The beginning of a result of graphql-transport-ws. */
const NEXT = /^\{"id":"1","type":"next","payload":|^\{"type":"next","id":"1","payload":/;

function overSocket(url: string, body: SubscriptionBody, onMessage: OnMessage): StoppingReader {
  const first = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<number>();
  const socket = new WebSocket(`${url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
  const reader: StoppingReader = {
    first: first.promise,
    ended: ended.promise,
    stop: () => socket.pause(),
    resume: () => socket.resume(),
    end: () => socket.terminate(),
  };
  // The end follows.
  socket.on("error", () => {});
  socket.on("close", (code) => {
    first.resolve();
    ended.resolve(code);
  });
  socket.on("open", () => socket.send('{"type":"connection_init"}'));
  socket.on("message", (data: Buffer) => {
    const text = data.toString();
    if (text.includes('"connection_ack"'))
      return socket.send(JSON.stringify({ type: "subscribe", id: "1", payload: body }));
    const next = NEXT.exec(text)?.[0];
    if (next === undefined) return;
    onMessage(text.slice(next.length, -1), reader);
    first.resolve();
  });
  return reader;
}

function overEvents(url: string, body: SubscriptionBody, onMessage: OnMessage): StoppingReader {
  const first = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<"ended">();
  const end = () => {
    first.resolve();
    ended.resolve("ended");
  };
  let response: IncomingMessage | undefined;
  const asked = request(new URL("/graphql", url), {
    method: "POST",
    agent: new Agent(),
    headers: { "content-type": "application/json", accept: "text/event-stream" },
  });
  const reader: StoppingReader = {
    first: first.promise,
    ended: ended.promise,
    stop: () => void response?.pause(),
    resume: () => void response?.resume(),
    end: () => void asked.destroy(),
  };
  let pending = "";
  asked.on("error", end);
  asked.on("response", (answered) => {
    response = answered;
    answered.setEncoding("utf8");
    answered.on("error", end);
    answered.on("close", end);
    answered.on("data", (chunk: string) => {
      const events = (pending + chunk).split("\n\n");
      pending = events.pop() ?? "";
      for (const event of events) {
        const text = /^data: (\{.+)$/m.exec(event)?.[1];
        if (text === undefined) continue;
        onMessage(text, reader);
        first.resolve();
      }
    });
  });
  asked.end(JSON.stringify(body));
  return reader;
}
