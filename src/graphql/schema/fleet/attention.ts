/** Nodes that need a person, by cause: the query `attention`, and its live form `attentionChanges`. */
import { keyOfAnswer } from "../../../feed/log/shared-answers.ts";
import { attentionGroups } from "../../../store/nodes/attention.ts";
import type { Attention, AttentionGroup, AttentionRequest } from "../../../store/nodes/attention.ts";
import type { PendingGroup } from "../../../engine/admission/pending-changes.ts";
import { clustersByIds } from "../../../store/nodes/clusters.ts";
import type { ClusterRow } from "../../../store/nodes/clusters.ts";
import type { Reader } from "../../../store/postgres/database.ts";
import { builder, given, needs } from "../../base/builder.ts";
import type { FieldArgs } from "../../base/builder.ts";
import type { Services } from "../../base/context.ts";
import { logCursorText } from "../../base/log-cursor.ts";
import { clusterField } from "../../base/shared-fields.ts";
import { AttentionGroupRef, AttentionKindEnum, groupArgs, groupLimits } from "./attention-groups.ts";
import { NodeFilterInput, nodeFilter, streamFilter } from "../selectors.ts";
import type { NodeFilterShape } from "../selectors.ts";

const AttentionRef = builder
  .objectRef<Attention & { readonly chosen: NodeFilterShape | undefined }>("Attention")
  .implement({
    description: "What needs a person. A node can be in several groups.",
    fields: (t) => ({
      groups: t.field({
        type: [AttentionGroupRef],
        description: "The groups of most nodes.",
        resolve: ({ groups, chosen }) => groups.map((group) => ({ ...group, chosen })),
      }),
      cursor: t.string({
        description:
          "Position of the log as of which the nodes were read. Pass it as `after` to continue with their transitions.",
        resolve: ({ cursor }) => logCursorText(cursor),
      }),
      groupCount: t.exposeInt("groupCount", { description: "Number of all groups." }),
      otherGroupCount: t.int({
        description: "Number of groups that `first` leaves out.",
        resolve: ({ groups, groupCount }) => groupCount - groups.length,
      }),
      nodeCount: t.exposeInt("nodeCount", { description: "Number of different nodes in all groups." }),
      maintenanceCount: t.exposeInt("maintenanceCount", {
        description: "Number of matching nodes in maintenance, also for less than seven days.",
      }),
    }),
  });

/** The arguments but for the filter. */
function attentionArgs(arg: FieldArgs) {
  return {
    kinds: arg({ type: [AttentionKindEnum], description: "Only these kinds; by default all." }),
    ...groupArgs(arg),
  };
}

builder.objectField(AttentionGroupRef, "cluster", (t) =>
  clusterField(t, "Cluster with the pending changes; null for other kinds."),
);

/** The groups of the database, and the clusters with pending changes, most nodes first. */
async function readAttention(
  { engine }: Pick<Services, "engine">,
  reader: Reader,
  request: AttentionRequest,
): Promise<Attention> {
  const found = await attentionGroups(reader, request);
  if (request.kinds && !request.kinds.includes("PENDING_CHANGES")) return found;
  const pending = await engine.pendingOfFleet(reader, request.filter);
  const clusters = await clustersByIds(reader, [...pending.keys()]);
  const groups = clusters.map((cluster) => pendingGroup(cluster, pending.get(cluster.id)?.groups ?? [], request));
  const all = [...found.groups, ...groups].toSorted((a, b) => b.nodeCount - a.nodeCount);
  return {
    ...found,
    groups: all.slice(0, request.first),
    groupCount: found.groupCount + groups.length,
    nodeCount: groups.reduce((sum, { nodeCount }) => sum + nodeCount, found.nodeCount),
  };
}

const NO_FACTS = { state: null, code: null, step: null, driver: null, detail: null, operationId: null } as const;

function pendingGroup(
  { id, updatedAt }: ClusterRow,
  changes: readonly PendingGroup[],
  { nodesMax }: Pick<AttentionRequest, "nodesMax">,
): AttentionGroup {
  const count = changes.reduce((sum, { nodeCount }) => sum + nodeCount, 0);
  const reason = changes[0]?.reason ?? null;
  return {
    kind: "PENDING_CHANGES",
    ...NO_FACTS,
    message: reason,
    cause: reason,
    causeCount: changes.length,
    clusterId: id,
    nodeCount: count,
    openCount: count,
    since: updatedAt.toISOString(),
    nodeIds: changes.flatMap(({ nodeIds }) => nodeIds).slice(0, nodesMax),
  };
}

builder.queryField("attention", (t) =>
  t.field({
    type: AttentionRef,
    ...needs("READ"),
    description:
      "What needs a person, in groups with the same cause. Nodes in maintenance are in groups of the kind MAINTENANCE only.",
    args: {
      filter: t.arg({ type: NodeFilterInput, description: "Only matching nodes; by default all." }),
      ...attentionArgs(t.arg),
    },
    resolve: async (_root, { filter, kinds, ...limits }, { services }) => {
      const request = { filter: nodeFilter(filter), kinds: given(kinds), ...groupLimits(limits) };
      return { ...(await readAttention(services, services.database.reader, request)), chosen: given(filter) };
    },
  }),
);

builder.subscriptionField("attentionChanges", (t) =>
  t.field({
    type: AttentionRef,
    ...needs("READ", { eventKey: keyOfAnswer }),
    description:
      "The answer of `attention`: the present one first, then again whenever its groups, counts, messages or nodes have changed, at most once a second; by time alone, within ten seconds. Fields of nodes and suggestions are those of that moment. In large fleets, and with many different filters at a time, less often. After a disconnect, subscribe again: the first item has the present answer, so no cursor is needed.",
    args: {
      filter: t.arg({
        type: NodeFilterInput,
        description: "Only matching nodes; by default all. At most 65,536 characters as JSON.",
      }),
      ...attentionArgs(t.arg),
    },
    subscribe: (_root, { filter, kinds, ...limits }, { services }) => {
      const request = { filter: streamFilter(filter), kinds: given(kinds), ...groupLimits(limits) };
      const chosen = given(filter);
      return services.tail.answers.stream({
        key: JSON.stringify(["attention", request, chosen]),
        isTimed: request.kinds?.some((kind) => kind !== "PENDING_CHANGES") ?? true,
        read: async (reader) => ({ ...(await readAttention(services, reader, request)), chosen }),
      });
    },
    resolve: (update) => update,
  }),
);
