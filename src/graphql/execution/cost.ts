/**
 * What a request may cost the service: the objects that its answer may hold, counted before anything is read. A field of
 * an object counts one and what is asked of that object; a page counts its items as often as it may have some, so nested
 * pages multiply; a list without pages counts as many as `LIST_SIZES` says. A value counts a little, by how long it may
 * be: under hundreds of names one value of each item would otherwise fill the memory with an answer that costs nothing.
 * Counts of all items cost more, because the database must go through them.
 *
 * What a fragment holds is counted once for each size of page that it is spread in, so fragments within fragments cost
 * no time, however often their content is asked for. Sizes and `@include` are taken from the variables of the request.
 */
import {
  GraphQLString,
  Kind,
  getNamedType,
  getNullableType,
  isCompositeType,
  isInterfaceType,
  isListType,
  isObjectType,
} from "graphql";
import type {
  FieldNode,
  FragmentDefinitionNode,
  GraphQLField,
  GraphQLNamedOutputType,
  GraphQLNamedType,
  GraphQLSchema,
  OperationDefinitionNode,
  SelectionNode,
  SelectionSetNode,
  ValueNode,
} from "graphql";
import { PAGE_DEFAULT } from "../base/connection.ts";
import { finite } from "./document.ts";

export interface CostedRequest {
  readonly schema: GraphQLSchema;
  readonly operation: OperationDefinitionNode;
  readonly fragments: Readonly<Record<string, FragmentDefinitionNode>>;
  /** As they came, not yet held against their types. */
  readonly variables: Readonly<Record<string, unknown>>;
}

/** Items that a list without pages is taken to have, where it is not known better. */
const LIST_SIZE = 5;
/** What is known better. A verb answers each node that it is asked for, of which there may be any number: that is not counted, but what is asked of each of them is. */
const LIST_SIZES: Readonly<Record<string, number>> = {
  "Node.verbs": 12,
  "Node.labels": 20,
  "Query.reservedSteps": 6,
  ...Object.fromEntries(
    [
      "NodeWorkPayload.results",
      "PlanPayload.results",
      "ReadPowerPayload.results",
      "ReportPresencePayload.results",
      "NodesPayload.nodes",
    ].map((list) => [list, 25]),
  ),
};
/** What one object of a type costs, where it is not one: these come by the dozen or the hundred, and nothing is read for each. */
const OBJECT_COSTS: Readonly<Record<string, number>> = { LogLine: 0.01, Label: 0.01, VerbVerdict: 0.5 };

/** A name, a number, an instant. */
const VALUE_COST = 0.02;
/** A text for people: a sentence as a rule, 2,000 characters at most. */
const TEXT_COST = 0.06;
const TEXT = /(?:message|reason|text|problem|description)$/i;
/** A JSON value may fill the body of a request, a mebibyte: a hundred of them make an answer of 100 MiB. */
const JSON_COST = 40;
/** One of an object that comes in a list without pages, which counts it several times over. */
const LISTED_JSON_COST = 8;
const WITH_LISTED_JSON: ReadonlySet<string> = new Set([
  "DiscoverySettings",
  "Driver",
  "DriverSettings",
  "InventoryChange",
  "ReservedStep",
  "RunbookStep",
  "Step",
  "StepAttempt",
  "StepDefinition",
]);
/** Values that are known better: labels have up to 253 characters, lines of a log 4,000, outputs of steps, of which inventories are made, 256 KiB, lists of addresses and names thousands of items. */
const VALUE_COSTS: Readonly<Record<string, number>> = {
  "Label.key": 0.03,
  "Label.value": 0.03,
  "LogLine.text": 0.09,
  "Inventory.data": 20,
  "Step.output": 3,
  "StepAttempt.output": 3,
  "Operation.failedAddresses": 8,
  "DiscoverNodesPayload.addresses": 8,
  "NotFoundError.missing": 8,
  "Rollout.sizes": 1,
};
/** What a count of all items of a page costs. */
const TOTAL_COST = 10;
/** Sums of hundredths are rounded down; this is more than they may be off. */
const INEXACT = 1e-6;
/** What an introspection costs, whatever is asked of it: it has no aliases (document.ts), so the schema bounds it. */
const INTROSPECTION_COSTS: Readonly<Record<string, number>> = { __schema: 1_000, __type: 100 };
const SIZE_ARGUMENTS = ["first", "last", "tail"];

/** The cost of one operation. Linear in the document, but for fragments of pages: once for each size of page. */
export function costOf({ schema, operation, fragments, variables }: CostedRequest): number {
  const defaults = (operation.variableDefinitions ?? []).map(({ variable, defaultValue }) => [
    variable.name.value,
    defaultValue && constant(defaultValue),
  ]);
  const values: Readonly<Record<string, unknown>> = { ...Object.fromEntries(defaults), ...variables };
  const valueOf = (node: ValueNode | undefined): unknown =>
    node?.kind === Kind.VARIABLE ? values[node.name.value] : node && constant(node);
  const known = new Map<string, number>();

  /** The cost of what is asked of one object; of a page with so many items, where it is one. */
  function ofSet(set: SelectionSetNode | undefined, type: GraphQLNamedType | undefined, page: number): number {
    let sum = 0;
    for (const selection of set?.selections ?? []) {
      if (isLeftOut(selection)) continue;
      if (selection.kind === Kind.FIELD) sum += ofField(selection, type, page);
      else if (selection.kind === Kind.INLINE_FRAGMENT)
        sum += ofSet(
          selection.selectionSet,
          selection.typeCondition ? schema.getType(selection.typeCondition.name.value) : type,
          page,
        );
      else
        sum += once(known, `${page} ${selection.name.value}`, fragments[selection.name.value], (fragment) =>
          ofSet(fragment.selectionSet, schema.getType(fragment.typeCondition.name.value), page),
        );
    }
    return sum;
  }

  function ofField(node: FieldNode, type: GraphQLNamedType | undefined, page: number): number {
    const name = node.name.value;
    const introspection = INTROSPECTION_COSTS[name];
    if (introspection !== undefined) return introspection;
    if (name === "__typename") return VALUE_COST;
    const field = isObjectType(type) || isInterfaceType(type) ? type.getFields()[name] : undefined;
    if (!type || !field) return 0;
    const inner = getNamedType(field.type);
    if (isPage(type)) {
      if (!isCompositeType(inner)) return TOTAL_COST;
      return (name === "edges" ? page : 1) * ofSet(node.selectionSet, inner, 0);
    }
    // A page is read whatever is asked of it.
    if (isPage(inner)) return Math.max(1, ofSet(node.selectionSet, inner, sizeOf(node, field) ?? PAGE_DEFAULT));
    const place = `${type.name}.${name}`;
    const special = VALUE_COSTS[place];
    if (special !== undefined) return special;
    const one = isCompositeType(inner)
      ? (OBJECT_COSTS[inner.name] ?? 1) + ofSet(node.selectionSet, inner, 0)
      : valueCost(type.name, name, inner);
    return isListType(getNullableType(field.type))
      ? (sizeOf(node, field) ?? LIST_SIZES[place] ?? LIST_SIZE) * one
      : one;
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

  return finite(
    Math.floor(ofSet(operation.selectionSet, schema.getRootType(operation.operation) ?? undefined, 0) + INEXACT),
  );
}

/** What a value costs of which nothing else is known than its type and its name. */
function valueCost(owner: string, name: string, type: GraphQLNamedOutputType): number {
  if (type.name === "JSON") return WITH_LISTED_JSON.has(owner) ? LISTED_JSON_COST : JSON_COST;
  return type.name === GraphQLString.name && TEXT.test(name) ? TEXT_COST : VALUE_COST;
}

/** What is counted of a fragment, counted once for each key. */
function once(
  known: Map<string, number>,
  key: string,
  fragment: FragmentDefinitionNode | undefined,
  count: (fragment: FragmentDefinitionNode) => number,
): number {
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
