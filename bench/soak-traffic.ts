/**
 * The load of `npm run tool -- soak`, through the public API only: groups of nodes go through cycles, some nodes are
 * aborted, some operations are stopped and restarted, and streams of all kinds connect, stay for a while and
 * disconnect.
 */
import { setTimeout as delay } from "node:timers/promises";
import { WebSocket } from "ws";
import { mutate, request } from "./request.ts";
import { inputTypeOf } from "../test/support/input-type.ts";

export interface Traffic {
  /** Action → number of times it was done. */
  readonly done: ReadonlyMap<string, number>;
  /** Waits for the current cycles and streams to end. */
  stop(): Promise<void>;
}

export interface TrafficOptions {
  readonly url: string;
  readonly nodes: number;
  /** Streams that are open at a time. */
  readonly streams: number;
}

const GROUP = 20;
const POLL_MS = 250;
const STREAM_SECONDS_MAX = 20;
/** Pause between a stream that disconnected and the next one. */
const RECONNECT_MS = 300;
/** Share of cycles in which nodes are aborted. */
const ABORTED = 0.2;
/** Share of cycles that are stopped and restarted. */
const STOPPED = 0.2;
/** Minimum duration of a step; the maximum is twice that. */
const STEP_MS = 40;
const REGISTRATION_BATCH = 100;
const HANDSHAKE_MS = 30_000;
const TEXT_LENGTH_MAX = 200;
/** Prefix of actions that must not occur. */
export const WRONG = "wrong:";

interface Payload {
  readonly operation: { readonly uuid: string } | null;
  readonly errors: readonly { readonly code: string; readonly message: string }[];
}

interface StreamRequest {
  readonly query: string;
  readonly variables?: Readonly<Record<string, string>>;
}

// Ids are variables: one document per id would fill the service's cache of documents
// (src/graphql/execution/document.ts).
const NODE_STREAM =
  "subscription { nodeTransitions(snapshot: true) { __typename ... on Transition { cursor nodeName to node { state currentRun { id } } } ... on StreamBookmark { caughtUp } } }";
const OPERATION_STREAM =
  "subscription ($id: ID!) { runChanges(operation: $id, snapshot: true) { __typename ... on RunUpserted { cursor run { nodeName state currentStep { name } operation { state finishedCount } } } ... on StreamBookmark { caughtUp } } }";

export async function startTraffic({ url, nodes, streams }: TrafficOptions): Promise<Traffic> {
  const done = new Map<string, number>();
  const note = (what: string) => done.set(what, (done.get(what) ?? 0) + 1);
  let over = false;
  let newest = "";

  /** Requests work; returns the operation, or null if it was refused. */
  async function requestWork(verb: string, input: object): Promise<string | null> {
    const data = await request<Record<string, Payload>>(
      { url },
      `mutation Request($input: ${inputTypeOf(verb)}!) { ${verb}(input: $input) { operation { uuid } errors { code message } } }`,
      { input },
    );
    const id = data[verb]?.operation?.uuid ?? null;
    note(id === null ? `${verb} refused` : verb);
    if (id !== null) newest = id;
    return id;
  }

  async function ended(id: string | null): Promise<void> {
    while (id !== null) {
      const { operation } = await request<{ operation: { finishedAt: string | null } | null }>(
        { url },
        "query Look($id: ID!) { operation(id: $id) { finishedAt } }",
        { id },
      );
      if (operation === null || operation.finishedAt !== null) return;
      await delay(POLL_MS);
    }
  }

  async function cycle(names: readonly string[]): Promise<void> {
    const id = await requestWork("commissionNodes", {
      nodes: { names },
      acceptance: "BEST_EFFORT",
      onFailure: "LEAVE",
    });
    const dice = Math.random();
    await delay(Math.random() * 10 * STEP_MS);
    if (dice < ABORTED) await requestWork("abort", { work: { names: names.slice(0, GROUP / 4) }, mode: "AFTER_STEP" });
    else if (dice < ABORTED + STOPPED && id !== null) {
      await requestWork("stop", { work: { operationId: id } });
      await ended(id);
      await ended(await requestWork("restart", { work: { operationId: id }, acceptance: "BEST_EFFORT" }));
    }
    await ended(id);
    await ended(await requestWork("decommissionNodes", { nodes: { names }, acceptance: "BEST_EFFORT" }));
    note("cycles");
  }

  async function bySocket(stream: StreamRequest, milliseconds: number): Promise<void> {
    const socket = new WebSocket(`${url.replace("http", "ws")}/graphql`, "graphql-transport-ws", {
      handshakeTimeout: HANDSHAKE_MS,
    });
    const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    socket.on("error", (error) => note(`${WRONG} ${error.message}`));
    let timer: NodeJS.Timeout | undefined;
    socket.on("open", () => {
      socket.send('{"type":"connection_init"}');
      timer = setTimeout(() => socket.close(), milliseconds);
    });
    socket.on("message", (data: Buffer) => {
      const text = data.toString("latin1");
      if (text.includes('"connection_ack"'))
        socket.send(JSON.stringify({ type: "subscribe", id: "1", payload: stream }));
      else if (text.includes('"errors":[') || text.includes('"type":"error"'))
        note(`${WRONG} a stream received ${text.slice(0, TEXT_LENGTH_MAX)}`);
      else if (text.includes('"type":"next"')) note("items");
    });
    await closed;
    clearTimeout(timer);
  }

  async function byEvents(stream: StreamRequest, milliseconds: number): Promise<void> {
    const end = AbortSignal.timeout(milliseconds);
    try {
      const response = await fetch(`${url}/graphql`, {
        method: "POST",
        headers: { "content-type": "application/json", accept: "text/event-stream" },
        body: JSON.stringify(stream),
        signal: end,
      });
      for await (const chunk of response.body ?? []) {
        const text = Buffer.from(chunk as Uint8Array).toString("latin1");
        if (text.includes('"errors":[')) note(`${WRONG} a stream received ${text.slice(0, TEXT_LENGTH_MAX)}`);
        else if (text.includes("event: next")) note("items");
      }
    } catch (error) {
      if (!end.aborted) throw error;
    }
  }

  const untilOver = async (work: () => Promise<void>): Promise<void> => {
    while (!over) {
      await work().catch((error: unknown) => {
        note(`${WRONG} ${String(error).slice(0, TEXT_LENGTH_MAX)}`);
        return delay(POLL_MS);
      });
    }
  };
  const names = Array.from({ length: nodes }, (_, index) => `soak-${String(index).padStart(4, "0")}`);
  for (let from = 0; from < nodes; from += REGISTRATION_BATCH) {
    const input = {
      nodes: names
        .slice(from, from + REGISTRATION_BATCH)
        .map((name, index) => ({ name, driver: { fake: { delayMs: STEP_MS + (index % STEP_MS) } } })),
    };
    await mutate(
      { url },
      "mutation Register($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { code message } } }",
      { input },
    );
  }
  const groups = Array.from({ length: Math.ceil(nodes / GROUP) }, (_, index) =>
    names.slice(index * GROUP, (index + 1) * GROUP),
  );
  const lanes = [
    ...groups.map((group) => untilOver(() => cycle(group))),
    ...Array.from({ length: streams }, (_, index) =>
      untilOver(async () => {
        const stream =
          index % 3 === 0 && newest !== ""
            ? { query: OPERATION_STREAM, variables: { id: newest } }
            : { query: NODE_STREAM };
        await (index % 2 === 0 ? bySocket : byEvents)(
          stream,
          Math.round(500 + Math.random() * STREAM_SECONDS_MAX * 1_000),
        );
        note("streams");
        await delay(RECONNECT_MS);
      }),
    ),
  ];
  return {
    done,
    async stop() {
      over = true;
      await Promise.all(lanes);
    },
  };
}
