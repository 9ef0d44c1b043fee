/** Registered documents as the schema knows them: whether they are executed, and what their variables may be. */
import { GraphQLError, Kind, getVariableValues, specifiedRules, validate, valueFromASTUntyped } from "graphql";
import type { DocumentNode, GraphQLSchema, OperationDefinitionNode } from "graphql";
import type { DocumentReading } from "../../engine/access/documents.ts";
import { createYielding } from "../../runtime/yielding.ts";
import { allDocuments } from "../../store/access/documents.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { DocumentKind, JsonObject } from "../../store/records.ts";
import { shown } from "../base/error-masking.ts";
import { exactNumbersRule, noIntrospectionRule, parseBounded, shapeRule } from "./document.ts";
import { check } from "./guards.ts";

const NO_INTROSPECTION = "Introspection cannot be registered. Leave out `__schema` and `__type`.";
const RULES = [...specifiedRules, shapeRule, exactNumbersRule, noIntrospectionRule(NO_INTROSPECTION)];

/** Reads a document as a request with it would be read, without the values of its variables. */
export function readDocument(schema: GraphQLSchema, text: string): DocumentReading {
  let document: DocumentNode;
  try {
    document = parseBounded(text);
  } catch (error) {
    if (!(error instanceof GraphQLError)) throw error;
    return { operation: null, kind: "QUERY", flaws: [shown(error).message] };
  }
  const [operation, ...others] = operationsOf(document);
  const read = {
    operation: operation?.name?.value ?? null,
    kind: (operation?.operation.toUpperCase() ?? "QUERY") as DocumentKind,
  };
  if (!operation || others.length > 0) {
    const message = `A registered document has one operation; this one has ${operation ? others.length + 1 : "none"}.`;
    return { ...read, flaws: [message] };
  }
  const errors = validate(schema, document, RULES);
  const { refusal } = errors.length > 0 ? {} : check({ schema, document });
  return { ...read, flaws: [...errors, ...(refusal ? [refusal] : [])].map((error) => shown(error).message) };
}

/** The registered documents that this schema does not execute, by name. */
export async function unfitDocuments(reader: Reader, schema: GraphQLSchema): Promise<string[]> {
  const unfit: string[] = [];
  const yieldWhenDue = createYielding();
  for (const { id, operation, text } of await allDocuments(reader)) {
    await yieldWhenDue();
    if (readDocument(schema, text).flaws.length > 0) unfit.push(operation ?? id);
  }
  return unfit;
}

/** Why the variables of a registered document cannot have these values. */
export function variableFlaws(schema: GraphQLSchema, text: string, values: JsonObject): string[] {
  const definitions = operationsOf(parseBounded(text)).flatMap(({ variableDefinitions = [] }) => variableDefinitions);
  return Object.entries(values).flatMap(([name, value]) => {
    const definition = definitions.find(({ variable }) => variable.name.value === name);
    if (!definition) return [`The document has no variable $${name}.`];
    const { errors = [] } = getVariableValues(schema, [definition], { [name]: value });
    return errors.map((error) => shown(error).message);
  });
}

/** The defaults of the variables of a registered document, as JSON. */
export function defaultsOf(text: string): ReadonlyMap<string, unknown> {
  return new Map(
    operationsOf(parseBounded(text))
      .flatMap(({ variableDefinitions = [] }) => variableDefinitions)
      .flatMap(({ variable, defaultValue }) =>
        defaultValue
          ? [[variable.name.value, JSON.parse(JSON.stringify(valueFromASTUntyped(defaultValue))) as unknown]]
          : [],
      ),
  );
}

function operationsOf(document: DocumentNode): OperationDefinitionNode[] {
  return document.definitions.filter((one) => one.kind === Kind.OPERATION_DEFINITION);
}
