/**
 * What settings look like, read from the JSON Schema that a plugin declares: the one source of the types that clients see,
 * of which fields are secret, and of where null means "not given". What a shape cannot tell (lengths, patterns, what goes
 * with what) stays with the plugin's own validation. Here too is what no driver may declare, each in a sentence.
 */
import type { Json, Schema } from "./driver.ts";

/** A JSON Schema, or a part of one, as far as it is an object. */
export type JsonSchema = Readonly<Record<string, unknown>>;

export type Shape = Kind & {
  /** Whether null is a value of its own. Where it is not, null counts as not given. */
  readonly nullable: boolean;
  /** As declared, references resolved. */
  readonly schema: JsonSchema;
};

type Kind =
  /** `values`: the only ones there are; absent: any text. */
  | { readonly kind: "text"; readonly values?: readonly string[] }
  /** A whole number of 32 bits, any number, or true and false. */
  | { readonly kind: "whole" | "number" | "truth" }
  | { readonly kind: "list"; readonly of: Shape }
  /** `open`: it takes fields beside those it names, as a record does. */
  | { readonly kind: "object"; readonly fields: readonly Field[]; readonly open: boolean }
  /** What has no closer shape: unions, tuples, anything at all. */
  | { readonly kind: "json" };

/** A field of an object. */
export interface Field {
  readonly name: string;
  readonly shape: Shape;
  /** It must be given: there is no default. */
  readonly required: boolean;
  /** Undefined: there is none. */
  readonly fallback: Json | undefined;
  /** It is taken, and never told. */
  readonly secret: boolean;
}

const WHOLE_MAX = 2 ** 31 - 1;
const NAME = /^(?!__)[_A-Za-z][_0-9A-Za-z]*$/;

/** Whether clients can write it as a name: letters, digits and underscores. */
export function isName(text: string): boolean {
  return NAME.test(text);
}

/** JSON Schema of what a client may send. Throws what the library throws that cannot tell. */
export function jsonSchemaOf(schema: Schema<unknown>): JsonSchema {
  return schema["~standard"].jsonSchema.input({ target: "draft-2020-12" });
}

const known = new WeakMap<Schema<unknown>, Shape>();

/** The shape of a schema; read once. */
export function shapeOf(schema: Schema<unknown>): Shape {
  const found = known.get(schema);
  if (found) return found;
  const root = jsonSchemaOf(schema);
  const shape = read(root, root, []);
  known.set(schema, shape);
  return shape;
}

/** Why settings of this schema cannot be typed, as a sentence about `what`; null when they can. */
export function shapeFlaw(schema: Schema<unknown>, what: string): string | null {
  let root: JsonSchema;
  try {
    root = jsonSchemaOf(schema);
  } catch (error) {
    return `${what} cannot be told as JSON Schema (${error instanceof Error ? error.message : String(error)}); use types that JSON has.`;
  }
  const { type } = resolved(root, root, []).schema;
  if (type !== "object") return `${what} are no object: the JSON Schema is ${type === undefined ? "of no one type" : `of type ${JSON.stringify(type)}`}; declare an object whose properties are the settings.`;
  for (const { path, property, isTop } of propertiesBelow(root, root, [], [])) {
    const name = path.at(-1) ?? "";
    if (!isName(name)) return `${what} have a field ${JSON.stringify(path.join("."))}, which clients cannot write as a name; use letters, digits and underscores.`;
    if (property["writeOnly"] !== true) continue;
    if (!isTop) return `${what} hold the secret ${path.join(".")} inside another setting, where it would not be kept apart; move it to the top.`;
    if (property["type"] !== "string") return `${what} hold the secret ${path.join(".")}, which is no string.`;
  }
  return null;
}

/** Every property of a schema, in lists, records and variants too; what refers to itself is entered once. */
function propertiesBelow(value: unknown, root: JsonSchema, path: readonly string[], above: readonly string[]): { path: readonly string[]; property: JsonSchema; isTop: boolean }[] {
  const { schema, references } = resolved(value, root, above);
  if (references.length > above.length && above.includes(references.at(-1) ?? "")) return [];
  const own = Object.entries(objectAt(schema, "properties")).flatMap(([name, inside]) => {
    const here = [...path, name];
    return [{ path: here, property: resolved(inside, root, references).schema, isTop: value === root }, ...propertiesBelow(inside, root, here, references)];
  });
  const variants = ["anyOf", "oneOf", "allOf", "prefixItems"].flatMap((key) => (Array.isArray(schema[key]) ? (schema[key] as unknown[]) : []));
  const inside = [...variants, schema["items"], schema["additionalProperties"], ...Object.values(objectAt(schema, "patternProperties"))].filter(isRecord);
  return [...own, ...inside.flatMap((each) => propertiesBelow(each, root, path, references))];
}

// ---- reading

function read(value: unknown, root: JsonSchema, above: readonly string[]): Shape {
  const { schema: declared, references } = resolved(value, root, above);
  if (references.length > above.length && above.includes(references.at(-1) ?? "")) return { kind: "json", nullable: true, schema: declared };
  const { schema, nullable } = withoutNull(declared, root);
  return { ...kindOf(schema, root, references), nullable, schema };
}

function kindOf(schema: JsonSchema, root: JsonSchema, references: readonly string[]): Kind {
  if (["anyOf", "oneOf", "allOf", "not", "if"].some((word) => word in schema)) return { kind: "json" };
  const values = valuesOf(schema);
  switch (schema["type"] ?? typeOf(values)) {
    case "string":
      return values ? { kind: "text", values: values.filter((one) => typeof one === "string") } : { kind: "text" };
    case "integer":
      return { kind: isSmall(schema["minimum"]) && isSmall(schema["maximum"]) ? "whole" : "number" };
    case "number":
      return { kind: values?.every((one) => Number.isInteger(one) && isSmall(one)) ? "whole" : "number" };
    case "boolean":
      return { kind: "truth" };
    case "array":
      return "prefixItems" in schema || !isRecord(schema["items"]) ? { kind: "json" } : { kind: "list", of: read(schema["items"], root, references) };
    case "object":
      return objectKind(schema, root, references);
    default:
      return { kind: "json" };
  }
}

/** The only values there are, where the schema lists them. */
function valuesOf(schema: JsonSchema): readonly unknown[] | null {
  const values = Array.isArray(schema["enum"]) ? (schema["enum"] as unknown[]) : "const" in schema ? [schema["const"]] : null;
  return values && values.filter((one) => one !== null);
}

function typeOf(values: readonly unknown[] | null): string | undefined {
  return values && new Set(values.map((one) => typeof one)).size === 1 ? typeof values[0] : undefined;
}

function objectKind(schema: JsonSchema, root: JsonSchema, references: readonly string[]): Kind {
  const { additionalProperties: others, required } = schema;
  return {
    kind: "object",
    open: "patternProperties" in schema || (others !== undefined && others !== false),
    fields: Object.entries(objectAt(schema, "properties")).map(([name, property]): Field => {
      const shape = read(property, root, references);
      const fallback = shape.schema["default"] as Json | undefined;
      return { name, shape, required: Array.isArray(required) && required.includes(name) && fallback === undefined, fallback, secret: shape.schema["writeOnly"] === true };
    }),
  };
}

/** The schema with what it refers to in place of the reference, and the references that were followed on the way. */
function resolved(value: unknown, root: JsonSchema, above: readonly string[]): { readonly schema: JsonSchema; readonly references: readonly string[] } {
  if (!isRecord(value)) return { schema: {}, references: above };
  const { $ref: reference, ...beside } = value;
  if (typeof reference !== "string") return { schema: value, references: above };
  const target = reference.startsWith("#/") ? reference.slice(2).split("/").reduce<unknown>((inside, word) => (isRecord(inside) ? inside[word.replaceAll("~1", "/").replaceAll("~0", "~")] : undefined), root) : reference === "#" ? root : undefined;
  const references = [...above, reference];
  if (above.includes(reference)) return { schema: beside, references };
  const further = resolved(target, root, references);
  return { schema: { ...further.schema, ...beside }, references: further.references };
}

/** Takes the null out of a type that admits it beside one other. */
function withoutNull(schema: JsonSchema, root: JsonSchema): { readonly schema: JsonSchema; readonly nullable: boolean } {
  const { anyOf, type, ...rest } = schema;
  if (Array.isArray(type) && type.includes("null") && type.length === 2) return { schema: { ...rest, type: type.find((one) => one !== "null") as unknown }, nullable: true };
  if (Array.isArray(anyOf)) {
    const others = (anyOf as unknown[]).filter((one) => !isRecord(one) || one["type"] !== "null");
    const nullable = others.length < anyOf.length;
    return nullable && others.length === 1 ? { schema: { ...resolved(others[0], root, []).schema, ...rest }, nullable } : { schema, nullable };
  }
  const values = schema["enum"];
  return { schema, nullable: Array.isArray(values) ? values.includes(null) : type === "null" || (type === undefined && !("const" in schema)) };
}

function isSmall(value: unknown): boolean {
  return typeof value === "number" && Math.abs(value) <= WHOLE_MAX;
}

function objectAt(schema: JsonSchema, key: string): Readonly<Record<string, unknown>> {
  const value = schema[key];
  return isRecord(value) ? value : {};
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// ---- what follows from a shape

/** Names of the secrets among the fields. */
export function secretNames(shape: Shape): readonly string[] {
  return shape.kind === "object" ? shape.fields.filter(({ secret }) => secret).map(({ name }) => name) : [];
}

/** The value without the nulls that mean "not given": those of fields that know no null. */
export function withoutNulls(shape: Shape, value: unknown): unknown {
  if (shape.kind === "list" && Array.isArray(value)) return value.map((one: unknown) => withoutNulls(shape.of, one));
  if (shape.kind !== "object" || !isRecord(value)) return value;
  const fields = new Map(shape.fields.map((field) => [field.name, field.shape]));
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inside]) => {
      const declared = fields.get(name);
      if (inside === null && declared && !declared.nullable) return [];
      return [[name, declared ? withoutNulls(declared, inside) : inside]];
    }),
  );
}
