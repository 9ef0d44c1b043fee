/** Filters of operations, for the list and for the stream. */
import { findCluster } from "../../../engine/views.ts";
import type { OperationFilter } from "../../../store/operations/operation-filter.ts";
import type { Reader } from "../../../store/postgres/database.ts";
import { builder, given, givenMembers } from "../../base/builder.ts";
import { OperationKindEnum, OperationStateEnum } from "../../base/enums.ts";
import { keyOf, uuidOrNone } from "../../base/ids.ts";
import { clusterChoice, ClusterRefInput, limitStreamFilter, nodeId, NodeRefInput } from "../selectors.ts";
import { notFound } from "../streams/streams.ts";

export const OperationFilterInput = builder.inputType("OperationFilter", {
  description: "Filter for operations. The given fields are combined with AND.",
  fields: (t) => ({
    ids: t.idList({ description: "By global ID or UUID; an empty list matches nothing." }),
    kinds: t.field({ type: [OperationKindEnum], description: "Of one of these kinds; an empty list matches nothing." }),
    states: t.field({
      type: [OperationStateEnum],
      description: "In one of these states; an empty list matches nothing.",
    }),
    node: t.field({ type: NodeRefInput, description: "With a run on this node." }),
    cluster: t.field({
      type: ClusterRefInput,
      description:
        "Requested for this cluster, or on nodes that were members of it when the operation was accepted, selected in any way.",
    }),
    requestedBy: t.stringList({ description: "Requested by one of these actors; an empty list matches nothing." }),
    text: t.string({
      description: "With this text in `reason` or in the message of `firstFailure`, ignoring case.",
    }),
    createdSince: t.field({ type: "DateTime", description: "Accepted at this time or later." }),
    createdBefore: t.field({ type: "DateTime", description: "Accepted before this time." }),
  }),
});

type OperationFilterShape = typeof OperationFilterInput.$inferInput;

export async function operationFilter(
  filter: OperationFilterShape | null | undefined,
  reader: Reader,
): Promise<OperationFilter | undefined> {
  if (!filter) return undefined;
  const { ids, node, cluster, requestedBy, ...plain } = filter;
  return {
    ...givenMembers(plain),
    ids: ids?.map((id) => uuidOrNone(keyOf("Operation", id))),
    nodeId: node ? uuidOrNone(await nodeId(node, reader)) : undefined,
    clusterId: cluster ? ((await findCluster(reader, clusterChoice(cluster))) ?? uuidOrNone("")) : undefined,
    actors: given(requestedBy),
  };
}

/**
 * The filter of a stream. A name that does not exist is refused: names are looked up when the stream starts, so a
 * stream that resumes would not notice that an object was renamed or deleted. An ID is taken as it is, because a reader
 * that resumes has to learn that the operations of a deleted cluster have left.
 */
export async function streamOperationFilter(
  filter: OperationFilterShape | null | undefined,
  reader: Reader,
): Promise<OperationFilter | undefined> {
  limitStreamFilter(filter);
  const found = await operationFilter(filter, reader);
  const { node, cluster } = filter ?? {};
  if (node?.name != null && found?.nodeId === uuidOrNone(""))
    throw notFound(`Node ${JSON.stringify(node.name)} does not exist.`);
  if (cluster?.name != null && found?.clusterId === uuidOrNone(""))
    throw notFound(`Cluster ${JSON.stringify(cluster.name)} does not exist.`);
  return cluster?.id == null ? found : { ...found, clusterId: uuidOrNone(keyOf("Cluster", cluster.id)) };
}
