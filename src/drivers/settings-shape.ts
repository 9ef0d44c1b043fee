/**
 * The shape of settings, derived from the JSON Schema that a plugin declares. It determines the GraphQL types, the
 * secret fields, and where null means absent. Other rules (lengths, patterns, dependencies) stay with the plugin's
 * validation. Also checks for declarations that are not supported.
 */
import { isRecord } from "../runtime/json-values.ts";
import { messageOf } from "../errors.ts";
import type { Json, Schema } from "./driver.ts";

/** A JSON Schema, or a part of one, that is an object. */
export type JsonSchema = Readonly<Record<string, unknown>>;

export type Shape = Kind & {
  /** Whether null is a valid value. If not, null counts as absent. */
  readonly nullable: boolean;
  /** As declared, with references resolved. */
  readonly schema: JsonSchema;
};

type Kind =
  /** `values`: the allowed ones; absent: any text. */
  | { readonly kind: "text"; readonly values?: readonly string[] }
  /** A 32-bit integer, any number, or a boolean. */
  | { readonly kind: "whole" | "number" | "truth" }
  | { readonly kind: "list"; readonly of: Shape }
  /** `open`: it accepts more than its fields, as a record does, or has dependencies between fields. */
  | { readonly kind: "object"; readonly fields: readonly Field[]; readonly open: boolean }
  /** Anything else: unions, tuples, arbitrary JSON. */
  | { readonly kind: "json" };

/** A field of an object. */
export interface Field {
  readonly name: string;
  readonly shape: Shape;
  /** Required, and without a default. */
  readonly required: boolean;
  /** The default; undefined if there is none, or if the field is secret. */
  readonly fallback: Json | undefined;
  /** Write-only: accepted, never returned. */
  readonly secret: boolean;
  /** It decides where a secret is sent, or as whose: it does not change without the secrets. */
  readonly bindsSecret: boolean;
}

const WHOLE_MAX = 2 ** 31 - 1;
const NAME = /^(?!__)[_A-Za-z][_0-9A-Za-z]*$/;

/** Whether a text is a GraphQL name: letters, digits and underscores. */
export function isName(text: string): boolean {
  return NAME.test(text);
}

/** JSON Schema of the input. Throws the library's error if the schema cannot be expressed. */
export function jsonSchemaOf(schema: Schema<unknown>): JsonSchema {
  return schema["~standard"].jsonSchema.input({ target: "draft-2020-12" });
}

const known = new WeakMap<Schema<unknown>, Shape>();

/** The shape of a schema; cached. */
export function shapeOf(schema: Schema<unknown>): Shape {
  const found = known.get(schema);
  if (found) return found;
  const root = jsonSchemaOf(schema);
  const shape = read(root, root, []);
  known.set(schema, shape);
  return shape;
}

/** Why settings of this schema are not supported, as a sentence about `what`; null if they are. */
export function shapeProblem(schema: Schema<unknown>, what: string): string | null {
  let root: JsonSchema;
  try {
    root = jsonSchemaOf(schema);
  } catch (error) {
    return `${what} cannot be expressed as JSON Schema (${messageOf(error)}). Use types that JSON has.`;
  }
  const { type } = resolved(root, root, []).schema;
  if (type !== "object")
    return `${what} are not an object: the JSON Schema has ${type === undefined ? "no single type" : `type ${JSON.stringify(type)}`}. Declare an object whose properties are the settings.`;
  const secrets = new Set<string>();
  const problem = problemIn(
    { root, secrets, entered: { whole: new WeakSet(), setting: new WeakSet(), inside: new WeakSet() } },
    root,
    { place: "whole", path: [], by: "" },
  );
  if (problem !== null) return `${what} ${problem}`;
  const kept = secretNames(shapeOf(schema));
  const lost = [...secrets].find((name) => !kept.includes(name));
  return lost === undefined
    ? null
    : `${what} hold the secret ${lost} behind a reference with sibling properties, where it would not be stored as a secret. Declare all settings in one list of properties.`;
}

/** Where a part of a schema applies: to the settings as a whole, to one of them, or inside one. */
type Place = "whole" | "setting" | "inside";

interface Walk {
  readonly root: JsonSchema;
  /** Settings marked as secrets. */
  readonly secrets: Set<string>;
  /** Visited parts by place, so that a recursive schema is visited once. */
  readonly entered: Readonly<Record<Place, WeakSet<object>>>;
}

interface Spot {
  readonly place: Place;
  /** Properties on the path. */
  readonly path: readonly string[];
  /** Keyword of the last step. */
  readonly by: string;
}

/** Keywords that hold values, and definitions, which are visited through references. */
const NOT_ENTERED = new Set([
  "default",
  "const",
  "enum",
  "examples",
  "required",
  "dependentRequired",
  "type",
  "$defs",
  "definitions",
]);
/** Keywords that map names to schemas. Others hold a schema, a list of schemas, or neither. */
const BY_NAME = new Set(["properties", "patternProperties", "dependentSchemas", "dependencies"]);

/**
 * Finds an unsupported part of a schema; returns the end of a sentence about it. Visits every part under any keyword: a
 * secret that is overlooked would be stored and returned in plain text.
 */
function problemIn(walk: Walk, schema: unknown, spot: Spot): string | null {
  const { place, path } = spot;
  if (!isRecord(schema) || walk.entered[place].has(schema)) return null;
  walk.entered[place].add(schema);
  if (schema["writeOnly"] === true && place !== "setting") return misplaced(spot);
  if (schema["bindsSecret"] === true && place !== "setting")
    return "mark a part of a setting with `bindsSecret`, where it would be ignored. Set it on a setting itself, at the top.";
  for (const [word, value] of Object.entries(schema)) {
    const problem =
      word === "properties"
        ? problemInProperties(walk, value, spot)
        : problemUnder(walk, word, value, { place: word === "$ref" ? place : "inside", path, by: word });
    if (problem !== null) return problem;
  }
  return null;
}

function problemInProperties(walk: Walk, properties: unknown, { place, path }: Spot): string | null {
  for (const [name, property] of Object.entries(isRecord(properties) ? properties : {})) {
    const here = [...path, name];
    if (!isName(name))
      return `have a field ${JSON.stringify(here.join("."))}, which is not a GraphQL name. Use letters, digits and underscores.`;
    const { schema } = resolved(property, walk.root, []);
    if (place === "whole" && schema["writeOnly"] === true) {
      if (schema["type"] !== "string") return `hold the secret ${name}, which is not a string.`;
      walk.secrets.add(name);
    }
    const problem = problemIn(walk, property, {
      place: place === "whole" ? "setting" : "inside",
      path: here,
      by: "properties",
    });
    if (problem !== null) return problem;
  }
  return null;
}

function problemUnder(walk: Walk, word: string, value: unknown, spot: Spot): string | null {
  if (NOT_ENTERED.has(word)) return null;
  if (REFERENCES.has(word)) {
    const target = word === "$ref" ? referred(value, walk.root) : undefined;
    return target === undefined
      ? `refer to ${JSON.stringify(value)}, which cannot be resolved. Use \`$ref\` to a part of the schema, as #/$defs/name.`
      : problemIn(walk, target, spot);
  }
  const parts: readonly unknown[] = Array.isArray(value)
    ? value
    : BY_NAME.has(word) && isRecord(value)
      ? Object.values(value)
      : [value];
  for (const part of parts) {
    const problem = problemIn(walk, part, spot);
    if (problem !== null) return problem;
  }
  return null;
}

function misplaced({ place, path, by }: Spot): string {
  if (place === "whole") return "are marked as one secret. Mark single settings.";
  const name = path.join(".");
  if (by === "properties" && path.length > 1)
    return `hold the secret ${name} inside another setting, where it would not be stored as a secret. Move it to the top.`;
  return `mark a secret ${by === "properties" ? `${name} in a variant` : `by \`${by}\`${name === "" ? "" : ` of ${name}`}`}, where it would not be stored as a secret. Set \`writeOnly\` on a setting itself, at the top and of type string.`;
}

// ---- reading

function read(value: unknown, root: JsonSchema, above: readonly string[]): Shape {
  const { schema: declared, references } = resolved(value, root, above);
  if (references.length > above.length && above.includes(references.at(-1) ?? ""))
    return { kind: "json", nullable: true, schema: declared };
  const { schema, nullable } = withoutNull(declared, root);
  return { ...kindOf(schema, root, references), nullable, schema };
}

/** Keywords that combine schemas. An object with one of them still has its named fields. */
const COMBINING = ["anyOf", "oneOf", "allOf", "not", "if", "dependentSchemas"];

function kindOf(schema: JsonSchema, root: JsonSchema, references: readonly string[]): Kind {
  if (schema["type"] !== "object" && isCombined(schema)) return { kind: "json" };
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
      return "prefixItems" in schema || !isRecord(schema["items"])
        ? { kind: "json" }
        : { kind: "list", of: read(schema["items"], root, references) };
    case "object":
      return objectKind(schema, root, references);
    default:
      return { kind: "json" };
  }
}

function isCombined(schema: JsonSchema): boolean {
  return COMBINING.some((word) => word in schema);
}

/** The allowed values, if the schema lists them. */
function valuesOf(schema: JsonSchema): readonly unknown[] | null {
  const values = Array.isArray(schema["enum"])
    ? (schema["enum"] as unknown[])
    : "const" in schema
      ? [schema["const"]]
      : null;
  return values && values.filter((one) => one !== null);
}

function typeOf(values: readonly unknown[] | null): string | undefined {
  return values && new Set(values.map((one) => typeof one)).size === 1 ? typeof values[0] : undefined;
}

function objectKind(schema: JsonSchema, root: JsonSchema, references: readonly string[]): Kind {
  const { additionalProperties: others, unevaluatedProperties: unevaluated, required } = schema;
  return {
    kind: "object",
    open:
      "patternProperties" in schema ||
      isCombined(schema) ||
      [others, unevaluated].some((one) => one !== undefined && one !== false),
    fields: Object.entries(objectAt(schema, "properties")).map(([name, property]): Field => {
      const shape = read(property, root, references);
      const fallback = shape.schema["default"] as Json | undefined;
      const secret = shape.schema["writeOnly"] === true;
      return {
        name,
        shape,
        required: Array.isArray(required) && required.includes(name) && fallback === undefined,
        fallback: secret ? undefined : fallback,
        secret,
        bindsSecret: shape.schema["bindsSecret"] === true,
      };
    }),
  };
}

/** The schema with its reference resolved, and the references that were followed. */
function resolved(
  value: unknown,
  root: JsonSchema,
  above: readonly string[],
): { readonly schema: JsonSchema; readonly references: readonly string[] } {
  if (!isRecord(value)) return { schema: {}, references: above };
  const { $ref: reference, ...beside } = value;
  if (typeof reference !== "string") return { schema: value, references: above };
  const references = [...above, reference];
  if (above.includes(reference)) return { schema: beside, references };
  const { schema, references: followed } = resolved(referred(reference, root), root, references);
  return {
    schema: { ...schema, ...beside, ...marksOf(schema) },
    references: followed,
  };
}

/** The marks of a schema. They hold whatever the siblings of a reference to it say. */
function marksOf(schema: JsonSchema): JsonSchema {
  return Object.fromEntries(
    ["writeOnly", "bindsSecret"].flatMap((mark) => (schema[mark] === true ? [[mark, true]] : [])),
  );
}

const REFERENCES = new Set(["$ref", "$dynamicRef", "$recursiveRef"]);

/** The target of a reference within the schema; undefined if there is none. */
export function referred(reference: unknown, root: unknown): unknown {
  if (reference === "#") return root;
  if (typeof reference !== "string" || !reference.startsWith("#/")) return undefined;
  return reference
    .slice(2)
    .split("/")
    .reduce<unknown>(
      (inside, word) =>
        isRecord(inside)
          ? inside[word.replaceAll("~1", "/").replaceAll("~0", "~")]
          : Array.isArray(inside)
            ? (inside as unknown[])[Number(word)]
            : undefined,
      root,
    );
}

/** Removes null from a type that allows null and one other type. */
function withoutNull(
  schema: JsonSchema,
  root: JsonSchema,
): { readonly schema: JsonSchema; readonly nullable: boolean } {
  const { anyOf, type, ...rest } = schema;
  if (Array.isArray(type) && type.includes("null") && type.length === 2)
    return { schema: { ...rest, type: type.find((one) => one !== "null") as unknown }, nullable: true };
  if (Array.isArray(anyOf)) {
    const others = (anyOf as unknown[]).filter((one) => !isRecord(one) || one["type"] !== "null");
    const nullable = others.length < anyOf.length;
    return nullable && others.length === 1
      ? { schema: { ...resolved(others[0], root, []).schema, ...rest }, nullable }
      : { schema, nullable };
  }
  const values = schema["enum"];
  return {
    schema,
    nullable: Array.isArray(values)
      ? values.includes(null)
      : type === "null" || (type === undefined && !("const" in schema)),
  };
}

function isSmall(value: unknown): boolean {
  return typeof value === "number" && Math.abs(value) <= WHOLE_MAX;
}

function objectAt(schema: JsonSchema, key: string): Readonly<Record<string, unknown>> {
  const value = schema[key];
  return isRecord(value) ? value : {};
}

// ---- derived from a shape

/** Names of the secrets among the fields. */
export function secretNames(shape: Shape): readonly string[] {
  return shape.kind === "object" ? shape.fields.filter(({ secret }) => secret).map(({ name }) => name) : [];
}

/** Names of the settings that decide where the secrets are sent, or as whose. */
export function bindingNames(shape: Shape): readonly string[] {
  return shape.kind === "object" ? shape.fields.filter(({ bindsSecret }) => bindsSecret).map(({ name }) => name) : [];
}

/** The value without nulls of fields that are not nullable, which count as absent. */
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

/** The JSON Schema for clients: without defaults and examples of secrets. */
export function publicSchemaOf(schema: Schema<unknown>): JsonSchema {
  const root = jsonSchemaOf(schema);
  const isSecret = (part: unknown) => resolved(part, root, []).schema["writeOnly"] === true;
  const publicPart = (part: unknown): unknown => {
    if (Array.isArray(part)) return part.map(publicPart);
    if (!isRecord(part)) return part;
    const holdsSecret =
      isSecret(part) || Object.values(objectAt(resolved(part, root, []).schema, "properties")).some(isSecret);
    return Object.fromEntries(
      Object.entries(part).flatMap(([word, value]) =>
        holdsSecret && SUGGESTIONS.has(word) ? [] : [[word, publicPart(value)]],
      ),
    );
  };
  return publicPart(root) as JsonSchema;
}

const SUGGESTIONS = new Set(["default", "examples"]);
