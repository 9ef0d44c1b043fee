/** Objects by global ID: a field `fetch__<type>` for each type that has one. */
import { DirectiveLocation, GraphQLDirective, GraphQLNonNull, GraphQLString } from "graphql";
import type { GraphQLSchema } from "graphql";
import { imagesByIds } from "../../store/images.ts";
import { clustersByIds } from "../../store/nodes/clusters.ts";
import { inventoriesByIds, nodesByIds } from "../../store/nodes/nodes.ts";
import { operationsByIds } from "../../store/operations/operations.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { runbooksByIds } from "../../store/runbooks.ts";
import { runsByIds } from "../../store/runs/runs.ts";
import { builder, needs } from "../base/builder.ts";
import type { Context } from "../base/context.ts";
import { readId } from "../base/ids.ts";
import { isUuid } from "../../runtime/uuid.ts";
import { ImageRef } from "./images/image.ts";
import { InventoryRef } from "./nodes/inventory.ts";
import { RunbookRef } from "./fleet/runbook.ts";
import { ClusterRef, DriverRef, NodeRef, OperationRef, RunRef } from "../base/refs.ts";

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

type Finder<Row> = (key: string, context: Context) => Promise<Row | null | undefined> | Row | null | undefined;

type Ref<Row extends object> = ReturnType<typeof builder.objectRef<Row>>;

/** Adds the field for a type. It is null for an ID of another type. */
function fetchField<Row extends object>(ref: Ref<Row>, find: Finder<Row>): void {
  const type: Ref<object> = ref;
  builder.queryField(`fetch__${ref.name}`, (t) =>
    t.field({
      type,
      nullable: true,
      ...needs("READ"),
      description: `${ref.name} by global ID; null if it does not exist. Relay refetches fragments with it.`,
      args: { id: t.arg.id({ required: true, description: "Global ID: opaque and stable." }) },
      resolve: async (_root, { id }, context) => {
        const found = readId(id);
        return (found && found.type === ref.name && (await find(found.key, context))) || null;
      },
    }),
  );
}

function rowOf<Row>(read: (reader: Reader, ids: readonly string[]) => Promise<Row[]>): Finder<Row> {
  return async (key, { services }) => (isUuid(key) ? (await read(services.database.reader, [key]))[0] : null);
}

fetchField(NodeRef, rowOf(nodesByIds));
fetchField(ClusterRef, rowOf(clustersByIds));
fetchField(OperationRef, rowOf(operationsByIds));
fetchField(RunRef, rowOf(runsByIds));
fetchField(InventoryRef, rowOf(inventoriesByIds));
fetchField(RunbookRef, rowOf(runbooksByIds));
fetchField(ImageRef, rowOf(imagesByIds));
fetchField(DriverRef, (name, { services }) => services.registry.get(name));
