/**
 * The clients: a process that no nemesis touches. They ask random replicas for whatever comes to their mind, of many nodes at
 * once and of the same nodes as others do; what got no answer they ask again elsewhere with the same key, and now and then
 * what was answered too. Every request is written down before it is sent, and what came of it.
 */
import { setTimeout as delay } from "node:timers/promises";
import { chance } from "../durability/lab.ts";
import type { Chance } from "../durability/lab.ts";
import { ask, runIdOf } from "./asking.ts";
import { obey } from "./control.ts";
import { clock, record } from "./records.ts";
import type { Answer, NodeAnswer, Refusal } from "./records.ts";

export type WorkloadCommand =
  | {
      readonly do: "start";
      readonly seed: number;
      readonly folder: string;
      readonly urls: Readonly<Record<string, string>>;
      readonly nodes: number;
      readonly clients: number;
    }
  /** Registers the fleet and its cluster, and commissions half of it in one request. */
  | { readonly do: "warm-up" }
  | { readonly do: "storm" }
  /** Asks for nothing new, ends what was begun, and takes every node out of maintenance. */
  | { readonly do: "quiet" };

/** How many requests were sent and answered. */
export interface WorkloadCount {
  readonly requests: number;
  readonly answers: number;
  readonly refused: number;
}

const PATIENCE_MS = 10_000;
const TRIES = 8;
/** Pause of a client between two requests, in milliseconds. */
const PAUSE_MS = [100, 1_800] as const;
const REGISTERED_AT_ONCE = 250;
/** Larger operations are left to themselves, or most of the fleet would be stopped at once. */
const STEERED_MAX = 60;
/** Nodes that are taken out of maintenance by one request. */
const CLEARED_AT_ONCE = 50;
const CLUSTER = "arena";
const WORK =
  "operation { uuid } replayed results { ref accepted abortEffect run { id } error { code message } } errors { code message }";
const CHANGE = "errors { code message }";

/** The mutations: type of their input, and what is asked of their answer. */
const VERBS = {
  registerNodes: ["RegisterNodesInput", CHANGE],
  createCluster: ["CreateClusterInput", CHANGE],
  commissionNodes: ["CommissionNodesInput", WORK],
  deployNodes: ["DeployNodesInput", WORK],
  undeployNodes: ["NodeWorkInput", WORK],
  decommissionNodes: ["DecommissionNodesInput", WORK],
  cleanNodes: ["CleanNodesInput", WORK],
  inspectNodes: ["NodeWorkInput", WORK],
  manageNodes: ["NodeWorkInput", WORK],
  setPower: ["SetPowerInput", WORK],
  abort: ["AbortInput", WORK],
  withdrawAbort: ["WorkInput", WORK],
  stop: ["StopInput", WORK],
  restart: ["RestartInput", WORK],
  setMaintenance: ["SetMaintenanceInput", CHANGE],
  reportPresence: ["ReportPresenceInput", CHANGE],
  updateCluster: ["UpdateClusterInput", CHANGE],
} as const;
type Verb = keyof typeof VERBS;

interface Wanted {
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
    readonly abortEffect: NodeAnswer["effect"];
    readonly run: { readonly id: string } | null;
    readonly error: Refusal | null;
  }[];
  readonly errors: readonly Refusal[];
}

type Work = (command: WorkloadCommand) => Promise<unknown>;
let work: Work = (command) => {
  if (command.do !== "start") throw new Error("The workload was not started.");
  work = createWorkload(command);
  return Promise.resolve();
};
let end: () => Promise<void> = () => Promise.resolve();

function createWorkload({ seed, folder, urls, nodes, clients }: Extract<WorkloadCommand, { do: "start" }>): Work {
  const requests = record(folder, "requests");
  const names = Array.from({ length: nodes }, (_, index) => `c-${index}`);
  const hot = names.slice(0, Math.max(10, nodes / 10));
  const replicas = Object.keys(urls);
  /** Operations that were started lately, and their nodes. */
  const recent: { readonly operationId: string; readonly nodes: readonly string[] }[] = [];
  const everMaintained: string[] = [];
  const count = { requests: 0, answers: 0, refused: 0 };
  let isStorm = false;
  let running: Promise<unknown> = Promise.resolve();
  end = () => requests.close();

  async function send(client: string, replica: string, { verb, input, nodes: asked }: Wanted): Promise<Answer> {
    count.requests += 1;
    const id = `q${count.requests}`;
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
      nodes: asked,
    });
    const [type, fields] = VERBS[verb];
    let answer: Answer;
    try {
      const { data, errors, status } = await ask<Readonly<Record<string, WorkAnswer | null>>>(
        urls[replica] ?? "",
        `mutation ($input: ${type}!) { ${verb}(input: $input) { ${fields} } }`,
        { input },
        PATIENCE_MS,
      );
      // Half an answer, of which something could not be read, is none.
      const given = errors.length === 0 ? data?.[verb] : null;
      answer = given
        ? {
            t: clock(),
            k: "answer",
            id,
            ok: true,
            operationId: given.operation?.uuid ?? null,
            replayed: given.replayed ?? null,
            refusals: given.errors.map(shortened),
            results: (given.results ?? []).map(({ ref, accepted, abortEffect, run, error }) => ({
              node: ref,
              accepted,
              runId: run && runIdOf(run.id),
              refusal: error && shortened(error),
              effect: abortEffect,
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
          };
    } catch (error) {
      answer = { t: clock(), k: "answer", id, ok: false, error: reasonOf(error), status: null };
    }
    requests.write(answer);
    if (answer.ok) {
      count.answers += 1;
      if (answer.refusals.length > 0) count.refused += 1;
      // What steers work is answered with the operation that it steers, of which it may have named a part.
      const isStart = typeof key === "string" && "nodes" in input;
      if (isStart && answer.operationId !== null && asked.length <= STEERED_MAX)
        recent.splice(0, Math.max(0, recent.length - 40), { operationId: answer.operationId, nodes: asked });
    }
    return answer;
  }

  /** Asks until it is answered, each time another replica with the same key; and sometimes once more, or twice at the same time. */
  async function insist(client: string, luck: Chance, wanted: Wanted): Promise<Answer> {
    const isTwice = luck.often(0.03);
    const [first, second] = [luck.one(replicas), luck.one(replicas)];
    let answer: Answer;
    if (isTwice) [answer] = await Promise.all([send(client, first, wanted), send(client, second, wanted)]);
    else answer = await send(client, first, wanted);
    for (let tries = 1; !answer.ok && tries < TRIES; tries += 1) {
      await delay(luck.whole(50, 1_500));
      answer = await send(client, luck.one(replicas), wanted);
    }
    if (answer.ok && luck.often(0.05)) await send(client, luck.one(replicas), wanted);
    return answer;
  }

  async function live(name: string, luck: Chance): Promise<void> {
    let number = 0;
    const maintained: string[][] = [];
    while (isStorm) {
      await delay(luck.whole(...PAUSE_MS));
      number += 1;
      const back = maintained.length > 0 && luck.often(0.2) ? maintained.shift() : undefined;
      const wanted = back ? maintenance(back, null) : choose(luck, `${seed}-${name}-${number}`);
      if (wanted.verb === "setMaintenance" && !back) {
        maintained.push([...wanted.nodes]);
        everMaintained.push(...wanted.nodes);
      }
      await insist(name, luck, wanted);
    }
  }

  function choose(luck: Chance, key: string): Wanted {
    const some = luck.weighed([
      [4, () => [luck.one(names)]],
      [3, () => luck.some(luck.whole(2, 10), hot)],
      [3, () => luck.some(luck.whole(2, 12), names)],
      [1, () => luck.some(luck.whole(20, 50), names)],
    ])();
    const policy = luck.weighed([
      [5, {}],
      [2, { onFailure: "LEAVE" }],
      [2, { onFailure: "CLEAN_UP_FAILED" }],
      [1, { onFailure: "CLEAN_UP_ALL" }],
    ]);
    // Of many nodes, one after the other would last longer than the run.
    const pace = luck.weighed([
      [some.length > 8 ? 1e6 : 12, {}],
      [1, { maxParallel: luck.whole(1, 3) }],
      [1, { waves: { sizes: [{ count: luck.whole(1, 4) }], pauseSeconds: 0.3 } }],
    ]);
    const start = (verb: Verb, rest: Readonly<Record<string, unknown>> = {}): Wanted => ({
      verb,
      input: {
        nodes: { names: some },
        acceptance: luck.often(0.85) ? "BEST_EFFORT" : "ALL_OR_NOTHING",
        idempotencyKey: key,
        ...policy,
        ...pace,
        ...rest,
      },
      nodes: some,
    });
    const steer = (verb: Verb, rest: Readonly<Record<string, unknown>> = {}): Wanted => {
      const operation = luck.often(0.6) && recent.length > 0 ? luck.one(recent) : null;
      return {
        verb,
        input: { work: operation ? { operationId: operation.operationId } : { names: some }, reason: key, ...rest },
        nodes: operation?.nodes ?? some,
      };
    };
    const steps = luck.weighed([
      [3, {}],
      [1, { steps: [{ name: "flash" }] }],
      [1, { steps: [{ name: "burn_in" }, { name: "flash" }, { name: "erase_metadata" }] }],
    ]);
    return luck.weighed<() => Wanted>([
      [
        30,
        () =>
          start("commissionNodes", {
            until: luck.often(0.8) ? "ACTIVE" : "AVAILABLE",
            variables: { image: `debian-${luck.whole(11, 13)}` },
          }),
      ],
      [10, () => start("deployNodes")],
      [16, () => start("undeployNodes")],
      [6, () => start("decommissionNodes")],
      [10, () => start("cleanNodes", steps)],
      [5, () => start("inspectNodes")],
      [4, () => start("manageNodes")],
      [6, () => start("setPower", { action: luck.one(["ON", "OFF", "REBOOT", "SOFT_OFF"]), timeoutSeconds: 2 })],
      [9, () => steer("abort", { mode: luck.one(["NOW", "AFTER_STEP"]) })],
      [2, () => steer("withdrawAbort")],
      [5, () => steer("stop", { timeoutSeconds: luck.whole(2, 20) })],
      [
        9,
        () =>
          steer("restart", {
            from: luck.one(["BEGINNING", "STAGE", "UNFINISHED_STEP"]),
            acceptance: "BEST_EFFORT",
            idempotencyKey: key,
          }),
      ],
      [3, () => maintenance(some.slice(0, 5), key)],
      [
        4,
        () => ({
          verb: "reportPresence",
          input: { event: luck.one(["DISCOVERED", "DISAPPEARED"]), nodes: some.map((name) => ({ name })) },
          nodes: some,
        }),
      ],
      [2, () => ({ verb: "updateCluster", input: { cluster: { name: CLUSTER }, variables: { ntp: key } }, nodes: [] })],
    ])();
  }

  const maintenance = (some: readonly string[], reason: string | null): Wanted => ({
    verb: "setMaintenance",
    input: { nodes: { names: some }, reason },
    nodes: some,
  });

  async function carriedOut(luck: Chance, wanted: Wanted): Promise<void> {
    const answer = await insist("warden", luck, wanted);
    if (!answer.ok) throw new Error(`${wanted.verb} was not answered: ${answer.error}`);
    if (answer.refusals[0] && !/already|taken|exists/.test(answer.refusals[0].message))
      throw new Error(`${wanted.verb} was refused: ${answer.refusals[0].message}`);
  }

  return async (command) => {
    const luck = chance(seed + 1);
    switch (command.do) {
      case "start":
        throw new Error("The workload was started already.");
      case "warm-up": {
        await carriedOut(luck, {
          verb: "createCluster",
          input: { name: CLUSTER, variables: { ntp: "none" } },
          nodes: [],
        });
        for (let from = 0; from < names.length; from += REGISTERED_AT_ONCE) {
          const some = names.slice(from, from + REGISTERED_AT_ONCE);
          const fleet = some.map((name, index) => ({
            name,
            driver: { chaos: {} },
            labels: [
              { key: "fleet", value: "chaos" },
              { key: "group", value: `g${(from + index) % 5}` },
            ],
            ...((from + index) % 4 === 0 && { cluster: { name: CLUSTER } }),
          }));
          await carriedOut(luck, { verb: "registerNodes", input: { nodes: fleet }, nodes: some });
        }
        const half = names.filter((_, index) => index % 2 === 1);
        await carriedOut(luck, {
          verb: "commissionNodes",
          input: { nodes: { names: half }, onFailure: "LEAVE", idempotencyKey: `${seed}-warm-up` },
          nodes: half,
        });
        return names;
      }
      case "storm":
        isStorm = true;
        running = Promise.all(
          Array.from({ length: clients }, (_, index) => live(`client${index + 1}`, chance(seed * 1_000 + index))),
        );
        return;
      case "quiet":
        isStorm = false;
        await running;
        for (let from = 0; from < everMaintained.length; from += CLEARED_AT_ONCE)
          await carriedOut(luck, maintenance(everMaintained.slice(from, from + CLEARED_AT_ONCE), null));
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

obey<WorkloadCommand>(
  (command) => work(command),
  () => end(),
);
