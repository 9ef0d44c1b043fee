/**
 * Replaces the selections of lists that the database can write by a hidden field, and keeps the plans of these lists.
 */
import {
  GraphQLNonNull,
  GraphQLObjectType,
  GraphQLScalarType,
  Kind,
  getNamedType,
  getNullableType,
  isObjectType,
} from "graphql";
import type {
  DocumentNode,
  FieldNode,
  GraphQLResolveInfo,
  GraphQLSchema,
  OperationDefinitionNode,
  SelectionNode,
  SelectionSetNode,
} from "graphql";
import { UnsupportedDocumentError, collectFields, planOf, selectionSets } from "./json-list-plan.ts";
import type { ListPlan, SelectionContext, WritableFields } from "./json-list-plan.ts";
import { TEXT_KEY } from "./json-list-text.ts";
import type { JsonText } from "./json-list-text.ts";

/** No document can name it: a name contains no space. */
const HIDDEN = "ready text";

const HIDDEN_SELECTION: SelectionSetNode = {
  kind: Kind.SELECTION_SET,
  selections: [
    { kind: Kind.FIELD, name: { kind: Kind.NAME, value: HIDDEN }, alias: { kind: Kind.NAME, value: TEXT_KEY } },
  ],
};

const JsonTextScalar = new GraphQLScalarType({ name: "JsonText", serialize: (text) => text });
/** A type that is in no schema: it only makes the field. */
const HiddenFieldType = new GraphQLObjectType({
  name: "HiddenField",
  fields: { text: { type: new GraphQLNonNull(JsonTextScalar), resolve: (text: JsonText) => text } },
});

/** Plans by the field node of the rewritten document that they belong to. */
const plans = new WeakMap<FieldNode, ListPlan>();

/** The plan of the list that a resolver is called for; undefined if the list is to be resolved. */
export function listPlan({ fieldNodes: [field] }: Pick<GraphQLResolveInfo, "fieldNodes">): ListPlan | undefined {
  return field && plans.get(field);
}

/**
 * Adds the hidden field to the type of each list that can be text. It is not enumerable, so introspection and printing
 * omit it.
 */
export function addHiddenFields(schema: GraphQLSchema): void {
  const value = HiddenFieldType.getFields()["text"];
  for (const type of Object.values(schema.getTypeMap())) {
    if (!isObjectType(type)) continue;
    for (const field of Object.values(type.getFields())) {
      const connection = writableFields(field) && getNamedType(field.type);
      if (isObjectType(connection))
        Object.defineProperty(connection.getFields(), HIDDEN, { value, enumerable: false, configurable: true });
    }
  }
}

function writableFields({ extensions }: { readonly extensions: Readonly<Record<string, unknown>> }) {
  return extensions["asText"] as WritableFields | undefined;
}

interface RewriteRequest {
  readonly schema: GraphQLSchema;
  readonly document: DocumentNode;
  readonly operation: OperationDefinitionNode;
  readonly variables: Readonly<Record<string, unknown>>;
  /** The limit for the plans, reduced by their sizes. */
  readonly budget: SelectionContext["budget"];
}

/** The document with hidden fields in place of lists that can be text; null if it has none. */
export function rewriteDocument({
  schema,
  document,
  operation,
  variables,
  budget,
}: RewriteRequest): DocumentNode | null {
  const root = schema.getRootType(operation.operation);
  if (!root || operation.operation === "subscription") return null;
  const context: SelectionContext = {
    schema,
    budget,
    fragments: new Map(
      document.definitions.flatMap((one) => (one.kind === Kind.FRAGMENT_DEFINITION ? [[one.name.value, one]] : [])),
    ),
    isTrue: (name) => booleanVariable(operation, variables, name),
  };
  try {
    const selections = replaceLists(context, root, [operation.selectionSet]);
    if (!selections) return null;
    const changed: OperationDefinitionNode = { ...operation, selectionSet: { ...operation.selectionSet, selections } };
    return { ...document, definitions: document.definitions.map((one) => (one === operation ? changed : one)) };
  } catch (error) {
    if (error instanceof UnsupportedDocumentError) return null;
    throw error;
  }
}

function booleanVariable(
  { variableDefinitions = [] }: OperationDefinitionNode,
  variables: RewriteRequest["variables"],
  name: string,
): boolean {
  const standard = variableDefinitions.find(({ variable }) => variable.name.value === name)?.defaultValue;
  const value = variables[name] === undefined && standard?.kind === Kind.BOOLEAN ? standard.value : variables[name];
  if (typeof value !== "boolean") throw new UnsupportedDocumentError();
  return value;
}

/**
 * The fields of a selection, with hidden ones in place of lists that can be text; null if there are none. Lists inside
 * of items of lists are left as they are: batch loaders read them together.
 */
function replaceLists(
  context: SelectionContext,
  type: GraphQLObjectType,
  sets: readonly SelectionSetNode[],
): SelectionNode[] | null {
  let isChanged = false;
  const selections = [...collectFields(context, type, sets).values()].flatMap((nodes): readonly FieldNode[] => {
    const replaced = replaceField(context, type, nodes);
    isChanged ||= replaced !== null;
    return replaced ?? nodes;
  });
  return isChanged ? selections : null;
}

/** The nodes of one response key, with lists replaced; null if there are none. */
function replaceField(
  context: SelectionContext,
  type: GraphQLObjectType,
  nodes: readonly FieldNode[],
): readonly FieldNode[] | null {
  const field = nodes[0] && type.getFields()[nodes[0].name.value];
  const inner = field && getNullableType(field.type);
  if (!inner || !isObjectType(inner)) return null;
  const writable = writableFields(field);
  if (writable) {
    const plan = planOf(context, inner, selectionSets(nodes), writable);
    return (
      plan &&
      nodes.map((node) => {
        const hidden = { ...node, selectionSet: HIDDEN_SELECTION };
        plans.set(hidden, plan);
        return hidden;
      })
    );
  }
  const inside = replaceLists(context, inner, selectionSets(nodes));
  return (
    inside &&
    nodes.map((node, index) => ({
      ...node,
      selectionSet: { kind: Kind.SELECTION_SET, selections: index === 0 ? inside : [] },
    }))
  );
}
