/**
 * The requests of the command line and of the console, printed as TypeScript from their `requests.graphql`: documents
 * as texts, and the types of their answers; for the command line also the members of their inputs, of which flags are
 * made. So neither needs a parser of GraphQL. Throws if a request does not match the schema.
 */
import {
  Kind,
  getNamedType,
  getNullableType,
  isCompositeType,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isScalarType,
  parse,
  print,
  validate,
  visit,
} from "graphql";
import type {
  DefinitionNode,
  DocumentNode,
  FragmentDefinitionNode,
  GraphQLCompositeType,
  GraphQLOutputType,
  GraphQLSchema,
  OperationDefinitionNode,
  SelectionSetNode,
} from "graphql";

const SCALARS: Readonly<Record<string, string>> = {
  Int: "number",
  Float: "number",
  Boolean: "boolean",
  JSON: "unknown",
};
const SINGLE_VALUES = ["Int", "Float", "Boolean", "String", "ID"];

interface Field {
  readonly text: string;
  readonly isOptional: boolean;
}

export interface Requests {
  /** Path of the documents, from the root. */
  readonly file: string;
  readonly text: string;
}

/** The text of packages/cli/src/requests.ts. */
export function cliRequestsText(schema: GraphQLSchema, requests: Requests): string {
  const fields: string[] = [];
  const inputs = operationsOf(parse(requests.text)).flatMap((one) => inputFields(schema, one, fields));
  return `${requestsText(schema, requests)}
export interface InputField {
  readonly type: string;
  readonly values?: readonly string[];
  /** A Boolean that is true by default. */
  readonly isOn?: boolean;
  readonly description: string;
}

/** Mutations share most members. */
const F: readonly InputField[] = [${fields.join(", ")}];

/** The members of the inputs of mutations that are single values. */
export const INPUT_FIELDS: Readonly<Record<string, Readonly<Record<string, InputField>>>> = {
  ${inputs.join(", ")},
};
`;
}

const operationsOf = ({ definitions }: DocumentNode) =>
  definitions.filter((one) => one.kind === Kind.OPERATION_DEFINITION);

/** Documents, and the types of their answers. */
export function requestsText(schema: GraphQLSchema, { file, text }: Requests): string {
  const document = parse(text);
  const errors = validate(schema, document);
  if (errors.length > 0) throw new Error(`${file}: ${errors.map(String).join("\n")}`);
  const operations = operationsOf(document);
  const fragments = document.definitions.filter((one) => one.kind === Kind.FRAGMENT_DEFINITION);
  const typeOf = answerTypes(schema, document);
  return `// Printed by \`npm run schema\` from ${file}.

${fragments.map((one) => `const ${one.name.value} = ${compact(one)};\n`).join("")}
export const REQUESTS = {
${operations.map((one) => `  ${nameOf(one)}: ${textOf(document, one)},\n`).join("")}};

/** The data of each answer. A field of only some types of an interface or a union may be absent. */
export interface Answers {
${operations.map((one) => `  readonly ${nameOf(one)}: ${typeOf(one)};\n`).join("")}}
`;
}

function nameOf({ name }: OperationDefinitionNode): string {
  if (!name) throw new Error("Every request needs a name.");
  return name.value;
}

const compact = (one: DefinitionNode) =>
  JSON.stringify(
    `${print(one)
      .replaceAll(/(?<=\{)\s+|\s+(?=\})/g, "")
      .replaceAll(/\s+/g, " ")}\n`,
  );

/** One operation with the fragments that it uses, as an expression. */
function textOf({ definitions }: DocumentNode, operation: OperationDefinitionNode): string {
  const used = new Set<OperationDefinitionNode | FragmentDefinitionNode>([operation]);
  for (const one of used)
    visit(one, {
      FragmentSpread: ({ name }) =>
        definitions.forEach((other) => {
          if (other.kind === Kind.FRAGMENT_DEFINITION && other.name.value === name.value) used.add(other);
        }),
    });
  return [...used].map((one) => (one === operation ? compact(one) : (one.name?.value ?? ""))).join(" + ");
}

function answerTypes(schema: GraphQLSchema, { definitions }: DocumentNode) {
  const fieldsOf = (parent: GraphQLCompositeType, { selections }: SelectionSetNode): [string, Field][] =>
    selections.flatMap((selection): [string, Field][] => {
      if (selection.kind === Kind.FIELD) {
        const { name, alias, selectionSet } = selection;
        const key = alias?.value ?? name.value;
        if (name.value === "__typename") return [[key, { text: "string", isOptional: false }]];
        const field = "getFields" in parent ? parent.getFields()[name.value] : undefined;
        if (!field) throw new Error(`${parent.name} has no field ${name.value}.`);
        return [[key, { text: valueText(field.type, selectionSet), isOptional: false }]];
      }
      const fragment =
        selection.kind === Kind.INLINE_FRAGMENT
          ? selection
          : definitions.find((one) => one.kind === Kind.FRAGMENT_DEFINITION && one.name.value === selection.name.value);
      if (fragment?.kind !== Kind.INLINE_FRAGMENT && fragment?.kind !== Kind.FRAGMENT_DEFINITION) return [];
      const on = schema.getType(fragment.typeCondition?.name.value ?? parent.name);
      if (!isCompositeType(on)) return [];
      const isAlways = on === parent || ("getInterfaces" in parent && parent.getInterfaces().some((one) => one === on));
      return fieldsOf(on, fragment.selectionSet).map(([key, field]) => [
        key,
        { ...field, isOptional: field.isOptional || !isAlways },
      ]);
    });
  const objectText = (parent: GraphQLCompositeType, selectionSet: SelectionSetNode): string => {
    const fields = new Map<string, Field>();
    for (const [key, field] of fieldsOf(parent, selectionSet)) {
      const { text = field.text } = fields.get(key) ?? {};
      if (text !== field.text) throw new Error(`${key} of ${parent.name} has two types.`);
      fields.set(key, field);
    }
    return `{ ${[...fields].map(([key, { text, isOptional }]) => `readonly ${key}${isOptional ? "?" : ""}: ${text}`).join("; ")} }`;
  };
  const valueText = (type: GraphQLOutputType, selectionSet: SelectionSetNode | undefined): string => {
    const text = present(getNullableType(type), selectionSet);
    return isNonNullType(type) || text === "unknown" ? text : `${text} | null`;
  };
  const present = (type: GraphQLOutputType, selectionSet: SelectionSetNode | undefined): string => {
    if (isListType(type)) return `readonly (${valueText(type.ofType, selectionSet)})[]`;
    const named = getNamedType(type);
    if (isCompositeType(named) && selectionSet) return objectText(named, selectionSet);
    // A later version of the service may have more values of an enum.
    return SCALARS[named.name] ?? "string";
  };
  return (operation: OperationDefinitionNode): string => {
    const root = schema.getRootType(operation.operation);
    if (!root) throw new Error(`The schema has no ${operation.operation}.`);
    return objectText(root, operation.selectionSet);
  };
}

/** The members of the input of a mutation, as an entry of `INPUT_FIELDS`. Adds new ones to `fields`. */
function inputFields(schema: GraphQLSchema, operation: OperationDefinitionNode, fields: string[]): string[] {
  const [field] = operation.selectionSet.selections;
  const mutation = field?.kind === Kind.FIELD ? schema.getMutationType()?.getFields()[field.name.value] : undefined;
  const input = getNullableType(mutation?.args[0]?.type);
  if (operation.operation !== "mutation" || !isInputObjectType(input)) return [];
  const members = Object.values(input.getFields()).flatMap(({ name, type, description, default: fallback }) => {
    const value = getNullableType(type);
    if (!isEnumType(value) && !(isScalarType(value) && SINGLE_VALUES.includes(value.name))) return [];
    const text = JSON.stringify({
      type: value.name,
      ...(isEnumType(value) && { values: value.getValues().map((one) => one.name) }),
      ...(fallback?.value === true && { isOn: true }),
      description: firstSentence(description ?? ""),
    });
    if (!fields.includes(text)) fields.push(text);
    return [`${name}: F[${fields.indexOf(text)}] as InputField`];
  });
  return [`${nameOf(operation)}: { ${members.join(", ")} }`];
}

function firstSentence(text: string): string {
  return /^.*?[.](?= |$)/.exec(text.replaceAll(/\s+/g, " "))?.[0] ?? text;
}
