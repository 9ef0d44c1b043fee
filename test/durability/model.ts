/**
 * `npm run tool -- model`: random requests, random faults and random deaths of processes against a model of what must
 * come of them. One engine takes the requests and does no work; two others, in processes of their own, do the work and
 * are killed. In rounds: a number of actions, then every obstacle is removed (holds, flags, limits, faults), and then
 * everything must end, be as the rules say (rules.ts), and every node must be fit for work.
 *
 * Options: --seed N --actions 2000 --nodes 16 --round 150 (actions in one) --kill 60 (actions between two kills).
 * Prints the seed and what was done; where something is wrong also the last 30 actions and the stories of the
 * operations concerned, and then ends with 1.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { Script } from "../../plugins/fake/settings.ts";
import type { Driver } from "../../src/drivers/driver.ts";
import type { AbortResult } from "../../src/engine/input/interrupt-request.ts";
import type { NodeSelector } from "../../src/engine/input/node-selector.ts";
import type { SubmitAnswer } from "../../src/engine/input/answers.ts";
import type { VerbRequest } from "../../src/engine/admission/request-terms.ts";
import type { Connection } from "../../src/store/postgres/database.ts";
import { runEngine } from "../support/running-engine.ts";
import { answeredOf } from "./answers.ts";
import { KINDS, endOf, phasesOf, reasonsAgainst, stepsOf } from "./expectations.ts";
import type { Facts, Kind, Options } from "./expectations.ts";
import { anySeed, chance, openLab, plainSql } from "./lab.ts";
import {
  AT_REST,
  flawsAtAnyMoment,
  flawsAtRest,
  flawsOfLog,
  flawsOfOperation,
  flawsOfRun,
  flawsOfStop,
  story,
} from "./rules.ts";
import type { Ask, Circumstances } from "./rules.ts";
import { accountsOf, watchDatabase, watchedFake } from "./witness.ts";
import type { OperationAccount } from "./witness.ts";
import { createDiaries, startWorker } from "./worker.ts";
import type { Worker } from "./worker.ts";
import { changeNode } from "../support/change-node.ts";

export interface ModelOptions {
  readonly seed: number;
  readonly actions: number;
  /** Actions of one round. */
  readonly round: number;
  readonly nodes: number;
  /** Number of actions between two kills of a process. */
  readonly killEvery: number;
  readonly say?: (line: string) => void;
}

export interface ModelReport {
  readonly seconds: number;
  readonly counts: Readonly<Record<string, number>>;
  readonly flaws: readonly string[];
  /** The last 30 actions, and the stories of what went wrong; empty when nothing did. */
  readonly history: readonly string[];
  readonly stories: readonly string[];
}

interface Node {
  readonly id: string;
  readonly name: string;
  readonly cluster: string;
}

/** A node at one moment. */
interface Snapshot extends Facts {
  readonly id: string;
  readonly name: string;
  readonly transitions: number;
  readonly operationId: string | null;
}

/** An operation that the model knows of. */
interface Known {
  readonly id: string;
  readonly kind: Kind;
  readonly options: Options;
  /** Null: a restart. */
  readonly request: VerbRequest | null;
}

const CLUSTERS = 3;
const WORKERS = 2;
const HISTORY = 30;
/** After everything is lifted everything ends within this: a lease may have to run out first. */
const ENDS_WITHIN_MS = 90_000;
const STORY_LINES_MAX = 400;
const LIMIT_HOLDS_AFTER_MS = 250;
const OLD_LIMIT_ENDS_WITHIN_MS = 10_000;
const FIRMWARE_MS = 400;
const FIRMWARE = { interface: "clean", name: "update_firmware", args: { version: "2.1" } } as const;
const CLEANINGS: readonly NonNullable<Options["steps"]>[] = [
  [{ interface: "clean", name: "erase_metadata", args: {} }],
  [{ interface: "clean", name: "erase_disks", args: {} }, FIRMWARE],
  [
    { interface: "clean", name: "erase_metadata", args: {} },
    { interface: "engine", name: "hold", args: { reason: "look at it" } },
    { interface: "clean", name: "erase_disks", args: {} },
  ],
  [
    { interface: "engine", name: "wait", args: { seconds: 0.2 } },
    { interface: "clean", name: "erase_metadata", args: {} },
  ],
  [
    { interface: "power", name: "power_off", args: {} },
    { interface: "clean", name: "erase_disks", args: {} },
    { interface: "power", name: "power_on", args: {} },
  ],
  [{ interface: "clean", name: "update_firmware", args: {} }],
];

/** Work that takes longer is asked for more often, so that there is something to disturb. */
const LENGTH: Readonly<Partial<Record<Kind, number>>> = {
  COMMISSION: 5,
  DEPLOY: 4,
  CLEAN: 7,
  REDEPLOY: 3,
  UNDEPLOY: 2,
};
/** Of each phase the state in which a step is being run, and that in which one is parked. */
const WORKING: Readonly<Record<string, readonly [running: string, parked: string]>> = {
  verify: ["VERIFYING", ""],
  inspect: ["INSPECTING", "INSPECT_WAIT"],
  clean: ["CLEANING", "CLEAN_WAIT"],
  deploy: ["DEPLOYING", "DEPLOY_WAIT"],
  undeploy: ["UNDEPLOYING", "UNDEPLOY_WAIT"],
};

function isSame(one: Snapshot | undefined, other: Snapshot | undefined): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function namesOf(chosen: readonly { readonly name: string }[]): string {
  return chosen.map(({ name }) => name).join(" ");
}

/** An answer in a word. */
function summaryOf(answer: {
  readonly operationId?: string | null;
  readonly refusals: readonly { readonly code: string }[];
}): string {
  if (answer.operationId) return answer.operationId.slice(0, 8);
  return answer.refusals.length > 0 ? [...new Set(answer.refusals.map(({ code }) => code))].join(" ") : "done";
}

export async function runModel(connection: Connection, options: ModelOptions): Promise<ModelReport> {
  const began = Date.now();
  const random = chance(options.seed);
  await using owned = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "ostler-model-"));
  owned.defer(() => rmSync(folder, { recursive: true, force: true }));
  const sql = plainSql(connection, 4);
  owned.defer(() => sql.end());
  const desk = watchedFake({ owner: "desk", entered: () => {}, left: () => {} }) as unknown as Driver<never>;
  const { engine } = owned.use(await runEngine(connection, { drivers: [desk], started: false }));
  await watchDatabase(sql);
  const clocks = await sql<{ now: number }[]>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`;
  const toleranceMs = 5 + Math.abs(Date.now() - (clocks[0]?.now ?? 0));

  const counts: Record<string, number> = {};
  const count = (what: string) => (counts[what] = (counts[what] ?? 0) + 1);
  const flaws: string[] = [];
  const stories: string[] = [];
  const history: string[] = [];
  const note = (line: string) => {
    history.push(`${((Date.now() - began) / 1000).toFixed(2)} s ${line}`);
    if (history.length > HISTORY) history.shift();
  };

  // ---- the world

  const diaries = createDiaries(folder);
  let workers: Worker[] = [];
  let born = 0;
  const hire = async () => {
    born += 1;
    workers.push(await startWorker(connection, folder, `worker-${born}`));
  };
  owned.defer(async () => void (await Promise.all(workers.map((worker) => worker.kill()))));
  await Promise.all(Array.from({ length: WORKERS }, hire));

  let nodes: readonly Node[] = [];
  let asked = 0;
  const caller = () => ({ actor: `model-${(asked += 1)}`, project: "default", scope: "ADMIN" as const });
  for (let index = 0; index < CLUSTERS; index += 1) await engine.createCluster(caller(), { name: `cluster-${index}` });
  let namesGiven = 0;
  await register(options.nodes);

  // ---- what the model knows

  let known: Known[] = [];
  let asks: Ask[] = [];
  /** Names under which something was refused, or only planned: nothing of theirs may be found anywhere. */
  let traceless: string[] = [];
  /** Limits of the round, by the positions of the log between which they hold. */
  let limits: { readonly phase: string; readonly most: number; readonly from: number; readonly to: number | null }[] =
    [];

  let done = 0;
  while (done < options.actions && flaws.length === 0) {
    for (let step = 0; step < options.round && done < options.actions && flaws.length === 0; step += 1) {
      await act();
      done += 1;
      flaws.push(...(await flawsAtAnyMoment(sql)));
      if (random.often(0.6)) await delay(random.whole(0, 80));
    }
    await settleAll();
    options.say?.(`${done} actions, ${((Date.now() - began) / 1000).toFixed(0)} s`);
  }
  return { seconds: (Date.now() - began) / 1000, counts, flaws, history: flaws.length > 0 ? history : [], stories };

  // ---- looking

  async function look(ids?: readonly string[]): Promise<Map<string, Snapshot>> {
    const rows = await sql<Snapshot[]>`
      select n.id, n.name, n.state, n.transition_count as transitions, r.operation_id as "operationId", r.id is not null as busy, n.maintenance_since is not null as maintenance,
        n.is_protected as "isProtected", n.retired_reason is not null as "isRetired", n.presence = 'DISAPPEARED' as disappeared, n.fault_kind as fault
      from nodes n left join runs r on r.node_id = n.id and r.finished_at is null where ${ids ? sql`n.id in ${sql([...ids])}` : sql`true`} order by n.name`;
    return new Map(rows.map((row) => [row.id, { ...row }]));
  }

  function someNodes(most = 4): Node[] {
    return random.some(random.whole(1, most), nodes);
  }

  function selectorOf(chosen: readonly Node[]): NodeSelector {
    return random.often(0.5) ? { ids: chosen.map(({ id }) => id) } : { names: chosen.map(({ name }) => name) };
  }

  // ---- acting

  async function act(): Promise<void> {
    const action = random.weighed([
      [34, verb],
      [4, twoAtOnce],
      [14, interrupt],
      [8, restart],
      [14, fault],
      [5, maintain],
      [4, mark],
      [5, sendCallback],
      [6, unhold],
      [4, steer],
      [3, limit],
      [2, comeAndGo],
    ] as const);
    await (done % options.killEvery === options.killEvery - 1 ? kill() : action());
  }

  function optionsFor(kind: Kind): Options {
    if (kind === "COMMISSION") return { from: "BEGINNING", ...(random.often(0.5) && { until: "AVAILABLE" }) };
    if (kind === "DEPLOY") return random.often(0.5) ? { reinstall: true } : {};
    if (kind === "REDEPLOY") return random.often(0.8) ? { reinstall: true } : {};
    if (kind === "CLEAN") return { steps: random.one(CLEANINGS) };
    if (kind === "BOOT_DEVICE") return { bootDevice: { device: "DISK", persistent: random.often(0.5) } };
    if (kind === "POWER") return { powerAction: random.one(["ON", "OFF", "REBOOT"] as const) };
    return random.often(0.3) ? { force: true } : {};
  }

  function termsFor(size: number): Partial<VerbRequest> {
    const waves =
      size > 1 && random.often(0.2)
        ? {
            sizes: [{ count: 1 }, { count: 2 }],
            ...(random.often(0.3) && { manual: true }),
            ...(random.often(0.4) && { pauseSeconds: 0.2 }),
            ...(random.often(0.4) && { maxFailures: { count: 0 } }),
          }
        : undefined;
    return {
      ...(random.often(0.5) && { acceptance: "BEST_EFFORT" as const }),
      ...(size > 1 && random.often(0.25) && { maxParallel: random.whole(1, size - 1) }),
      ...(waves && { waves }),
      ...(waves?.maxFailures
        ? { onFailure: "LEAVE" as const }
        : random.often(0.5) && {
            onFailure: random.one(["LEAVE", "LEAVE", "CLEAN_UP_FAILED", "CLEAN_UP_ALL"] as const),
          }),
      ...(random.often(0.1) && { dryRun: true }),
    };
  }

  /** A verb on some nodes: more often than not one that suits the first of them. */
  async function verb(): Promise<void> {
    const now = await look();
    const whole = random.often(0.12) ? `cluster-${random.whole(0, CLUSTERS - 1)}` : null;
    const free = nodes.filter(({ id }) => now.get(id)?.busy === false);
    const chosen =
      whole === null
        ? free.length > 0 && random.often(0.6)
          ? random.some(random.whole(1, 4), free)
          : someNodes()
        : nodes.filter(({ cluster }) => cluster === whole);
    if (chosen.length === 0) return;
    const state = now.get(chosen[0]?.id ?? "")?.state ?? "";
    const suiting = KINDS.filter((kind) => phasesOf(kind, state, {}) !== null);
    const kind =
      suiting.length > 0 && random.often(0.85)
        ? random.weighed(suiting.map((one) => [LENGTH[one] ?? 1, one] as const))
        : random.one(KINDS);
    const request: VerbRequest = {
      kind,
      nodes: whole === null ? selectorOf(chosen) : { cluster: { name: whole } },
      options: optionsFor(kind),
      ...termsFor(chosen.length),
    };
    const key = !request.dryRun && random.often(0.1) ? { idempotencyKey: `key-${asked}` } : {};
    const by = caller();
    const answers = await Promise.all(
      Array.from({ length: "idempotencyKey" in key ? 2 : 1 }, () => engine.submit(by, { ...request, ...key })),
    );
    // What was refused has not used its key: one of them may find the node free that the other found busy.
    const operations = new Set(answers.flatMap(({ operationId }) => operationId ?? []));
    const answer = (answers.find(({ operationId }) => operationId !== null) ?? answers[0]) as SubmitAnswer;
    note(
      `${by.actor} ${kind} ${JSON.stringify(request.options)} on ${namesOf(chosen)}${request.acceptance ? " BEST_EFFORT" : ""}${request.dryRun ? " dry" : ""}: ${summaryOf(answer)}`,
    );
    count(
      `${kind} ${answer.operationId ? "accepted" : request.dryRun && answer.refusals.length === 0 ? "planned" : "refused"}`,
    );
    if (operations.size > 1) flaws.push(`${by.actor}: the same key was answered with ${[...operations].join(" and ")}`);
    if (
      answers.some(({ refusals }) =>
        refusals.some(({ operationId }) => operationId != null && operations.has(operationId)),
      )
    )
      flaws.push(`${by.actor}: a repeated request conflicts with its own operation`);
    if (answer.operationId === null) traceless.push(by.actor);
    else remember({ id: answer.operationId, kind, options: request.options as Options, request });
    const replayed = answers.every((one) => one.replayed);
    await judgeAnswers(by.actor, kind, request, answer, replayed ? null : now);
  }

  function remember(one: Known): void {
    if (!known.some(({ id }) => id === one.id)) known.push(one);
  }

  /**
   * Each node's answer against the model, as far as the node stood still meanwhile. What was accepted is judged with
   * the round.
   */
  async function judgeAnswers(
    actor: string,
    kind: Kind,
    request: VerbRequest,
    answer: SubmitAnswer,
    before: ReadonlyMap<string, Snapshot> | null,
  ): Promise<void> {
    if (before === null) return;
    const after = await look(answer.results.flatMap(({ nodeId }) => nodeId ?? []).concat(nodes[0]?.id ?? ""));
    for (const { nodeId, ref, refusal, accepted, plan, further = [] } of answer.results) {
      const was = before.get(nodeId ?? "");
      const isStill = isSame(was, after.get(nodeId ?? ""));
      if (!was || (answer.operationId !== null && accepted) || !isStill) continue;
      const reasons = reasonsAgainst(kind, was, request.options as Options);
      const codes = [refusal, ...further].flatMap((one) => (one ? [one.code] : []));
      const wrong = codes.filter((code) => !reasons.includes(code));
      if (wrong.length > 0)
        flaws.push(
          `${actor}: ${kind} on ${ref} (${JSON.stringify(was)}) was refused with ${wrong.join(", ")}; the model has ${reasons.join(", ") || "no reason"}`,
        );
      if (codes.length === 0 && reasons.length > 0)
        flaws.push(
          `${actor}: ${kind} on ${ref} (${JSON.stringify(was)}) was not refused; the model has ${reasons.join(", ")}`,
        );
      const expected = stepsOf(kind, was, request.options as Options);
      const planned = plan?.steps.map((step) => `${step.interface}.${step.name}`);
      if (planned && expected && planned.join() !== expected.join())
        flaws.push(
          `${actor}: ${kind} on ${ref} (${was.state}) plans ${planned.join(", ")}; the model has ${expected.join(", ")}`,
        );
    }
  }

  /** Two requests that overlap, at the same moment: if both are legal, one is accepted and the other is refused. */
  async function twoAtOnce(): Promise<void> {
    const unfinished = new Set(
      (
        await sql<
          { id: string }[]
        >`select distinct r.node_id as id from runs r join operations o on o.id = r.operation_id where o.finished_at is null`
      ).map(({ id }) => id),
    );
    const now = await look();
    const kinds = [random.one(KINDS), random.one(KINDS)] as const;
    const requests = kinds.map((kind) => ({ kind, options: optionsFor(kind) }));
    const free = nodes.filter(({ id }) => {
      const facts = now.get(id);
      return (
        facts &&
        !unfinished.has(id) &&
        requests.every(({ kind, options: of }) => reasonsAgainst(kind, facts, of).length === 0)
      );
    });
    if (free.length === 0) return;
    const shared = random.one(free);
    const asking = requests.map((request) => ({
      ...request,
      by: caller(),
      on: [
        shared,
        ...random.some(
          2,
          free.filter((node) => node !== shared),
        ),
      ],
    }));
    const answers = await Promise.all(
      asking.map(({ kind, options: of, by, on }) => engine.submit(by, { kind, options: of, nodes: selectorOf(on) })),
    );
    note(
      asking
        .map(
          ({ kind, by, on }, place) =>
            `${by.actor} ${kind} on ${namesOf(on)}: ${summaryOf(answers[place] as SubmitAnswer)}`,
        )
        .join(" | "),
    );
    count("two at once");
    for (const [place, { kind, options: of, by, on }] of asking.entries()) {
      const id = answers[place]?.operationId ?? null;
      if (id === null) traceless.push(by.actor);
      else remember({ id, kind, options: of, request: { kind, options: of, nodes: selectorOf(on) } });
    }
    const [winner, ...more] = answers.flatMap(({ operationId }) => operationId ?? []);
    const inTheWay = answers.flatMap(({ refusals }) => refusals);
    if (!winner || more.length > 0)
      flaws.push(
        `of two overlapping requests ${more.length + (winner ? 1 : 0)} won: ${answers.map(summaryOf).join(", ")}`,
      );
    else if (
      inTheWay.length === 0 ||
      inTheWay.some(({ code, operationId }) => code !== "BUSY" || operationId !== winner)
    )
      flaws.push(
        `the loser of two overlapping requests was refused for ${JSON.stringify(inTheWay)}, and ${winner} won`,
      );
  }

  async function interrupt(): Promise<void> {
    const kind = random.weighed([
      [5, "ABORT"],
      [3, "WITHDRAW"],
      [5, "STOP"],
    ] as const);
    const by = random.weighed([
      [5, "operation"],
      [4, "nodes"],
      [1, "cluster"],
    ] as const);
    const now = await look();
    const aborting = new Set(
      (
        await sql<{ id: string }[]>`select node_id as id from runs where finished_at is null and interrupt = 'ABORT'`
      ).map(({ id }) => id),
    );
    const busy = [...now.values()].filter((node) => node.busy && (kind !== "WITHDRAW" || aborting.has(node.id)));
    if (kind === "WITHDRAW" && busy.length === 0 && random.often(0.8)) return;
    const operationId =
      (busy.length > 0 && random.often(0.9) ? random.one(busy).operationId : null) ??
      (known.length > 0 ? random.one(known).id : null);
    if (by === "operation" && operationId === null) return;
    const chosen = busy.length > 0 && random.often(0.8) ? random.some(random.whole(1, 3), busy) : someNodes(3);
    const work =
      by === "operation"
        ? { operationId: operationId ?? "" }
        : by === "cluster"
          ? { cluster: { name: `cluster-${random.whole(0, CLUSTERS - 1)}` } }
          : { ids: chosen.map(({ id }) => id) };
    const mode = random.often(0.6) ? ("NOW" as const) : ("AFTER_STEP" as const);
    const [who, askedAt] = [caller(), Date.now()];
    const answer: SubmitAnswer | AbortResult =
      kind === "ABORT"
        ? await engine.abort(who, { work, mode })
        : kind === "STOP"
          ? await engine.stop(who, { work, ...(random.often(0.1) && { timeoutSeconds: 1 }) })
          : await engine.withdrawAbort(who, { work });
    const { answers, refused } = answeredOf(answer);
    asks.push({
      verb: kind,
      actor: who.actor,
      by,
      operationId: by === "operation" ? operationId : null,
      mode,
      askedAt,
      answeredAt: Date.now(),
      refused,
      answers,
    });
    if (!answers.some(({ accepted }) => accepted)) traceless.push(who.actor);
    note(
      `${who.actor} ${kind} ${mode} by ${by} ${by === "operation" ? operationId?.slice(0, 8) : by === "nodes" ? namesOf(chosen) : ""}: ${refused ?? answers.map((one) => (one.accepted ? (one.effect ?? "yes") : one.code)).join(" ")}`,
    );
    for (const one of answers) count(`${kind} answered ${one.accepted ? (one.effect ?? "yes") : one.code}`);
    if (refused !== null && refused !== "NOTHING_RUNNING" && !(by === "cluster" && refused === "INVALID_INPUT"))
      flaws.push(`${who.actor}: a ${kind} by ${by} was refused with ${refused}`);
  }

  /** Restarts a stopped, aborted or failed operation. If nothing has happened since, the restart must be accepted. */
  async function restart(): Promise<void> {
    const ended = await sql<{ id: string; kind: Kind; options: Options }[]>`
      select id, kind, options from operations where finished_at is not null and state <> 'SUCCEEDED' and kind <> 'DISCOVER' order by finished_at desc limit 6`;
    if (ended.length === 0) return;
    const { id, kind, options: of } = random.one(ended);
    const expected = await restartable(id, kind);
    const who = caller();
    const from = random.weighed([
      [3, "STAGE"],
      [2, "UNFINISHED_STEP"],
      [1, "BEGINNING"],
    ] as const);
    const answer = await engine.restart(who, {
      work: { operationId: id },
      from,
      ...(random.often(0.5) && { acceptance: "BEST_EFFORT" as const }),
    });
    note(`${who.actor} restarts ${kind} ${id.slice(0, 8)} from ${from}: ${summaryOf(answer)}`);
    count(`restart ${answer.operationId ? "accepted" : (answer.refusals[0]?.code ?? "refused")}`);
    if (answer.operationId === null) traceless.push(who.actor);
    else remember({ id: answer.operationId, kind, options: of, request: null });
    if (expected && answer.operationId === null)
      flaws.push(
        `${who.actor}: nothing has happened since ${kind} ${id}, and its restart was refused: ${answer.refusals.map(({ code, message }) => `${code} ${message}`).join(" ")}`,
      );
  }

  /**
   * Whether every node of an operation that something is left of stands as the operation left it, with nothing against
   * it.
   */
  async function restartable(id: string, kind: Kind): Promise<boolean> {
    const rows = await sql<{ id: string; state: string; cleanedUp: boolean; isLast: boolean; free: boolean }[]>`
      select n.id, r.state, exists (select from runs c where c.operation_id = r.operation_id and c.node_id = r.node_id and c.purpose = 'CLEAN_UP') as "cleanedUp",
        n.id is not null and not exists (select from runs later where later.node_id = r.node_id and later.operation_id <> r.operation_id and later.created_at > r.created_at)
          and not exists (select from transitions t where t.node_id = r.node_id and t.at > r.created_at and t.operation_id is distinct from r.operation_id) as "isLast",
        n.maintenance_since is null and not n.is_protected and n.retired_reason is null and n.presence <> 'DISAPPEARED' and coalesce(n.fault_kind, '') not in ('BMC_UNREACHABLE', 'MACHINE_BUSY') as free
      from runs r left join nodes n on n.id = r.node_id where r.operation_id = ${id} and r.purpose = 'WORK'`;
    const left = rows.filter(({ state }) => state !== "SUCCEEDED");
    // A clean-up may leave a node where other verbs than a commission do not lead on from.
    return (
      left.length > 0 &&
      left.every(({ isLast, free, cleanedUp }) => isLast && free && (kind === "COMMISSION" || !cleanedUp))
    );
  }

  /** A machine begins to do something else: mostly what machines do, sometimes what they should not. */
  async function fault(): Promise<void> {
    const node = random.one(nodes);
    const steps: Record<string, Script> = {};
    for (const step of [
      "inspect.collect_inventory",
      "clean.erase_metadata",
      "clean.erase_disks",
      "clean.update_firmware",
      "deploy.prepare",
      "deploy.write_image",
      "deploy.boot_system",
      "deploy.configure",
      "deploy.remove_system",
    ]) {
      const script: Script = { delayMs: random.whole(0, 120) };
      const trait = random.weighed([
        [80, "plain"],
        [5, "waits"],
        [3, "called back"],
        [3, "fails"],
        [2, "tries again"],
        [2, "throws"],
        [1, "junk"],
        [2, "stuck"],
        [1, "silent"],
      ] as const);
      if (trait === "waits") script.waitSeconds = random.whole(10, 400) / 1000;
      if (trait === "called back") script.callback = true;
      if (trait === "fails") script.fail = "no luck";
      if (trait === "tries again") Object.assign(script, { failures: 1, retryable: true });
      if (trait === "throws") script.throws = "out of luck";
      if (trait === "junk") script.junk = true;
      if (trait === "stuck") script.stuck = true;
      // What is silent has to be cut, and not every step can be.
      if (
        trait === "silent" &&
        step !== "clean.erase_metadata" &&
        step !== "clean.update_firmware" &&
        step !== "deploy.configure"
      )
        script.silent = true;
      steps[step] = script;
    }
    if (random.often(0.1)) steps["driver.abort"] = { fail: "nothing can be undone" };
    const isDead = random.often(0.04);
    await changeNode(engine, caller(), node.id, { settings: { delayMs: random.whole(0, 60), steps, dead: isDead } });
    note(
      `${node.name} ${isDead ? "is dead" : JSON.stringify(Object.fromEntries(Object.entries(steps).filter(([, script]) => Object.keys(script).some((key) => key !== "delayMs"))))}`,
    );
    count("faults");
  }

  async function maintain(): Promise<void> {
    const chosen = someNodes(3);
    const reason = random.often(0.4) ? "new fan" : null;
    const selector = { ids: chosen.map(({ id }) => id) };
    await (reason === null
      ? engine.clearMaintenance(caller(), selector)
      : engine.setMaintenance(caller(), selector, reason));
    note(`maintenance ${reason === null ? "ends" : "begins"} on ${namesOf(chosen)}`);
    count(`maintenance ${reason === null ? "ends" : "begins"}`);
  }

  async function mark(): Promise<void> {
    const node = random.one(nodes);
    const what = random.one(["retired", "protected", "presence"] as const);
    const on = random.often(0.4);
    if (what === "retired" && on) await engine.setRetired(caller(), { ids: [node.id] }, "too old");
    if (what === "retired" && !on) await engine.clearRetired(caller(), { ids: [node.id] });
    if (what === "protected") await changeNode(engine, caller(), node.id, { isProtected: on });
    if (what === "presence")
      await engine.reportPresence(caller(), on ? "DISAPPEARED" : "DISCOVERED", [{ name: node.name }]);
    note(`${node.name} ${what} ${on}`);
    count(`marks ${what}`);
  }

  async function sendCallback(): Promise<void> {
    const waiting = await sql<
      { id: string; name: string }[]
    >`select id, node_name as name from runs where wait_reason = 'CALLBACK' and finished_at is null`;
    if (waiting.length === 0) return;
    diaries.read();
    for (const { id, name } of waiting) {
      const token = diaries.callbackPaths.get(id)?.split("/").at(-1);
      if (!token) continue;
      const answer = await engine.receiveCallback(token, { from: name });
      count(`callbacks ${answer}`);
      note(`${name} calls back: ${answer}`);
    }
  }

  async function unhold(): Promise<void> {
    const holding = await sql<
      { id: string; name: string }[]
    >`select node_id as id, node_name as name from runs where state = 'HOLDING' and finished_at is null`;
    if (holding.length === 0 && random.often(0.8)) return;
    const chosen = holding.length > 0 && random.often(0.8) ? random.some(2, holding) : someNodes(1);
    const who = caller();
    const answer = await engine.unhold(who, { work: { ids: chosen.map(({ id }) => id) } });
    note(
      `${who.actor} lifts holds of ${namesOf(chosen)}: ${answer.results.map((one) => one.refusal?.code ?? "lifted").join(" ")}`,
    );
    for (const one of answer.results) count(`unhold ${one.refusal?.code ?? "lifted"}`);
    if (answer.results.every(({ accepted }) => !accepted)) traceless.push(who.actor);
  }

  async function steer(): Promise<void> {
    const [row] = await sql<
      { id: string; isOver: boolean }[]
    >`select id, finished_at is not null as "isOver" from operations where wave_state is not null order by finished_at desc nulls first limit 1`;
    if (!row || (row.isOver && random.often(0.8))) return;
    const action = random.one(["ADVANCE", "HALT", "RESUME"] as const);
    const answer = await engine.steerWaves(caller(), { operationId: row.id, action });
    note(`${action} the waves of ${row.id.slice(0, 8)}: ${summaryOf(answer)}`);
    count(`waves ${action} ${answer.refusals[0]?.code ?? "done"}`);
  }

  async function limit(): Promise<void> {
    await setLimit(random.often(0.75) ? { phase: random.one(Object.keys(WORKING)), most: random.whole(1, 3) } : null);
  }

  async function setLimit(next: { readonly phase: string; readonly most: number } | null): Promise<void> {
    const to = await newestPosition();
    limits = limits.map((one) => ({ ...one, to: one.to ?? to }));
    await engine.updateSite(caller(), { phaseLimits: next && [{ phase: next.phase, limit: next.most }] });
    await delay(LIMIT_HOLDS_AFTER_MS);
    await oldLimitIsOver();
    if (next) limits.push({ ...next, from: await newestPosition(), to: null });
    note(`limit ${JSON.stringify(next)}`);
    count("limits");
  }

  /**
   * Transactions that read the old limit may commit after the new one, and a run that was started under the old one
   * enters its phase only when a worker has claimed it. Runs in place never enter one, hence the limit.
   */
  async function oldLimitIsOver(): Promise<void> {
    const until = Date.now() + OLD_LIMIT_ENDS_WITHIN_MS;
    const begun = await sql<{ at: string }[]>`select clock_timestamp()::text as at`;
    const writing = async () =>
      sql`select from pg_stat_activity where datname = current_database() and xact_start < ${begun[0]?.at ?? ""}::timestamptz and pid <> pg_backend_pid()`;
    while ((await writing()).length > 0 && Date.now() < until) await delay(20);
    const started = await sql<{ id: string }[]>`select id from runs where finished_at is null and state = 'RUNNING'`;
    const ids = started.map(({ id }) => id);
    const outside = async () =>
      sql`select from runs join nodes on nodes.id = runs.node_id where runs.id = any(${ids}) and runs.finished_at is null and runs.state = 'RUNNING' and nodes.state = any(${[...AT_REST]})`;
    while ((await outside()).length > 0 && Date.now() < until) await delay(20);
  }

  async function newestPosition(): Promise<number> {
    const [row] = await sql<
      { position: number }[]
    >`select coalesce(max(position), 0)::int as position from transitions`;
    return row?.position ?? 0;
  }

  /**
   * Never more nodes active in a phase than its limit says, according to the log, which has the order of commits. Nodes
   * that were active when the limit was set, or parked in a step, are not ended by it.
   */
  async function flawsOfLimits(): Promise<string[]> {
    if (limits.length === 0) return [];
    const log = await sql<
      { position: number; id: string; to: string | null }[]
    >`select position::int as position, node_id as id, to_state as to from transitions order by position`;
    return limits.flatMap(({ phase, most, from, to }) => {
      const [running, parked] = WORKING[phase] ?? ["", ""];
      const working = new Set<string>();
      const holding = new Set<string>();
      let bound = Infinity;
      for (const { position, id, to: state } of log) {
        if (to !== null && position > to) break;
        working[state === running ? "add" : "delete"](id);
        holding[state === running || state === parked ? "add" : "delete"](id);
        if (position < from) continue;
        if (position > from && working.size > bound)
          return [
            `${working.size} nodes are active in ${phase} at position ${position}, and ${bound} may since position ${from}`,
          ];
        bound = Math.max(most, Math.min(bound, holding.size));
      }
      return [];
    });
  }

  async function comeAndGo(): Promise<void> {
    if (random.often(0.5) && nodes.length > options.nodes - 3) {
      const node = random.one(nodes);
      const answer = await engine.deleteNodes(caller(), { ids: [node.id] });
      note(`delete ${node.name}: ${answer.refusals[0]?.code ?? "done"}`);
      count(`delete ${answer.refusals[0]?.code ?? "done"}`);
      if (answer.refusals.length === 0) nodes = nodes.filter((other) => other !== node);
    } else if (nodes.length < options.nodes + 3) await register(1);
  }

  async function register(size: number): Promise<void> {
    const made = Array.from({ length: size }, () => ({
      name: `node-${(namesGiven += 1)}`,
      cluster: `cluster-${random.whole(0, CLUSTERS - 1)}`,
    }));
    const answer = await engine.registerNodes(
      caller(),
      made.map(({ name, cluster }) => ({
        name,
        driver: "watched",
        cluster: { name: cluster },
        settings: { delayMs: 20 },
      })),
    );
    const [refusal] = answer.refusals;
    if (refusal) {
      // Work on the cluster locks it, also for new members.
      if (refusal.code !== "CLUSTER_LOCKED") flaws.push(`a registration was refused: ${refusal.message}`);
      note(`register ${namesOf(made)}: ${refusal.code}`);
      return;
    }
    nodes = [...nodes, ...made.map((node, place) => ({ ...node, id: answer.nodeIds[place] ?? "" }))];
    note(`register ${namesOf(made)}`);
  }

  /** All at once, with leases that run out at once; or one alone, whose leases run out in their own time. */
  async function kill(): Promise<void> {
    if (random.often(0.6)) await writeFirmware();
    const all = random.often(0.7);
    const dying = all ? workers : workers.slice(0, 1);
    workers = workers.filter((worker) => !dying.includes(worker));
    await Promise.all(
      dying.map(async (worker) => {
        await worker.kill();
        diaries.ended(worker.owner, Date.now());
      }),
    );
    if (all) await sql`update runs set lease_until = lease_until - interval '1 minute' where lease_until is not null`;
    note(`kill ${dying.map(({ owner }) => owner).join(" ")}`);
    count(all ? "kills of all" : "kills of one");
    await Promise.all(dying.map(hire));
  }

  /** Machines are in the middle of what must not be done twice. */
  async function writeFirmware(): Promise<void> {
    const now = await look();
    const free = nodes.filter(({ id }) => {
      const facts = now.get(id);
      return facts && reasonsAgainst("CLEAN", facts, {}).length === 0;
    });
    if (free.length === 0) return;
    const chosen = random.some(3, free);
    for (const { id } of chosen)
      await changeNode(engine, caller(), id, {
        settings: { steps: { "clean.update_firmware": { delayMs: FIRMWARE_MS } } },
      });
    const request: VerbRequest = {
      kind: "CLEAN",
      nodes: { ids: chosen.map(({ id }) => id) },
      options: { steps: [FIRMWARE] },
      acceptance: "BEST_EFFORT",
    };
    const { operationId } = await engine.submit(caller(), request);
    if (operationId !== null)
      remember({ id: operationId, kind: "CLEAN", options: request.options as Options, request });
    note(`firmware on ${namesOf(chosen)}: ${operationId?.slice(0, 8)}`);
    count("firmware under a kill");
    await delay(random.whole(50, FIRMWARE_MS));
  }

  // ---- the end of a round

  async function settleAll(): Promise<void> {
    const ids = nodes.map(({ id }) => id);
    await setLimit(null);
    await engine.clearMaintenance(caller(), { ids });
    await engine.clearRetired(caller(), { ids });
    await engine.reportPresence(caller(), "DISCOVERED", nodes);
    for (const { id } of nodes)
      await changeNode(engine, caller(), id, { isProtected: false, settings: { delayMs: 5, steps: null, dead: null } });
    note("everything is lifted");
    const late = await everythingEnds();
    await judgeRound(late);
    if (flaws.length > 0) return;
    await everyNodeWorks();
    diaries.visits.clear();
    [known, asks, traceless, limits] = [[], [], [], []];
  }

  /** Lifts what comes up still, until nothing runs. Answers the operations that have not ended in time. */
  async function everythingEnds(): Promise<string[]> {
    for (const giveUp = Date.now() + ENDS_WITHIN_MS; ; await delay(60)) {
      const open = await sql<
        { id: string; waveState: string | null }[]
      >`select id, wave_state as "waveState" from operations where finished_at is null`;
      if (open.length === 0) return [];
      if (Date.now() > giveUp) return open.map(({ id }) => id);
      for (const { id, waveState } of open) {
        if (waveState === "HALTED") await engine.steerWaves(caller(), { operationId: id, action: "RESUME" });
        if (waveState === "AWAITING") await engine.steerWaves(caller(), { operationId: id, action: "ADVANCE" });
      }
      const holding = await sql<
        { id: string }[]
      >`select node_id as id from runs where state = 'HOLDING' and interrupt is null and finished_at is null`;
      if (holding.length > 0) await engine.unhold(caller(), { work: { ids: holding.map(({ id }) => id) } });
      await sendCallback();
      await cutTheSilent();
    }
  }

  /** Aborts the steps that end only at their timeout. */
  async function cutTheSilent(): Promise<void> {
    diaries.read();
    const inside = [...diaries.visits.values()]
      .flat()
      .filter(({ left, at }) => left === null && Date.now() - at > 3_000);
    const running =
      inside.length === 0
        ? []
        : await sql<
            { nodeId: string }[]
          >`select node_id as "nodeId" from runs where id in ${sql(inside.map(({ run }) => run))} and finished_at is null and interrupt is distinct from 'ABORT'`;
    if (running.length === 0) return;
    const [who, askedAt] = [caller(), Date.now()];
    const answered = answeredOf(await engine.abort(who, { work: { ids: running.map(({ nodeId }) => nodeId) } }));
    asks.push({
      verb: "ABORT",
      actor: who.actor,
      by: "nodes",
      operationId: null,
      mode: "NOW",
      askedAt,
      answeredAt: Date.now(),
      ...answered,
    });
    note(`${who.actor} cuts ${answered.answers.length} silent steps`);
    count("silent steps cut");
  }

  async function judgeRound(late: readonly string[]): Promise<void> {
    diaries.read();
    // A power cut may end a process between a step's end and its last line.
    const world: Circumstances = { toleranceMs, isDeaf: () => false };
    const operations =
      known.length > 0
        ? await accountsOf(
            sql,
            known.map(({ id }) => id),
            diaries.visits,
          )
        : [];
    for (const operation of operations) {
      const concerned = asks.filter(
        ({ answers, operationId }) =>
          operationId === operation.id ||
          (operationId === null && answers.some(({ nodeId }) => operation.runs.some((run) => run.nodeId === nodeId))),
      );
      const named = concerned.filter(
        ({ answers, by }) =>
          by !== "operation" || answers.some(({ runId }) => operation.runs.some(({ id }) => id === runId)),
      );
      const found = [
        ...(late.includes(operation.id) ? ["nothing stands in its way, and it does not end"] : []),
        ...(late.includes(operation.id)
          ? []
          : [
              ...flawsOfOperation(operation),
              ...operation.runs.flatMap((run) => flawsOfRun(run, operation, concerned, world)),
            ]),
        ...named.flatMap((ask) => flawsOfStop(operation, ask, world)),
        ...flawsOfAdmission(operation),
      ];
      count(`operations ${operation.state}`);
      for (const run of operation.runs) count(`${run.purpose === "WORK" ? "runs" : "clean-ups"} ${run.state}`);
      if (found.length > 0 && stories.length < STORY_LINES_MAX)
        stories.push(
          ...found.map((flaw) => `FAIL ${operation.id.slice(0, 8)}: ${flaw}`),
          ...story(operation, named),
          "",
        );
      flaws.push(...found.map((flaw) => `${operation.id.slice(0, 8)}: ${flaw}`));
    }
    flaws.push(
      ...(await flawsOfLog(sql)),
      ...(late.length > 0 ? [] : await flawsAtRest(sql)),
      ...(await flawsAtAnyMoment(sql)),
      ...(await flawsOfTraces()),
      ...(await flawsOfLimits()),
    );
    const now = await look();
    for (const { id, name } of nodes) if (!now.has(id)) flaws.push(`node ${name} is lost`);
    if (now.size !== nodes.length) flaws.push(`there are ${now.size} nodes, and the model has ${nodes.length}`);
  }

  /** Every admitted run was legal, ran the phases that the model expects, and had the target that the model expects. */
  function flawsOfAdmission(operation: OperationAccount): string[] {
    const request = known.find(({ id }) => id === operation.id);
    if (!request) return [];
    const { kind, options: of } = request;
    return operation.runs.flatMap((run) => {
      const then = run.seen.find(({ what }) => what === "CREATED")?.more.node;
      if (!then) return [`run on ${run.nodeName}: its creation was not recorded`];
      const flaw = (text: string) => `run on ${run.nodeName}, admitted ${JSON.stringify(then)}: ${text}`;
      if (then.others > 0) return [flaw("another run had not ended")];
      if (run.purpose === "CLEAN_UP") return [];
      const facts: Facts = { ...then, busy: false, disappeared: then.presence === "DISAPPEARED", fault: null };
      const restarted = request.request === null;
      // A restart goes on from where the earlier run came to, which need not be where the verb begins.
      const reasons = reasonsAgainst(kind, facts, of).filter((reason) => !restarted || reason !== "INVALID_STATE");
      const steps = run.plan.steps.map((step) => `${step.interface}.${step.name}`);
      const expected = stepsOf(kind, then, of) ?? [];
      return [
        ...reasons.map((reason) => flaw(`the model has ${reason}`)),
        ...(restarted || steps.join() === expected.join()
          ? []
          : [flaw(`it runs ${steps.join(", ")}; the model has ${expected.join(", ")}`)]),
        ...(restarted || run.target === endOf(kind, facts, of)
          ? []
          : [flaw(`it is to end ${run.target}; the model has ${endOf(kind, facts, of)}`)]),
        ...(then.isRetired && run.target === "AVAILABLE" && then.state !== "AVAILABLE"
          ? [flaw("a retired node was to become available")]
          : []),
      ];
    });
  }

  /** Nothing of what was refused, or only planned, is anywhere. */
  async function flawsOfTraces(): Promise<string[]> {
    if (traceless.length === 0) return [];
    const rows = await sql<{ flaw: string }[]>`
      select actor || ' was refused, and there is operation ' || id as flaw from operations where actor in ${sql(traceless)}
      union all select interrupt_by || ' was refused, and operation ' || id || ' has its interrupt' from operations where interrupt_by in ${sql(traceless)}
      union all select interrupt_by || ' was refused, and the run on ' || node_name || ' has its interrupt' from runs where interrupt_by in ${sql(traceless)}
      union all select actor || ' was refused, and ' || node_name || ' has its transition ' || position from transitions where actor in ${sql(traceless)}`;
    return rows.map(({ flaw }) => flaw);
  }

  /** Every node can be brought into service, independent of its history; with `force`, as a node can have a fault. */
  async function everyNodeWorks(): Promise<void> {
    const now = [...(await look()).values()].filter(({ state }) => state !== "ACTIVE");
    for (const { name, state } of now)
      if (!AT_REST.has(state)) flaws.push(`node ${name} is ${state}, and nothing runs`);
    if (now.length === 0 || flaws.length > 0) return;
    const groups = Map.groupBy(now, () => random.one(["AVAILABLE", "ACTIVE"] as const));
    const begun: string[] = [];
    for (const [until, group] of groups) {
      const answer = await engine.submit(caller(), {
        kind: "COMMISSION",
        nodes: { ids: group.map(({ id }) => id) },
        options: { until, from: "BEGINNING", force: true },
        onFailure: "LEAVE",
      });
      if (answer.operationId === null)
        flaws.push(
          `nodes that nothing speaks against cannot be commissioned: ${answer.refusals.map(({ message }) => message).join(" ")}`,
        );
      else begun.push(answer.operationId);
    }
    const late = await everythingEnds();
    if (late.length > 0) flaws.push("a commission does not end");
    for (const operation of begun.length > 0 ? await accountsOf(sql, begun, new Map()) : []) {
      if (operation.state === "SUCCEEDED") continue;
      flaws.push(`a commission of sound nodes ended ${operation.state}`);
      stories.push(...story(operation, []));
    }
  }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      seed: { type: "string", default: String(anySeed()) },
      actions: { type: "string", default: "2000" },
      nodes: { type: "string", default: "16" },
      round: { type: "string", default: "150" },
      kill: { type: "string", default: "60" },
    },
  });
  console.log(`${values.actions} actions, seed ${values.seed}`);
  await using lab = await openLab();
  const report = await runModel(lab.connection, {
    seed: Number(values.seed),
    actions: Number(values.actions),
    nodes: Number(values.nodes),
    round: Number(values.round),
    killEvery: Number(values.kill),
    say: (line) => console.log(`     ${line}`),
  });
  for (const [what, count] of Object.entries(report.counts).toSorted(([a], [b]) => a.localeCompare(b)))
    console.log(`${String(count).padStart(8)} ${what}`);
  for (const line of report.stories) console.log(`     ${line}`);
  if (report.history.length > 0)
    console.log(`\nThe last actions:\n${report.history.map((line) => `     ${line}`).join("\n")}`);
  for (const flaw of report.flaws) console.log(`FAIL ${flaw}`);
  console.log(
    `\nseed ${values.seed}, ${report.seconds.toFixed(0)} s: ${report.flaws.length === 0 ? "nothing went wrong" : `${report.flaws.length} flaws`}`,
  );
  process.exitCode = report.flaws.length === 0 ? 0 : 1;
}
