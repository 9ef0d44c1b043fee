/** Schemas and JSON values of a driver, as the conformance suite reads them. */
import { isRecord } from "../../../../src/runtime/json-values.ts";
import type { Schema } from "../../../../src/drivers/driver.ts";
import { secretNames, shapeOf } from "../../../../src/drivers/settings-shape.ts";
import type { JsonSchema } from "../../../../src/drivers/settings-shape.ts";

export async function accept(schema: Schema<unknown>, value: unknown, what: string): Promise<unknown> {
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return result.value;
  throw new Error(`The schema refuses ${what}: ${result.issues.map((issue) => issue.message).join("; ")}.`);
}

export async function issuesOf(schema: Schema<unknown>, value: unknown): Promise<string[]> {
  const result = await schema["~standard"].validate(value);
  return (result.issues ?? []).map((issue) => issue.message);
}

/** Every field of an object schema, including those of nested objects, lists and variants; dots join a path. */
export function fieldsOf(schema: JsonSchema, path = ""): { name: string; path: string; schema: JsonSchema }[] {
  const properties = isRecord(schema["properties"]) ? Object.entries(schema["properties"]) : [];
  const own = properties.flatMap(([name, value]) => {
    if (!isRecord(value)) return [];
    const here = path === "" ? name : `${path}.${name}`;
    return [{ name, path: here, schema: value }, ...fieldsOf(value, here)];
  });
  const variants = ["anyOf", "oneOf", "allOf"].flatMap((key) =>
    Array.isArray(schema[key]) ? (schema[key] as unknown[]) : [],
  );
  const inside = [...variants, schema["items"], schema["additionalProperties"]].filter(isRecord);
  return [...own, ...inside.flatMap((each) => fieldsOf(each, path))];
}

/** Secrets contained in settings. */
export function secretsIn(
  schema: Schema<unknown>,
  settings: Readonly<Record<string, unknown>>,
): { readonly name: string; readonly value: string }[] {
  return secretNames(shapeOf(schema)).flatMap((name) => {
    const value = settings[name];
    return typeof value === "string" && value !== "" ? [{ name, value }] : [];
  });
}

/** JSON with sorted keys, for comparison. */
export function canonical(value: unknown): string {
  return (
    JSON.stringify(value, (_key, inside: unknown) =>
      isRecord(inside) ? Object.fromEntries(Object.entries(inside).toSorted(([a], [b]) => (a < b ? -1 : 1))) : inside,
    ) ?? "undefined"
  );
}

/** True if JSON returns the value unchanged: no dates, no undefined, no NaN. */
export function isJson(value: unknown): boolean {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (Array.isArray(value)) return value.every(isJson);
  if (!isRecord(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return (prototype === Object.prototype || prototype === null) && Object.values(value).every(isJson);
}
