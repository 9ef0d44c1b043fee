/** Inputs of mutations as tables, from the schema. Types that several inputs share are printed once. */
import { astFromValue, getNamedType, isEnumType, isInputObjectType, isRequiredInputField, print } from "graphql";
import type { GraphQLEnumType, GraphQLInputField, GraphQLInputObjectType, GraphQLSchema } from "graphql";
import { code, meanings, table } from "./markdown.ts";

type Described = GraphQLInputObjectType | GraphQLEnumType;

/** The input of a mutation. */
export function inputOf(schema: GraphQLSchema, mutation: string): GraphQLInputObjectType {
  const field = schema.getMutationType()?.getFields()[mutation];
  const input = field && getNamedType(field.args[0]?.type);
  if (!isInputObjectType(input)) throw new Error(`Mutation ${mutation} does not exist or has no input.`);
  return input;
}

/** The types that an input consists of, nearest first, without the input itself. Types in `closed` are not expanded. */
export function partsOf(input: GraphQLInputObjectType, closed: readonly Described[] = []): readonly Described[] {
  const found = new Set<Described>([input]);
  for (const type of found) {
    if (!isInputObjectType(type) || closed.includes(type)) continue;
    for (const { type: of } of Object.values(type.getFields())) {
      const named = getNamedType(of);
      if (isInputObjectType(named) || isEnumType(named)) found.add(named);
    }
  }
  return [...found].slice(1);
}

/** Types that several of the inputs use, in the order of their first use. */
export function sharedParts(inputs: readonly GraphQLInputObjectType[]): readonly Described[] {
  const uses = new Map<Described, number>();
  for (const input of new Set(inputs)) for (const part of partsOf(input)) uses.set(part, (uses.get(part) ?? 0) + 1);
  return [...uses].flatMap(([part, count]) => (count > 1 ? [part] : []));
}

/** A type as a table: the fields of an input, or the values of an enumeration. */
export function tableOf(type: Described): string {
  if (isEnumType(type))
    return meanings(
      "value",
      Object.fromEntries(type.getValues().map(({ name, description }) => [name, description ?? ""])),
    );
  const { isOneOf } = type;
  const fields = Object.values(type.getFields());
  const inOrder = [...fields.filter(isRequiredInputField), ...fields.filter((field) => !isRequiredInputField(field))];
  return table(
    ["field", "type", ...(isOneOf ? [] : ["default"]), "meaning"],
    inOrder.map((field) => row(field, isOneOf)),
  );
}

function row(field: GraphQLInputField, isOneOf: boolean): readonly string[] {
  const meaning = field.description ?? "";
  return [code(field.name), code(String(field.type)), ...(isOneOf ? [] : [defaultOf(field)]), meaning];
}

function defaultOf(field: GraphQLInputField): string {
  if (isRequiredInputField(field)) return "required";
  const value = field.defaultValue === undefined ? null : astFromValue(field.defaultValue, field.type);
  return value ? code(print(value)) : "–";
}

/** Anchor of the type's heading. */
export function anchorOf({ name }: Described): string {
  return `#${name.toLowerCase()}`;
}
