/**
 * The subscribers: a process without faults. Half of them use WebSocket, half server-sent events, and half of each the
 * tokens of accounts. Some filter, some stop reading for a while, and all of them disconnect now and then and resume at
 * another replica with their last cursor. Everything that they receive is recorded.
 */
import { setTimeout as delay } from "node:timers/promises";
import { createClient } from "graphql-ws";
import { WebSocket } from "ws";
import { z } from "zod";
import { chance } from "../durability/lab.ts";
import type { Chance } from "../durability/lab.ts";
import { runIdOf } from "./graphql-request.ts";
import { START, obey } from "./control.ts";
import { clock, record } from "./records.ts";
import type { Open } from "./records.ts";
import { credentialOf, someAccount } from "./tokens.ts";

const COMMAND = z.discriminatedUnion("do", [
  START.extend({ streams: z.number() }),
  // Whether some readers stop reading now and then.
  z.object({ do: z.literal("stall"), stalls: z.boolean() }),
  // Waits until every subscriber has reached the position, or until the time is over.
  z.object({ do: z.literal("catch-up"), position: z.number(), withinMs: z.number() }),
]);
export type WatchersCommand = z.infer<typeof COMMAND>;

export interface WatchersCount {
  readonly items: number;
  readonly opened: number;
  /** Subscribers that did not reach the position in time. */
  readonly behind: readonly string[];
}

type StreamMessage =
  | ({
      readonly __typename: "Transition";
      readonly operation?: { readonly uuid: string } | null;
      readonly run?: { readonly id: string } | null;
    } & Readonly<Record<"cursor" | "nodeUuid" | "nodeName" | "event" | "actor" | "at", string>> &
      Readonly<Record<"from" | "to" | "step" | "reason", string | null>> & { readonly sequence: number })
  | { readonly __typename: "StreamBookmark"; readonly cursor: string; readonly caughtUp: boolean }
  | { readonly __typename: "StreamReset"; readonly cursor: string; readonly code: string }
  | { readonly __typename: "NodeSnapshot"; readonly cursor: string };

const QUERY = (
  isFull: boolean,
) => `subscription ($after: String, $filter: NodeFilter) { nodeTransitions(after: $after, filter: $filter) {
  __typename
  ... on Transition { cursor nodeUuid nodeName sequence from to event step actor reason at ${isFull ? "operation { uuid } run { id }" : ""} }
  ... on StreamBookmark { cursor caughtUp }
  ... on StreamReset { cursor code }
} }`;
/** Shortest and longest stay at one replica, in milliseconds. */
const STAY_MS = [2_000, 60_000] as const;
const STALL_MS = [2_000, 40_000] as const;
const CONNECT_MS = 5_000;
const PAUSE_MS = 800;

/** One connection. `pause` stops reading for a while. */
interface Connection {
  readonly items: AsyncIterator<StreamMessage>;
  pause(milliseconds: number): Promise<void>;
  close(): void;
}

interface Subscriber {
  readonly name: string;
  readonly isFiltered: boolean;
  position(): number;
}

type Handler = (command: WatchersCommand) => Promise<unknown>;
let handle: Handler = (command) => {
  if (command.do !== "start") throw new Error("The subscribers have not been started.");
  handle = createWatchers(command);
  return Promise.resolve();
};
let end: () => Promise<void> = () => Promise.resolve();

function createWatchers({ seed, folder, urls, streams }: Extract<WatchersCommand, { do: "start" }>): Handler {
  const written = record(folder, "streams");
  const replicas = Object.keys(urls);
  const count = { items: 0, opened: 0 };
  let isOver = false;
  let stalls = false;
  const shutdown = new AbortController();
  const subscribers = Array.from({ length: streams }, (_, index) =>
    subscribe(`watcher${index + 1}`, index, chance(seed * 2_000 + index)),
  );

  function subscribe(name: string, index: number, random: Chance): Subscriber & { readonly over: Promise<void> } {
    const transport = index % 2 === 0 ? "ws" : "sse";
    const filter: Open["filter"] =
      index % 5 === 4 ? { labels: [{ key: "group", value: `g${random.whole(0, 4)}` }] } : null;
    let position = 0;

    async function visit(): Promise<void> {
      count.opened += 1;
      const stream = `s${count.opened}`;
      const replica = random.one(replicas);
      const isStalling = stalls && random.often(0.15);
      const after = String(position);
      const { account, tokenId, token } = credentialOf(folder, someAccount(folder, random, index % 4 >= 2 ? 1 : 0));
      written.write({
        t: clock(),
        k: "open",
        stream,
        client: name,
        replica,
        transport,
        after,
        afterPosition: position,
        filter,
        stalls: isStalling,
        account,
        tokenId,
      });
      const close = (code: string, detail: string | null) =>
        written.write({ t: clock(), k: "end", stream, code, detail });
      // Fields that are read for each item are requested by few subscribers, so that the others keep up.
      const isFull = index % 10 === 0;
      const connection = (transport === "ws" ? overWebSocket : overEvents)(
        { url: urls[replica] ?? "", token },
        { after, ...(filter && { filter }) },
        isFull,
      );
      let hasDisconnected = false;
      const disconnect = () => {
        hasDisconnected = true;
        connection.close();
      };
      const timer = setTimeout(disconnect, random.whole(...STAY_MS));
      shutdown.signal.addEventListener("abort", disconnect);
      if (isStalling) void delay(random.whole(500, 5_000)).then(() => connection.pause(random.whole(...STALL_MS)));
      try {
        for (;;) {
          const { done, value } = await connection.items.next();
          if (done || hasDisconnected) return close(hasDisconnected ? "LEFT" : "COMPLETE", null);
          if (value.__typename === "StreamReset") return close(value.code, value.cursor);
          position = Number.parseInt(value.cursor, 10);
          take(stream, value);
        }
      } catch (error) {
        const reason = reasonOf(error);
        if (hasDisconnected) close("LEFT", null);
        else close(DENIAL.test(reason) ? "DENIED" : "LOST", reason);
      } finally {
        clearTimeout(timer);
        shutdown.signal.removeEventListener("abort", disconnect);
        connection.close();
      }
    }

    const over = (async () => {
      while (!isOver) {
        await visit();
        await delay(random.whole(0, PAUSE_MS));
      }
    })();
    return { name, isFiltered: filter !== null, position: () => position, over };
  }

  function take(stream: string, message: Exclude<StreamMessage, { __typename: "StreamReset" }>): void {
    const t = clock();
    if (message.__typename === "NodeSnapshot") return;
    if (message.__typename === "StreamBookmark")
      return written.write({
        t,
        k: "mark",
        stream,
        position: Number.parseInt(message.cursor, 10),
        caughtUp: message.caughtUp,
      });
    count.items += 1;
    const { cursor, nodeUuid, nodeName, sequence, from, to, event, step, actor, reason, at, operation, run } = message;
    written.write({
      t,
      k: "item",
      stream,
      position: Number.parseInt(cursor, 10),
      nodeId: nodeUuid,
      nodeName,
      sequence,
      from,
      to,
      // As the database stores it.
      event: event.toLowerCase(),
      ...(operation !== undefined && { operationId: operation?.uuid ?? null }),
      ...(run !== undefined && { runId: run && runIdOf(run.id) }),
      step,
      actor,
      reason,
      at,
    });
  }

  end = async () => {
    isOver = true;
    shutdown.abort();
    await Promise.race([Promise.all(subscribers.map(({ over }) => over)), delay(5_000)]);
    await written.close();
  };

  return async (command) => {
    switch (command.do) {
      case "start":
        throw new Error("The subscribers have already been started.");
      case "stall":
        stalls = command.stalls;
        return;
      case "catch-up": {
        const behind = () => subscribers.filter(({ position }) => position() < command.position);
        for (const until = clock() + command.withinMs; behind().length > 0 && clock() < until;) await delay(100);
        return {
          ...count,
          behind: behind().map(
            ({ name, position, isFiltered }) => `${name}${isFiltered ? " (filtered)" : ""} at ${position()}`,
          ),
        } satisfies WatchersCount;
      }
    }
  };
}

interface SubscriptionVariables {
  readonly after: string;
  readonly filter?: NonNullable<Open["filter"]>;
}

interface Endpoint {
  readonly url: string;
  readonly token: string;
}

/** Reasons of ends for which the caller may not have the stream. */
const DENIAL = /requires the scope|UNAUTHENTICATED|no longer valid|closed with 4403/;

function overWebSocket({ url, token }: Endpoint, variables: SubscriptionVariables, isFull: boolean): Connection {
  let socket: WebSocket | undefined;
  const client = createClient({
    url: `${url.replace("http", "ws")}/graphql`,
    webSocketImpl: class extends WebSocket {
      constructor(...given: ConstructorParameters<typeof WebSocket>) {
        super(given[0], given[1], { handshakeTimeout: CONNECT_MS });
      }
    },
    connectionParams: { authorization: `Bearer ${token}` },
    connectionAckWaitTimeout: CONNECT_MS,
    retryAttempts: 0,
    on: {
      opened(made) {
        socket = made as WebSocket;
      },
    },
  });
  const results = client.iterate<{ nodeTransitions: StreamMessage }>({
    query: QUERY(isFull),
    variables: { ...variables },
  });
  return {
    items: {
      async next() {
        const { done, value } = await results.next();
        return done ? { done, value: undefined } : { done: false, value: itemOf(value) };
      },
    },
    async pause(milliseconds) {
      socket?.pause();
      await delay(milliseconds);
      socket?.resume();
    },
    close() {
      socket?.resume();
      const ignored = () => {};
      results.return?.().catch(ignored);
      Promise.resolve(client.dispose()).catch(ignored);
      setTimeout(() => socket?.terminate(), 1_000).unref();
    },
  };
}

function overEvents({ url, token }: Endpoint, variables: SubscriptionVariables, isFull: boolean): Connection {
  const shutdown = new AbortController();
  let pausedUntil = Promise.resolve();
  const items = (async function* () {
    const connected = setTimeout(() => shutdown.abort(new Error("The replica did not answer.")), CONNECT_MS);
    const response = await fetch(`${url}/graphql`, {
      method: "POST",
      signal: shutdown.signal,
      headers: { "content-type": "application/json", accept: "text/event-stream", authorization: `Bearer ${token}` },
      body: JSON.stringify({ query: QUERY(isFull), variables }),
    });
    clearTimeout(connected);
    if (!response.ok || !response.body)
      throw new Error(
        `The replica answered the subscription with status ${response.status}: ${(await response.text()).slice(0, 200)}`,
      );
    let pending = "";
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      await pausedUntil;
      const whole = (pending + chunk).split("\n\n");
      pending = whole.pop() ?? "";
      for (const event of whole) {
        if (/^event: complete/m.test(event)) return;
        const data = /^data: (.*)$/m.exec(event)?.[1];
        if (data !== undefined && data !== "") yield itemOf(JSON.parse(data) as Result);
      }
    }
    throw new Error("The stream ended without a completion.");
  })();
  return {
    items,
    pause(milliseconds) {
      pausedUntil = delay(milliseconds);
      return pausedUntil;
    },
    close: () => shutdown.abort(),
  };
}

/** graphql-ws also rejects with an event of the socket, or with a list of errors. */
function reasonOf(error: unknown): string {
  if (error instanceof Error) return error.message.slice(0, 300);
  const { code, reason } = error as { readonly code?: number; readonly reason?: string };
  return code === undefined ? JSON.stringify(error).slice(0, 300) : `closed with ${code} ${reason ?? ""}`;
}

interface Result {
  readonly data?: { readonly nodeTransitions: StreamMessage } | null | undefined;
  readonly errors?: readonly { readonly message: string }[] | undefined;
}

function itemOf({ data, errors }: Result): StreamMessage {
  if (!data || errors)
    throw new Error(`The stream received an error: ${errors?.map(({ message }) => message).join("; ") ?? "no data"}`);
  return data.nodeTransitions;
}

obey(
  (message) => COMMAND.parse(message),
  (command) => handle(command),
  () => end(),
);
