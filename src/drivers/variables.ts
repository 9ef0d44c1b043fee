/** The variables that a driver reads, as its schema declares them. */
import { addressProblems } from "./address-settings.ts";
import type { AddressRules } from "./address-settings.ts";
import { plainIssues, validate } from "./issues.ts";
import type { Issue } from "./issues.ts";
import type { Driver, Json, Schema } from "./driver.ts";
import { jsonSchemaOf, secretNames, shapeOf, shapeProblem } from "./settings-shape.ts";

interface ReadVariables {
  /** Declared by name. */
  readonly names: readonly string[];
  /** All other variables are passed to the driver too. */
  readonly others: boolean;
}

const NONE: ReadVariables = { names: [], others: false };
const known = new WeakMap<object, ReadVariables>();

/** The variables that a driver reads. */
export function variablesReadBy({ variables: schema }: Pick<Driver<unknown>, "variables">): ReadVariables {
  if (!schema) return NONE;
  const found = known.get(schema);
  if (found) return found;
  const { properties, additionalProperties } = jsonSchemaOf(schema);
  const read = { names: Object.keys(properties ?? {}), others: additionalProperties !== false };
  known.set(schema, read);
  return read;
}

/** Names of the variables that drivers declare as secret. They are secret for all drivers. */
export function secretVariablesOf(drivers: readonly Pick<Driver<unknown>, "variables">[]): ReadonlySet<string> {
  return new Set(drivers.flatMap(({ variables }) => (variables ? secretNames(shapeOf(variables)) : [])));
}

/** The members of an output that a schema declares, and the secret ones among them. */
export function outputsOf(schema: Schema<object>): {
  readonly names: readonly string[];
  readonly secret: readonly string[];
} {
  return { names: Object.keys(jsonSchemaOf(schema).properties ?? {}), secret: secretNames(shapeOf(schema)) };
}

/** The variables that a driver receives. */
export function variablesFor<Value>(
  driver: Pick<Driver<unknown>, "variables">,
  variables: Readonly<Record<string, Value>>,
): Readonly<Record<string, Value>> {
  const { names, others } = variablesReadBy(driver);
  if (others) return variables;
  return Object.fromEntries(Object.entries(variables).filter(([name]) => names.includes(name)));
}

/** The values that do not match the schema of a driver, or that lead where it may not connect. */
export async function variableIssues(
  driver: Pick<Driver<unknown>, "variables">,
  variables: Readonly<Record<string, Json>>,
  rules: AddressRules,
): Promise<readonly Issue[]> {
  if (!driver.variables) return [];
  const given = variablesFor(driver, variables);
  const result = await validate(driver.variables, given);
  return result.issues
    ? plainIssues(driver.variables, given, result.issues)
    : addressProblems(driver.variables, result.value, rules);
}

/** Why a schema of variables is not supported, as a sentence; null if it is. */
export function variablesProblem(schema: Schema<object>): string | null {
  const { type, required } = jsonSchemaOf(schema);
  if (type !== "object")
    return "its variables are not an object. Declare an object whose properties are the variables.";
  if (Array.isArray(required) && required.length > 0)
    return `its variable ${String(required[0])} is required. Make every variable optional, and fail in the step that needs it: not every request runs that step.`;
  // Where a mark would be ignored, a secret would be stored and shown in clear.
  return JSON.stringify(jsonSchemaOf(schema)).includes('"writeOnly":true')
    ? shapeProblem(schema, "its variables")
    : null;
}
