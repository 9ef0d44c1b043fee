/** The service itself: version and limits, the caller, and objects by ID. */
import { clustersByIds } from "../store/clusters.ts";
import { nodesByIds } from "../store/nodes.ts";
import { operationsByIds } from "../store/operations.ts";
import { runsByIds } from "../store/runs.ts";
import { builder, needs } from "./builder.ts";
import { PAGE_MAX, TRANSITIONS_PAGE_MAX } from "./connection.ts";
import type { Context } from "./context.ts";
import { isUuid, readId } from "./ids.ts";
import { ClusterRef, NodeRef, OperationRef, ResourceRef } from "./refs.ts";

const ServiceInfoRef = builder.objectRef<object>("ServiceInfo").implement({
  description: "Version and limits that a client can rely on.",
  fields: (t) => ({
    version: t.string({ description: "Semantic version of the server.", resolve: (_root, _args, { services }) => services.version }),
    schemaHash: t.string({ description: "Hash of the schema; changes whenever the schema does.", resolve: (_root, _args, { services }) => services.schemaHash }),
    now: t.field({ type: "DateTime", description: "Server time, for clients that measure skew.", resolve: () => new Date() }),
    maxPageSize: t.int({ description: "Largest accepted `first` or `last`.", resolve: () => PAGE_MAX }),
    maxTransitionsPageSize: t.int({ description: "The same, for lists of transitions.", resolve: () => TRANSITIONS_PAGE_MAX }),
  }),
});

const ActorRef = builder.objectRef<Context["actor"]>("Actor").implement({
  description: "A person or machine that calls the API.",
  fields: (t) => ({
    subject: t.exposeString("subject", { description: "Stable subject of the credential; `anonymous` where none is needed." }),
    project: t.exposeString("project", { description: "Project the caller works in." }),
  }),
});

builder.queryField("service", (t) => t.field({ type: ServiceInfoRef, ...needs("READ"), description: "Version and limits.", resolve: () => ({}) }));
builder.queryField("viewer", (t) => t.field({ type: ActorRef, ...needs("READ"), description: "The caller.", resolve: (_root, _args, { actor }) => actor }));

async function resourceOf(id: string, { services }: Context): Promise<object | null> {
  const read = readId(id);
  if (!read || !isUuid(read.key)) return null;
  const { reader } = services.database;
  const find = { Node: nodesByIds, Cluster: clustersByIds, Operation: operationsByIds, Run: runsByIds, Driver: null, Transition: null, Inventory: null }[read.type];
  return (find && (await find(reader, [read.key]))[0]) ?? null;
}

builder.queryField("resource", (t) =>
  t.field({
    type: ResourceRef,
    nullable: true,
    ...needs("READ"),
    description: "A node, cluster, operation or run by global ID; null if it does not exist.",
    args: { id: t.arg.id({ required: true, description: "Global ID." }) },
    resolve: (_root, { id }, context) => resourceOf(id, context) as never,
  }),
);

const fetchArgs = (t: Parameters<Parameters<typeof builder.queryField>[1]>[0]) => ({ id: t.arg.id({ required: true, description: "Global ID." }) });

builder.queryField("fetch__Node", (t) =>
  t.field({ type: NodeRef, nullable: true, ...needs("READ"), description: "Relay refetch of a `Node`; others use `node`.", args: fetchArgs(t), resolve: (_root, { id }, context) => resourceOf(id, context) as never }),
);
builder.queryField("fetch__Cluster", (t) =>
  t.field({ type: ClusterRef, nullable: true, ...needs("READ"), description: "Relay refetch of a `Cluster`; others use `cluster`.", args: fetchArgs(t), resolve: (_root, { id }, context) => resourceOf(id, context) as never }),
);
builder.queryField("fetch__Operation", (t) =>
  t.field({ type: OperationRef, nullable: true, ...needs("READ"), description: "Relay refetch of an `Operation`; others use `operation`.", args: fetchArgs(t), resolve: (_root, { id }, context) => resourceOf(id, context) as never }),
);
