/**
 * A client that subscribes again whenever its connection is lost, over WebSocket or server-sent events, by a proxy that
 * can cut the connection. Does not depend on a test runner; scripts use it too.
 */
import { setTimeout as delay } from "node:timers/promises";
import { createClient } from "graphql-ws";
import { WebSocket } from "ws";
import { cutter } from "../support/cutter.ts";

export type Transport = "WebSocket" | "server-sent events";

export interface Subscription {
  readonly query: string;
  readonly variables: Readonly<Record<string, unknown>>;
}

export interface Subscriber {
  /** Cuts the connection; false when there is none at the moment. */
  cut(): boolean;
  close(): Promise<void>;
}

export interface SubscriberOptions<Data> {
  readonly url: string;
  readonly transport: Transport;
  /** The subscription of the next connection. */
  next(): Subscription;
  take(data: Data): void;
  /** Called with an error that a cut does not explain. */
  onFault(message: string): void;
}

interface Answer<Data> {
  readonly data?: Data | null;
  readonly errors?: readonly { readonly message: string }[];
}

/** Errors that a cut does not explain. */
class FaultError extends Error {}

const RECONNECT_MS = 5;

export async function subscribe<Data>(options: SubscriberOptions<Data>): Promise<Subscriber> {
  const { transport, next, take, onFault } = options;
  const proxy = await cutter(options.url);
  const url = `${proxy.url}/graphql`;
  let isClosed = false;
  const loop = (async () => {
    while (!isClosed) {
      const read = transport === "WebSocket" ? bySocket<Data> : byEvents<Data>;
      try {
        for await (const { data, errors } of read(url, next())) {
          if (errors) throw new FaultError(errors.map(({ message }) => message).join(" "));
          if (data) take(data);
        }
      } catch (error) {
        if (error instanceof FaultError) onFault(error.message);
        // graphql-ws rejects with the list of errors of a subscription that is refused.
        else if (Array.isArray(error)) onFault(JSON.stringify(error));
      }
      if (!isClosed) await delay(RECONNECT_MS);
    }
  })();
  return {
    cut: () => proxy.cut() > 0,
    async close() {
      isClosed = true;
      await proxy[Symbol.asyncDispose]();
      await loop;
    },
  };
}

async function* bySocket<Data>(url: string, { query, variables }: Subscription): AsyncGenerator<Answer<Data>> {
  const client = createClient({
    url: url.replace("http", "ws"),
    webSocketImpl: WebSocket,
    retryAttempts: 0,
    lazy: true,
  });
  try {
    for await (const { data, errors } of client.iterate<Data>({ query, variables }))
      yield { ...(data !== undefined && { data }), ...(errors && { errors }) };
  } finally {
    await client.dispose();
  }
}

async function* byEvents<Data>(url: string, subscription: Subscription): AsyncGenerator<Answer<Data>> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "text/event-stream" },
    body: JSON.stringify(subscription),
  });
  if (!response.ok || !response.body) throw new FaultError(`The stream was answered with ${response.status}.`);
  let pending = "";
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const whole = (pending + chunk).split("\n\n");
    pending = whole.pop() ?? "";
    for (const event of whole) {
      const text = /^data: (.+)$/m.exec(event)?.[1];
      if (text !== undefined) yield JSON.parse(text) as Answer<Data>;
    }
  }
}
