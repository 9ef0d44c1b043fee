/**
 * A run of the arena, read back: who asked what, what the machines saw, what was broken when, and what the database holds at
 * the end. Everything but the subscribers' streams is kept in memory (they are read once, past the log: streams.ts).
 *
 * Three clocks. Records have the machine's monotonic one. Rows have the database's, which no nemesis touches; `wall` puts
 * them on the monotonic one, and `TOLERANCE_MS` is what that may be wrong by. Times that a replica put down by its own clock
 * (a run's `started_at`, a failure's `at`) are used nowhere, because some replicas' clocks are made to lie. A row's time is
 * that of its transaction's beginning: it was there for others at that time or somewhat later, never before.
 */
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readRecords } from "../records.ts";
import type {
  Answer,
  Callback,
  Enter,
  Leave,
  Nemesis,
  Phase,
  Power,
  Replica,
  Request,
  Run,
  Sample,
} from "../records.ts";
import { common, joined, widened, without } from "./intervals.ts";
import type { Interval } from "./intervals.ts";

/** What the wall clock of a row may be wrong by when it is put beside the monotonic clock, in ms. */
export const TOLERANCE_MS = 1_000;

export interface Options {
  /** Over the 15 s that a stream may be silent, for a machine with more to do than it can, in ms. */
  readonly slackMs: number;
  /** How long a run may be without an owner, in ms. */
  readonly takeOverMs: number;
  /** How long an attempt may outlive its deadline while a caller is there to end it, in ms. */
  readonly overdueMs: number;
  /** How long replicas may need to find their feet when the database is there again, or they are awake again, in ms. */
  readonly recoveryMs: number;
  /** A process that is frozen for less than this keeps its lease, in ms. */
  readonly leaseMs: number;
  /** Resident bytes that a replica may never exceed. */
  readonly memoryBytes: number;
}

export const OPTIONS: Options = {
  slackMs: 5_000,
  takeOverMs: 45_000,
  overdueMs: 60_000,
  recoveryMs: 5_000,
  leaseMs: 15_000,
  memoryBytes: 1.5 * 2 ** 30,
};

/** A request with its answer; null: none came, and whether it was carried out is unknown. */
export interface Asked {
  readonly request: Request;
  answer: Answer | null;
}

/** An answer with data in it: what it says has happened. */
export type Answered = Extract<Answer, { ok: true }>;

/** The answer, if there was one with data in it. */
export function answerOf({ answer }: Asked): Answered | null {
  return answer?.ok === true ? answer : null;
}

export interface Entry extends Omit<Enter, "k"> {
  /** Of the replica's process, whichever the driver ran in. */
  readonly pid: number;
  /** Order in which the machines' server saw it. */
  readonly seq: number;
  readonly runId: string;
  /** Index of the step in the run's plan, and number of the attempt. */
  readonly index: number;
  readonly number: number;
  /** Which entry of the run it is by the service's own count, told by its path; null: that cannot be told. */
  generation: number | null;
  left: number | null;
  how: Leave["how"] | null;
  detail: string | null;
}

export interface PowerCall extends Power {
  readonly seq: number;
}

/** A nemesis from its beginning to its end. */
export interface Blow extends Interval {
  readonly what: Nemesis["what"];
  readonly target: string;
  readonly detail: string | null;
  readonly begin: Nemesis;
}

/** A replica's process, from its start to its end. */
export interface Life {
  readonly name: string;
  readonly pid: number;
  started: number;
  ready: number | null;
  killed: number | null;
  told: number | null;
  ended: number | null;
  end: Replica | null;
}

export interface ClusterRow {
  readonly name: string;
  readonly variables: Readonly<Record<string, unknown>>;
}

export interface NodeRow {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly count: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly presence: string | null;
  /** Why it is in maintenance; null: it is not. */
  readonly maintenance: string | null;
}

export interface OperationRow {
  readonly id: string;
  readonly kind: string;
  readonly state: string;
  readonly wish: string | null;
  readonly wishBy: string | null;
  readonly key: string | null;
  readonly onFailure: string;
  readonly firstFailure: FailureRow | null;
  readonly createdAt: number;
  readonly finishedAt: number | null;
}

export interface FailureRow {
  readonly code: string;
  readonly message: string;
  readonly step: string | null;
}

export interface RunRow {
  readonly id: string;
  readonly operationId: string;
  readonly nodeId: string;
  readonly nodeName: string;
  readonly purpose: string;
  readonly state: string;
  readonly wish: string | null;
  readonly waitReason: string | null;
  readonly owner: string | null;
  readonly planHash: string;
  readonly target: string;
  /** Whether its node goes through states for it; not where work on the power, say, leaves it where it is. */
  readonly movesState: boolean;
  readonly secret: string | null;
  readonly generation: number;
  readonly failure: FailureRow | null;
  readonly createdAt: number;
  readonly finishedAt: number | null;
}

export interface AttemptRow {
  readonly key: string;
  readonly runId: string;
  readonly step: number;
  readonly number: number;
  readonly state: string;
  readonly entries: number;
  readonly label: string | null;
  readonly failure: FailureRow | null;
  readonly startedAt: number;
  readonly deadlineAt: number;
  readonly finishedAt: number | null;
}

export interface TransitionRow {
  readonly position: number;
  readonly nodeId: string;
  readonly nodeName: string;
  readonly from: string | null;
  readonly to: string | null;
  readonly event: string;
  readonly sequence: number;
  readonly operationId: string | null;
  readonly runId: string | null;
  readonly step: string | null;
  readonly actor: string;
  readonly reason: string | null;
  /** As the database words it, in ms since 1970, and on the monotonic clock. */
  readonly wallMs: number;
  readonly t: number;
}

export interface PlannedStep {
  readonly interface: string;
  readonly name: string;
  readonly phase: string;
  /** Done by an earlier run already: it is not run again. */
  readonly kept: boolean;
  /** Tries after the first. */
  readonly retries: number;
  readonly timeoutSeconds: number;
}

export interface Plan {
  readonly steps: readonly PlannedStep[];
  /** Whether it goes on after a step that failed. */
  readonly bestEffort: boolean;
}

/** The log of a run: how many lines are kept, and their numbers. */
export interface LogRow {
  readonly runId: string;
  readonly lines: number;
  readonly first: number;
  readonly last: number;
}

export interface History {
  readonly folder: string;
  readonly options: Options;
  readonly run: Run;
  /** A row's time, ISO 8601, on the monotonic clock. */
  wall(iso: unknown): number;
  /** When the arena's first and last records were made. */
  readonly begun: number;
  readonly over: number;
  readonly phases: readonly Phase[];
  readonly asked: readonly Asked[];
  readonly entries: readonly Entry[];
  readonly entriesOf: ReadonlyMap<string, readonly Entry[]>;
  readonly entriesAt: ReadonlyMap<string, readonly Entry[]>;
  readonly entriesBy: ReadonlyMap<string, readonly Entry[]>;
  readonly powers: readonly PowerCall[];
  readonly powersAt: ReadonlyMap<string, readonly PowerCall[]>;
  readonly callbacks: readonly Callback[];
  readonly blows: readonly Blow[];
  readonly lives: readonly Life[];
  readonly samples: readonly Sample[];
  readonly clusters: readonly ClusterRow[];
  readonly nodes: ReadonlyMap<string, NodeRow>;
  readonly operations: ReadonlyMap<string, OperationRow>;
  readonly runs: ReadonlyMap<string, RunRow>;
  readonly runsAt: ReadonlyMap<string, readonly RunRow[]>;
  readonly plans: ReadonlyMap<string, Plan>;
  readonly attempts: ReadonlyMap<string, AttemptRow>;
  readonly attemptsOf: ReadonlyMap<string, readonly AttemptRow[]>;
  readonly transitions: readonly TransitionRow[];
  readonly transitionsOf: ReadonlyMap<string, readonly TransitionRow[]>;
  readonly anomalies: ReadonlyMap<string, number>;
  readonly logs: readonly LogRow[];
  /** `FROM event TO` of each edge that the database lets a state change by. */
  readonly edges: ReadonlySet<string>;
  /** Position of the newest transition, as the database counts; null: it was not read. */
  readonly feedPosition: number | null;
  /** When no replica could work: the database was away, or each of them was dead, frozen or cut off from it. */
  readonly down: readonly Interval[];
  /** When the database was away, or full. */
  readonly away: readonly Interval[];
}

// ---- reading

export async function readHistory(folder: string, options: Options): Promise<History> {
  const run = JSON.parse(readFileSync(join(folder, "run.json"), "utf8")) as Run;
  const wall = (iso: unknown) => Date.parse(String(iso)) - run.wallMs + run.t;
  const { asked, last } = await readRequests(folder);
  const { blows, phases, latest } = await readNemeses(folder);
  const { lives, samples, final: lastReplica } = await readReplicas(folder);
  const database = await readFinal(folder, wall);
  const { entries, powers } = await readDriver(folder, database.runs, lives);
  const callbacks: Callback[] = [];
  for await (const one of readRecords(folder, "callbacks")) callbacks.push(one);
  const over =
    phases.find(({ what }) => what === "over")?.t ?? Math.max(run.t, last, latest, lastReplica, entries.at(-1)?.t ?? 0);
  const begun = Math.min(run.t, asked[0]?.request.t ?? run.t, lives[0]?.started ?? run.t);
  const closed = blows.map((blow) => ({ ...blow, to: Math.min(blow.to, over) }));
  const away = awayOf(closed, options);
  const attempts = [...database.attempts.values()];
  return {
    folder,
    options,
    run,
    wall,
    begun,
    over,
    phases,
    asked,
    entries,
    entriesOf: Map.groupBy(entries, ({ runId }) => runId),
    entriesAt: Map.groupBy(entries, ({ node }) => node),
    entriesBy: Map.groupBy(entries, ({ attemptKey }) => attemptKey),
    powers,
    powersAt: Map.groupBy(powers, ({ node }) => node),
    callbacks,
    blows: closed,
    lives,
    samples,
    ...database,
    attemptsOf: Map.groupBy(attempts, ({ runId }) => runId),
    runsAt: Map.groupBy(database.runs.values(), ({ nodeName }) => nodeName),
    transitionsOf: Map.groupBy(
      database.transitions.filter(({ runId }) => runId !== null),
      ({ runId }) => runId ?? "",
    ),
    away,
    down: downOf({ lives, blows: closed, away, begun, over, options }),
  };
}

async function readRequests(folder: string) {
  const byId = new Map<string, Asked>();
  let last = 0;
  for await (const one of readRecords(folder, "requests")) {
    last = Math.max(last, one.t);
    if (one.k === "request") {
      byId.set(one.id, { request: one, answer: null });
      continue;
    }
    const asked = byId.get(one.id);
    if (!asked) throw new Error(`The record of an answer, ${one.id}, has none of its request.`);
    asked.answer = one.ok
      ? {
          ...one,
          operationId: one.operationId && keyOf(one.operationId),
          results: one.results.map((result) => ({ ...result, runId: result.runId && keyOf(result.runId) })),
        }
      : one;
  }
  return { asked: [...byId.values()], last };
}

async function readNemeses(folder: string) {
  const open = new Map<string, Nemesis>();
  const blows: Blow[] = [];
  const phases: Phase[] = [];
  let latest = 0;
  for await (const one of readRecords(folder, "nemesis")) {
    latest = Math.max(latest, one.t);
    if (one.k === "phase") phases.push(one);
    else if (one.phase === "begin") open.set(one.id, one);
    else {
      const begin = open.get(one.id);
      if (!begin) continue;
      open.delete(one.id);
      blows.push({ what: begin.what, target: begin.target, detail: begin.detail, from: begin.t, to: one.t, begin });
    }
  }
  for (const begin of open.values())
    blows.push({ what: begin.what, target: begin.target, detail: begin.detail, from: begin.t, to: Infinity, begin });
  return { blows: blows.toSorted((a, b) => a.from - b.from), phases, latest };
}

async function readReplicas(folder: string) {
  const lives: Life[] = [];
  const samples: Sample[] = [];
  let final = 0;
  for await (const one of readRecords(folder, "replicas")) {
    final = Math.max(final, one.t);
    if (one.k === "sample") {
      samples.push(one);
      continue;
    }
    const known = lives.findLast(({ pid, name, ended }) => pid === one.pid && name === one.name && ended === null);
    const life = known ?? {
      name: one.name,
      pid: one.pid,
      started: one.t,
      ready: null,
      killed: null,
      told: null,
      ended: null,
      end: null,
    };
    if (!known) lives.push(life);
    if (one.what === "ready") life.ready ??= one.t;
    if (one.what === "killed") life.killed ??= one.t;
    if (one.what === "terminated") life.told ??= one.t;
    if (one.what === "ended") Object.assign(life, { ended: one.t, end: one });
  }
  return { lives, samples, final };
}

/**
 * Drivers may run in processes of their own. What counts is the replica's process that called them: the one whose pid the call
 * has, or that started the one that has it, or, where no caller says, the newest of that replica at the time.
 */
function createHosts(lives: readonly Life[]): (told: Pick<Enter, "t" | "replica" | "pid" | "parent">) => number {
  const known = new Map<string, number>();
  const byName = Map.groupBy(lives, ({ name }) => name);
  return ({ t, replica, pid, parent }) => {
    const key = `${replica} ${pid} ${parent}`;
    const found = known.get(key);
    if (found !== undefined) return found;
    const there = (byName.get(replica) ?? []).filter(({ started }) => started <= t);
    const host =
      there.findLast((life) => life.pid === pid && (life.ended ?? Infinity) >= t) ??
      there.findLast((life) => life.pid === parent) ??
      there.at(-1);
    known.set(key, host?.pid ?? pid);
    return host?.pid ?? pid;
  };
}

async function readDriver(folder: string, runs: ReadonlyMap<string, RunRow>, lives: readonly Life[]) {
  const entries: Entry[] = [];
  const inside = new Map<string, Entry>();
  const powers: PowerCall[] = [];
  const generationOf = createGenerations(runs);
  const hostOf = createHosts(lives);
  let seq = 0;
  for await (const one of readRecords(folder, "driver")) {
    seq += 1;
    if (one.k === "power") powers.push({ ...one, pid: hostOf(one), seq });
    else if (one.k === "leave") {
      const entry = inside.get(one.entry);
      if (!entry || entry.left !== null) continue;
      Object.assign(entry, { left: one.t, how: one.how, detail: one.detail });
      inside.delete(one.entry);
    } else {
      const [runId = "", index = "", number = ""] = one.attemptKey.split(":");
      const entry: Entry = {
        ...one,
        pid: hostOf(one),
        seq,
        runId,
        index: Number(index),
        number: Number(number),
        generation: generationOf(runId, one.path),
        left: null,
        how: null,
        detail: null,
      };
      entries.push(entry);
      inside.set(one.entry, entry);
    }
  }
  return { entries, powers };
}

/**
 * The path that a machine may call back at is made of the run's secret and of the number of the entry, so of two entries of a
 * run one can tell which the service counted first, whenever they took place. Numbers rise, so the search goes on from
 * the last one found.
 */
function createGenerations(
  runs: ReadonlyMap<string, RunRow>,
): (runId: string, path: string | undefined) => number | null {
  const known = new Map<string, Map<string, number>>();
  return (runId, path) => {
    const run = runs.get(runId);
    if (!run?.secret || !path) return null;
    const { secret } = run;
    const tokens =
      known.get(runId) ??
      new Map(
        Array.from({ length: run.generation }, (_, index) => [
          createHmac("sha256", secret)
            .update(String(index + 1))
            .digest("base64url"),
          index + 1,
        ]),
      );
    known.set(runId, tokens);
    return tokens.get(path.slice(path.indexOf(".") + 1)) ?? null;
  };
}

async function readFinal(folder: string, wall: (iso: unknown) => number) {
  const clusters: ClusterRow[] = [];
  const nodes = new Map<string, NodeRow>();
  const operations = new Map<string, OperationRow>();
  const runs = new Map<string, RunRow>();
  const plans = new Map<string, Plan>();
  const attempts = new Map<string, AttemptRow>();
  const transitions: TransitionRow[] = [];
  const anomalies = new Map<string, number>();
  const logs: LogRow[] = [];
  const edges = new Set<string>();
  let feedPosition: number | null = null;
  const time = (value: unknown) => (value == null ? null : wall(value));
  // One text for each value that comes again and again.
  const texts = new Map<string, string>();
  const text = (value: unknown): string => {
    const one = typeof value === "string" ? value : JSON.stringify(value);
    const known = texts.get(one);
    if (known !== undefined) return known;
    texts.set(one, one);
    return one;
  };
  const textOrNull = (value: unknown) => (value == null ? null : text(value));
  for await (const { table, row } of readRecords(folder, "final")) {
    switch (table) {
      case "clusters":
        clusters.push({ name: text(row["name"]), variables: (row["variables"] ?? {}) as ClusterRow["variables"] });
        break;
      case "nodes":
        nodes.set(text(row["id"]), {
          id: text(row["id"]),
          name: text(row["name"]),
          state: text(row["state"]),
          count: Number(row["transition_count"]),
          labels: (row["labels"] ?? {}) as NodeRow["labels"],
          presence: textOrNull(row["presence"]),
          maintenance: textOrNull(row["maintenance_reason"]),
        });
        break;
      case "operations":
        operations.set(text(row["id"]), {
          id: text(row["id"]),
          kind: text(row["kind"]),
          state: text(row["state"]),
          wish: textOrNull(row["wish"]),
          wishBy: textOrNull(row["wish_by"]),
          key: textOrNull(row["idempotency_key"]),
          onFailure: text(row["on_failure"]),
          firstFailure: failureOf(row["first_failure"]),
          createdAt: wall(row["created_at"]),
          finishedAt: time(row["finished_at"]),
        });
        break;
      case "runs":
        runs.set(text(row["id"]), {
          id: text(row["id"]),
          operationId: text(row["operation_id"]),
          nodeId: text(row["node_id"]),
          nodeName: text(row["node_name"]),
          purpose: text(row["purpose"]),
          state: text(row["state"]),
          wish: textOrNull(row["wish"]),
          waitReason: textOrNull(row["wait_reason"]),
          owner: textOrNull(row["owner"]),
          planHash: text(row["plan_hash"]),
          target: text(row["target"]),
          movesState: row["moves_state"] !== false,
          secret: textOrNull(row["callback_secret"]),
          generation: Number(row["generation"]),
          failure: failureOf(row["failure"]),
          createdAt: wall(row["created_at"]),
          finishedAt: time(row["finished_at"]),
        });
        break;
      case "plans":
        plans.set(text(row["hash"]), {
          steps: row["steps"] as readonly PlannedStep[],
          bestEffort: (row["plan"] as Partial<Plan> | null)?.bestEffort === true,
        });
        break;
      case "attempts": {
        const key = `${String(row["run_id"])}:${Number(row["step"])}:${Number(row["number"])}`;
        attempts.set(key, {
          key,
          runId: text(row["run_id"]),
          step: Number(row["step"]),
          number: Number(row["number"]),
          state: text(row["state"]),
          entries: Number(row["entries"]),
          label: textOrNull(row["label"]),
          failure: failureOf(row["failure"]),
          startedAt: wall(row["started_at"]),
          deadlineAt: wall(row["deadline_at"]),
          finishedAt: time(row["finished_at"]),
        });
        break;
      }
      case "transitions":
        transitions.push({
          position: Number(row["position"]),
          nodeId: text(row["node_id"]),
          nodeName: text(row["node_name"]),
          from: textOrNull(row["from_state"]),
          to: textOrNull(row["to_state"]),
          event: text(row["event"]),
          sequence: Number(row["sequence"]),
          operationId: textOrNull(row["operation_id"]),
          runId: textOrNull(row["run_id"]),
          step: textOrNull(row["step"]),
          actor: text(row["actor"]),
          reason: textOrNull(row["reason"]),
          wallMs: Date.parse(String(row["at"])),
          t: wall(row["at"]),
        });
        break;
      case "anomalies":
        anomalies.set(text(row["run_id"]), (anomalies.get(text(row["run_id"])) ?? 0) + 1);
        break;
      case "step_log":
        logs.push({
          runId: text(row["run_id"]),
          lines: Number(row["lines"]),
          first: Number(row["first"]),
          last: Number(row["last"]),
        });
        break;
      case "lifecycle_edges":
        edges.add(`${text(row["from_state"])} ${text(row["event"])} ${text(row["to_state"])}`);
        break;
      case "feed_position":
        feedPosition = Number(row["position"]);
    }
  }
  return {
    clusters,
    nodes,
    operations,
    runs,
    plans,
    attempts,
    transitions: transitions.toSorted((a, b) => a.position - b.position),
    anomalies,
    logs,
    edges,
    feedPosition,
  };
}

function failureOf(value: unknown): FailureRow | null {
  if (typeof value !== "object" || value === null) return null;
  const { code, message, step } = value as Partial<FailureRow>;
  return { code: code ?? "", message: message ?? "", step: step ?? null };
}

/** The key of a global ID, which is `Type:key` in base64url; what is none is taken as it is. */
export function keyOf(id: string): string {
  const match = /^[A-Z][a-zA-Z]+:(.+)$/.exec(Buffer.from(id, "base64url").toString("utf8"));
  return match?.[1] ?? id;
}

// ---- what was broken when

const OF_THE_DATABASE = new Set<Nemesis["what"]>(["postgres-restart", "disk-full"]);
const OF_A_WIRE = new Set<Nemesis["what"]>(["drop", "delay", "half-open"]);

function awayOf(blows: readonly Blow[], { recoveryMs }: Options): readonly Interval[] {
  return widened(
    blows.filter(({ what }) => OF_THE_DATABASE.has(what)),
    0,
    recoveryMs,
  );
}

function downOf({
  lives,
  blows,
  away,
  begun,
  over,
  options,
}: {
  readonly lives: readonly Life[];
  readonly blows: readonly Blow[];
  readonly away: readonly Interval[];
  readonly begun: number;
  readonly over: number;
  readonly options: Options;
}): readonly Interval[] {
  const names = [...new Set(lives.map(({ name }) => name))];
  if (names.length === 0) return away;
  const useless = names.map((name) => {
    const there = lives
      .filter((life) => life.name === name && life.ready !== null)
      .map((life) => ({
        from: life.ready ?? over,
        to: Math.min(life.killed ?? over, life.told ?? over, life.ended ?? over),
      }));
    const broken = blows.filter(
      ({ what, target }) =>
        (what === "freeze" && target === name) || (OF_A_WIRE.has(what) && target === `${name}/database`),
    );
    return joined([...without(there, begun, over), ...widened(broken, 0, options.recoveryMs)]);
  });
  return joined([...away, ...common(useless, begun, over)]);
}

/** Something that may have taken a lease from a process, or a result on its way to the database, befell it between two moments. */
export function wasImpaired(history: History, replica: string, pid: number, from: number, to: number): boolean {
  const { lives, blows, options } = history;
  const since = from - options.leaseMs;
  const until = to;
  const life = lives.find((one) => one.name === replica && one.pid === pid);
  const fell = [life?.killed, life?.told, life?.ended].some((t) => t != null && t <= until);
  return (
    fell ||
    blows.some(
      ({ what, target, from: begin, to: end }) =>
        mayCost(what, target, replica) && begin <= until && end + options.recoveryMs >= since,
    )
  );
}

/** Whether a nemesis may make that replica lose touch with the database, or stand still. Neither a jump of its clock nor its drivers may. */
function mayCost(what: Nemesis["what"], target: string, replica: string): boolean {
  if (OF_THE_DATABASE.has(what) || what === "backends") return true;
  if (OF_A_WIRE.has(what)) return target === `${replica}/database`;
  return what === "freeze" && target === replica;
}

/** The step that an attempt is at. */
export function stepOf(
  { runs, plans }: Pick<History, "runs" | "plans">,
  { runId, step }: Pick<AttemptRow, "runId" | "step">,
): PlannedStep | undefined {
  const run = runs.get(runId);
  return run && plans.get(run.planHash)?.steps[step];
}

/** Of an entry that ended with a wait: for how long, and whether a callback may end it. */
export function waitOf({
  how,
  detail,
}: Pick<Entry, "how" | "detail">): { readonly ms: number; readonly callback: boolean } | null {
  const seconds = how === "wait" ? /([\d.]+) s$/.exec(detail ?? "")?.[1] : undefined;
  return seconds === undefined
    ? null
    : { ms: Number(seconds) * 1_000, callback: detail?.startsWith("callback") === true };
}

/** Whether a driver's function was called for the step at all: the engine's own steps, power and verification are not told by entries. */
export function isDrivers(step: PlannedStep | undefined): boolean {
  return (
    step !== undefined &&
    step.interface !== "power" &&
    step.interface !== "engine" &&
    step.phase !== "verify" &&
    step.phase !== "power"
  );
}

/** A record that shows a row or an entry, without what no caller reads. */
export function shown(entry: Entry): unknown {
  const {
    t,
    entry: id,
    replica,
    pid,
    node,
    attemptKey,
    phase,
    step,
    part,
    memo,
    generation,
    left,
    how,
    detail,
  } = entry;
  return {
    t,
    k: "enter",
    entry: id,
    replica,
    pid,
    node,
    attemptKey,
    step: `${phase}.${step}`,
    part,
    memo,
    generation,
    left,
    how,
    detail,
  };
}
