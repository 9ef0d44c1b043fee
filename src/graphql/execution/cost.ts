/**
 * The cost of a request: the number of objects that its response may contain, counted before anything is read. A field
 * of an object type counts one plus the cost of its selection. A page multiplies the cost of its selection by its
 * maximum size, so nested pages multiply. A list without pages counts as many items as `LIST_SIZES` says. A value
 * counts a fraction by its maximum length: otherwise hundreds of aliases for one value per item would fill the memory
 * at no cost. A total count costs more, because the database has to read all matching rows.
 *
 * A fragment is counted once per page size with which it is spread, so nested fragments take linear time. Page sizes
 * and `@include` use the variables of the request.
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

interface CostedRequest {
  readonly schema: GraphQLSchema;
  readonly operation: OperationDefinitionNode;
  readonly fragments: Readonly<Record<string, FragmentDefinitionNode>>;
  /** As received, not validated yet. */
  readonly variables: Readonly<Record<string, unknown>>;
  /** Weights of the count; default `COST`. */
  readonly measure?: Measure;
}

export interface Measure {
  /** Cost of an object, if its type has no other. */
  readonly object: number;
  /** Cost of a JSON value, if it differs. */
  readonly json?: number;
  /** Number of results of a verb. */
  readonly results: number;
}

/** Assumed number of items in a list without pages. */
const LIST_SIZE = 5;
/** Exceptions. */
const LIST_SIZES: Readonly<Record<string, number>> = {
  "AttentionGroup.nodes": 100,
  "AuditEntry.edits": 1,
  "Node.actions": 27,
  "Node.verbs": 15,
  "Node.labels": 20,
  "Query.reservedSteps": 8,
  "NodeReading.bios": 300,
  "NodeReading.firmware": 30,
};
/** Lists of payloads with an item for each node of a request. results-limit.ts counts them by the number of nodes. */
const RESULT_LISTS: ReadonlySet<string> = new Set(["results", "nodes"]);
/** The results of a probe are as many as its addresses and drivers, which are few. */
const FEW_RESULTS = "ProbeNodesPayload";
/** The cost of a request counts as many results of a verb. */
const COST: Measure = { object: 1, results: 25 };
/**
 * Values of a response: objects count as one each, and JSON as if it were small, because the response is not copied.
 */
const VALUES: Omit<Measure, "results"> = { object: 0.02, json: 0.2 };
/** Lists of counts, and the field with as many items as the argument `first` of the field that returns the list. */
const COUNT_LISTS: Readonly<Record<string, string>> = {
  Attention: "groups",
  NodeCounts: "groups",
  OperationFailures: "groups",
  LabelKeys: "keys",
};
/** Fields that read all later transitions, whatever their selection. */
const LOG_READS: ReadonlySet<string> = new Set(["NodesAt.nodes", "NodesAt.stateCounts"]);
/** Cost of objects of a type, if not 1: there are many of these, and none needs a read of its own. */
const OBJECT_COSTS: Readonly<Record<string, number>> = {
  BiosAttribute: 0.01,
  FirmwareComponent: 0.01,
  LogLine: 0.01,
  Label: 0.01,
  LabelKeyUse: 0.01,
  LabelValueUse: 0.01,
  NodeCountGroup: 0.01,
  NodeCountValue: 0.01,
  ActionVerdict: 0.3,
  EffectiveVariable: 0.01,
  VerbVerdict: 0.5,
};

/** A name, a number or a timestamp. */
const VALUE_COST = 0.02;
/** A text for people: usually a sentence, at most 2,000 characters. */
const TEXT_COST = 0.06;
const TEXT = /(?:message|reason|text|problem|description)$/i;
/** A JSON value may be as large as a request, 1 MiB: a hundred of them make a response of 100 MiB. */
const JSON_COST = 40;
/** A JSON value of an object in a list without pages, which counts it several times. */
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
/**
 * Exceptions. Values of BIOS attributes have up to 1,000 characters and mostly a few. Labels have up to 253 characters,
 * log lines 4,000, outputs of steps and inventories 256 KiB, and lists of addresses and names have thousands of items.
 * The variables of a node have 128 KiB together.
 */
const VALUE_COSTS: Readonly<Record<string, number>> = {
  "Label.key": 0.03,
  "Label.value": 0.03,
  "LogLine.text": 0.09,
  "AuditEdit.before": 1,
  "AuditEdit.after": 1,
  "AuditEntry.targets": 1,
  "AttentionSuggestion.input": 1,
  "AttentionSuggestion.inputForAll": 1,
  "BiosAttribute.value": 0.04,
  "BiosAttribute.pending": 0.04,
  "Inventory.data": 20,
  "Step.output": 3,
  "StepAttempt.output": 3,
  "Operation.failedAddresses": 8,
  "DiscoverNodesPayload.addresses": 8,
  "NotFoundError.missing": 8,
  "Rollout.sizes": 1,
  "BoundDocument.variables": 3,
  "EffectiveVariable.value": 1,
};
/** Cost of a total count. */
const TOTAL_COST = 10;
/** Sums of fractions are rounded down; more than their floating-point error. */
const INEXACT = 1e-6;
/**
 * Cost of introspection. The schema limits its size, except that each alias in it repeats a part; it costs as much
 * again.
 */
const INTROSPECTION_COSTS: Readonly<Record<string, number>> = { __schema: 1_000, __type: 100 };
const SIZE_ARGUMENTS = ["first", "last", "tail"];

/** The cost of one operation. Linear in the document, except that fragments count once per page size. */
export function costOf({ schema, operation, fragments, variables, measure = COST }: CostedRequest): number {
  const defaults = (operation.variableDefinitions ?? []).map(({ variable, defaultValue }) => [
    variable.name.value,
    defaultValue && constant(defaultValue),
  ]);
  const values: Readonly<Record<string, unknown>> = { ...Object.fromEntries(defaults), ...variables };
  const valueOf = (node: ValueNode | undefined): unknown =>
    node?.kind === Kind.VARIABLE ? values[node.name.value] : node && constant(node);
  const known = new Map<string, number>();

  /** The cost of a selection on one object; `page` is the number of items if the object is a page. */
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
    if (introspection !== undefined) return introspection * (1 + aliasesIn(node.selectionSet, fragments, known));
    if (name === "__typename") return VALUE_COST;
    const field = isObjectType(type) || isInterfaceType(type) ? type.getFields()[name] : undefined;
    if (!type || !field) return 0;
    const inner = getNamedType(field.type);
    if (isPage(type)) {
      if (!isCompositeType(inner)) return TOTAL_COST;
      const selected = ofSet(node.selectionSet, inner, 0);
      if (name === "nodes") return page * (objectCost(inner, measure) + selected);
      return (name === "edges" ? page : 1) * selected;
    }
    // All matching nodes are read whatever the selection.
    if (COUNT_LISTS[inner.name] !== undefined)
      return TOTAL_COST + ofSet(node.selectionSet, inner, sizeOf(node, field) ?? PAGE_DEFAULT);
    if (COUNT_LISTS[type.name] === name)
      return page * (objectCost(inner, measure) + ofSet(node.selectionSet, inner, 0));
    const place = `${type.name}.${name}`;
    if (LOG_READS.has(place)) return TOTAL_COST + ofSet(node.selectionSet, inner, sizeOf(node, field) ?? PAGE_DEFAULT);
    // A page is read whatever its selection.
    if (isPage(inner)) return Math.max(1, ofSet(node.selectionSet, inner, sizeOf(node, field) ?? PAGE_DEFAULT));
    const special = VALUE_COSTS[place];
    if (special !== undefined) return special;
    const one = isCompositeType(inner)
      ? objectCost(inner, measure) + ofSet(node.selectionSet, inner, 0)
      : valueCost(type.name, name, inner, measure);
    if (!isListType(getNullableType(field.type))) return one;
    if (RESULT_LISTS.has(name) && hasResults(type)) return measure.results * one;
    return (sizeOf(node, field) ?? LIST_SIZES[place] ?? LIST_SIZE) * one;
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

/** The number of values in a response with as many results of a verb. */
export function valuesOf(request: Omit<CostedRequest, "measure">, results: number): number {
  return Math.round(costOf({ ...request, measure: { ...VALUES, results } }) / VALUE_COST);
}

/** Whether a type is a payload with a list that has an item for each node of a request. */
export function hasResults(type: GraphQLNamedType): boolean {
  if (!type.name.endsWith("Payload") || type.name === FEW_RESULTS || !("getFields" in type)) return false;
  return [...RESULT_LISTS].some((name) => type.getFields()[name] !== undefined);
}

/** The number of fields with another response name in a selection of introspection. */
function aliasesIn(
  set: SelectionSetNode | undefined,
  fragments: CostedRequest["fragments"],
  known: Map<string, number>,
): number {
  return (set?.selections ?? []).reduce((sum, selection) => {
    if (selection.kind === Kind.FRAGMENT_SPREAD) {
      const name = selection.name.value;
      const count = ({ selectionSet }: FragmentDefinitionNode) => aliasesIn(selectionSet, fragments, known);
      return sum + once(known, `aliases ${name}`, fragments[name], count);
    }
    const isAlias = selection.kind === Kind.FIELD && (selection.alias ?? selection.name).value !== selection.name.value;
    return sum + (isAlias ? 1 : 0) + aliasesIn(selection.selectionSet, fragments, known);
  }, 0);
}

/** The cost of an object by its type, without its selection. */
function objectCost({ name }: GraphQLNamedOutputType, { object }: Measure): number {
  return Math.min(OBJECT_COSTS[name] ?? object, object);
}

/** The cost of a value by its type and name. */
function valueCost(owner: string, name: string, type: GraphQLNamedOutputType, { json }: Measure): number {
  if (type.name === "JSON") return json ?? (WITH_LISTED_JSON.has(owner) ? LISTED_JSON_COST : JSON_COST);
  return type.name === GraphQLString.name && TEXT.test(name) ? TEXT_COST : VALUE_COST;
}

/** The cost of a fragment, computed once per key. */
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

/** The value of an integer or Boolean literal; page sizes and directives use no others. */
function constant(node: ValueNode): unknown {
  if (node.kind === Kind.INT) return Number(node.value);
  return node.kind === Kind.BOOLEAN ? node.value : undefined;
}
