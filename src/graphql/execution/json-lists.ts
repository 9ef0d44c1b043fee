/**
 * Lists that the database makes the text of. A field that says of itself, by the extension `asText`, which fields of its
 * items the database can put into JSON is not resolved item by item where a request asks for nothing else of them: its
 * selection is replaced by one hidden field, its resolver is given a `ListPlan` in place of a selection, and the text that
 * it answers goes into the response unread. What the response says is the same to the letter.
 *
 * Arguments, scopes and errors stay with the field's resolver. Whatever is not understood here is executed as ever.
 */
import { randomBytes } from "node:crypto";
import {
  GraphQLBoolean,
  GraphQLNonNull,
  GraphQLScalarType,
  Kind,
  getNamedType,
  getNullableType,
  isAbstractType,
  isObjectType,
} from "graphql";
import type {
  DocumentNode,
  FieldNode,
  FragmentDefinitionNode,
  GraphQLField,
  GraphQLObjectType,
  GraphQLResolveInfo,
  GraphQLSchema,
  OperationDefinitionNode,
  SelectionNode,
  SelectionSetNode,
} from "graphql";
import type { Plugin } from "graphql-yoga";
import type { JsonFields, SelectedField } from "../../store/json-text.ts";
import type { NodesJson, NodesJsonRequest } from "../../store/node-json.ts";
import type { Connection } from "../base/connection.ts";

type PageInfo = Connection<unknown>["pageInfo"];

/** What a list is asked for, part by part, each under its response key. */
export interface ListPlan {
  readonly parts: readonly ({ readonly key: string } & Part)[];
  /** What the page is read for: edges, as many selections as response keys for them, and the cursors of its ends. Null: for nothing. */
  readonly page: NodesJsonRequest | null;
  readonly totalCount: boolean;
}

type Part =
  | { readonly text: string }
  | { readonly edges: number }
  | {
      readonly pageInfo: readonly ({ readonly key: string } & (
        | { readonly text: string }
        | { readonly field: keyof PageInfo }
      ))[];
    }
  | { readonly totalCount: true };

/** JSON text that is already made. */
export class ReadyText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
  toJSON(): typeof PLACE {
    gathered?.push(this.text);
    return PLACE;
  }
}

/** What JSON.stringify puts where a ready text belongs. Nobody can guess the key, so it occurs nowhere else. */
const KEY = `ready_${randomBytes(16).toString("hex")}`;
const PLACE = 0;
const PLACE_TEXT = `{"${KEY}":${PLACE}}`;
/** No document can name it: a name has no blank. */
const HIDDEN = "ready text";
/** The texts that one JSON.stringify comes by. */
let gathered: string[] | null = null;

const HIDDEN_SELECTION: SelectionSetNode = {
  kind: Kind.SELECTION_SET,
  selections: [{ kind: Kind.FIELD, name: { kind: Kind.NAME, value: HIDDEN }, alias: { kind: Kind.NAME, value: KEY } }],
};
const ReadyScalar = new GraphQLScalarType<ReadyText, ReadyText>({
  name: "ReadyText",
  serialize: (value) => value as ReadyText,
});

/** Plans by the field of the rewritten document that they belong to. */
const plans = new WeakMap<FieldNode, ListPlan>();

/** What the database is to make of a list; undefined where the list is resolved. */
export function listPlan({ fieldNodes: [field] }: Pick<GraphQLResolveInfo, "fieldNodes">): ListPlan | undefined {
  return field && plans.get(field);
}

/** The text of a list, of its page and its count; the resolver answers it as if it were the list. */
export function listText({ parts }: ListPlan, page: NodesJson | null, totalCount: number): never {
  const info = {
    hasNextPage: page?.hasNext ?? false,
    hasPreviousPage: page?.hasPrevious ?? false,
    startCursor: page?.start ?? null,
    endCursor: page?.end ?? null,
  };
  const members = parts.map((part) => {
    const key = `${JSON.stringify(part.key)}:`;
    if ("text" in part) return key + part.text;
    if ("edges" in part) return `${key}[${page?.edges[part.edges] ?? ""}]`;
    if ("totalCount" in part) return key + String(totalCount);
    return `${key}{${part.pageInfo.map((one) => `${JSON.stringify(one.key)}:${"text" in one ? one.text : JSON.stringify(info[one.field])}`).join(",")}}`;
  });
  return new ReadyText(`{${members.join(",")}}`) as never;
}

/** Requests that the same document is remembered for, each with other values of the variables in its directives. */
const VARIANTS_MAX = 32;
const VARIANT_LENGTH_MAX = 500;
/** The SQL of what one document asks of its lists, in characters, roughly: for a few hundred fields. Whatever asks for more is resolved. */
const PLAN_CHARACTERS_MAX = 40_000;
/** What a field takes besides its key. */
const FIELD_CHARACTERS = 100;
/** What is kept of all documents, counted likewise: then all of it is forgotten, and made anew for those that come again. */
const KEPT_CHARACTERS_MAX = 2_000_000;

/** The plugin for Yoga. Only for transports that write an answer by its `stringify`: HTTP, and server-sent events. */
export function lists(schema: GraphQLSchema): Plugin {
  hide(schema);
  let known = new WeakMap<DocumentNode, Map<string, DocumentNode | null>>();
  let kept = 0;

  const keep = (
    variants: Map<string, DocumentNode | null>,
    variant: string,
    made: DocumentNode | null,
    planned: number,
  ): void => {
    if (variants.size >= VARIANTS_MAX || variant.length > VARIANT_LENGTH_MAX) return;
    variants.set(variant, made);
    kept += FIELD_CHARACTERS + variant.length + planned;
    if (kept <= KEPT_CHARACTERS_MAX) return;
    known = new WeakMap();
    kept = 0;
  };

  const rewritten = (
    document: DocumentNode,
    operationName: string | null | undefined,
    variables: Readonly<Record<string, unknown>>,
  ): DocumentNode | null => {
    const operation = operationOf(document, operationName);
    if (!operation) return null;
    const variants = known.get(document) ?? new Map<string, DocumentNode | null>();
    known.set(document, variants);
    const switches = (operation.variableDefinitions ?? [])
      .filter(({ type }) => namedType(type) === GraphQLBoolean.name)
      .map(({ variable }) => variables[variable.name.value]);
    // Whatever is no truth is refused, or not understood, in one way.
    const variant = [
      operationName ?? "",
      ...switches.map((value) => (typeof value === "boolean" || value === undefined ? String(value) : "?")),
    ].join(" ");
    const found = variants.get(variant);
    if (found !== undefined) return found;
    const room = { characters: PLAN_CHARACTERS_MAX };
    const made = rewrite(schema, document, operation, variables, room);
    keep(variants, variant, made, made ? PLAN_CHARACTERS_MAX - room.characters : 0);
    return made;
  };

  return {
    onExecute({ args, executeFn, setExecuteFn }) {
      if (!("request" in (args.contextValue as object))) return undefined;
      const document = rewritten(args.document, args.operationName, args.variableValues ?? {});
      if (!document) return undefined;
      setExecuteFn((given) => executeFn({ ...given, document }));
      return {
        onExecuteDone({ result, setResult }) {
          if (typeof result === "object" && result !== null && !(Symbol.asyncIterator in result))
            setResult({ ...result, stringify: stringifyReady } as never);
        },
      };
    },
  };
}

/** JSON.stringify, with ready texts where they belong. */
function stringifyReady(result: unknown): string {
  const texts: string[] = [];
  gathered = texts;
  let json: string;
  try {
    json = JSON.stringify(result);
  } finally {
    gathered = null;
  }
  return json.split(PLACE_TEXT).reduce((text, piece, index) => text + (texts[index - 1] ?? "") + piece);
}

/** Gives each type whose lists can be text the hidden field, where no listing of its fields comes by it. */
function hide(schema: GraphQLSchema): void {
  const field: GraphQLField<ReadyText, unknown> = {
    name: HIDDEN,
    description: undefined,
    type: new GraphQLNonNull(ReadyScalar),
    args: [],
    resolve: (ready: ReadyText) => ready,
    subscribe: undefined,
    deprecationReason: undefined,
    extensions: {},
    astNode: undefined,
  } as never;
  for (const type of Object.values(schema.getTypeMap())) {
    if (!isObjectType(type)) continue;
    for (const { extensions, type: list } of Object.values(type.getFields())) {
      const connection = extensions["asText"] === undefined ? undefined : getNamedType(list);
      if (isObjectType(connection))
        Object.defineProperty(connection.getFields(), HIDDEN, { value: field, enumerable: false, configurable: true });
    }
  }
}

function operationOf(document: DocumentNode, name: string | null | undefined): OperationDefinitionNode | undefined {
  const operations = document.definitions.filter((one) => one.kind === Kind.OPERATION_DEFINITION);
  return name == null
    ? operations.length === 1
      ? operations[0]
      : undefined
    : operations.find((one) => one.name?.value === name);
}

function namedType(type: NonNullable<OperationDefinitionNode["variableDefinitions"]>[number]["type"]): string {
  return type.kind === Kind.NAMED_TYPE ? type.name.value : namedType(type.type);
}

// ---- from a selection to a plan

/** What is not understood here; the request is executed as ever. */
class Unknown extends Error {}

/** What selections are read with. */
interface Reading {
  readonly schema: GraphQLSchema;
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  readonly isOn: (variable: string) => boolean;
  /** What plans may still take. */
  readonly room: { characters: number };
}

/** The document with hidden fields where lists can be text; null when there is none. */
function rewrite(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
  variables: Readonly<Record<string, unknown>>,
  room: Reading["room"],
): DocumentNode | null {
  const root = schema.getRootType(operation.operation);
  if (!root || operation.operation === "subscription") return null;
  const reading: Reading = {
    schema,
    room,
    fragments: new Map(
      document.definitions.flatMap((one) => (one.kind === Kind.FRAGMENT_DEFINITION ? [[one.name.value, one]] : [])),
    ),
    isOn: (name) => {
      const standard = operation.variableDefinitions?.find(
        ({ variable }) => variable.name.value === name,
      )?.defaultValue;
      const value = variables[name] === undefined && standard?.kind === Kind.BOOLEAN ? standard.value : variables[name];
      if (typeof value !== "boolean") throw new Unknown();
      return value;
    },
  };
  try {
    const selections = replaced(reading, root, [operation.selectionSet]);
    if (!selections) return null;
    const changed: OperationDefinitionNode = { ...operation, selectionSet: { ...operation.selectionSet, selections } };
    return { ...document, definitions: document.definitions.map((one) => (one === operation ? changed : one)) };
  } catch (error) {
    if (error instanceof Unknown) return null;
    throw error;
  }
}

/** The fields of a selection with hidden ones in place of lists that can be text; null when there are none. Items of lists are not looked into: they are read together as it is. */
function replaced(
  reading: Reading,
  type: GraphQLObjectType,
  sets: readonly SelectionSetNode[],
): SelectionNode[] | null {
  let isChanged = false;
  const selections = [...collected(reading, type, sets).values()].flatMap((nodes): readonly FieldNode[] => {
    const field = nodes[0] && type.getFields()[nodes[0].name.value];
    const inner = field && getNullableType(field.type);
    if (!inner || !isObjectType(inner)) return nodes;
    const fields = field.extensions["asText"] as JsonFields | undefined;
    const below = nodes.flatMap(({ selectionSet }) => selectionSet ?? []);
    const plan = fields && planOf(reading, inner, below, fields);
    if (plan) {
      isChanged = true;
      return nodes.map((node) => {
        const changed = { ...node, selectionSet: HIDDEN_SELECTION };
        plans.set(changed, plan);
        return changed;
      });
    }
    const inside = fields ? null : replaced(reading, inner, below);
    if (!inside) return nodes;
    isChanged = true;
    return nodes.map((node, index) => ({
      ...node,
      selectionSet: { kind: Kind.SELECTION_SET, selections: index === 0 ? inside : [] },
    }));
  });
  return isChanged ? selections : null;
}

/** Whether there is still room for a field under such a key. */
function fits({ room }: Reading, key: string): boolean {
  room.characters -= FIELD_CHARACTERS + key.length;
  return room.characters >= 0;
}

/** What a connection is asked for; null when that is more than the database can say, or more than there is room for. */
function planOf(
  reading: Reading,
  connection: GraphQLObjectType,
  sets: readonly SelectionSetNode[],
  fields: JsonFields,
): ListPlan | null {
  const edges: (readonly SelectedField[])[] = [];
  let isPageRead = false;
  let ends = false;
  let totalCount = false;
  const parts: ListPlan["parts"][number][] = [];
  for (const [key, nodes] of collected(reading, connection, sets)) {
    if (!fits(reading, key)) return null;
    const name = nodes[0]?.name.value ?? "";
    const below = nodes.flatMap(({ selectionSet }) => selectionSet ?? []);
    if (name === "__typename") parts.push({ key, text: JSON.stringify(connection.name) });
    else if (name === "edges") {
      const asked = askedOf(reading, itemType(connection, name), below, {
        cursor: {} as never,
        node: { fields } as never,
      });
      if (!asked) return null;
      parts.push({ key, edges: edges.push(asked) - 1 });
    } else if (name === "pageInfo") {
      const type = itemType(connection, name);
      const wanted = [...collected(reading, type, below)];
      if (!wanted.every(([inner]) => fits(reading, inner))) return null;
      const pageInfo = wanted.map(([inner, [field]]) => {
        const asked = field?.name.value ?? "";
        isPageRead ||= asked !== "__typename";
        ends ||= asked.endsWith("Cursor");
        return asked === "__typename"
          ? { key: inner, text: JSON.stringify(type.name) }
          : { key: inner, field: asked as keyof PageInfo };
      });
      parts.push({ key, pageInfo });
    } else if (name === "totalCount") {
      totalCount = true;
      parts.push({ key, totalCount });
    } else return null;
  }
  return { parts, page: edges.length > 0 || isPageRead ? { edges, ends } : null, totalCount };
}

/** What an object is asked for; null when one of it is no field that the database can say, or there is no room for it. */
function askedOf(
  reading: Reading,
  type: GraphQLObjectType,
  sets: readonly SelectionSetNode[],
  fields: JsonFields,
): SelectedField[] | null {
  const asked: SelectedField[] = [];
  for (const [key, nodes] of collected(reading, type, sets)) {
    if (!fits(reading, key)) return null;
    const name = nodes[0]?.name.value ?? "";
    if (name === "__typename") {
      asked.push({ key, text: JSON.stringify(type.name) });
      continue;
    }
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (!field) return null;
    const of =
      "fields" in field
        ? askedOf(
            reading,
            itemType(type, name),
            nodes.flatMap(({ selectionSet }) => selectionSet ?? []),
            field.fields,
          )
        : undefined;
    if (of === null) return null;
    asked.push({ key, field: name, ...(of && { selection: of }) });
  }
  return asked;
}

/** The object type behind a field, be it one or a list. */
function itemType(type: GraphQLObjectType, name: string): GraphQLObjectType {
  const item = getNamedType(type.getFields()[name]?.type);
  if (!isObjectType(item)) throw new Unknown();
  return item;
}

/** The fields of selections by response key, as GraphQL merges them. */
function collected(
  reading: Reading,
  type: GraphQLObjectType,
  sets: readonly SelectionSetNode[],
): Map<string, FieldNode[]> {
  const fields = new Map<string, FieldNode[]>();
  const seen = new Set<string>();
  const collect = (set: SelectionSetNode): void => {
    for (const selection of set.selections) {
      if (!isIncluded(reading, selection)) continue;
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
        selection.kind === Kind.FRAGMENT_SPREAD ? reading.fragments.get(selection.name.value) : selection;
      if (!fragment) throw new Unknown();
      if (isOf(reading, type, fragment.typeCondition?.name.value)) collect(fragment.selectionSet);
    }
  };
  sets.forEach(collect);
  return fields;
}

function isIncluded({ isOn }: Reading, { directives = [] }: SelectionNode): boolean {
  return directives.every(({ name, arguments: [argument] = [] }) => {
    if ((name.value !== "include" && name.value !== "skip") || !argument) throw new Unknown();
    const { value } = argument;
    if (value.kind !== Kind.BOOLEAN && value.kind !== Kind.VARIABLE) throw new Unknown();
    return (value.kind === Kind.BOOLEAN ? value.value : isOn(value.name.value)) === (name.value === "include");
  });
}

function isOf({ schema }: Reading, type: GraphQLObjectType, condition: string | undefined): boolean {
  if (condition === undefined || condition === type.name) return true;
  const named = schema.getType(condition);
  return isAbstractType(named) && schema.isSubType(named, type);
}
