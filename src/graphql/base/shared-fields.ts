/** Fields that several types have: objects by the id in another member, null if there is none, and variables. */
import type { JsonObject } from "../../store/records.ts";
import { maskedVariables } from "../../store/secrets/secrets.ts";
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

export function variablesField<Shape extends { readonly variables: JsonObject }>(
  t: OutputFields<Shape>,
  description: string,
) {
  return t.field({
    type: "JSON",
    description: `${description} Secret ones are \`***\`.`,
    resolve: ({ variables }, _args, { services }) => maskedVariables(variables, services.registry.secretVariables),
  });
}
