/**
 * Limits the results of verbs and plans, which are as many as the nodes of a request: 600 aliases for 3,000 nodes would
 * be 57 MB. The number of values is computed from the number of nodes and the selected fields before a request is
 * executed, so that it changes nothing if it is refused; and again from the payload, before its fields are resolved.
 */
import { Kind, getNamedType, isObjectType } from "graphql";
import type { GraphQLFieldResolver, GraphQLObjectType, GraphQLResolveInfo } from "graphql";
import type { WorkSelector } from "../../../engine/input/work-selector.ts";
import { isUuid } from "../../../runtime/uuid.ts";
import { countNodes } from "../../../store/nodes/nodes.ts";
import { operationsByIds } from "../../../store/operations/operations.ts";
import type { Reader } from "../../../store/postgres/database.ts";
import type { Context } from "../../base/context.ts";
import { uuidOrNone } from "../../base/ids.ts";
import { LIMITS, beyond } from "../../base/request-limits.ts";
import { hasResults, valuesOf } from "../../execution/cost.ts";
import { workSelector } from "../selectors.ts";
import type { WorkSelectorShape } from "../selectors.ts";

type Resolver = GraphQLFieldResolver<unknown, Context, Record<string, unknown>>;

/** The input of a mutation: its selectors and lists of nodes. */
interface NodesInput {
  readonly nodes?: WorkSelectorShape | unknown[];
  readonly work?: WorkSelectorShape;
  readonly revisions?: unknown;
}

interface NodesPayload {
  readonly results?: readonly unknown[];
  readonly nodes?: readonly unknown[];
}

/** Adds the limit to the fields of a root type that return results. */
export function limitResults(type: GraphQLObjectType): void {
  for (const field of Object.values(type.getFields())) {
    const payload = getNamedType(field.type);
    const { resolve } = field;
    if (resolve && isObjectType(payload) && hasResults(payload)) field.resolve = limited(resolve as Resolver);
  }
}

function limited(resolve: Resolver): Resolver {
  return async (source, args, context, info) => {
    const isFew = valuesIn(info, FEW_FIELDS_NODES) <= LIMITS.values;
    const counted = isFew ? 0 : await countSelected(context.services.database.reader, inputOf(info, args));
    spend(info, counted);
    const payload = (await resolve(source, args, context, info)) as NodesPayload;
    const returned = (payload.results ?? payload.nodes ?? []).length;
    if (returned > counted) spend(info, returned - counted);
    return payload;
  };
}

/** The input of `plan` is that of a mutation, under its name. */
function inputOf({ fieldName }: GraphQLResolveInfo, { input }: Readonly<Record<string, unknown>>): NodesInput {
  return (fieldName === "plan" ? Object.values(input as object)[0] : input) as NodesInput;
}

/** A selection that fits for as many nodes is limited by its payload alone: without a query that counts the nodes. */
const FEW_FIELDS_NODES = 50_000;

/** Values in the results of the root fields of a request so far, by the variables of its execution. */
const spent = new WeakMap<object, number>();

function spend(info: GraphQLResolveInfo, results: number): void {
  const requested = (spent.get(info.variableValues) ?? 0) + valuesIn(info, results);
  if (requested > LIMITS.values) throw beyond("values", { requested, nodes: info.fieldNodes });
  spent.set(info.variableValues, requested);
}

/** Number of values of a root field with as many results. */
function valuesIn({ schema, operation, fragments, fieldNodes, variableValues }: GraphQLResolveInfo, results: number) {
  const selectionSet = { kind: Kind.SELECTION_SET, selections: fieldNodes } as const;
  const field = { ...operation, selectionSet };
  const request = { schema, operation: field, fragments, variables: variableValues.coerced };
  return valuesOf(request, results) - valuesOf(request, 0);
}

/** Number of nodes that a request selects, or more. */
async function countSelected(reader: Reader, { nodes, work, revisions }: NodesInput): Promise<number> {
  if (Array.isArray(nodes)) return nodes.length;
  if (Array.isArray(revisions)) return revisions.length;
  const selector = workSelector(work ?? nodes ?? {});
  return sizeOf(reader, selector);
}

async function sizeOf(reader: Reader, selector: WorkSelector): Promise<number> {
  if ("names" in selector) return new Set(selector.names).size;
  if ("ids" in selector) return new Set(selector.ids).size;
  if ("filter" in selector) return countNodes(reader, selector.filter);
  if ("all" in selector) return countNodes(reader, {});
  if ("cluster" in selector) {
    const { cluster } = selector;
    return countNodes(
      reader,
      "name" in cluster ? { clusterName: cluster.name } : { clusterId: uuidOrNone(cluster.id) },
    );
  }
  const [operation] = isUuid(selector.operationId) ? await operationsByIds(reader, [selector.operationId]) : [];
  return operation?.totalCount ?? 0;
}
