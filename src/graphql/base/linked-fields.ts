/** Fields with the object that has the id of another member; null if there is none, also if it was deleted. */
import type { OutputFields } from "./builder.ts";
import { ClusterRef, NodeRef, OperationRef } from "./refs.ts";

/** A member that may be null or absent. */
type Id = string | null | undefined;

export function nodeField<Shape extends { readonly nodeId?: Id }>(t: OutputFields<Shape>, description: string) {
  return t.field({
    type: NodeRef,
    nullable: true,
    description,
    resolve: ({ nodeId }, _args, { load }) => (nodeId == null ? null : load.node.load(nodeId)),
  });
}

export function clusterField<Shape extends { readonly clusterId?: Id }>(t: OutputFields<Shape>, description: string) {
  return t.field({
    type: ClusterRef,
    nullable: true,
    description,
    resolve: ({ clusterId }, _args, { load }) => (clusterId == null ? null : load.cluster.load(clusterId)),
  });
}

export function operationField<Shape extends { readonly operationId?: Id }>(
  t: OutputFields<Shape>,
  description: string,
) {
  return t.field({
    type: OperationRef,
    nullable: true,
    description,
    resolve: ({ operationId }, _args, { load }) => (operationId == null ? null : load.operation.load(operationId)),
  });
}
