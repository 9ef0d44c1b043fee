/** Objects by global ID: the query `resource`, and a refetch field per type for Relay. */
import { DirectiveLocation, GraphQLDirective, GraphQLNonNull, GraphQLString } from "graphql";
import type { GraphQLSchema } from "graphql";
import type { AnyDriver } from "../../drivers/interfaces.ts";
import { imagesByIds } from "../../store/images.ts";
import { clustersByIds } from "../../store/clusters.ts";
import { inventoriesByIds, nodesByIds } from "../../store/nodes.ts";
import { operationsByIds } from "../../store/operations.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { runbooksByIds } from "../../store/runbooks.ts";
import { runsByIds } from "../../store/runs.ts";
import { builder, needs } from "../base/builder.ts";
import type { FieldArgs } from "../base/builder.ts";
import type { Context } from "../base/context.ts";
import { readId } from "../base/ids.ts";
import { isUuid } from "../../runtime/uuid.ts";
import type { IdType } from "../base/ids.ts";
import { ImageRef } from "./image.ts";
import { InventoryRef } from "./inventory.ts";
import { RunbookRef } from "./runbook.ts";
import { ClusterRef, DriverRef, NodeRef, OperationRef, ResourceRef, RunRef } from "../base/refs.ts";

/** Relay's compiler expects it on types that do not implement Relay's own interface. */
export const fetchable = new GraphQLDirective({
  name: "fetchable",
  description:
    "Relay can refetch objects of the type: `Query.fetch__<type>` takes the value of the named field and returns the object. Needed because `Node` is a machine here, not Relay's interface.",
  locations: [DirectiveLocation.OBJECT],
  args: {
    field_name: {
      type: new GraphQLNonNull(GraphQLString),
      description: "Field that identifies an object.",
    },
  },
});

/** Adds the directive, which `printSchema` leaves out, to each type with a `fetch__` field. */
export function withFetchable(text: string, schema: GraphQLSchema): string {
  const fetched = new Set(
    Object.keys(schema.getQueryType()?.getFields() ?? {}).flatMap((name) => /^fetch__(\w+)$/.exec(name)?.[1] ?? []),
  );
  return text.replaceAll(/^type (\w+)[^{\n]*(?= \{$)/gm, (head, name: string) =>
    fetched.has(name) ? `${head} @${fetchable.name}(field_name: "id")` : head,
  );
}

type Finder<Row> = (id: string, context: Context) => Promise<Row | null>;

/** Finds a row by a global ID of its type; null for an ID of another type. */
function finderOf<Row>(type: IdType, read: (reader: Reader, ids: readonly string[]) => Promise<Row[]>): Finder<Row> {
  return async (id, { services }) => {
    const found = readId(id);
    if (found?.type !== type || !isUuid(found.key)) return null;
    return (await read(services.database.reader, [found.key]))[0] ?? null;
  };
}

const findDriver: Finder<AnyDriver> = async (id, { services }) => {
  const found = readId(id);
  return (found?.type === "Driver" && services.registry.get(found.key)) || null;
};

const findNode = finderOf("Node", nodesByIds);
const findCluster = finderOf("Cluster", clustersByIds);
const findOperation = finderOf("Operation", operationsByIds);
const findRun = finderOf("Run", runsByIds);
const findInventory = finderOf("Inventory", inventoriesByIds);
const findRunbook = finderOf("Runbook", runbooksByIds);

const findImage = finderOf("Image", imagesByIds);

const FINDERS: Readonly<Record<IdType, Finder<object>>> = {
  Node: findNode,
  Cluster: findCluster,
  Operation: findOperation,
  Run: findRun,
  Driver: findDriver,
  Inventory: findInventory,
  Runbook: findRunbook,
  Image: findImage,
  Transition: () => Promise.resolve(null),
};

/** The object with a global ID, of any type. */
async function resourceOf(id: string, context: Context): Promise<object | null> {
  const found = readId(id);
  return found && FINDERS[found.type](id, context);
}

builder.queryField("resource", (t) =>
  t.field({
    type: ResourceRef,
    nullable: true,
    ...needs("READ"),
    description:
      "Node, cluster, operation, run, driver, inventory, runbook or image by global ID; null if it does not exist.",
    args: { id: t.arg.id({ required: true, description: "Global ID: opaque and stable." }) },
    resolve: (_root, { id }, context) => resourceOf(id, context),
  }),
);

const fetchArgs = (arg: FieldArgs) => ({
  id: arg.id({ required: true, description: "Global ID: opaque and stable." }),
});

builder.queryField("fetch__Node", (t) =>
  t.field({
    type: NodeRef,
    nullable: true,
    ...needs("READ"),
    description: "Refetch of a `Node` for Relay; other clients use `node`.",
    args: fetchArgs(t.arg),
    resolve: (_root, { id }, context) => findNode(id, context),
  }),
);
builder.queryField("fetch__Cluster", (t) =>
  t.field({
    type: ClusterRef,
    nullable: true,
    ...needs("READ"),
    description: "Refetch of a `Cluster` for Relay; other clients use `cluster`.",
    args: fetchArgs(t.arg),
    resolve: (_root, { id }, context) => findCluster(id, context),
  }),
);
builder.queryField("fetch__Operation", (t) =>
  t.field({
    type: OperationRef,
    nullable: true,
    ...needs("READ"),
    description: "Refetch of an `Operation` for Relay; other clients use `operation`.",
    args: fetchArgs(t.arg),
    resolve: (_root, { id }, context) => findOperation(id, context),
  }),
);
builder.queryField("fetch__Run", (t) =>
  t.field({
    type: RunRef,
    nullable: true,
    ...needs("READ"),
    description: "Refetch of a `Run` for Relay; other clients use `run`.",
    args: fetchArgs(t.arg),
    resolve: (_root, { id }, context) => findRun(id, context),
  }),
);
builder.queryField("fetch__Driver", (t) =>
  t.field({
    type: DriverRef,
    nullable: true,
    ...needs("READ"),
    description: "Refetch of a `Driver` for Relay; other clients use `drivers`.",
    args: fetchArgs(t.arg),
    resolve: (_root, { id }, context) => findDriver(id, context),
  }),
);
builder.queryField("fetch__Inventory", (t) =>
  t.field({
    type: InventoryRef,
    nullable: true,
    ...needs("READ"),
    description: "Refetch of an `Inventory` for Relay; other clients use `resource`.",
    args: fetchArgs(t.arg),
    resolve: (_root, { id }, context) => findInventory(id, context),
  }),
);
builder.queryField("fetch__Runbook", (t) =>
  t.field({
    type: RunbookRef,
    nullable: true,
    ...needs("READ"),
    description: "Refetch of a `Runbook` for Relay; other clients use `runbook`.",
    args: fetchArgs(t.arg),
    resolve: (_root, { id }, context) => findRunbook(id, context),
  }),
);
builder.queryField("fetch__Image", (t) =>
  t.field({
    type: ImageRef,
    nullable: true,
    ...needs("READ"),
    description: "Refetch of an `Image` for Relay; other clients use `image`.",
    args: fetchArgs(t.arg),
    resolve: (_root, { id }, context) => findImage(id, context),
  }),
);
