/** What every resolver is given: who asks, where to read, whom to ask for changes. One for each request or subscription. */
import { setTimeout as delay } from "node:timers/promises";
import DataLoader from "dataloader";
import type { Actor } from "../../access/access.ts";
import type { Registry } from "../../drivers/registry.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Caller } from "../../engine/transaction.ts";
import type { Tail } from "../../feed/tail.ts";
import { clusterState } from "../../lifecycle/cluster-state.ts";
import type { ClusterState } from "../../lifecycle/cluster-state.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import type { RunState } from "../../lifecycle/operation-states.ts";
import type { Database, Reader } from "../../store/postgres/database.ts";
import { clustersByIds, nodeCountsOf } from "../../store/clusters.ts";
import type { ClusterRow } from "../../store/clusters.ts";
import { stepHistories } from "../../store/step-durations.ts";
import type { StepHistory, StepKind } from "../../store/step-durations.ts";
import { addressCounts } from "../../store/discoveries.ts";
import { inventoriesByIds, newestInventories, nodesByIds, secretFieldsOf } from "../../store/nodes.ts";
import type { InventoryRow, NodeRow } from "../../store/nodes.ts";
import { cleanUpFailures, operationsByIds, runStateCounts, workOnClusters } from "../../store/operations.ts";
import type { OperationRow } from "../../store/operations.ts";
import type { Failure, Plan } from "../../store/records.ts";
import { anomaliesOf } from "../../store/rejected-callbacks.ts";
import { attemptsOf } from "../../store/attempts.ts";
import { waitingPositions } from "../../store/slots.ts";
import { plansByHashes } from "../../store/plans.ts";
import { runsByIds, unfinishedRuns } from "../../store/runs.ts";
import type { AnomalyRow } from "../../store/rejected-callbacks.ts";
import type { AttemptRow } from "../../store/attempts.ts";
import type { RunRow } from "../../store/runs.ts";
import { readSite } from "../../store/site.ts";
import type { SiteRow } from "../../store/site.ts";
import { logTails } from "../../store/step-log.ts";
import type { StepLogRow } from "../../store/step-log.ts";

/** What the schema is built on, the same for all requests. */
export interface Services {
  readonly database: Database;
  readonly registry: Registry;
  readonly engine: Engine;
  readonly tail: Tail;
  readonly version: string;
  readonly schemaHash: string;
}

export interface Context {
  readonly services: Services;
  readonly actor: Actor;
  readonly requestId: string;
  readonly load: Loaders;
}

export interface ClusterFacts {
  readonly state: ClusterState;
  readonly counts: readonly { readonly state: NodeState; readonly count: number }[];
}

/** A question of the store about several parents at once, answered by parent. */
export type Question<Asked, Found> = (
  reader: Reader,
  parents: readonly string[],
  asked: Asked,
) => Promise<ReadonlyMap<string, Found>>;

/** Batched reads by key. They remember nothing, so a subscription never sees an old row. */
export interface Loaders {
  readonly node: DataLoader<string, NodeRow | null>;
  readonly cluster: DataLoader<string, ClusterRow | null>;
  readonly clusterFacts: DataLoader<string, ClusterFacts>;
  readonly operation: DataLoader<string, OperationRow | null>;
  readonly runCounts: DataLoader<string, Partial<Record<RunState, number>>>;
  /** Why clean-up runs of an operation failed. */
  readonly cleanUpFailures: DataLoader<string, readonly Failure[]>;
  /** Addresses of discoveries, counted as runs are. */
  readonly addressCounts: DataLoader<string, Partial<Record<RunState, number>>>;
  readonly run: DataLoader<string, RunRow | null>;
  /** The unfinished run of a node. */
  readonly currentRun: DataLoader<string, RunRow | null>;
  readonly plan: DataLoader<string, Plan | null>;
  readonly attempts: DataLoader<string, readonly AttemptRow[]>;
  /** The newest lines of a step. */
  readonly logTail: DataLoader<
    { readonly runId: string; readonly step: number; readonly tail: number },
    readonly StepLogRow[]
  >;
  /** Call-backs to a run that were not taken. */
  readonly anomalies: DataLoader<string, readonly AnomalyRow[]>;
  /** The place of a run among those that wait for the same. */
  readonly waitingPosition: DataLoader<string, number | null>;
  /** How long steps of a kind took so far. */
  readonly history: DataLoader<StepKind, StepHistory | null>;
  readonly inventory: DataLoader<string, InventoryRow | null>;
  readonly inventoryById: DataLoader<string, InventoryRow | null>;
  readonly site: DataLoader<"policy", SiteRow>;
  /**
   * What is found below one of several parents: a page of a list, mostly. What is asked alike of several parents at the same
   * time is read in one statement.
   */
  below<Asked, Found>(question: Question<Asked, Found>, parent: string, asked: Asked, absent: Found): Promise<Found>;
  readonly secretFields: DataLoader<string, Readonly<Record<string, readonly string[]>>>;
}

export function createContext(services: Services, actor: Actor, requestId: string): Context {
  return { services, actor, requestId, load: lazily(() => createLoaders(services.database)) };
}

/** Makes something when it is first asked for anything: thousands of subscribers have a context that nobody asks. */
function lazily<Made extends object>(make: () => Made): Made {
  let made: Made | undefined;
  return new Proxy({} as Made, { get: (_none, name) => Reflect.get((made ??= make()), name) as unknown });
}

/** Rows that transitions and other events refer to. */
type Rows = Pick<Loaders, "node" | "operation" | "run">;

const rowsOfSubscriptions = new WeakMap<Database, Rows>();

/**
 * The context of one subscription's events. Each of its events is executed by itself, so within one there is little that could
 * be read together; but the rows that events of all subscriptions refer to are.
 */
export function ofSubscription<Given extends Context>(context: Given): Given {
  const load = lazily(() => {
    const { database } = context.services;
    const rows = rowsOfSubscriptions.get(database) ?? rowLoaders(database.reader, whileOthersRead);
    rowsOfSubscriptions.set(database, rows);
    return { ...createLoaders(database), ...rows };
  });
  return { ...context, load };
}

export function callerOf({ actor }: Context): Caller {
  return { actor: actor.subject, project: actor.project };
}

function createLoaders({ reader }: Database): Loaders {
  return {
    ...rowLoaders(reader, byKey),
    cluster: byKey(async (ids) => keyed(await clustersByIds(reader, ids)), null),
    clusterFacts: byKey(
      async (ids) => {
        const [counts, work] = await Promise.all([nodeCountsOf(reader, ids), workOnClusters(reader, ids)]);
        return new Map(
          ids.map((id) => [
            id,
            factsOf(
              counts.filter(({ clusterId }) => clusterId === id),
              work.filter(({ clusterId }) => clusterId === id),
            ),
          ]),
        );
      },
      { state: "NEW", counts: [] },
    ),
    runCounts: byKey((ids) => runStateCounts(reader, ids), {}),
    cleanUpFailures: byKey((ids) => cleanUpFailures(reader, ids), []),
    addressCounts: byKey((ids) => addressCounts(reader, ids), {}),
    currentRun: byKey(
      async (nodeIds) => new Map((await unfinishedRuns(reader, nodeIds)).map((run) => [run.nodeId, run])),
      null,
    ),
    plan: byKey((hashes) => plansByHashes(reader, hashes), null),
    logTail: new DataLoader((steps) => logTails(reader, steps), { cache: false }),
    anomalies: byKey(async (runIds) => Map.groupBy(await anomaliesOf(reader, runIds), ({ runId }) => runId), []),
    waitingPosition: byKey((runIds) => waitingPositions(reader, runIds), null),
    attempts: byKey(async (runIds) => Map.groupBy(await attemptsOf(reader, runIds), ({ runId }) => runId), []),
    history: new DataLoader((kinds) => stepHistories(reader, kinds), { cache: false }),
    inventoryById: byKey(async (ids) => keyed(await inventoriesByIds(reader, ids)), null),
    site: new DataLoader(
      async (asked) => {
        const site = await readSite(reader);
        return asked.map(() => site);
      },
      { cache: false },
    ),
    below: belowOf(reader),
    inventory: byKey((nodeIds) => newestInventories(reader, nodeIds), null),
    secretFields: byKey((nodeIds) => secretFieldsOf(reader, nodeIds), {}),
  };
}

function factsOf(
  counts: Awaited<ReturnType<typeof nodeCountsOf>>,
  work: Awaited<ReturnType<typeof workOnClusters>>,
): ClusterFacts {
  const byState = Map.groupBy(counts, ({ state }) => state);
  return {
    state: clusterState({ nodes: counts, work }),
    counts: [...byState].map(([state, rows]) => ({ state, count: rows.reduce((sum, { count }) => sum + count, 0) })),
  };
}

function belowOf(reader: Reader): Loaders["below"] {
  interface Key {
    readonly question: Question<unknown, unknown>;
    readonly parent: string;
    readonly asked: unknown;
    readonly absent: unknown;
  }
  const loader = new DataLoader<Key, unknown>(
    async (keys) => {
      const answers = new Map<Key, unknown>();
      const reads = [...Map.groupBy(keys, ({ question }) => question)].flatMap(([question, alike]) =>
        [...Map.groupBy(alike, ({ asked }) => JSON.stringify(asked)).values()].map(async (same) => {
          const found = await question(reader, [...new Set(same.map(({ parent }) => parent))], same[0]?.asked);
          for (const key of same) answers.set(key, found.get(key.parent) ?? key.absent);
        }),
      );
      await Promise.all(reads);
      return keys.map((key) => answers.get(key));
    },
    { cache: false },
  );
  return (question, parent, asked, absent) =>
    loader.load({ question: question as Question<unknown, unknown>, parent, asked, absent }) as Promise<never>;
}

function keyed<Row extends { readonly id: string }>(rows: readonly Row[]): Map<string, Row> {
  return new Map(rows.map((row) => [row.id, row]));
}

function rowLoaders(reader: Reader, batched: typeof byKey): Rows {
  return {
    node: batched(async (ids) => keyed(await nodesByIds(reader, ids)), null),
    operation: batched(async (ids) => keyed(await operationsByIds(reader, ids)), null),
    run: batched(async (ids) => keyed(await runsByIds(reader, ids)), null),
  };
}

/** As `byKey`, for many who ask at different times: what is asked while a statement is under way goes into the next one. */
function whileOthersRead<Value>(
  read: (keys: readonly string[]) => Promise<ReadonlyMap<string, Value>>,
  absent: Value,
): DataLoader<string, Value> {
  let underWay: Promise<unknown> = Promise.resolve();
  return byKey(
    (keys) => {
      const reading = read(keys);
      // One that hangs with its connection holds up nobody else.
      underWay = Promise.race([reading.catch(() => {}), delay(GATHERED_MS, undefined, { ref: false })]);
      return reading;
    },
    absent,
    (send) => void underWay.then(() => process.nextTick(send)),
  );
}

/** How long others wait for a statement that is under way, at most. */
const GATHERED_MS = 20;

function byKey<Value>(
  read: (keys: readonly string[]) => Promise<ReadonlyMap<string, Value>>,
  absent: Value,
  batchScheduleFn?: (send: () => void) => void,
): DataLoader<string, Value> {
  return new DataLoader(
    async (keys) => {
      const found = await read([...new Set(keys)]);
      return keys.map((key) => found.get(key) ?? absent);
    },
    { cache: false, ...(batchScheduleFn && { batchScheduleFn }) },
  );
}
