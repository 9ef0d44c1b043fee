/**
 * Reads the records of a run: requests and answers, calls to machines, faults, and the database at the end. Everything
 * is kept in memory, except the streams, which are read once, beside the log (streams.ts).
 *
 * There are three clocks. Records use the machine's monotonic clock. Rows use the database's clock, which no fault
 * changes; `wall` converts it to the monotonic clock, with an error of at most `TOLERANCE_MS`. Times from a replica's
 * own clock (a run's `started_at`, a failure's `at`) are not used, because some replicas' clocks are wrong on purpose.
 * A row's time is the beginning of its transaction: others saw the row at that time or later, never before.
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

/** Largest error of a row's time on the monotonic clock, in milliseconds. */
export const TOLERANCE_MS = 1_000;

export interface Options {
  /** Slack beyond the 15 s that a stream may be silent, for an overloaded computer, in milliseconds. */
  readonly slackMs: number;
  /** Longest time of a run without an owner, in milliseconds. */
  readonly takeOverMs: number;
  /** Longest time of an attempt past its deadline while a replica could end it, in milliseconds. */
  readonly overdueMs: number;
  /** Time that replicas need to recover after an outage or a freeze, in milliseconds. */
  readonly recoveryMs: number;
  /** A process that is frozen for less than this keeps its lease, in milliseconds. */
  readonly leaseMs: number;
  /** Limit of the resident memory of a replica, in bytes. */
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

/** A request and its answer. Null if it was not answered; then it may have been carried out or not. */
export interface Exchange {
  readonly request: Request;
  answer: Answer | null;
}

/** An answer with data. */
export type Answered = Extract<Answer, { ok: true }>;

/** The answer if it has data, else null. */
export function answerOf({ answer }: Exchange): Answered | null {
  return answer?.ok === true ? answer : null;
}

export interface Entry extends Omit<Enter, "k"> {
  /** Process of the replica, even if the driver ran in another. */
  readonly pid: number;
  /** Position in the order in which the machines' server saw it. */
  readonly seq: number;
  readonly runId: string;
  /** Index of the step in the run's plan, and number of the attempt. */
  readonly index: number;
  readonly number: number;
  /** Number of the entry by the service's own count, derived from its path; null if unknown. */
  generation: number | null;
  left: number | null;
  how: Leave["how"] | null;
  detail: string | null;
}

export interface PowerCall extends Power {
  readonly seq: number;
}

/** A fault from its beginning to its end. */
export interface Fault extends Interval {
  readonly what: Nemesis["what"];
  readonly target: string;
  readonly detail: string | null;
  readonly begin: Nemesis;
}

/** A process of a replica from its start to its end. */
export interface Lifetime {
  readonly name: string;
  readonly pid: number;
  started: number;
  ready: number | null;
  killed: number | null;
  terminated: number | null;
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
  /** Reason of the maintenance; null if the node is not in maintenance. */
  readonly maintenance: string | null;
  /** At the end. */
  readonly conditions: Conditions;
}

/** Facts about a node that refuse verbs in every state. */
export interface Conditions {
  readonly presence: string | null;
  readonly fault: string | null;
  readonly inMaintenance: boolean;
  readonly isProtected: boolean;
  readonly isRetired: boolean;
}

/** A change of the conditions of a node. */
export interface ConditionChange {
  readonly t: number;
  readonly before: Conditions;
}

export interface OperationRow {
  readonly id: string;
  readonly kind: string;
  readonly state: string;
  readonly interrupt: string | null;
  readonly interruptBy: string | null;
  readonly key: string | null;
  /** Operations of one request, the first of which has its key; null if there is only one. */
  readonly batch: string | null;
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
  readonly interrupt: string | null;
  readonly waitReason: string | null;
  readonly owner: string | null;
  readonly planHash: string;
  readonly target: string;
  /** False if the run leaves the node's state unchanged, for example a change of power. */
  readonly movesState: boolean;
  readonly secret: string | null;
  readonly generation: number;
  readonly failure: FailureRow | null;
  /** A failure that was being undone when the run ended. */
  readonly undoneFailure: FailureRow | null;
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
  /** In ms since 1970 by the database's clock, and on the monotonic clock. */
  readonly wallMs: number;
  readonly t: number;
}

export interface PlannedStep {
  readonly interface: string;
  readonly name: string;
  readonly phase: string;
  /** An earlier run has done the step; it does not run again. */
  readonly kept: boolean;
  /** Attempts after the first. */
  readonly retries: number;
  readonly timeoutSeconds: number;
}

export interface Plan {
  readonly steps: readonly PlannedStep[];
  /** Whether the run continues after a failed step. */
  readonly bestEffort: boolean;
}

interface Role {
  readonly role: string;
}

/** A row of the audit. */
export interface AuditedRow {
  /** Beginning of its transaction. */
  readonly t: number;
  readonly subject: string;
  readonly action: string;
  readonly requestId: string | null;
  readonly targets: readonly string[];
  readonly outcome: string;
  /** The roles that it gave; null if it changed none. */
  readonly roles: readonly string[] | null;
}

/** The log of a run: number of stored lines, and their first and last numbers. */
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
  /** Converts a row's time (ISO 8601) to the monotonic clock. */
  wall(iso: unknown): number;
  /** Times of the first and last records. */
  readonly begun: number;
  readonly over: number;
  readonly phases: readonly Phase[];
  readonly exchange: readonly Exchange[];
  readonly entries: readonly Entry[];
  readonly entriesOf: ReadonlyMap<string, readonly Entry[]>;
  readonly entriesAt: ReadonlyMap<string, readonly Entry[]>;
  readonly entriesBy: ReadonlyMap<string, readonly Entry[]>;
  readonly powers: readonly PowerCall[];
  readonly powersAt: ReadonlyMap<string, readonly PowerCall[]>;
  readonly callbacks: readonly Callback[];
  readonly faults: readonly Fault[];
  readonly lifetimes: readonly Lifetime[];
  readonly samples: readonly Sample[];
  readonly clusters: readonly ClusterRow[];
  readonly nodes: ReadonlyMap<string, NodeRow>;
  readonly nodesByName: ReadonlyMap<string, NodeRow>;
  /** Changes of the conditions, by name of the node, in their order. */
  readonly conditionsAt: ReadonlyMap<string, readonly ConditionChange[]>;
  readonly operations: ReadonlyMap<string, OperationRow>;
  readonly runs: ReadonlyMap<string, RunRow>;
  readonly runsAt: ReadonlyMap<string, readonly RunRow[]>;
  readonly plans: ReadonlyMap<string, Plan>;
  readonly attempts: ReadonlyMap<string, AttemptRow>;
  readonly attemptsOf: ReadonlyMap<string, readonly AttemptRow[]>;
  readonly transitions: readonly TransitionRow[];
  readonly transitionsOf: ReadonlyMap<string, readonly TransitionRow[]>;
  readonly rejectedCallbacks: ReadonlyMap<string, number>;
  readonly logs: readonly LogRow[];
  /** The audit in commit order. */
  readonly audit: readonly AuditedRow[];
  /** Times of the answers to changes of accounts, by the ID of the request. */
  readonly access: ReadonlyMap<string, number>;
  /** `FROM event TO` of each edge in the database's table of transitions. */
  readonly edges: ReadonlySet<string>;
  /** Position of the newest transition by the database's counter; null if it was not read. */
  readonly feedPosition: number | null;
  /**
   * Times in which no replica could work: the database was down, or every replica was dead, frozen or disconnected from
   * it.
   */
  readonly down: readonly Interval[];
  /** Times in which the database was down or its disk full. */
  readonly databaseDown: readonly Interval[];
}

// ---- reading

export async function readHistory(folder: string, options: Options): Promise<History> {
  const run = JSON.parse(readFileSync(join(folder, "run.json"), "utf8")) as Run;
  const wall = (iso: unknown) => Date.parse(String(iso)) - run.wallMs + run.t;
  const { exchange, last } = await readRequests(folder);
  const { faults, phases, latest } = await readNemeses(folder);
  const { lifetimes, samples, final: lastReplica } = await readReplicas(folder);
  const database = await readFinal(folder, wall);
  const { entries, powers } = await readDriver(folder, database.runs, lifetimes);
  const access = new Map<string, number>();
  for await (const one of readRecords(folder, "access")) if (one.k === "changed") access.set(one.id, one.t);
  const callbacks: Callback[] = [];
  for await (const one of readRecords(folder, "callbacks")) callbacks.push(one);
  const over =
    phases.find(({ what }) => what === "over")?.t ?? Math.max(run.t, last, latest, lastReplica, entries.at(-1)?.t ?? 0);
  const begun = Math.min(run.t, exchange[0]?.request.t ?? run.t, lifetimes[0]?.started ?? run.t);
  const closed = faults.map((fault) => ({ ...fault, to: Math.min(fault.to, over) }));
  const databaseDown = databaseDownOf(closed, options);
  const attempts = [...database.attempts.values()];
  return {
    folder,
    options,
    run,
    wall,
    begun,
    over,
    phases,
    exchange,
    entries,
    entriesOf: Map.groupBy(entries, ({ runId }) => runId),
    entriesAt: Map.groupBy(entries, ({ node }) => node),
    entriesBy: Map.groupBy(entries, ({ attemptKey }) => attemptKey),
    powers,
    powersAt: Map.groupBy(powers, ({ node }) => node),
    callbacks,
    faults: closed,
    lifetimes,
    samples,
    access,
    ...database,
    attemptsOf: Map.groupBy(attempts, ({ runId }) => runId),
    runsAt: Map.groupBy(database.runs.values(), ({ nodeName }) => nodeName),
    transitionsOf: Map.groupBy(
      database.transitions.filter(({ runId }) => runId !== null),
      ({ runId }) => runId ?? "",
    ),
    databaseDown,
    down: noReplicaOf({ lifetimes, faults: closed, databaseDown, begun, over, options }),
  };
}

async function readRequests(folder: string) {
  const byId = new Map<string, Exchange>();
  let last = 0;
  for await (const one of readRecords(folder, "requests")) {
    last = Math.max(last, one.t);
    if (one.k === "request") {
      byId.set(one.id, { request: one, answer: null });
      continue;
    }
    const exchange = byId.get(one.id);
    if (!exchange) throw new Error(`Answer ${one.id} has no request.`);
    exchange.answer = one.ok
      ? {
          ...one,
          operationId: one.operationId && keyOf(one.operationId),
          results: one.results.map((result) => ({ ...result, runId: result.runId && keyOf(result.runId) })),
        }
      : one;
  }
  return { exchange: [...byId.values()], last };
}

async function readNemeses(folder: string) {
  const open = new Map<string, Nemesis>();
  const faults: Fault[] = [];
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
      faults.push({ what: begin.what, target: begin.target, detail: begin.detail, from: begin.t, to: one.t, begin });
    }
  }
  for (const begin of open.values())
    faults.push({ what: begin.what, target: begin.target, detail: begin.detail, from: begin.t, to: Infinity, begin });
  return { faults: faults.toSorted((a, b) => a.from - b.from), phases, latest };
}

async function readReplicas(folder: string) {
  const lifetimes: Lifetime[] = [];
  const samples: Sample[] = [];
  let final = 0;
  for await (const one of readRecords(folder, "replicas")) {
    final = Math.max(final, one.t);
    if (one.k === "sample") {
      samples.push(one);
      continue;
    }
    const known = lifetimes.findLast(({ pid, name, ended }) => pid === one.pid && name === one.name && ended === null);
    const lifetime = known ?? {
      name: one.name,
      pid: one.pid,
      started: one.t,
      ready: null,
      killed: null,
      terminated: null,
      ended: null,
      end: null,
    };
    if (!known) lifetimes.push(lifetime);
    if (one.what === "ready") lifetime.ready ??= one.t;
    if (one.what === "killed") lifetime.killed ??= one.t;
    if (one.what === "terminated") lifetime.terminated ??= one.t;
    if (one.what === "ended") Object.assign(lifetime, { ended: one.t, end: one });
  }
  return { lifetimes, samples, final };
}

/**
 * Drivers may run in separate processes. The replica's process counts: the one that made the call or started the
 * caller, or else the newest of that replica at the time.
 */
function createHosts(
  lifetimes: readonly Lifetime[],
): (terminated: Pick<Enter, "t" | "replica" | "pid" | "parent">) => number {
  const known = new Map<string, number>();
  const byName = Map.groupBy(lifetimes, ({ name }) => name);
  return ({ t, replica, pid, parent }) => {
    const key = `${replica} ${pid} ${parent}`;
    const found = known.get(key);
    if (found !== undefined) return found;
    const there = (byName.get(replica) ?? []).filter(({ started }) => started <= t);
    const host =
      there.findLast((lifetime) => lifetime.pid === pid && (lifetime.ended ?? Infinity) >= t) ??
      there.findLast((lifetime) => lifetime.pid === parent) ??
      there.at(-1);
    known.set(key, host?.pid ?? pid);
    return host?.pid ?? pid;
  };
}

async function readDriver(folder: string, runs: ReadonlyMap<string, RunRow>, lifetimes: readonly Lifetime[]) {
  const entries: Entry[] = [];
  const inside = new Map<string, Entry>();
  const powers: PowerCall[] = [];
  const generationOf = createGenerations(runs);
  const hostOf = createHosts(lifetimes);
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
 * A callback path consists of the run's secret and the number of the entry. So the order in which the service counted
 * two entries of a run is known, whenever they took place.
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
  const conditions: (ConditionChange & { readonly nodeId: string })[] = [];
  const operations = new Map<string, OperationRow>();
  const runs = new Map<string, RunRow>();
  const plans = new Map<string, Plan>();
  const attempts = new Map<string, AttemptRow>();
  const transitions: TransitionRow[] = [];
  const rejectedCallbacks = new Map<string, number>();
  const logs: LogRow[] = [];
  const audit: AuditedRow[] = [];
  const edges = new Set<string>();
  let feedPosition: number | null = null;
  const time = (value: unknown) => (value == null ? null : wall(value));
  // Shares equal strings, which occur many times.
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
          maintenance: textOrNull(row["maintenance_reason"]),
          conditions: {
            presence: textOrNull(row["presence"]),
            fault: textOrNull(row["fault_kind"]),
            inMaintenance: row["maintenance_reason"] != null,
            isProtected: row["is_protected"] === true,
            isRetired: row["retired_reason"] != null,
          },
        });
        break;
      case "conditions":
        conditions.push({
          nodeId: text(row["node_id"]),
          t: wall(row["at"]),
          before: {
            presence: textOrNull(row["presence"]),
            fault: textOrNull(row["fault"]),
            inMaintenance: row["in_maintenance"] === true,
            isProtected: row["is_protected"] === true,
            isRetired: row["is_retired"] === true,
          },
        });
        break;
      case "operations":
        operations.set(text(row["id"]), {
          id: text(row["id"]),
          kind: text(row["kind"]),
          state: text(row["state"]),
          interrupt: textOrNull(row["interrupt"]),
          interruptBy: textOrNull(row["interrupt_by"]),
          key: textOrNull(row["idempotency_key"]),
          batch: textOrNull(row["batch"]),
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
          interrupt: textOrNull(row["interrupt"]),
          waitReason: textOrNull(row["wait_reason"]),
          owner: textOrNull(row["owner"]),
          planHash: text(row["plan_hash"]),
          target: text(row["target"]),
          movesState: row["moves_state"] !== false,
          secret: textOrNull(row["callback_secret"]),
          generation: Number(row["generation"]),
          failure: failureOf(row["failure"]),
          undoneFailure: failureOf(row["interrupt_failure"]),
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
      case "rejected_callbacks":
        rejectedCallbacks.set(text(row["run_id"]), (rejectedCallbacks.get(text(row["run_id"])) ?? 0) + 1);
        break;
      case "step_log":
        logs.push({
          runId: text(row["run_id"]),
          lines: Number(row["lines"]),
          first: Number(row["first"]),
          last: Number(row["last"]),
        });
        break;
      case "audit": {
        const { edits = [] } = (row["change"] ?? {}) as { edits?: readonly { after: { roles?: readonly Role[] } }[] };
        audit.push({
          t: wall(row["at"]),
          subject: text(row["subject"]),
          action: text(row["action"]),
          requestId: textOrNull(row["request_id"]),
          targets: row["targets"] as readonly string[],
          outcome: text(row["outcome"]),
          roles: edits[0]?.after?.roles?.map(({ role }) => role) ?? null,
        });
        break;
      }
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
    nodesByName: new Map(nodes.values().map((node) => [node.name, node])),
    conditionsAt: Map.groupBy(conditions, ({ nodeId }) => nodes.get(nodeId)?.name ?? nodeId),
    operations,
    runs,
    plans,
    attempts,
    transitions: transitions.toSorted((a, b) => a.position - b.position),
    rejectedCallbacks,
    logs,
    audit,
    edges,
    feedPosition,
  };
}

function failureOf(value: unknown): FailureRow | null {
  if (typeof value !== "object" || value === null) return null;
  const { code, message, step } = value as Partial<FailureRow>;
  return { code: code ?? "", message: message ?? "", step: step ?? null };
}

/** The key of a global ID (`Type:key` in base64url). Anything else is returned unchanged. */
export function keyOf(id: string): string {
  const match = /^[A-Z][a-zA-Z]+:(.+)$/.exec(Buffer.from(id, "base64url").toString("utf8"));
  return match?.[1] ?? id;
}

// ---- times of faults

const DATABASE_FAULTS = new Set<Nemesis["what"]>(["postgres-restart", "disk-full"]);
const CONNECTION_FAULTS = new Set<Nemesis["what"]>(["drop", "delay", "half-open"]);

function databaseDownOf(faults: readonly Fault[], { recoveryMs }: Options): readonly Interval[] {
  return widened(
    faults.filter(({ what }) => DATABASE_FAULTS.has(what)),
    0,
    recoveryMs,
  );
}

function noReplicaOf({
  lifetimes,
  faults,
  databaseDown,
  begun,
  over,
  options,
}: {
  readonly lifetimes: readonly Lifetime[];
  readonly faults: readonly Fault[];
  readonly databaseDown: readonly Interval[];
  readonly begun: number;
  readonly over: number;
  readonly options: Options;
}): readonly Interval[] {
  const names = [...new Set(lifetimes.map(({ name }) => name))];
  if (names.length === 0) return databaseDown;
  const unavailable = names.map((name) => {
    const there = lifetimes
      .filter((lifetime) => lifetime.name === name && lifetime.ready !== null)
      .map((lifetime) => ({
        from: lifetime.ready ?? over,
        to: Math.min(lifetime.killed ?? over, lifetime.terminated ?? over, lifetime.ended ?? over),
      }));
    const broken = faults.filter(
      ({ what, target }) =>
        (what === "freeze" && target === name) || (CONNECTION_FAULTS.has(what) && target === `${name}/database`),
    );
    return joined([...without(there, begun, over), ...widened(broken, 0, options.recoveryMs)]);
  });
  return joined([...databaseDown, ...common(unavailable, begun, over)]);
}

/** Whether a fault between two moments may have cost a process its lease, or a result on its way to the database. */
export function wasImpaired(history: History, replica: string, pid: number, from: number, to: number): boolean {
  const { lifetimes, faults, options } = history;
  const since = from - options.leaseMs;
  const until = to;
  const lifetime = lifetimes.find((one) => one.name === replica && one.pid === pid);
  const hasEnded = [lifetime?.killed, lifetime?.terminated, lifetime?.ended].some((t) => t != null && t <= until);
  return (
    hasEnded ||
    faults.some(
      ({ what, target, from: begin, to: end }) =>
        mayImpair(what, target, replica) && begin <= until && end + options.recoveryMs >= since,
    )
  );
}

/**
 * Whether a fault may disconnect that replica from the database or freeze it. Clock jumps and misbehaving drivers do
 * neither.
 */
function mayImpair(what: Nemesis["what"], target: string, replica: string): boolean {
  if (DATABASE_FAULTS.has(what) || what === "backends") return true;
  if (CONNECTION_FAULTS.has(what)) return target === `${replica}/database`;
  return what === "freeze" && target === replica;
}

export function stepOf(
  { runs, plans }: Pick<History, "runs" | "plans">,
  { runId, step }: Pick<AttemptRow, "runId" | "step">,
): PlannedStep | undefined {
  const run = runs.get(runId);
  return run && plans.get(run.planHash)?.steps[step];
}

/**
 * Duration of the wait that ended an entry, and whether a callback may end it; null if the entry did not end with a
 * wait.
 */
export function waitOf({
  how,
  detail,
}: Pick<Entry, "how" | "detail">): { readonly ms: number; readonly callback: boolean } | null {
  const seconds = how === "wait" ? /([\d.]+) s$/.exec(detail ?? "")?.[1] : undefined;
  return seconds === undefined
    ? null
    : { ms: Number(seconds) * 1_000, callback: detail?.startsWith("callback") === true };
}

/** Whether the step calls a driver's function. Entries do not show the engine's own steps, power and verification. */
export function isDrivers(step: PlannedStep | undefined): boolean {
  return (
    step !== undefined &&
    step.interface !== "power" &&
    step.interface !== "engine" &&
    step.phase !== "verify" &&
    step.phase !== "power"
  );
}

/** The fields of an entry that a violation shows. */
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
