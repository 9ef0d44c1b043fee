/** The streams of changes: of nodes, of operations, of runs and of clusters. */
import type {
  ClusterChangeField,
  NodeChangeField,
  OperationChangeField,
  RunChangeField,
} from "../../store/log/change-fields.ts";
import type { ChangeCursor } from "../../store/log/changes.ts";
import type { ClusterFilter } from "../../store/nodes/cluster-filter.ts";
import type { ClusterRow } from "../../store/nodes/clusters.ts";
import type { NodeFilter } from "../../store/nodes/node-filter.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { OperationFilter } from "../../store/operations/operation-filter.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import type { RunRow, RunsOf } from "../../store/runs/runs.ts";
import { changeStream } from "../change-stream.ts";
import type { ChangeStream, ChangeStreamItem, FeedParts } from "../change-stream.ts";
import { changesOfClusters, clusterSnapshot, MERGE_OF_CLUSTERS, viewOfClusters } from "./cluster-changes.ts";
import { changesOfNodes, mergeOfNodes, nodeSnapshot, viewOfNodes } from "./node-changes.ts";
import { changesOfOperations, operationSnapshot, viewOfOperations } from "./operation-changes.ts";
import { changesOfRuns, runSnapshot, VIEW_OF_RUNS } from "./run-changes.ts";
import type { StreamRequest } from "../stream.ts";

interface FilteredRequest<Filter> extends StreamRequest<ChangeCursor> {
  readonly filter?: Filter | undefined;
}

export type NodeChangeItem = ChangeStreamItem<NodeRow, NodeChangeField>;
export type NodeChangesRequest = FilteredRequest<NodeFilter>;

export function nodeChanges(
  parts: FeedParts,
  { filter, ...request }: NodeChangesRequest,
): ChangeStream<NodeRow, NodeChangeField> {
  const view = viewOfNodes(filter);
  return changeStream(
    parts,
    {
      reads: { subjects: ["NODE", "RUN"] },
      merge: mergeOfNodes(filter),
      head: "live",
      known: parts.tail.changes.known.nodes,
      snapshot: nodeSnapshot(filter),
      changesOf: changesOfNodes,
      view: () => view,
    },
    request,
  );
}

export type OperationChangeItem = ChangeStreamItem<OperationRow, OperationChangeField>;
export type OperationChangesRequest = FilteredRequest<OperationFilter>;

export function operationChanges(
  parts: FeedParts,
  { filter, ...request }: OperationChangesRequest,
): ChangeStream<OperationRow, OperationChangeField> {
  return changeStream(
    parts,
    {
      reads: { subjects: ["OPERATION", "RUN", ...(filter?.clusterId === undefined ? [] : (["CLUSTER"] as const))] },
      merge: { by: "OPERATION" },
      head: "paced",
      known: parts.tail.changes.known.operations,
      snapshot: operationSnapshot(filter),
      changesOf: (rows) => changesOfOperations(parts.database.reader, filter, rows),
      view: (ids) => viewOfOperations(parts.database.reader, filter, ids),
    },
    request,
  );
}

export interface RunChangesRequest extends StreamRequest<ChangeCursor> {
  readonly of: RunsOf;
}

export function runChanges(
  parts: FeedParts,
  { of, ...request }: RunChangesRequest,
): ChangeStream<RunRow, RunChangeField> {
  return changeStream(
    parts,
    {
      reads: { subjects: ["RUN"], ...of },
      merge: { by: "SUBJECT" },
      head: "paced",
      known: parts.tail.changes.known.runs,
      snapshot: runSnapshot(of),
      changesOf: (rows) => changesOfRuns(of, rows),
      view: () => VIEW_OF_RUNS,
    },
    request,
  );
}

export type ClusterChangesRequest = FilteredRequest<ClusterFilter>;

export function clusterChanges(
  parts: FeedParts,
  { filter, ...request }: ClusterChangesRequest,
): ChangeStream<ClusterRow, ClusterChangeField> {
  const view = viewOfClusters(filter);
  return changeStream(
    parts,
    {
      reads: { subjects: ["CLUSTER", "NODE", "RUN", "OPERATION"] },
      merge: MERGE_OF_CLUSTERS,
      head: "slow",
      known: parts.tail.changes.known.clusters,
      snapshot: clusterSnapshot(filter),
      changesOf: (rows) => changesOfClusters(parts.database.reader, rows),
      view: () => view,
    },
    request,
  );
}
