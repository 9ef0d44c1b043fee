/**
 * The clients: a process without faults. They send random verbs to random replicas, with the configured token or that
 * of an account, for many nodes at once and for the same nodes as other clients. An unanswered request is repeated at
 * another replica with the same key, and sometimes an answered one as well. Every request is recorded before it is
 * sent, and so is its result.
 */
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { chance } from "../durability/lab.ts";
import type { Chance } from "../durability/lab.ts";
import { ask, runIdOf } from "./graphql-request.ts";
import { START, obey } from "./control.ts";
import { clock, record } from "./records.ts";
import type { Answer, NodeAnswer, Refusal } from "./records.ts";
import { credentialOf, someAccount } from "./tokens.ts";
import type { Credential } from "./tokens.ts";
import { documentOf, isInterrupt } from "./verbs.ts";
import type { Verb } from "./verbs.ts";

const COMMAND = z.discriminatedUnion("do", [
  START.extend({ nodes: z.number(), clients: z.number() }),
  // Registers the fleet and its cluster, and commissions half of it in one request.
  z.object({ do: z.literal("warm-up") }),
  z.object({ do: z.literal("storm") }),
  // Sends no new requests, waits for those in progress, and takes every node out of maintenance.
  z.object({ do: z.literal("quiet") }),
]);
export type WorkloadCommand = z.infer<typeof COMMAND>;

export interface WorkloadCount {
  readonly requests: number;
  readonly answers: number;
  readonly refused: number;
}

const TIMEOUT_MS = 10_000;
const TRIES = 8;
/** Pause of a client between two requests, in milliseconds. */
const PAUSE_MS = [100, 1_800] as const;
const REGISTRATION_BATCH = 250;
/** Larger operations are not aborted or stopped, or most of the fleet would stop at once. */
const INTERRUPTED_NODES_MAX = 60;
/** Nodes that one request takes out of maintenance. */
const CLEARING_BATCH = 50;
const CLUSTER = "arena";
/** Share of requests that accounts send. */
const BY_ACCOUNTS = 0.4;
const DENIALS = ["FORBIDDEN", "UNAUTHENTICATED"] as const;
interface Mutation {
  readonly verb: Verb;
  readonly input: Readonly<Record<string, unknown>>;
  readonly nodes: readonly string[];
}

interface WorkAnswer {
  readonly operation?: { readonly uuid: string } | null;
  readonly replayed?: boolean;
  readonly results?: readonly {
    readonly ref: string;
    readonly accepted: boolean;
    readonly abortEffect?: NodeAnswer["effect"];
    readonly run: { readonly id: string } | null;
    readonly error: Refusal | null;
  }[];
  readonly errors: readonly Refusal[];
}

type Handler = (command: WorkloadCommand) => Promise<unknown>;
let handle: Handler = (command) => {
  if (command.do !== "start") throw new Error("The workload has not been started.");
  handle = createWorkload(command);
  return Promise.resolve();
};
let end: () => Promise<void> = () => Promise.resolve();

function createWorkload({ seed, folder, urls, nodes, clients }: Extract<WorkloadCommand, { do: "start" }>): Handler {
  const requests = record(folder, "requests");
  const names = Array.from({ length: nodes }, (_, index) => `c-${index}`);
  const hot = names.slice(0, Math.max(10, nodes / 10));
  const replicas = Object.keys(urls);
  /** Recent operations and their nodes. */
  const recent: { readonly operationId: string; readonly nodes: readonly string[] }[] = [];
  const nodesToClear: string[] = [];
  const count = { requests: 0, answers: 0, refused: 0 };
  let isStorm = false;
  let running: Promise<unknown> = Promise.resolve();
  end = () => requests.close();

  async function send(
    { client, credential }: { readonly client: string; readonly credential: Credential },
    replica: string,
    { verb, input, nodes: targets }: Mutation,
  ): Promise<Answer> {
    count.requests += 1;
    const id = `q${count.requests}`;
    const { account, tokenId, token } = credential;
    const key = input["idempotencyKey"];
    requests.write({
      t: clock(),
      k: "request",
      id,
      client,
      replica,
      verb,
      input,
      idempotencyKey: typeof key === "string" ? key : null,
      nodes: targets,
      account,
      tokenId,
    });
    let answer: Answer;
    try {
      const { data, errors, status } = await ask<Readonly<Record<string, WorkAnswer | null>>>(
        urls[replica] ?? "",
        documentOf(verb),
        { input },
        { timeoutMs: TIMEOUT_MS, token, requestId: id },
      );
      const denied = DENIALS.find((code) => errors.some(({ extensions }) => extensions?.code === code));
      // An incomplete answer counts as none.
      const given = errors.length === 0 ? data?.[verb] : null;
      answer = given
        ? {
            t: clock(),
            k: "answer",
            id,
            ok: true,
            operationId: given.operation?.uuid ?? null,
            replayed: given.replayed ?? (isInterrupt(verb) ? false : null),
            refusals: given.errors.map(shortened),
            results: (given.results ?? []).map(({ ref, accepted, abortEffect, run, error }) => ({
              node: ref,
              accepted,
              runId: run && runIdOf(run.id),
              refusal: error && shortened(error),
              effect: abortEffect ?? null,
            })),
          }
        : {
            t: clock(),
            k: "answer",
            id,
            ok: false,
            error: errors
              .map(({ message, extensions }) => `${extensions?.code ?? "?"}: ${message}`)
              .join(" ")
              .slice(0, 500),
            status,
            ...(denied && { denied }),
          };
    } catch (error) {
      answer = { t: clock(), k: "answer", id, ok: false, error: reasonOf(error), status: null };
    }
    requests.write(answer);
    if (answer.ok) {
      count.answers += 1;
      if (answer.refusals.length > 0) count.refused += 1;
      // An abort, stop or restart is answered with the operation that it affects, of which it may name only a part.
      const isStart = typeof key === "string" && "nodes" in input;
      if (isStart && answer.operationId !== null && targets.length <= INTERRUPTED_NODES_MAX)
        recent.splice(0, Math.max(0, recent.length - 40), { operationId: answer.operationId, nodes: targets });
    }
    return answer;
  }

  /**
   * Sends a request until it is answered, each time to another replica with the same key; sometimes once more, or twice
   * at the same time.
   */
  async function sendUntilAnswered(
    { client, account }: { readonly client: string; readonly account: string | null },
    random: Chance,
    mutation: Mutation,
  ): Promise<Answer> {
    const as = () => ({ client, credential: credentialOf(folder, account) });
    const isTwice = random.often(0.03);
    const [first, second] = [random.one(replicas), random.one(replicas)];
    let answer: Answer;
    if (isTwice) [answer] = await Promise.all([send(as(), first, mutation), send(as(), second, mutation)]);
    else answer = await send(as(), first, mutation);
    for (let tries = 1; !answer.ok && !answer.denied && tries < TRIES; tries += 1) {
      await delay(random.whole(50, 1_500));
      answer = await send(as(), random.one(replicas), mutation);
    }
    if (answer.ok && random.often(0.05)) await send(as(), random.one(replicas), mutation);
    return answer;
  }

  async function runClient(name: string, random: Chance): Promise<void> {
    let number = 0;
    const maintained: string[][] = [];
    while (isStorm) {
      await delay(random.whole(...PAUSE_MS));
      number += 1;
      const back = maintained.length > 0 && random.often(0.2) ? maintained.shift() : undefined;
      const mutation = back ? maintenanceEnd(back) : choose(random, `${seed}-${name}-${number}`);
      if (mutation.verb === "setMaintenance") {
        maintained.push([...mutation.nodes]);
        nodesToClear.push(...mutation.nodes);
      }
      await sendUntilAnswered({ client: name, account: someAccount(folder, random, BY_ACCOUNTS) }, random, mutation);
    }
  }

  function choose(random: Chance, key: string): Mutation {
    const some = random.weighed([
      [4, () => [random.one(names)]],
      [3, () => random.some(random.whole(2, 10), hot)],
      [3, () => random.some(random.whole(2, 12), names)],
      [1, () => random.some(random.whole(20, 50), names)],
    ])();
    const policy = random.weighed([
      [5, {}],
      [2, { onFailure: "LEAVE" }],
      [2, { onFailure: "CLEAN_UP_FAILED" }],
      [1, { onFailure: "CLEAN_UP_ALL" }],
    ]);
    // With many nodes, a low parallelism would last longer than the run.
    const pace = random.weighed([
      [some.length > 8 ? 1e6 : 12, {}],
      [1, { maxParallel: random.whole(1, 3) }],
      [1, { waves: { sizes: [{ count: random.whole(1, 4) }], pauseSeconds: 1 } }],
    ]);
    const start = (verb: Verb, rest: Readonly<Record<string, unknown>> = {}): Mutation => ({
      verb,
      input: {
        nodes: { names: some },
        acceptance: random.often(0.85) ? "BEST_EFFORT" : "ALL_OR_NOTHING",
        idempotencyKey: key,
        ...policy,
        ...pace,
        ...rest,
      },
      nodes: some,
    });
    const interruptOrRestart = (verb: Verb, rest: Readonly<Record<string, unknown>> = {}): Mutation => {
      const operation = random.often(0.6) && recent.length > 0 ? random.one(recent) : null;
      return {
        verb,
        input: { work: operation ? { operationId: operation.operationId } : { names: some }, reason: key, ...rest },
        nodes: operation?.nodes ?? some,
      };
    };
    const steps = random.weighed([
      [3, {}],
      [1, { steps: [{ name: "flash" }] }],
      [1, { steps: [{ name: "burn_in" }, { name: "flash" }, { name: "erase_metadata" }] }],
    ]);
    return random.weighed<() => Mutation>([
      [
        30,
        () =>
          start("commissionNodes", {
            until: random.often(0.8) ? "ACTIVE" : "AVAILABLE",
            variables: { image: `debian-${random.whole(11, 13)}` },
          }),
      ],
      [10, () => start("deployNodes")],
      [16, () => start("undeployNodes")],
      [6, () => start("decommissionNodes")],
      // The machine of a failed flash is not touched again without it.
      [10, () => start("cleanNodes", { ...steps, ...(random.often(0.4) && { force: true }) })],
      [4, () => start("provideNodes")],
      [5, () => start("inspectNodes")],
      [4, () => start("manageNodes")],
      [
        6,
        () =>
          start("setPower", {
            action: random.one(["ON", "OFF", "REBOOT", "SOFT_OFF", "SOFT_REBOOT"]),
            timeoutSeconds: 2,
          }),
      ],
      [2, () => start("setBootDevice", { device: random.one(["NETWORK", "DISK"]) })],
      [9, () => interruptOrRestart("abort", { mode: random.one(["NOW", "AFTER_STEP"]) })],
      [2, () => interruptOrRestart("withdrawAbort")],
      [5, () => interruptOrRestart("stop", { timeoutSeconds: random.whole(2, 20) })],
      [
        9,
        () =>
          interruptOrRestart("restart", {
            from: random.one(["BEGINNING", "STAGE", "UNFINISHED_STEP"]),
            acceptance: "BEST_EFFORT",
            idempotencyKey: key,
          }),
      ],
      [3, () => maintenance(some.slice(0, 5), key)],
      [
        4,
        () => ({
          verb: "reportPresence",
          input: { event: random.one(["DISCOVERED", "DISAPPEARED"]), nodes: some.map((name) => ({ name })) },
          nodes: some,
        }),
      ],
      [2, () => ({ verb: "updateCluster", input: { cluster: { name: CLUSTER }, variables: { ntp: key } }, nodes: [] })],
    ])();
  }

  const maintenance = (some: readonly string[], reason: string): Mutation => ({
    verb: "setMaintenance",
    input: { nodes: { names: some }, reason },
    nodes: some,
  });
  const maintenanceEnd = (some: readonly string[]): Mutation => ({
    verb: "clearMaintenance",
    input: { nodes: { names: some } },
    nodes: some,
  });

  async function mustSucceed(random: Chance, mutation: Mutation): Promise<void> {
    const answer = await sendUntilAnswered({ client: "warden", account: null }, random, mutation);
    if (!answer.ok) throw new Error(`${mutation.verb} was not answered: ${answer.error}`);
    if (answer.refusals[0] && !/already|taken|exists/.test(answer.refusals[0].message))
      throw new Error(`${mutation.verb} was refused: ${answer.refusals[0].message}`);
  }

  return async (command) => {
    const random = chance(seed + 1);
    switch (command.do) {
      case "start":
        throw new Error("The workload has already been started.");
      case "warm-up": {
        await mustSucceed(random, {
          verb: "createCluster",
          input: { name: CLUSTER, variables: { ntp: "none" } },
          nodes: [],
        });
        for (let from = 0; from < names.length; from += REGISTRATION_BATCH) {
          const some = names.slice(from, from + REGISTRATION_BATCH);
          const fleet = some.map((name, index) => ({
            name,
            driver: { chaos: {} },
            labels: [
              { key: "fleet", value: "chaos" },
              { key: "group", value: `g${(from + index) % 5}` },
            ],
            ...((from + index) % 4 === 0 && { cluster: { name: CLUSTER } }),
          }));
          await mustSucceed(random, { verb: "registerNodes", input: { nodes: fleet }, nodes: some });
        }
        const half = names.filter((_, index) => index % 2 === 1);
        await mustSucceed(random, {
          verb: "commissionNodes",
          input: { nodes: { names: half }, onFailure: "LEAVE", idempotencyKey: `${seed}-warm-up` },
          nodes: half,
        });
        return names;
      }
      case "storm":
        isStorm = true;
        running = Promise.all(
          Array.from({ length: clients }, (_, index) => runClient(`client${index + 1}`, chance(seed * 1_000 + index))),
        );
        return;
      case "quiet":
        isStorm = false;
        await running;
        for (let from = 0; from < nodesToClear.length; from += CLEARING_BATCH)
          await mustSucceed(random, maintenanceEnd(nodesToClear.slice(from, from + CLEARING_BATCH)));
        return { ...count } satisfies WorkloadCount;
    }
  };
}

function shortened({ code, message }: Refusal): Refusal {
  return { code, message: message.slice(0, 300) };
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}

obey(
  (message) => COMMAND.parse(message),
  (command) => handle(command),
  () => end(),
);
