/**
 * Problems with settings or arguments, as messages for users. Missing values, wrong types and unknown enum values are
 * derived from the declared shape, in uniform wording. For other rules (lengths, patterns, dependencies) the schema
 * library's message is used. Messages never repeat a value.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { Schema } from "./driver.ts";
import { shapeOf } from "./settings-shape.ts";
import type { Shape } from "./settings-shape.ts";

export interface Issue {
  /** Names of fields and indexes in lists, from the top. */
  readonly path: readonly string[];
  /** Without a full stop. */
  readonly message: string;
}

/**
 * Validates a value. A validation that throws counts as an issue; its error is not reported, as it may hold a secret.
 */
export async function validate<T>(schema: Schema<T>, value: unknown): Promise<StandardSchemaV1.Result<T>> {
  try {
    return await schema["~standard"].validate(value);
  } catch {
    return {
      issues: [{ message: "its driver fails to validate this value; report that to the author of the driver" }],
    };
  }
}

/** The issues that a schema has with a value. */
export function plainIssues(
  schema: Schema<unknown>,
  value: unknown,
  issues: readonly StandardSchemaV1.Issue[],
): Issue[] {
  const shape = shapeOrNone(schema);
  return issues.map(({ message, path: given }) => {
    const path = (given ?? []).map((part) => String(typeof part === "object" ? part.key : part));
    return { path, message: (shape && problemAt(shape, value, path)) ?? message.replace(/\.$/, "") };
  });
}

/** The schema of step arguments may not be expressible as JSON Schema. */
function shapeOrNone(schema: Schema<unknown>): Shape | null {
  try {
    return shapeOf(schema);
  } catch {
    return null;
  }
}

/** The problem of the value at a path; null if the shape shows none. */
function problemAt(shape: Shape, value: unknown, [name, ...rest]: readonly string[]): string | null {
  if (name === undefined) return problemOf(shape, value);
  if (typeof value !== "object" || value === null) return null;
  const inside: unknown = Object.hasOwn(value, name) ? (value as Readonly<Record<string, unknown>>)[name] : undefined;
  if (shape.kind === "list") return problemAt(shape.of, inside, rest);
  const field = shape.kind === "object" ? shape.fields.find((one) => one.name === name) : undefined;
  return field ? problemAt(field.shape, inside, rest) : null;
}

function problemOf(shape: Shape, value: unknown): string | null {
  const wanted = wantedOf(shape);
  if (wanted === null || fits(shape, value)) return null;
  if (value === undefined || value === null) return `it is missing; it must be ${wanted}`;
  return isOneOf(shape) && typeof value === "string"
    ? `it must be ${wanted}`
    : `it must be ${wanted}, not ${kindOf(value)}`;
}

function isOneOf(shape: Shape): shape is Shape & { readonly kind: "text"; readonly values: readonly string[] } {
  return shape.kind === "text" && shape.values !== undefined;
}

/** Whether a value has the shape's type. */
function fits(shape: Shape, value: unknown): boolean {
  if (value === null) return shape.nullable;
  switch (shape.kind) {
    case "text":
      return typeof value === "string" && (shape.values?.includes(value) ?? true);
    case "whole":
      return Number.isInteger(value);
    case "number":
      return typeof value === "number";
    case "truth":
      return typeof value === "boolean";
    case "list":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && !Array.isArray(value);
    case "json":
      return true;
  }
}

function wantedOf(shape: Shape): string | null {
  switch (shape.kind) {
    case "text":
      return shape.values ? `one of ${shape.values.map((value) => JSON.stringify(value)).join(", ")}` : "a text";
    case "whole":
      return "a whole number";
    case "number":
      return "a number";
    case "truth":
      return "true or false";
    case "list":
      return "a list";
    case "object":
      return "an object";
    case "json":
      return null;
  }
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  switch (typeof value) {
    case "string":
      return "a text";
    case "number":
      return Number.isInteger(value) ? "a number" : "a fraction";
    case "boolean":
      return "true or false";
    default:
      return "an object";
  }
}
