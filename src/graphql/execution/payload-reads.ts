/** Which payloads of mutations take one read, and so need no snapshot to see one moment of the database. */
import { Kind } from "graphql";
import type { FieldNode, GraphQLResolveInfo } from "graphql";

/** Fields of a payload that read nothing, with their fields that read nothing either. */
const WITHOUT_READ: Readonly<Record<string, ReadonlySet<string>>> = {
  __typename: new Set(),
  replayed: new Set(),
  errors: new Set(["__typename", "code", "message", "path"]),
};

/** Fields of an operation that are columns of its row. */
const OF_OPERATION: ReadonlySet<string> = new Set(
  (
    "__typename id uuid kind state requestedBy reason idempotencyKey onFailure maxParallel totalCount createdAt " +
    "startedAt finishedAt"
  ).split(" "),
);

/**
 * Whether the payload reads the row of one operation at most. Fragments count as more. Only for a mutation with one
 * root field: rows that were read for a payload are not read again in its request.
 */
export function readsOneOperation({ operation, fieldNodes, path }: GraphQLResolveInfo): boolean {
  if (path.prev !== undefined || operation.selectionSet.selections.length > 1) return false;
  return fieldNodes.every((field) =>
    fieldsOf(field)?.every((selected) => {
      const name = selected.name.value;
      const allowed = name === "operation" ? OF_OPERATION : WITHOUT_READ[name];
      return allowed !== undefined && fieldsOf(selected)?.every((below) => allowed.has(below.name.value)) === true;
    }),
  );
}

/** The selected fields; null if there are fragments. */
function fieldsOf({ selectionSet }: FieldNode): FieldNode[] | null {
  const fields: FieldNode[] = [];
  for (const selection of selectionSet?.selections ?? []) {
    if (selection.kind !== Kind.FIELD) return null;
    fields.push(selection);
  }
  return fields;
}
