/** The data loaders of a request. */
import DataLoader from "dataloader";
import { clusterState } from "../../lifecycle/cluster-state.ts";
import type { ClusterState } from "../../lifecycle/cluster-state.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import type { RunState } from "../../lifecycle/operation-states.ts";
import type { Database } from "../../store/postgres/database.ts";
import { NO_NODES } from "../../lifecycle/host-groups.ts";
import { groupCounts, hostGroupNames } from "../../store/nodes/host-groups.ts";
import { clustersByIds, nodeCountsOf } from "../../store/nodes/clusters.ts";
import type { ClusterRow } from "../../store/nodes/clusters.ts";
import { stepHistories } from "../../store/runs/step-durations.ts";
import type { StepKind } from "../../store/runs/step-durations.ts";
import { addressCounts } from "../../store/operations/discoveries.ts";
import { imagesByIds } from "../../store/images.ts";
import { inventoriesByIds, newestInventories, nodesByIds, secretFieldsOf } from "../../store/nodes/nodes.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import { cleanUpFailures } from "../../store/operations/operation-failures.ts";
import { operationsByIds } from "../../store/operations/operations.ts";
import { runGroups, runStateCounts } from "../../store/operations/operation-runs.ts";
import { workOnClusters } from "../../store/operations/operation-lists.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import { rejectedCallbacksOf } from "../../store/runs/rejected-callbacks.ts";
import { attemptsOf, attemptsUnderWay, succeededSteps } from "../../store/runs/attempts.ts";
import { waitingPositions } from "../../store/runs/slots.ts";
import { plansByHashes } from "../../store/runs/plans.ts";
import { cleanedUpAfter, newestWork, runsByIds, unfinishedRuns } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { readSite } from "../../store/site.ts";
import { logTails } from "../../store/runs/step-log.ts";
import { belowOf, loaderOf } from "./batching.ts";
import type { ReadByKey, Schedule } from "./batching.ts";
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
export type Loaders = ReturnType<typeof createLoaders>;

export function createLoaders({ reader }: Pick<Database, "reader">, schedule?: Schedule) {
  const byKey = <Found, Absent>(read: ReadByKey<Found>, absent: Absent) => loaderOf(read, absent, schedule);
  const noCounts: Partial<Record<RunState, number>> = {};
  const noSecrets: Readonly<Record<string, readonly string[]>> = {};
  return {
    node: byKey(async (ids) => keyed(await nodesByIds(reader, ids)), null),
    operation: byKey(async (ids) => keyed(await operationsByIds(reader, ids)), null),
    run: byKey(async (ids) => keyed(await runsByIds(reader, ids)), null),
    cluster: byKey(async (ids) => keyed(await clustersByIds(reader, ids)), null),
    clusterFacts: byKey<ClusterFacts, ClusterFacts>(
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
    /** Counts of a host group, by its key. */
    hostGroup: byKey(async (keys) => {
      const countsOf = await groupCounts(reader, keys);
      return new Map(keys.map((key) => [key, countsOf(key)]));
    }, NO_NODES),
    /** Names of the host groups that the nodes of a cluster have. */
    hostGroupNames: byKey((ids) => hostGroupNames(reader, ids), []),
    runCounts: byKey((ids) => runStateCounts(reader, ids), noCounts),
    /** Runs of an operation's work, by how far they are. */
    runGroups: byKey((ids) => runGroups(reader, ids), []),
    /** Failures of the clean-up runs of an operation. */
    cleanUpFailures: byKey((ids) => cleanUpFailures(reader, ids), []),
    /** Addresses of a discovery per state, in place of run counts. */
    addressCounts: byKey((ids) => addressCounts(reader, ids), noCounts),
    /** The unfinished run of a node. */
    currentRun: byKey(
      async (nodeIds) => new Map((await unfinishedRuns(reader, nodeIds)).map((run) => [run.nodeId, run])),
      null,
    ),
    /** The newest run of a node that moved its state; what a restart continues. */
    newestWork: byKey(
      async (nodeIds) => new Map((await newestWork(reader, nodeIds, null)).map((run) => [run.nodeId, run])),
      null,
    ),
    /** Whether a failure policy cleaned up the node of a run afterwards. */
    isCleanedUp: byKey(async (ids) => new Map([...(await cleanedUpAfter(reader, ids))].map((id) => [id, true])), false),
    /** Newest attempt at the step that a run is at. */
    attemptUnderWay: byKey((runIds) => attemptsUnderWay(reader, runIds), null),
    /** Indexes of the steps of a run that succeeded. */
    succeededSteps: byKey((runIds) => succeededSteps(reader, runIds), new Set<number>()),
    plan: byKey((hashes) => plansByHashes(reader, hashes), null),
    attempts: byKey(async (runIds) => Map.groupBy(await attemptsOf(reader, runIds), ({ runId }) => runId), []),
    /** Newest log lines of a step. */
    logTail: uncached((steps: Parameters<typeof logTails>[1]) => logTails(reader, steps)),
    /** Rejected callbacks of a run. */
    rejectedCallbacks: byKey(
      async (runIds) => Map.groupBy(await rejectedCallbacksOf(reader, runIds), ({ runId }) => runId),
      [],
    ),
    /** Position of a run in the queue for its slot. */
    waitingPosition: byKey((runIds) => waitingPositions(reader, runIds), null),
    /** Durations of earlier attempts of a step. */
    history: uncached((kinds: readonly StepKind[]) => stepHistories(reader, kinds)),
    image: byKey(async (ids) => keyed(await imagesByIds(reader, ids)), null),
    inventory: byKey((nodeIds) => newestInventories(reader, nodeIds), null),
    inventoryById: byKey(async (ids) => keyed(await inventoriesByIds(reader, ids)), null),
    site: uncached(async (asked: readonly "policy"[]) => {
      const site = await readSite(reader);
      return asked.map(() => site);
    }),
    /** The cursor of both logs, at the moment that the request sees. */
    asOf: uncached(async (asked: readonly "now"[]) => {
      const cursor = await cursorOfLists(reader);
      return asked.map(() => cursor);
    }),
    /**
     * Reads what belongs to a parent, usually a page of a list; the same question about several parents is one
     * statement.
     */
    below: belowOf(reader, schedule),
    secretFields: byKey((nodeIds) => secretFieldsOf(reader, nodeIds), noSecrets),
  };
}

function uncached<Key, Value>(read: DataLoader.BatchLoadFn<Key, Value>): DataLoader<Key, Value> {
  return new DataLoader(read, { cache: false });
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
