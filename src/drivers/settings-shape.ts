/**
 * What settings look like, read from the JSON Schema that a plugin declares: the one source of the types that clients see,
 * of which fields are secret, and of where null means "not given". What a shape cannot tell (lengths, patterns, what goes
 * with what) stays with the plugin's own validation. Here too is what no driver may declare, each in a sentence.
 */
import { isRecord } from "../runtime/json-values.ts";
import { messageOf } from "../errors.ts";
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
  /** `open`: its fields do not tell all that it takes: it takes others too, as a record does, or says what goes with what. */
  | { readonly kind: "object"; readonly fields: readonly Field[]; readonly open: boolean }
  /** What has no closer shape: unions, tuples, anything at all. */
  | { readonly kind: "json" };

/** A field of an object. */
export interface Field {
  readonly name: string;
  readonly shape: Shape;
  /** It must be given: there is no default. */
  readonly required: boolean;
  /** Undefined: there is none, or none that is told, as of a secret. */
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
    return `${what} cannot be told as JSON Schema (${messageOf(error)}); use types that JSON has.`;
  }
  const { type } = resolved(root, root, []).schema;
  if (type !== "object")
    return `${what} are no object: the JSON Schema is ${type === undefined ? "of no one type" : `of type ${JSON.stringify(type)}`}; declare an object whose properties are the settings.`;
  const secrets = new Set<string>();
  const flaw = flawIn(
    { root, secrets, entered: { whole: new WeakSet(), setting: new WeakSet(), inside: new WeakSet() } },
    root,
    { place: "whole", path: [], by: "" },
  );
  if (flaw !== null) return `${what} ${flaw}`;
  const kept = secretNames(shapeOf(schema));
  const lost = [...secrets].find((name) => !kept.includes(name));
  return lost === undefined
    ? null
    : `${what} hold the secret ${lost} behind a reference that has properties beside it, where it would not be kept apart; declare all settings in one list of properties.`;
}

/** What a part of a schema is about: the settings as a whole, one of them, or something inside one. */
type Place = "whole" | "setting" | "inside";

interface Walk {
  readonly root: JsonSchema;
  /** Settings that are marked as secrets. */
  readonly secrets: Set<string>;
  /** Parts that were looked at, for what they are about; so what refers to itself is entered once. */
  readonly entered: Readonly<Record<Place, WeakSet<object>>>;
}

interface Spot {
  readonly place: Place;
  /** Properties that lead here. */
  readonly path: readonly string[];
  /** Keyword that led here. */
  readonly by: string;
}

/** Keywords that hold values, and those that are looked at where something refers to them. */
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
/** Keywords that hold schemas by name. All others hold a schema, a list of them, or neither. */
const BY_NAME = new Set(["properties", "patternProperties", "dependentSchemas", "dependencies"]);

/**
 * What may not stand in a schema, as the end of a sentence about it. Every part is looked at, whatever its keyword: a
 * secret that is overlooked would be stored openly, and told.
 */
function flawIn(walk: Walk, schema: unknown, spot: Spot): string | null {
  const { place, path } = spot;
  if (!isRecord(schema) || walk.entered[place].has(schema)) return null;
  walk.entered[place].add(schema);
  if (schema["writeOnly"] === true && place !== "setting") return misplaced(spot);
  for (const [word, value] of Object.entries(schema)) {
    const flaw =
      word === "properties"
        ? flawInProperties(walk, value, spot)
        : flawUnder(walk, word, value, { place: word === "$ref" ? place : "inside", path, by: word });
    if (flaw !== null) return flaw;
  }
  return null;
}

function flawInProperties(walk: Walk, properties: unknown, { place, path }: Spot): string | null {
  for (const [name, property] of Object.entries(isRecord(properties) ? properties : {})) {
    const here = [...path, name];
    if (!isName(name))
      return `have a field ${JSON.stringify(here.join("."))}, which clients cannot write as a name; use letters, digits and underscores.`;
    const { schema } = resolved(property, walk.root, []);
    if (place === "whole" && schema["writeOnly"] === true) {
      if (schema["type"] !== "string") return `hold the secret ${name}, which is no string.`;
      walk.secrets.add(name);
    }
    const flaw = flawIn(walk, property, {
      place: place === "whole" ? "setting" : "inside",
      path: here,
      by: "properties",
    });
    if (flaw !== null) return flaw;
  }
  return null;
}

function flawUnder(walk: Walk, word: string, value: unknown, spot: Spot): string | null {
  if (NOT_ENTERED.has(word)) return null;
  if (REFERENCES.has(word)) {
    const target = word === "$ref" ? referred(value, walk.root) : undefined;
    return target === undefined
      ? `refer to ${JSON.stringify(value)}, which cannot be followed; refer by \`$ref\` to what is inside the schema, as #/$defs/name.`
      : flawIn(walk, target, spot);
  }
  const parts: readonly unknown[] = Array.isArray(value)
    ? value
    : BY_NAME.has(word) && isRecord(value)
      ? Object.values(value)
      : [value];
  for (const part of parts) {
    const flaw = flawIn(walk, part, spot);
    if (flaw !== null) return flaw;
  }
  return null;
}

function misplaced({ place, path, by }: Spot): string {
  if (place === "whole") return "are marked as one secret; mark single settings.";
  const name = path.join(".");
  if (by === "properties" && path.length > 1)
    return `hold the secret ${name} inside another setting, where it would not be kept apart; move it to the top.`;
  return `mark a secret ${by === "properties" ? `${name} in a variant` : `by \`${by}\`${name === "" ? "" : ` of ${name}`}`}, where it would not be kept apart; set \`writeOnly\` on a setting itself, at the top and of type string.`;
}

// ---- reading

function read(value: unknown, root: JsonSchema, above: readonly string[]): Shape {
  const { schema: declared, references } = resolved(value, root, above);
  if (references.length > above.length && above.includes(references.at(-1) ?? ""))
    return { kind: "json", nullable: true, schema: declared };
  const { schema, nullable } = withoutNull(declared, root);
  return { ...kindOf(schema, root, references), nullable, schema };
}

/** Keywords by which schemas are combined. An object with some has the fields that it names all the same. */
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

/** The only values there are, where the schema lists them. */
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
      };
    }),
  };
}

/** The schema with what it refers to in place of the reference, and the references that were followed on the way. */
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
  // A secret stays one, whatever stands beside the reference.
  return {
    schema: { ...schema, ...beside, ...(schema["writeOnly"] === true && { writeOnly: true }) },
    references: followed,
  };
}

const REFERENCES = new Set(["$ref", "$dynamicRef", "$recursiveRef"]);

/** What a reference leads to, inside the schema; undefined where there is nothing. */
function referred(reference: unknown, root: JsonSchema): unknown {
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

/** Takes the null out of a type that admits it beside one other. */
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

/** The JSON Schema as it is told: without what it proposes for secrets. */
export function toldSchemaOf(schema: Schema<unknown>): JsonSchema {
  const root = jsonSchemaOf(schema);
  const isSecret = (part: unknown) => resolved(part, root, []).schema["writeOnly"] === true;
  const told = (part: unknown): unknown => {
    if (Array.isArray(part)) return part.map(told);
    if (!isRecord(part)) return part;
    const isDiscreet =
      isSecret(part) || Object.values(objectAt(resolved(part, root, []).schema, "properties")).some(isSecret);
    return Object.fromEntries(
      Object.entries(part).flatMap(([word, value]) => (isDiscreet && PROPOSALS.has(word) ? [] : [[word, told(value)]])),
    );
  };
  return told(root) as JsonSchema;
}

const PROPOSALS = new Set(["default", "examples"]);
