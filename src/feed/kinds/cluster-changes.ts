/**
 * Changes of clusters: what of the log belongs to a cluster, and whether it matched a filter before. The state and the
 * counts of a cluster follow from its nodes and their work.
 */
import { CLUSTER_CHANGE_COLUMNS } from "../../store/log/change-fields.ts";
import type { ClusterChangeField, NodeChangeField } from "../../store/log/change-fields.ts";
import type { ChangeRow } from "../../store/log/changes.ts";
import { clusterTest } from "../../store/nodes/cluster-filter.ts";
import type { ClusterFilter } from "../../store/nodes/cluster-filter.ts";
import { busyClusters, clustersByIds, clustersOfNodes, clusterVersionsAfterName } from "../../store/nodes/clusters.ts";
import type { ClusterRow } from "../../store/nodes/clusters.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { ObjectChange, View } from "../change-items.ts";
import { changeStream } from "../change-stream.ts";
import type { ChangeStream, FeedParts, FilteredRequest } from "../change-stream.ts";
import type { KnownRow } from "../log/known-rows.ts";

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
      // Of a node before a change, its cluster is visible; of a cluster, its name.
      merge: { by: "NODE", before: [["clusterId"], ["name"]] },
      head: "slow",
      known: parts.tail.changes.known.clusters,
      snapshot: {
        key: `clusters ${JSON.stringify(filter ?? {})}`,
        versions: (reader, after, limit) => clusterVersionsAfterName(reader, filter, after?.name ?? null, limit),
        byIds: clustersByIds,
      },
      changesOf: (rows) => changesOfClusters(parts.database.reader, rows),
      view: () => view,
    },
    request,
  );
}

type Change = ObjectChange<ClusterChangeField>;

const FIELDS = Object.keys(CLUSTER_CHANGE_COLUMNS) as ClusterChangeField[];
/** Every change of a cluster raises its revision; its nodes show whether its members changed. */
const OWN_FIELDS = ["NAME", "SETTINGS", "PENDING_CHANGES"] as const satisfies readonly ClusterChangeField[];
/** Fields of nodes by which the state, and by which the pending changes of a cluster follow. */
const STATE_FIELDS: ReadonlySet<string> = new Set<NodeChangeField>(["STATE", "STAGE", "CLUSTER"]);
const PENDING_FIELDS: ReadonlySet<string> = new Set<NodeChangeField>([
  "HOST_GROUP",
  "VARIABLES",
  "SETTINGS",
  "MAINTENANCE",
  "PROTECTED",
  "RETIRED",
  "PRESENCE",
  "FAULT",
  "IDENTITY_CONFLICT",
]);

/** The changes as changes of clusters. */
async function changesOfClusters(reader: Reader, rows: readonly ChangeRow[]): Promise<readonly Change[]> {
  const ofNodes = rows.flatMap((row) => nodeOf(row) ?? []);
  const ofOperations = rows.flatMap(({ subject, subjectId, fields }) =>
    subject === "OPERATION" && fields.includes("INTERRUPT") ? subjectId : [],
  );
  const [present, busy] = await Promise.all([
    clustersOfNodes(reader, [...new Set(ofNodes)]),
    busyClusters(reader, [...new Set(ofOperations)]),
  ]);
  return rows.flatMap((row): readonly Change[] => {
    const { subject, subjectId, fields } = row;
    if (subject === "CLUSTER") return [{ id: subjectId, row, fields: ownFields(fields) }];
    if (subject === "OPERATION")
      return fields.includes("INTERRUPT")
        ? (busy.get(subjectId) ?? []).map((id) => ({ id, row, fields: ["STATE"] }))
        : [];
    const nodeId = nodeOf(row);
    return nodeId === null ? [] : throughNode(row, present.get(nodeId) ?? null);
  });
}

/** The node whose change may be visible in its cluster. */
function nodeOf({ subject, subjectId, nodeId, event, fields }: ChangeRow): string | null {
  const has = (isVisible: (field: string) => boolean) => event !== "CHANGED" || fields.some(isVisible);
  if (subject === "NODE")
    return has((field) => STATE_FIELDS.has(field) || PENDING_FIELDS.has(field)) ? subjectId : null;
  return subject === "RUN" && has((field) => field === "STATE" || field === "INTERRUPT") ? nodeId : null;
}

/** Settings that differ from those of the deployments are pending. */
function ownFields(fields: readonly string[]): readonly ClusterChangeField[] {
  const all = fields.includes("SETTINGS") ? [...fields, "PENDING_CHANGES"] : fields;
  return OWN_FIELDS.filter((field) => all.includes(field));
}

/** A change of a node, or of its run, as a change of its cluster before and of the one that it is in now. */
function throughNode(row: ChangeRow, present: string | null): readonly Change[] {
  const { subject, event, before, fields } = row;
  const earlier = before !== null && "clusterId" in before ? before.clusterId : null;
  const isMove = subject === "NODE" && (event !== "CHANGED" || fields.includes("CLUSTER"));
  // A new name of a cluster is also recorded as a change of its nodes.
  const isRename = isMove && event === "CHANGED" && !fields.includes("STATE") && earlier === present;
  if (isRename) return [];
  const changesState = subject === "RUN" || isMove || fields.some((field) => STATE_FIELDS.has(field));
  const visible: readonly ClusterChangeField[] = [
    ...(isMove ? (["MEMBERS"] as const) : []),
    ...(changesState ? (["STATE"] as const) : []),
    "PENDING_CHANGES",
  ];
  return [...new Set([earlier, present])].flatMap((id) => (id === null ? [] : { id, row, fields: visible }));
}

function viewOfClusters(filter: ClusterFilter | undefined): View<KnownRow<ClusterRow>, ClusterChangeField> {
  const test = clusterTest(filter);
  return {
    fields: FIELDS,
    matches: ({ row }) => test(row),
    before({ id, fields, row: { subject, before } }, known) {
      if (subject !== "CLUSTER") return null;
      if (before !== null && "name" in before) return { matched: test({ id, name: before.name }), name: before.name };
      // The name before is not recorded.
      return filter?.name && fields.includes("NAME") ? { matched: "MAYBE", name: known?.row.name ?? "" } : null;
    },
    begins: ({ row: { subject, event } }) => subject === "CLUSTER" && event === "CREATED",
  };
}
