/** The filter type of the client and its values, printed from the schema: the client imports nothing of the service. */
import { getNamedType, isEnumType, isInputObjectType, isListType, isNonNullType } from "graphql";
import type { GraphQLInputField, GraphQLInputObjectType, GraphQLInputType, GraphQLSchema } from "graphql";
import { DATABASE_CONDITIONS } from "../../src/store/nodes/node-filter.ts";

const SCALARS: Readonly<Record<string, string>> = {
  ID: "string",
  String: "string",
  Boolean: "boolean",
  Int: "number",
  DateTime: "string",
};
const WIDTH = 120;
const ABOUT =
  "`NodeFilter` of the schema, without the conditions that streams refuse. Given fields are combined with AND. Times are texts as in RFC 3339.";

/** The text of packages/client/src/node-filter.ts. Conditions that streams refuse are left out. */
export function clientFilterText(schema: GraphQLSchema): string {
  const filter = schema.getType("NodeFilter");
  if (!isInputObjectType(filter)) throw new Error("The schema has no input NodeFilter.");
  const refused = new Set<string>(DATABASE_CONDITIONS);
  const fields = Object.values(filter.getFields()).filter(({ name }) => !refused.has(name));
  const others = new Set(fields.map(({ type }) => getNamedType(type)).filter(isInputObjectType));
  others.delete(filter);
  return [
    "// Printed by `npm run schema` from the schema.\n",
    'import type { NodeState } from "./node-state.ts";\n',
    ...[...others].map((type) => `\n${typeText(type, Object.values(type.getFields()))}`),
    `\n${comment(ABOUT, "")}`,
    interfaceText("NodeFilter", fields),
    "\n/** The values of fields of `NodeFilter` in the schema of this version. */\n",
    `export const FILTER_VALUES = {\n${fields.map(valuesText).join("")}} as const;\n`,
  ].join("");
}

function valuesText({ name, type }: GraphQLInputField): string {
  const named = getNamedType(type);
  if (!isEnumType(named) || named.name === "NodeState") return "";
  const single = `  ${name}: [${named
    .getValues()
    .map((value) => `"${value.name}"`)
    .join(", ")}],\n`;
  const lines = named.getValues().map((value) => `    "${value.name}",\n`);
  return single.length <= WIDTH ? single : `  ${name}: [\n${lines.join("")}  ],\n`;
}

function typeText(type: GraphQLInputObjectType, fields: readonly GraphQLInputField[]): string {
  const head = comment(type.description ?? "", "");
  if (!type.isOneOf) return `${head}${interfaceText(type.name, fields)}`;
  const ways = fields.map(({ name, type: value }) => `{ readonly ${name}: ${valueText(value)} }`);
  return `${head}export type ${type.name} = ${ways.join(" | ")};\n`;
}

function interfaceText(name: string, fields: readonly GraphQLInputField[]): string {
  const members = fields.map((field) => {
    const given = isNonNullType(field.type) ? ":" : "?:";
    const value = isNonNullType(field.type) ? valueText(field.type) : `${valueText(field.type)} | null | undefined`;
    return `${comment(field.description ?? "", "  ")}  readonly ${field.name}${given} ${value};\n`;
  });
  return `export interface ${name} {\n${members.join("")}}\n`;
}

function valueText(type: GraphQLInputType): string {
  if (isNonNullType(type)) return valueText(type.ofType);
  if (isListType(type)) return `readonly ${valueText(type.ofType)}[]`;
  // Other enums may get new values, of which an older client knows nothing.
  if (isEnumType(type)) return type.name === "NodeState" ? type.name : "string";
  return SCALARS[type.name] ?? type.name;
}

function comment(text: string, indent: string): string {
  const single = `${indent}/** ${text} */`;
  if (single.length <= WIDTH) return `${single}\n`;
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines.at(-1) ?? "";
    if (line !== "" && `${indent} * ${line} ${word}`.length > WIDTH) lines.push(word);
    else lines[lines.length - 1] = line === "" ? word : `${line} ${word}`;
  }
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}\n`).join("")}${indent} */\n`;
}
