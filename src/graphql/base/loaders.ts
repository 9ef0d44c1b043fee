/** The data loaders of a request. */
import DataLoader from "dataloader";
import { clusterState } from "../../lifecycle/cluster-state.ts";
import type { ClusterState } from "../../lifecycle/cluster-state.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import type { RunState } from "../../lifecycle/operation-states.ts";
import type { Database } from "../../store/postgres/database.ts";
import { clustersByIds, nodeCountsOf } from "../../store/nodes/clusters.ts";
import type { ClusterRow } from "../../store/nodes/clusters.ts";
import { stepHistories } from "../../store/runs/step-durations.ts";
import type { StepHistory, StepKind } from "../../store/runs/step-durations.ts";
import { addressCounts } from "../../store/operations/discoveries.ts";
import { imagesByIds } from "../../store/images.ts";
import type { ImageRow } from "../../store/images.ts";
import { inventoriesByIds, newestInventories, nodesByIds, secretFieldsOf } from "../../store/nodes/nodes.ts";
import type { InventoryRow, NodeRow } from "../../store/nodes/nodes.ts";
import { cleanUpFailures } from "../../store/operations/operation-failures.ts";
import { operationsByIds } from "../../store/operations/operations.ts";
import { runGroups, runStateCounts } from "../../store/operations/operation-runs.ts";
import { workOnClusters } from "../../store/operations/operation-lists.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import type { RunGroup } from "../../store/operations/operation-runs.ts";
import type { Failure, Plan } from "../../store/records.ts";
import { rejectedCallbacksOf } from "../../store/runs/rejected-callbacks.ts";
import { attemptsOf, attemptsUnderWay, succeededSteps } from "../../store/runs/attempts.ts";
import { waitingPositions } from "../../store/runs/slots.ts";
import { plansByHashes } from "../../store/runs/plans.ts";
import { cleanedUpAfter, newestWork, runsByIds, unfinishedRuns } from "../../store/runs/runs.ts";
import type { RejectedCallbackRow } from "../../store/runs/rejected-callbacks.ts";
import type { AttemptRow } from "../../store/runs/attempts.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { readSite } from "../../store/site.ts";
import type { SiteRow } from "../../store/site.ts";
import { logTails } from "../../store/runs/step-log.ts";
import type { StepLogRow } from "../../store/runs/step-log.ts";
import { belowOf, loaderOf } from "./batching.ts";
import type { Below, ReadByKey, Schedule } from "./batching.ts";
import { cursorOfLists } from "./log-cursor.ts";

export interface ClusterFacts {
  readonly state: ClusterState;
  readonly counts: readonly { readonly state: NodeState; readonly count: number }[];
}

/** Rows that events bring. */
export interface BroughtRows {
  readonly node: NodeRow;
  readonly operation: OperationRow;
  readonly run: RunRow;
  readonly cluster: ClusterRow;
}

export type RowLoaders = { readonly [Kind in keyof BroughtRows]: DataLoader<string, BroughtRows[Kind] | null> };

/** Batched reads by key. */
export interface Loaders extends RowLoaders {
  readonly clusterFacts: DataLoader<string, ClusterFacts>;
  readonly runCounts: DataLoader<string, Partial<Record<RunState, number>>>;
  /** Runs of an operation's work, by how far they are. */
  readonly runGroups: DataLoader<string, readonly RunGroup[]>;
  /** Failures of the clean-up runs of an operation. */
  readonly cleanUpFailures: DataLoader<string, readonly Failure[]>;
  /** Addresses of a discovery per state, in place of run counts. */
  readonly addressCounts: DataLoader<string, Partial<Record<RunState, number>>>;
  /** The unfinished run of a node. */
  readonly currentRun: DataLoader<string, RunRow | null>;
  /** The newest run of a node that moved its state; what a restart continues. */
  readonly newestWork: DataLoader<string, RunRow | null>;
  /** Whether a failure policy cleaned up the node of a run afterwards. */
  readonly isCleanedUp: DataLoader<string, boolean>;
  /** Newest attempt at the step that a run is at. */
  readonly attemptUnderWay: DataLoader<string, AttemptRow | null>;
  /** Indexes of the steps of a run that succeeded. */
  readonly succeededSteps: DataLoader<string, ReadonlySet<number>>;
  readonly plan: DataLoader<string, Plan | null>;
  readonly attempts: DataLoader<string, readonly AttemptRow[]>;
  /** Newest log lines of a step. */
  readonly logTail: DataLoader<
    { readonly runId: string; readonly step: number; readonly tail: number },
    readonly StepLogRow[]
  >;
  /** Rejected callbacks of a run. */
  readonly rejectedCallbacks: DataLoader<string, readonly RejectedCallbackRow[]>;
  /** Position of a run in the queue for its slot. */
  readonly waitingPosition: DataLoader<string, number | null>;
  /** Durations of earlier attempts of a step. */
  readonly history: DataLoader<StepKind, StepHistory | null>;
  readonly image: DataLoader<string, ImageRow | null>;
  readonly inventory: DataLoader<string, InventoryRow | null>;
  readonly inventoryById: DataLoader<string, InventoryRow | null>;
  readonly site: DataLoader<"policy", SiteRow>;
  /** The cursor of both logs, at the moment that the request sees. */
  readonly asOf: DataLoader<"now", string>;
  /**
   * Reads what belongs to a parent, usually a page of a list; the same question about several parents is one statement.
   */
  readonly below: Below;
  readonly secretFields: DataLoader<string, Readonly<Record<string, readonly string[]>>>;
}

export function createLoaders({ reader }: Pick<Database, "reader">, schedule?: Schedule): Loaders {
  const byKey = <Value>(read: ReadByKey<Value>, absent: Value) => loaderOf(read, absent, schedule);
  return {
    node: byKey(async (ids) => keyed(await nodesByIds(reader, ids)), null),
    operation: byKey(async (ids) => keyed(await operationsByIds(reader, ids)), null),
    run: byKey(async (ids) => keyed(await runsByIds(reader, ids)), null),
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
    runGroups: byKey((ids) => runGroups(reader, ids), []),
    cleanUpFailures: byKey((ids) => cleanUpFailures(reader, ids), []),
    addressCounts: byKey((ids) => addressCounts(reader, ids), {}),
    currentRun: byKey(
      async (nodeIds) => new Map((await unfinishedRuns(reader, nodeIds)).map((run) => [run.nodeId, run])),
      null,
    ),
    newestWork: byKey(
      async (nodeIds) => new Map((await newestWork(reader, nodeIds, null)).map((run) => [run.nodeId, run])),
      null,
    ),
    isCleanedUp: byKey(async (ids) => new Map([...(await cleanedUpAfter(reader, ids))].map((id) => [id, true])), false),
    attemptUnderWay: byKey((runIds) => attemptsUnderWay(reader, runIds), null),
    succeededSteps: byKey((runIds) => succeededSteps(reader, runIds), new Set()),
    plan: byKey((hashes) => plansByHashes(reader, hashes), null),
    logTail: new DataLoader((steps) => logTails(reader, steps), { cache: false }),
    rejectedCallbacks: byKey(
      async (runIds) => Map.groupBy(await rejectedCallbacksOf(reader, runIds), ({ runId }) => runId),
      [],
    ),
    waitingPosition: byKey((runIds) => waitingPositions(reader, runIds), null),
    attempts: byKey(async (runIds) => Map.groupBy(await attemptsOf(reader, runIds), ({ runId }) => runId), []),
    history: new DataLoader((kinds) => stepHistories(reader, kinds), { cache: false }),
    image: byKey(async (ids) => keyed(await imagesByIds(reader, ids)), null),
    inventoryById: byKey(async (ids) => keyed(await inventoriesByIds(reader, ids)), null),
    asOf: new DataLoader(
      async (asked) => {
        const cursor = await cursorOfLists(reader);
        return asked.map(() => cursor);
      },
      { cache: false },
    ),
    site: new DataLoader(
      async (asked) => {
        const site = await readSite(reader);
        return asked.map(() => site);
      },
      { cache: false },
    ),
    below: belowOf(reader, schedule),
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

function keyed<Row extends { readonly id: string }>(rows: readonly Row[]): Map<string, Row> {
  return new Map(rows.map((row) => [row.id, row]));
}
