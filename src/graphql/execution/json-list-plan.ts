/**
 * From the selection of a list to a plan: the fields that the database writes, under the response keys of the request.
 */
import { Kind, getNamedType, isAbstractType, isObjectType } from "graphql";
import type {
  FieldNode,
  FragmentDefinitionNode,
  GraphQLObjectType,
  GraphQLSchema,
  SelectionNode,
  SelectionSetNode,
} from "graphql";
import type { SelectedField } from "../../store/json-text.ts";
import type { ItemSelection, NodesJsonRequest } from "../../store/nodes/node-json.ts";
import type { Connection } from "../base/connection.ts";

export type PageInfo = Connection<unknown>["pageInfo"];

/** Members of a list by response key. */
export interface ListPlan {
  readonly parts: readonly ListPart[];
  /** The parts of the page that are read; null if it is not read. */
  readonly page: NodesJsonRequest | null;
  readonly totalCount: boolean;
  readonly asOf: boolean;
  /** Fields that the service composes, by their number in the text. */
  readonly composed: readonly ComposedSelection[];
}

/** The selected members of the objects of a composed field. */
export interface ComposedSelection {
  readonly field: string;
  readonly selection: readonly SelectedField[];
}

type ListPart = { readonly key: string } & (
  | { readonly text: string }
  /** Index of a selection of items: of edges, or of nodes without edges. */
  | { readonly items: number }
  | { readonly pageInfo: readonly PageInfoField[] }
  | { readonly totalCount: true }
  | { readonly asOf: true }
);

type PageInfoField = { readonly key: string } & ({ readonly text: string } | { readonly field: keyof PageInfo });

/**
 * Fields that the database can write; `fields`: those of an object, or of the items of a list. `facts`: the database
 * writes only facts, of which the service composes the field.
 */
export interface WritableFields {
  readonly [name: string]: { readonly text?: unknown; readonly facts?: unknown; readonly fields?: WritableFields };
}

/**
 * Limit on the SQL of one document's lists, an estimate in characters: a few hundred fields. Larger lists are resolved.
 */
export const PLAN_CHARACTERS_MAX = 40_000;
/** Estimate for a field, without its key. */
export const FIELD_CHARACTERS = 100;
/** Estimate for the facts of a composed field. */
const FACTS_CHARACTERS = 2_000;

/** The document uses something that is not handled here. It is executed unchanged. */
export class UnsupportedDocumentError extends Error {}

/** The context of reading selections. */
export interface SelectionContext {
  readonly schema: GraphQLSchema;
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  readonly isTrue: (variable: string) => boolean;
  /** The rest of the limit for the plans of the document. */
  readonly budget: { characters: number };
}

/** The same for one list. */
interface ListContext extends SelectionContext {
  readonly composed: ComposedSelection[];
}

/** The plan of a connection; null if it selects a field that the database cannot write, or exceeds the budget. */
export function planOf(
  given: SelectionContext,
  connection: GraphQLObjectType,
  sets: readonly SelectionSetNode[],
  fields: WritableFields,
): ListPlan | null {
  const context: ListContext = { ...given, composed: [] };
  const items: ItemSelection[] = [];
  const parts: ListPart[] = [];
  for (const [key, nodes] of collectFields(context, connection, sets)) {
    if (!fits(context, key)) return null;
    const part = partOf(nodes);
    if (!part) return null;
    parts.push({ key, ...part });
  }
  const pageInfo = parts.flatMap((part) => ("pageInfo" in part ? part.pageInfo : []));
  const selected = pageInfo.flatMap((field) => ("field" in field ? field.field : []));
  return {
    parts,
    page:
      items.length > 0 || selected.length > 0
        ? { items, ends: selected.includes("startCursor") || selected.includes("endCursor") }
        : null,
    totalCount: parts.some((part) => "totalCount" in part),
    asOf: parts.some((part) => "asOf" in part),
    composed: context.composed,
  };

  function partOf(nodes: readonly FieldNode[]) {
    const name = nodes[0]?.name.value ?? "";
    switch (name) {
      case "__typename":
        return { text: JSON.stringify(connection.name) };
      case "edges": {
        const writable = { cursor: {}, node: { fields } };
        const selection = selectedFields(context, itemType(connection, name), selectionSets(nodes), writable);
        return selection && { items: items.push({ of: "edge", selection }) - 1 };
      }
      case "nodes": {
        const selection = selectedFields(context, itemType(connection, name), selectionSets(nodes), fields);
        return selection && { items: items.push({ of: "node", selection }) - 1 };
      }
      case "pageInfo": {
        const found = pageInfoFields(context, itemType(connection, name), selectionSets(nodes));
        return found && { pageInfo: found };
      }
      case "totalCount":
        return { totalCount: true } as const;
      case "asOf":
        return { asOf: true } as const;
      default:
        return null;
    }
  }
}

function pageInfoFields(
  context: SelectionContext,
  type: GraphQLObjectType,
  sets: readonly SelectionSetNode[],
): PageInfoField[] | null {
  const fields: PageInfoField[] = [];
  for (const [key, [node]] of collectFields(context, type, sets)) {
    if (!fits(context, key)) return null;
    const name = node?.name.value ?? "";
    if (name === "__typename") fields.push({ key, text: JSON.stringify(type.name) });
    else if (isPageInfoField(name)) fields.push({ key, field: name });
    else return null;
  }
  return fields;
}

const PAGE_INFO_FIELDS: Readonly<Record<keyof PageInfo, true>> = {
  hasNextPage: true,
  hasPreviousPage: true,
  startCursor: true,
  endCursor: true,
};

function isPageInfoField(name: string): name is keyof PageInfo {
  return Object.hasOwn(PAGE_INFO_FIELDS, name);
}

/** The selected members of an object; null if the database cannot write one of them, or they exceed the budget. */
function selectedFields(
  context: ListContext,
  type: GraphQLObjectType,
  sets: readonly SelectionSetNode[],
  fields: WritableFields,
): SelectedField[] | null {
  const selected: SelectedField[] = [];
  for (const [key, nodes] of collectFields(context, type, sets)) {
    if (!fits(context, key)) return null;
    const name = nodes[0]?.name.value ?? "";
    if (name === "__typename") {
      selected.push({ key, text: JSON.stringify(type.name) });
      continue;
    }
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (!field) return null;
    if (!field.fields) {
      selected.push({ key, field: name });
      continue;
    }
    const selection = selectedFields(context, itemType(type, name), selectionSets(nodes), field.fields);
    if (!selection) return null;
    if (field.facts === undefined) {
      selected.push({ key, field: name, selection });
      continue;
    }
    if (!charge(context, FACTS_CHARACTERS)) return null;
    selected.push({ key, field: name, composed: context.composed.push({ field: name, selection }) - 1 });
  }
  return selected;
}

/** Charges a field to the budget; false if it is exceeded. */
function fits(context: SelectionContext, key: string): boolean {
  return charge(context, FIELD_CHARACTERS + key.length);
}

function charge({ budget }: SelectionContext, characters: number): boolean {
  budget.characters -= characters;
  return budget.characters >= 0;
}

/** The object type of a field, or of the items of a list. */
function itemType(type: GraphQLObjectType, name: string): GraphQLObjectType {
  const item = getNamedType(type.getFields()[name]?.type);
  if (!isObjectType(item)) throw new UnsupportedDocumentError();
  return item;
}

export function selectionSets(nodes: readonly FieldNode[]): SelectionSetNode[] {
  return nodes.flatMap(({ selectionSet }) => selectionSet ?? []);
}

/** The fields of selections by response key, merged as GraphQL execution does (CollectFields). */
export function collectFields(
  context: SelectionContext,
  type: GraphQLObjectType,
  sets: readonly SelectionSetNode[],
): Map<string, FieldNode[]> {
  const fields = new Map<string, FieldNode[]>();
  const seen = new Set<string>();
  const collect = (set: SelectionSetNode): void => {
    for (const selection of set.selections) {
      if (!isIncluded(context, selection)) continue;
      if (selection.kind === Kind.FIELD) {
        const key = (selection.alias ?? selection.name).value;
        fields.set(key, [...(fields.get(key) ?? []), selection]);
        continue;
      }
      if (selection.kind === Kind.FRAGMENT_SPREAD) {
        if (seen.has(selection.name.value)) continue;
        seen.add(selection.name.value);
      }
      const fragment =
        selection.kind === Kind.FRAGMENT_SPREAD ? context.fragments.get(selection.name.value) : selection;
      if (!fragment) throw new UnsupportedDocumentError();
      if (matchesType(context, type, fragment.typeCondition?.name.value)) collect(fragment.selectionSet);
    }
  };
  sets.forEach(collect);
  return fields;
}

function isIncluded({ isTrue }: SelectionContext, { directives = [] }: SelectionNode): boolean {
  return directives.every(({ name, arguments: [argument] = [] }) => {
    if ((name.value !== "include" && name.value !== "skip") || !argument) throw new UnsupportedDocumentError();
    const { value } = argument;
    if (value.kind !== Kind.BOOLEAN && value.kind !== Kind.VARIABLE) throw new UnsupportedDocumentError();
    const condition = value.kind === Kind.BOOLEAN ? value.value : isTrue(value.name.value);
    return condition === (name.value === "include");
  });
}

function matchesType({ schema }: SelectionContext, type: GraphQLObjectType, condition: string | undefined): boolean {
  if (condition === undefined || condition === type.name) return true;
  const named = schema.getType(condition);
  return isAbstractType(named) && schema.isSubType(named, type);
}
