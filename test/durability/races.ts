/**
 * `npm run tool -- races`: concurrent aborts, withdrawals, stops and natural ends. On a temporary database two engines
 * run operations of one to four nodes each, many at the same time. Each operation is aborted or stopped close to the
 * end of one of its steps, once or twice, by operation, by nodes or by cluster. The answers, the stored data and the
 * witnesses' records of each are checked against the rules in rules.ts.
 *
 * Options: --seed N --count 10000 --lanes 40. Prints the seed, the numbers of outcomes, and the history of each failed
 * race. Exits with 1 after a failure.
 */
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { Script } from "../../plugins/fake/settings.ts";
import type { Driver } from "../../src/drivers/driver.ts";
import type { Engine } from "../../src/engine/engine.ts";
import type { AbortResult } from "../../src/engine/input/interrupt-request.ts";
import type { RestartFrom } from "../../src/engine/admission/earlier-work.ts";
import type { SubmitAnswer } from "../../src/engine/input/answers.ts";
import type { Connection } from "../../src/store/postgres/database.ts";
import { runEngine } from "../support/running-engine.ts";
import { answeredOf } from "./answers.ts";
import { anySeed, chance, openLab, plainSql } from "./lab.ts";
import type { Chance } from "./lab.ts";
import { STEPS, deploysWithoutCleaning, touchesMachine } from "./expectations.ts";
import type { Kind, Options } from "./expectations.ts";
import {
  cutOf,
  flawsAtAnyMoment,
  flawsAtRest,
  flawsOfFault,
  flawsOfLog,
  flawsOfOperation,
  flawsOfRun,
  flawsOfStop,
  labelOf,
  story,
} from "./rules.ts";
import type { Ask, Circumstances } from "./rules.ts";
import { accountsOf, watchDatabase, watchedFake } from "./witness.ts";
import type { Entered, OperationAccount, Visit } from "./witness.ts";
import { changeNode } from "../support/change-node.ts";

export interface RacesOptions {
  readonly seed: number;
  readonly count: number;
  /** Operations in progress at the same time. */
  readonly lanes: number;
  /** Called with the progress from time to time. */
  readonly say?: (line: string) => void;
}

export interface RacesReport {
  readonly races: number;
  readonly seconds: number;
  /** Numbers of runs by end, of answers, and of kinds of races. */
  readonly counts: Readonly<Record<string, number>>;
  /** The races that failed, each with its history. */
  readonly faults: readonly { readonly flaws: readonly string[]; readonly story: readonly string[] }[];
}

const NAMES = { ABORT: "aborts", WITHDRAW: "withdrawals", STOP: "stops" } as const;
const NODES_A_LANE = 4;
const STEP_MS = 30;
/** Long enough to be interrupted in the middle, even on a busy computer. */
const LINGER_MS = 1_500;
/** A step that ignores its signal continues for longer than the engine waits for it. */
const GRACE_MS = 200;
const DEAF_MS = 450;
const ENDS_WITHIN_MS = 60_000;
const POLL_MS = 12;
/** One defect fails many races: this number of histories is enough. */
const FAULTS_MAX = 10;

/** Steps of the parts of a task: those of a phase, or those that a request names. */
const PARTS: Readonly<Record<string, readonly string[]>> = {
  ...STEPS,
  firmware: ["clean.erase_disks", "clean.update_firmware"],
};

interface Node {
  readonly id: string;
  readonly name: string;
  state: string;
  fault: string | null;
}

interface Lane {
  readonly cluster: string;
  readonly nodes: readonly Node[];
  /** The last operation of this lane if it is unfinished. */
  unfinished: { readonly id: string; readonly nodes: readonly Node[] } | null;
}

/** The subject of a race: a kind of operation, and the phases in which it may be interrupted. */
interface Task {
  readonly kind: Kind | "RESTART";
  readonly phases: readonly string[];
  readonly options?: Options;
  readonly from?: RestartFrom;
}

/** States in which work may begin, and its phases, from the rules of the verbs. */
const WORKS: readonly { readonly weight: number; readonly from: readonly string[]; readonly work: Task }[] = [
  {
    weight: 1,
    from: [
      "ENROLLED",
      "STOPPED",
      "DECOMMISSIONED",
      "MANAGEABLE",
      "INSPECT_FAILED",
      "CLEAN_FAILED",
      "AVAILABLE",
      "DEPLOY_FAILED",
    ],
    work: { kind: "COMMISSION", phases: ["inspect", "clean", "deploy"], options: { from: "BEGINNING" } },
  },
  {
    weight: 1,
    from: ["ENROLLED", "STOPPED", "DECOMMISSIONED", "MANAGEABLE", "INSPECT_FAILED", "CLEAN_FAILED"],
    work: { kind: "COMMISSION", phases: ["inspect", "clean"], options: { until: "AVAILABLE", from: "BEGINNING" } },
  },
  { weight: 3, from: ["UNDEPLOY_FAILED"], work: { kind: "COMMISSION", phases: ["undeploy", "clean", "deploy"] } },
  {
    weight: 5,
    from: ["AVAILABLE", "ACTIVE", "DEPLOY_FAILED"],
    work: { kind: "DEPLOY", phases: ["deploy"], options: { reinstall: true } },
  },
  {
    weight: 3,
    from: ["AVAILABLE", "MANAGEABLE", "CLEAN_FAILED"],
    work: {
      kind: "CLEAN",
      phases: ["firmware"],
      options: {
        steps: [
          { interface: "clean", name: "erase_disks", args: {} },
          { interface: "clean", name: "update_firmware", args: { version: "2.1" } },
        ],
      },
    },
  },
  {
    weight: 2,
    from: ["AVAILABLE", "MANAGEABLE", "CLEAN_FAILED"],
    work: {
      kind: "CLEAN",
      phases: ["clean"],
      options: { steps: [{ interface: "clean", name: "erase_metadata", args: {} }] },
    },
  },
  { weight: 1, from: ["MANAGEABLE", "CLEAN_FAILED"], work: { kind: "PROVIDE", phases: ["clean"] } },
  {
    weight: 2,
    from: ["ACTIVE", "DEPLOY_FAILED", "UNDEPLOY_FAILED"],
    work: { kind: "UNDEPLOY", phases: ["undeploy", "clean"] },
  },
  {
    weight: 1,
    from: [
      "ENROLLED",
      "MANAGEABLE",
      "ACTIVE",
      "DEPLOY_FAILED",
      "UNDEPLOY_FAILED",
      "STOPPED",
      "CLEAN_FAILED",
      "INSPECT_FAILED",
      "AVAILABLE",
    ],
    work: { kind: "DECOMMISSION", phases: ["undeploy", "clean"] },
  },
  {
    weight: 1,
    from: ["ENROLLED", "AVAILABLE", "INSPECT_FAILED", "CLEAN_FAILED", "STOPPED", "DECOMMISSIONED"],
    work: { kind: "MANAGE", phases: [] },
  },
  {
    weight: 2,
    from: ["MANAGEABLE", "INSPECT_FAILED", "AVAILABLE", "ACTIVE"],
    work: { kind: "INSPECT", phases: ["inspect"] },
  },
  {
    weight: 1,
    from: ["AVAILABLE", "ACTIVE", "MANAGEABLE"],
    work: { kind: "POWER", phases: [], options: { powerAction: "REBOOT" } },
  },
];

/**
 * A node whose operation has not ended in time, which is a failure of its race, is in a state that no work begins from.
 */
function canBeginWork({ state }: Node): boolean {
  return WORKS.some(({ from }) => from.includes(state));
}

interface Chosen {
  readonly work: Task;
  readonly nodes: readonly Node[];
}

/** A restart continues the work whose clean-up failed, and is not refused; one of a machine that may work is forced. */
function isRefusedForFault({ fault, state }: Node, { kind, options = {} }: Task): boolean {
  if (kind === "RESTART" || options.force === true) return false;
  return (
    (fault === "CLEAN_UP_FAILED" && deploysWithoutCleaning(kind, state, options)) ||
    (fault === "MACHINE_BUSY" && touchesMachine(kind, state, options))
  );
}

/** The same work, sent by a person who has looked at the machines. */
function forced(chosen: Chosen): Chosen {
  const isBusy = chosen.nodes.some(({ fault }) => fault === "MACHINE_BUSY");
  return isBusy ? { ...chosen, work: { ...chosen.work, options: { ...chosen.work.options, force: true } } } : chosen;
}

/** Scripts of the steps of one node in one race. */
interface Scripts {
  readonly steps: Record<string, Script>;
  readonly deaf: boolean;
}

function scriptsFor(random: Chance, phases: readonly string[]): Scripts {
  const steps: Record<string, Script> = { "power.read": { delayMs: random.whole(0, STEP_MS / 2) } };
  let deaf = false;
  for (const step of phases.flatMap((phase) => PARTS[phase] ?? [])) {
    const script: Script = { delayMs: random.whole(0, STEP_MS) };
    const trait = random.weighed([
      [58, "plain"],
      [12, "lingers"],
      [9, "waits"],
      [6, "called back"],
      [9, "fails"],
      [4, "throws"],
      [4, "tries again"],
      [2, "deaf"],
    ] as const);
    if (trait === "lingers") script.delayMs = random.whole(STEP_MS, LINGER_MS);
    if (trait === "waits") script.waitSeconds = random.whole(1, STEP_MS) / 1000;
    // The call and the end of the silence may come at the same moment.
    if (trait === "called back")
      Object.assign(
        script,
        { callback: true },
        random.often(0.5) && { waitSeconds: random.whole(10, 2 * STEP_MS) / 1000 },
      );
    if (trait === "fails") script.fail = "no luck";
    if (trait === "throws") script.throws = "out of luck";
    if (trait === "tries again") Object.assign(script, { fail: "not yet", retryable: true });
    if (trait === "deaf") {
      deaf = true;
      Object.assign(script, { delayMs: DEAF_MS, ignoreSignal: true });
    }
    steps[step] = script;
  }
  // An abort can meet a step that has failed while that is undone.
  if (random.often(Object.values(steps).some(fails) ? 0.5 : 0.1))
    steps["driver.abort"] = random.often(0.3)
      ? { fail: "nothing can be undone" }
      : { delayMs: random.whole(0, STEP_MS) };
  return { steps, deaf };
}

function fails({ fail, throws }: Script): boolean {
  return fail !== undefined || throws !== undefined;
}

/** When and how a race is disturbed. */
interface Disturbance {
  readonly verb: Ask["verb"];
  readonly mode: Ask["mode"];
  readonly by: "operation" | "nodes" | "cluster";
  readonly nodes: readonly Node[];
  readonly powerOff: boolean | undefined;
  /** The step entry to wait for; null: the acceptance of the operation. */
  readonly aim: { readonly node: Node; readonly step: string } | null;
  /** Delay after it, in milliseconds. */
  readonly afterMs: number;
}

function disturbancesFor(
  random: Chance,
  nodes: readonly Node[],
  phases: readonly string[],
  scripts: ReadonlyMap<string, Scripts>,
): Disturbance[] {
  const steps = phases.flatMap((phase) => PARTS[phase] ?? []);
  const first = disturbance();
  const isPending = first.verb === "ABORT" && first.aim !== null && cutOf(first.aim.step) !== "ALWAYS";
  const more = random.weighed([
    [isPending ? 30 : 65, 0],
    [28, 1],
    [7, 2],
  ] as const);
  // A repetition, or a withdrawal, comes while the first is still on its way, or right after it.
  const again = (): Disturbance => ({
    ...first,
    verb: first.verb === "ABORT" && random.often(isPending ? 0.7 : 0.2) ? "WITHDRAW" : first.verb,
    afterMs: first.afterMs + random.whole(0, 12),
  });
  return [
    first,
    ...Array.from({ length: more }, () => (random.often(isPending ? 0.8 : 0.5) ? again() : disturbance())),
  ];

  function disturbance(): Disturbance {
    const node = random.one(nodes);
    const step = steps.length > 0 && random.often(0.9) ? aimAt(node) : null;
    const script = step === null ? undefined : scripts.get(node.id)?.steps[step];
    const lasts = (script?.delayMs ?? 0) + (script?.waitSeconds ?? 0) * 1000;
    return {
      verb: random.often(0.6) ? "ABORT" : "STOP",
      mode: random.weighed([
        [45, "NOW"],
        [20, "CUT"],
        [35, "AFTER_STEP"],
      ] as const),
      by: random.weighed([
        [45, "operation"],
        [35, "nodes"],
        [20, "cluster"],
      ] as const),
      nodes: [
        node,
        ...random.some(
          random.whole(0, nodes.length - 1),
          nodes.filter((other) => other !== node),
        ),
      ],
      powerOff: random.often(0.15) ? random.often(0.5) : undefined,
      aim: step === null ? null : { node, step },
      afterMs:
        step === null
          ? random.whole(0, 8)
          : lasts > STEP_MS && random.often(0.6)
            ? random.whole(0, lasts)
            : Math.max(0, lasts + random.whole(-12, 14)),
    };
  }

  /** The last step, one that lingers, one that cannot be interrupted, one that fails, or any. */
  function aimAt({ id }: Node): string {
    const kinds = [
      steps.slice(-1),
      steps.filter((step) => (scripts.get(id)?.steps[step]?.delayMs ?? 0) > STEP_MS),
      steps.filter((step) => cutOf(step) !== "ALWAYS"),
      steps.filter((step) => fails(scripts.get(id)?.steps[step] ?? {})),
      steps,
    ];
    return random.one(
      random.weighed(
        kinds.flatMap((kind, place) => (kind.length > 0 ? [[[3, 2, 3, 4, 3][place] ?? 1, kind] as const] : [])),
      ),
    );
  }
}

export async function runRaces(connection: Connection, options: RacesOptions): Promise<RacesReport> {
  const began = Date.now();
  await using owned = new AsyncDisposableStack();
  const sql = plainSql(connection, 4);
  owned.defer(() => sql.end());

  // ---- witnesses
  const visits = new Map<string, Visit[]>();
  const listeners = new Map<string, ((entered: Entered) => void)[]>();
  const listen = (nodeId: string, hear: (entered: Entered) => void) =>
    listeners.set(nodeId, [...(listeners.get(nodeId) ?? []), hear]);
  const witnessed = (owner: string) =>
    watchedFake({
      owner,
      entered(entered) {
        const { visit } = entered;
        const known = visits.get(visit.run);
        if (known) known.push(visit);
        else visits.set(visit.run, [visit]);
        for (const hear of listeners.get(visit.node) ?? []) hear(entered);
      },
      left: () => {},
    }) as unknown as Driver<never>;

  const engines = await Promise.all(
    ["first", "second"].map(
      async (owner) =>
        owned.use(
          await runEngine(connection, {
            drivers: [witnessed(owner)],
            concurrency: options.lanes,
            abortGraceMs: GRACE_MS,
          }),
        ).engine,
    ),
  );
  await watchDatabase(sql);
  const clocks = await sql<{ now: number }[]>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`;
  const toleranceMs = 4 + Math.abs(Date.now() - (clocks[0]?.now ?? 0));
  const counts: Record<string, number> = {};
  const count = (what: string) => (counts[what] = (counts[what] ?? 0) + 1);
  const faults: { flaws: string[]; story: string[] }[] = [];

  // ---- ends

  const pending = new Map<string, () => void>();
  let over = false;
  const poll = (async () => {
    while (!over) {
      await delay(POLL_MS);
      if (pending.size === 0) continue;
      const ended = await sql<
        { id: string }[]
      >`select id from operations where id in ${sql([...pending.keys()])} and finished_at is not null`;
      for (const { id } of ended) pending.get(id)?.();
    }
  })();
  owned.defer(async () => {
    over = true;
    await poll;
  });

  async function ends(id: string): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const ended = new Promise<boolean>((give) => {
      pending.set(id, () => give(true));
      timer = setTimeout(() => give(false), ENDS_WITHIN_MS);
    });
    const has = await ended;
    clearTimeout(timer);
    pending.delete(id);
    return has;
  }

  // ---- one race

  const lanes = await makeLanes();
  let next = 0;
  let done = 0;
  await Promise.all(lanes.map((lane) => raceOn(lane)));
  const whole = [...(await flawsOfLog(sql)), ...(await flawsAtRest(sql)), ...(await flawsAtAnyMoment(sql))];
  if (whole.length > 0) faults.push({ flaws: whole.slice(0, 50), story: [] });
  return { races: done, seconds: (Date.now() - began) / 1000, counts, faults };

  async function makeLanes(): Promise<Lane[]> {
    const [engine] = engines as [Engine];
    const caller = { actor: "races", project: "default", scope: "ADMIN" as const };
    return Promise.all(
      Array.from({ length: options.lanes }, async (_, index): Promise<Lane> => {
        const cluster = `lane-${index}`;
        await engine.createCluster(caller, { name: cluster });
        const names = Array.from({ length: NODES_A_LANE }, (_unused, place) => `lane-${index}-${place}`);
        const { nodeIds, refusals } = await engine.registerNodes(
          caller,
          names.map((name) => ({ name, driver: "watched", cluster: { name: cluster } })),
        );
        if (refusals.length > 0) throw new Error(refusals[0]?.message);
        return {
          cluster,
          nodes: names.map((name, place) => ({ name, id: nodeIds[place] ?? "", state: "ENROLLED", fault: null })),
          unfinished: null,
        };
      }),
    );
  }

  async function raceOn(lane: Lane): Promise<void> {
    while (next < options.count && faults.length < FAULTS_MAX) {
      if (!lane.nodes.some(canBeginWork)) {
        count("lanes that ended early, with no node that work begins from");
        return;
      }
      const index = (next += 1);
      await race(lane, index);
      done += 1;
      if (done % 500 === 0) options.say?.(`${done} races, ${((Date.now() - began) / 1000).toFixed(0)} s`);
    }
  }

  async function race(lane: Lane, index: number): Promise<void> {
    const random = chance(options.seed * 1_000_003 + index);
    const actor = `race-${index}`;
    let chosen = chooseWork(random, lane, () => true);
    if (chosen.nodes.some((node) => isRefusedForFault(node, chosen.work))) {
      await beRefused(random, lane, chosen, actor);
      chosen = chooseWork(
        random,
        lane,
        (work, node) => node.fault === "MACHINE_BUSY" || !isRefusedForFault(node, work),
      );
    }
    const { work, nodes } = forced(chosen);
    const scripts = new Map(nodes.map(({ id }) => [id, scriptsFor(random, work.phases)]));
    await Promise.all(
      nodes.map(({ id }) =>
        changeNode(random.one(engines), { actor, project: "default", scope: "ADMIN" as const }, id, {
          settings: { steps: scripts.get(id)?.steps ?? {} },
        }),
      ),
    );

    const disturbances = disturbancesFor(random, nodes, work.phases, scripts);
    const shots = disturbances.map((disturbance) => aimed(disturbance));
    const stopCalling = sendCallbacksAfter(random, nodes, scripts);
    const submitted = await submit(random, lane, work, nodes, actor);
    const id = submitted.operationId;
    if (id === null) {
      for (const shot of shots) shot.cancel();
      stopCalling();
      // The remains of a race must not block the next one.
      const before = work.kind === "RESTART" ? ` of ${lane.unfinished?.id}` : "";
      faults.push({
        flaws: [
          `${actor}: ${work.kind}${before} from ${nodes.map(({ state }) => state).join(", ")} was refused: ${submitted.refusals.map(({ code, message }) => `${code}: ${message}`).join(" ")}`,
        ],
        story: lane.unfinished
          ? [
              "the earlier operation of these nodes:",
              ...(await accountsOf(sql, [lane.unfinished.id], visits)).flatMap((one) => story(one, [])),
            ]
          : [],
      });
      lane.unfinished = null;
      return;
    }
    count(work.kind === "RESTART" ? `restarts from ${work.from ?? "STAGE"}` : `${work.kind.toLowerCase()}s`);
    const ended = ends(id);
    const asks = (
      await Promise.all(
        shots.map(async (shot, place) =>
          ask(random, shot, disturbances[place] as Disturbance, lane, id, ended, `${actor}-${place}`),
        ),
      )
    ).flat();
    const hasEnded = await ended;
    stopCalling();
    await judge(lane, nodes, scripts, id, asks, hasEnded, work, actor);
  }

  /** Resolves when the step has been entered. */
  function aimed({ aim }: Disturbance): { readonly hit: Promise<void>; cancel(): void } {
    if (aim === null) return { hit: Promise.resolve(), cancel: () => {} };
    const { promise, resolve } = Promise.withResolvers<void>();
    listen(aim.node.id, ({ visit }) => visit.step === aim.step && resolve());
    return { hit: promise, cancel: resolve };
  }

  /** The machines of a race send callbacks at about the time at which a step waits for one. */
  function sendCallbacksAfter(
    random: Chance,
    nodes: readonly Node[],
    scripts: ReadonlyMap<string, Scripts>,
  ): () => void {
    let open = true;
    for (const { id } of nodes) {
      // After a timeout the step waits again, with another callback path.
      listen(id, ({ visit, callbackPath }) => {
        if (!scripts.get(id)?.steps[visit.step]?.callback) return;
        const token = callbackPath.split("/").at(-1) ?? "";
        const [engine, after] = [random.one(engines), random.whole(0, 2 * STEP_MS)];
        const call = () =>
          engine.receiveCallback(token, { from: visit.step }).then(
            (answer) => count(`callbacks ${answer}`),
            (error: unknown) => count(`callbacks ${String(error)}`),
          );
        setTimeout(() => void (open && call()), after);
      });
    }
    return () => {
      open = false;
      for (const { id } of nodes) listeners.delete(id);
    };
  }

  async function submit(
    random: Chance,
    lane: Lane,
    work: Task,
    nodes: readonly Node[],
    actor: string,
  ): Promise<SubmitAnswer> {
    const caller = { actor, project: "default", scope: "ADMIN" as const };
    const terms = { ...(nodes.length > 1 && random.often(0.3) && { maxParallel: random.whole(1, nodes.length - 1) }) };
    const engine = random.one(engines);
    if (work.kind === "RESTART")
      return engine.restart(caller, {
        ...terms,
        work: { operationId: lane.unfinished?.id ?? "" },
        from: work.from,
        force: work.options?.force,
      });
    const onFailure =
      work.kind === "COMMISSION"
        ? random.weighed([
            [3, undefined],
            [4, "LEAVE"],
            [2, "CLEAN_UP_FAILED"],
          ] as const)
        : undefined;
    const selector =
      nodes.length === lane.nodes.length && random.often(0.7)
        ? { cluster: { name: lane.cluster } }
        : { ids: nodes.map(({ id }) => id) };
    return engine.submit(caller, { ...terms, kind: work.kind, nodes: selector, options: work.options, onFailure });
  }

  /**
   * Work that the fault of a node is in the way of is refused as a whole, and each such node is named with its fault.
   */
  async function beRefused(random: Chance, lane: Lane, { work, nodes }: Chosen, actor: string): Promise<void> {
    const answer = await submit(random, lane, work, nodes, actor);
    const { operationId } = answer;
    const expected = nodes.filter((node) => isRefusedForFault(node, work)).map(({ id }) => `${id} INVALID_STATE`);
    const seen = answer.results.flatMap(({ nodeId, refusal }) =>
      refusal
        ? [/CLEAN_UP_FAILED|MACHINE_BUSY/.test(refusal.message) ? `${nodeId} ${refusal.code}` : refusal.message]
        : [],
    );
    count("requests refused for a fault");
    if (operationId !== null || expected.toSorted().join() !== seen.toSorted().join())
      faults.push({
        flaws: [
          `${actor}: ${work.kind} of nodes with a fault was answered ${operationId ?? seen.join(", ")}, expected ${expected.join(", ")}`,
        ],
        story: [],
      });
  }

  function chooseWork(random: Chance, lane: Lane, fits: (work: Task, node: Node) => boolean): Chosen {
    if (lane.unfinished && random.often(0.25)) {
      const { nodes } = lane.unfinished;
      return {
        work: {
          kind: "RESTART",
          from: random.one(["STAGE", "STAGE", "UNFINISHED_STEP", "BEGINNING"] as const),
          phases: ["inspect", "clean", "deploy"],
        },
        nodes,
      };
    }
    const first = random.one(lane.nodes.filter(canBeginWork));
    const { work, from } = random.weighed(
      WORKS.filter((one) => one.from.includes(first.state) && fits(one.work, first)).map(
        (one) => [one.weight, one] as const,
      ),
    );
    const others = lane.nodes.filter((node) => node !== first && from.includes(node.state) && fits(work, node));
    return {
      work,
      nodes: [
        first,
        ...random.some(
          random.weighed([
            [66, 0],
            [20, 1],
            [9, 2],
            [5, 3],
          ] as const),
          others,
        ),
      ],
    };
  }

  async function ask(
    random: Chance,
    shot: { readonly hit: Promise<void> },
    disturbance: Disturbance,
    lane: Lane,
    operationId: string,
    ended: Promise<boolean>,
    actor: string,
  ): Promise<Ask> {
    const { verb, by, mode, nodes, powerOff, afterMs } = disturbance;
    await Promise.race([shot.hit, ended]);
    if (afterMs > 0) await delay(afterMs);
    const selector =
      by === "operation"
        ? { operationId }
        : by === "cluster"
          ? { cluster: { name: lane.cluster } }
          : { ids: nodes.map(({ id }) => id) };
    const [engine, caller, askedAt] = [
      random.one(engines),
      { actor, project: "default", scope: "ADMIN" as const },
      Date.now(),
    ];
    const answer: SubmitAnswer | AbortResult =
      verb === "ABORT"
        ? await engine.abort(caller, { work: selector, mode, ...(powerOff !== undefined && { powerOff }) })
        : await engine[verb === "STOP" ? "stop" : "withdrawAbort"](caller, { work: selector });
    const { answers, refused } = answeredOf(answer);
    for (const one of answers) count(`${NAMES[verb]} answered ${one.accepted ? (one.effect ?? "yes") : one.code}`);
    if (refused) count(`${NAMES[verb]} answered ${refused}`);
    return {
      verb,
      actor,
      by,
      operationId: by === "operation" ? operationId : null,
      mode,
      askedAt,
      answeredAt: Date.now(),
      refused,
      answers,
    };
  }

  // ---- checks

  async function judge(
    lane: Lane,
    nodes: readonly Node[],
    scripts: ReadonlyMap<string, Scripts>,
    id: string,
    asks: readonly Ask[],
    hasEnded: boolean,
    work: Task,
    actor: string,
  ): Promise<void> {
    const [operation] = await accountsOf(sql, [id], visits);
    if (!operation) throw new Error(`Operation ${id} is gone.`);
    const world: Circumstances = { toleranceMs, isDeaf: (run) => scripts.get(run.nodeId)?.deaf ?? false };
    const flaws = [
      ...(hasEnded ? [] : [`it has not ended ${ENDS_WITHIN_MS / 1000} s after it was accepted`]),
      ...operation.runs.flatMap((run) => flawsOfRun(run, operation, asks, world)),
      ...flawsOfOperation(operation),
      ...asks.flatMap((one) => flawsOfStop(operation, one, world)),
      ...lane.nodes.flatMap((node) => flawsOfFault(operation, node)),
      ...asks.flatMap((one) =>
        one.refused !== null && !["NOTHING_RUNNING"].includes(one.refused)
          ? [`${one.actor} was refused: ${one.refused}`]
          : [],
      ),
    ];
    for (const run of operation.runs) {
      count(`${run.purpose === "WORK" ? "runs" : "clean-ups"} ${run.state}`);
      countMeetings(run, asks);
      if (run.visits.some(({ cut }) => cut)) count("runs whose step was cut");
      if (run.state === "ABORTED" && run.attempts.at(-1)?.state === "FAILED") count("aborts that met a failed step");
      visits.delete(run.id);
    }
    count(`operations ${operation.state}`);
    for (const node of lane.nodes) {
      const run = operation.runs.find(({ nodeId }) => nodeId === node.id);
      if (!run) continue;
      node.state = run.nodeState;
      node.fault = run.nodeFault;
      if (node.fault !== null) count(`nodes left with the fault ${node.fault}`);
    }
    // A restart continues unfinished work, and work that a clean-up undid.
    const left = new Set(
      operation.runs.filter(({ isUndone, state }) => isUndone || state !== "SUCCEEDED").map(({ nodeId }) => nodeId),
    );
    const unfinished = lane.nodes.filter(({ id: nodeId }) => left.has(nodeId));
    lane.unfinished = unfinished.length > 0 ? { id, nodes: unfinished } : null;
    if (flaws.length > 0) {
      const script = nodes.map(({ id: nodeId, name }) => `  ${name}: ${JSON.stringify(scripts.get(nodeId)?.steps)}`);
      faults.push({
        flaws: flaws.map((flaw) => `${actor}: ${flaw}`),
        story: [...story(operation, asks), `${work.kind} ${JSON.stringify(work)}`, ...script],
      });
    }
  }

  /** Number of interrupts during the last step, which decides the end of the run. */
  function countMeetings(run: OperationAccount["runs"][number], asks: readonly Ask[]): void {
    const interrupt = run.seen.find(
      ({ what, more }) => what === "INTERRUPT" && asks.some(({ actor }) => actor === more.by),
    );
    if (!interrupt) return;
    const begun = run.seen
      .filter(({ seq, what, was }) => seq < interrupt.seq && what === "ATTEMPT" && was === null)
      .at(-1);
    if (begun?.more.step === run.plan.steps.length - 1) count("interrupts during the last step");
    const label = labelOf(run, begun?.more.step ?? -1);
    if (begun && cutOf(label) !== "ALWAYS") count(`interrupts during a step that is cut ${cutOf(label)}`);
  }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      seed: { type: "string", default: String(anySeed()) },
      count: { type: "string", default: "10000" },
      lanes: { type: "string", default: "40" },
    },
  });
  console.log(`${values.count} races, seed ${values.seed}`);
  await using lab = await openLab();
  const report = await runRaces(lab.connection, {
    seed: Number(values.seed),
    count: Number(values.count),
    lanes: Number(values.lanes),
    say: (line) => console.log(`     ${line}`),
  });
  for (const [what, count] of Object.entries(report.counts).toSorted(([a], [b]) => a.localeCompare(b)))
    console.log(`${String(count).padStart(8)} ${what}`);
  for (const { flaws, story: lines } of report.faults)
    console.log(`\nFAIL ${flaws.join("\n     ")}\n${lines.map((line) => `     ${line}`).join("\n")}`);
  console.log(
    `\n${report.races} races in ${report.seconds.toFixed(0)} s, seed ${values.seed}: ${report.faults.length === 0 ? "none went wrong" : `${report.faults.length} went wrong`}`,
  );
  process.exitCode = report.faults.length === 0 ? 0 : 1;
}
