/**
 * What a request may cost the service: the objects that its answer may hold, counted before anything is read. A field of
 * an object counts one and what is asked of that object; a page counts its items as often as it may have some, so nested
 * pages multiply; a list without pages is taken to have `LIST_SIZE` items. Names and numbers count nothing, nor do the
 * edges that wrap a page's items; lines of a log count a tenth, labels a fifth. Counts of all items cost more, because
 * the database must go through them.
 *
 * What a fragment holds is counted once for each size of page that it is spread in, so fragments within fragments cost
 * no time, however often their content is asked for. Sizes and `@include` are taken from the variables of the request.
 */
import { Kind, getNamedType, getNullableType, isCompositeType, isInterfaceType, isListType, isObjectType } from "graphql";
import type { FieldNode, FragmentDefinitionNode, GraphQLField, GraphQLNamedType, GraphQLSchema, OperationDefinitionNode, SelectionNode, SelectionSetNode, ValueNode } from "graphql";
import { PAGE_DEFAULT } from "./connection.ts";
import { finite } from "./document.ts";

export interface CostedRequest {
  readonly schema: GraphQLSchema;
  readonly operation: OperationDefinitionNode;
  readonly fragments: Readonly<Record<string, FragmentDefinitionNode>>;
  /** As they came, not yet held against their types. */
  readonly variables: Readonly<Record<string, unknown>>;
}

/** Items that a list without pages is taken to have. */
const LIST_SIZE = 5;
/** What one object of a type costs, where it is not one: lines are small, and come by the hundred. */
const OBJECT_COSTS: Readonly<Record<string, number>> = { LogLine: 0.1, Label: 0.2 };
/** Fields that cost something although they are no objects. */
const LEAF_COSTS: Readonly<Record<string, number>> = { totalCount: 10 };
/** What an introspection costs, whatever is asked of it: it has no aliases (document.ts), so the schema bounds it. */
const INTROSPECTION_COSTS: Readonly<Record<string, number>> = { __schema: 1_000, __type: 100 };
const SIZE_ARGUMENTS = ["first", "last", "tail"];

/** The cost of one operation. Linear in the document, but for fragments of pages: once for each size of page. */
export function costOf({ schema, operation, fragments, variables }: CostedRequest): number {
  const defaults = (operation.variableDefinitions ?? []).map(({ variable, defaultValue }) => [variable.name.value, defaultValue && constant(defaultValue)]);
  const values: Readonly<Record<string, unknown>> = { ...Object.fromEntries(defaults), ...variables };
  const valueOf = (node: ValueNode | undefined): unknown => (node?.kind === Kind.VARIABLE ? values[node.name.value] : node && constant(node));
  const known = new Map<string, number>();

  /** The cost of what is asked of one object; of a page with so many items, where it is one. */
  function ofSet(set: SelectionSetNode | undefined, type: GraphQLNamedType | undefined, page: number): number {
    let sum = 0;
    for (const selection of set?.selections ?? []) {
      if (isLeftOut(selection)) continue;
      if (selection.kind === Kind.FIELD) sum += ofField(selection, type, page);
      else if (selection.kind === Kind.INLINE_FRAGMENT) sum += ofSet(selection.selectionSet, selection.typeCondition ? schema.getType(selection.typeCondition.name.value) : type, page);
      else sum += once(known, `${page} ${selection.name.value}`, fragments[selection.name.value], (fragment) => ofSet(fragment.selectionSet, schema.getType(fragment.typeCondition.name.value), page));
    }
    return sum;
  }

  function ofField(node: FieldNode, type: GraphQLNamedType | undefined, page: number): number {
    const name = node.name.value;
    const introspection = INTROSPECTION_COSTS[name];
    if (introspection !== undefined) return introspection;
    const field = isObjectType(type) || isInterfaceType(type) ? type.getFields()[name] : undefined;
    if (!field) return 0;
    const inner = getNamedType(field.type);
    if (!isCompositeType(inner)) return LEAF_COSTS[name] ?? 0;
    if (isPage(type)) return name === "edges" ? page * ofSet(node.selectionSet, inner, 0) : 0;
    if (isPage(inner)) return ofSet(node.selectionSet, inner, sizeOf(node, field) ?? PAGE_DEFAULT);
    const one = (OBJECT_COSTS[inner.name] ?? 1) + ofSet(node.selectionSet, inner, 0);
    return isListType(getNullableType(field.type)) ? (sizeOf(node, field) ?? LIST_SIZE) * one : one;
  }

  function sizeOf(node: FieldNode, field: GraphQLField<unknown, unknown>): number | undefined {
    for (const name of SIZE_ARGUMENTS) {
      const argument = field.args.find((one) => one.name === name);
      if (!argument) continue;
      const size = valueOf(node.arguments?.find((one) => one.name.value === name)?.value) ?? argument.defaultValue;
      if (typeof size === "number" && size > 0) return size;
    }
    return undefined;
  }

  function isLeftOut({ directives }: SelectionNode): boolean {
    return (directives ?? []).some(({ name, arguments: given }) => {
      const condition = valueOf(given?.find((one) => one.name.value === "if")?.value);
      return (name.value === "skip" && condition === true) || (name.value === "include" && condition === false);
    });
  }

  return finite(Math.ceil(ofSet(operation.selectionSet, schema.getRootType(operation.operation) ?? undefined, 0)));
}

/** What is counted of a fragment, counted once for each key. */
function once(known: Map<string, number>, key: string, fragment: FragmentDefinitionNode | undefined, count: (fragment: FragmentDefinitionNode) => number): number {
  if (!fragment) return 0;
  const before = known.get(key);
  if (before !== undefined) return before;
  known.set(key, 0);
  const counted = count(fragment);
  known.set(key, counted);
  return counted;
}

function isPage(type: GraphQLNamedType | undefined): boolean {
  return isObjectType(type) && type.name.endsWith("Connection");
}

/** The numbers and truth values that sizes and directives are given by. */
function constant(node: ValueNode): unknown {
  if (node.kind === Kind.INT) return Number(node.value);
  return node.kind === Kind.BOOLEAN ? node.value : undefined;
}
