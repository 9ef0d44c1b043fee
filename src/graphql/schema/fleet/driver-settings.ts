/**
 * Drivers' settings as GraphQL types. The schema declares a few types with a field per loaded driver. The types of
 * these fields follow from the settings that each plugin declares, and extend the schema when it is built. Constraints
 * that GraphQL cannot express are in the descriptions, and the driver checks them.
 */
import { isRecord } from "../../../runtime/json-values.ts";
import { sentence } from "../../../runtime/text.ts";
import { extendSchema, isEnumType, parse } from "graphql";
import type { GraphQLSchema } from "graphql";
import type { AnyDriver } from "../../../drivers/interfaces.ts";
import { isName, secretNames, shapeOf } from "../../../drivers/settings-shape.ts";
import type { Field, JsonSchema, Shape } from "../../../drivers/settings-shape.ts";
import type { JsonObject } from "../../../store/records.ts";
import { builder } from "../../base/builder.ts";

/** A driver and its settings: an object with one field, named like the driver. */
type Choice = Readonly<Record<string, unknown>>;

type ObjectShape = Extract<Shape, { kind: "object" }>;

const NAMED =
  "Exactly one field: the name of the driver. A driver without a field here is not loaded; add its plugin to OSTLER_PLUGINS.";

export const DriverSettingsInput = builder.inputRef<Choice>("DriverSettingsInput").implement({
  description: `Driver and a node's settings for it. ${NAMED} The driver may apply checks in addition to these types.`,
  isOneOf: true,
  fields: () => ({}),
});

export const DriverSettingsChangeInput = builder.inputRef<Choice>("DriverSettingsChangeInput").implement({
  description: `Driver and changes to a node's settings for it. ${NAMED} An omitted setting stays as it is, secret or not; null removes it, so that its default applies. A change of a setting that decides where secrets are sent is refused unless the secrets are sent with it.`,
  isOneOf: true,
  fields: () => ({}),
});

export const DiscoverySettingsInput = builder.inputRef<Choice>("DiscoverySettingsInput").implement({
  description: `Driver for a discovery and the settings of its probes. ${NAMED}`,
  isOneOf: true,
  fields: () => ({}),
});

export const DriverSettingsRef = builder.objectRef<Choice>("DriverSettings").implement({
  description:
    "A node's settings for a driver, without secrets. The field with the driver's name holds them; all other fields are null.",
  fields: () => ({}),
});

export const DiscoverySettingsRef = builder.objectRef<Choice>("DiscoverySettings").implement({
  description:
    "Settings of a discovery's probes, without secrets. The field with the driver's name holds them; all other fields are null.",
  fields: () => ({}),
});

/** The chosen driver and its settings. */
export function chosenDriver(choice: Choice): { readonly driver: string; readonly settings: unknown } {
  const [[driver, settings] = ["", undefined]] = Object.entries(choice);
  return { driver, settings };
}

/** The settings of a node that clients can see; null if the driver is not loaded. */
export function visibleSettings(driver: AnyDriver | undefined, settings: JsonObject | undefined): Choice | null {
  return driver ? { [driver.name]: fitting(shapeOf(driver.settings), settings ?? {}) } : null;
}

/** The settings of a discovery that clients can see; null if the driver is not loaded or no longer discovers. */
export function visibleDiscoverySettings(driver: AnyDriver | undefined, settings: JsonObject): Choice | null {
  return driver?.discover ? { [driver.name]: fitting(shapeOf(driver.discover.settings), settings) } : null;
}

/**
 * The part of a stored value that its present type can represent. An earlier version of the plugin may have stored
 * settings that this version declares as secret or does not know: those are left out.
 */
function fitting(shape: Shape, value: unknown): unknown {
  switch (shape.kind) {
    case "text":
      return typeof value === "string" && (!isEnum(shape) || shape.values?.includes(value) === true) ? value : null;
    case "whole":
      return Number.isInteger(value) && Math.abs(Number(value)) < 2 ** 31 ? value : null;
    case "number":
      return typeof value === "number" ? value : null;
    case "truth":
      return typeof value === "boolean" ? value : null;
    case "list": {
      const items = Array.isArray(value) ? value.map((one: unknown) => fitting(shape.of, one)) : [null];
      return items.includes(null) && !(Array.isArray(value) && shape.of.nullable) ? null : items;
    }
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value)
        ? fittingFields(shape, value as JsonObject)
        : null;
    case "json":
      return value;
  }
}

function fittingFields(shape: ObjectShape, value: JsonObject): Record<string, unknown> {
  const open = shape.fields.filter(({ secret }) => !secret);
  if (isTyped(shape)) return Object.fromEntries(open.map(({ name, shape: of }) => [name, fitting(of, value[name])]));
  const secrets = secretNames(shape);
  return Object.fromEntries(Object.entries(value).filter(([name]) => !secrets.includes(name)));
}

// ---- types

/** Extends the schema by the types of these drivers' settings. Throws if two types would have the same name. */
export function withDriverSettings(schema: GraphQLSchema, drivers: readonly AnyDriver[]): GraphQLSchema {
  const types = createTypes(schema);
  const named = (driver: AnyDriver, settings: AnyDriver["settings"], suffix: string): Named => ({
    driver,
    shape: shapeOf(settings),
    name: pascal(driver.name) + suffix,
    field: "",
  });
  const driving = drivers.map((driver) => named(driver, driver.settings, "Settings"));
  const discovering = drivers.flatMap((driver) =>
    driver.discover ? [named(driver, driver.discover.settings, "DiscoverySettings")] : [],
  );
  const fields = (of: readonly Named[], typeOf: (one: Named) => string) =>
    of.length === 0
      ? line("No loaded driver fits here; add a plugin to OSTLER_PLUGINS.", "none: JSON")
      : of.map((one) => line(sentence(one.driver.description), `${one.driver.name}: ${typeOf(one)}`)).join("");
  return extendSchema(
    schema,
    parse(
      [
        `extend input DriverSettingsInput {${fields(driving, (one) => types.input(one))}}`,
        `extend input DriverSettingsChangeInput {${fields(driving, (one) => types.change(one))}}`,
        `extend input DiscoverySettingsInput {${fields(discovering, (one) => types.input(one))}}`,
        `extend type DriverSettings {${fields(driving, (one) => types.output(one))}}`,
        `extend type DiscoverySettings {${fields(discovering, (one) => types.output(one))}}`,
        ...types.definitions(),
      ].join("\n"),
    ),
  );
}

/** A type to define: its structure, its driver and its name. */
interface Named {
  readonly driver: AnyDriver;
  readonly shape: Shape;
  /** Without the suffix `Input`. */
  readonly name: string;
  /** The setting that has the type; empty for the settings as a whole. */
  readonly field: string;
}

function createTypes(schema: GraphQLSchema) {
  const taken = new Set(Object.keys(schema.getTypeMap()));
  const made = new Map<string, { readonly driver: string; readonly text: string }>();

  function define({ name, driver }: Named, text: string): string {
    const other = made.get(name);
    if (taken.has(name) || (other && (other.driver !== driver.name || other.text !== text))) {
      throw new Error(
        `Driver "${driver.name}" needs a type ${name} for its settings, but ${other ? `driver "${other.driver}"` : "the schema"} already has a type of this name; rename the driver or the setting.`,
      );
    }
    made.set(name, { driver: driver.name, text });
    return name;
  }

  /** An enum gets the short name, so that node and discovery settings share it, unless they have different values. */
  function enumOf(of: Named, values: readonly string[], field: string): string {
    const { schema: declared } = of.shape;
    const about = sentence(textOf(declared, "description") ?? `Values of \`${field}\`.`);
    const meanings = isRecord(declared["enumDescriptions"]) ? declared["enumDescriptions"] : {};
    const meaning = (value: string) => sentence(textOf(meanings, value) ?? `${value}, of \`${field}\`: ${about}`);
    const text = (name: string) =>
      `${quoted(about)} enum ${name} {${values.map((value) => line(meaning(value), value)).join("")}}`;
    const short = pascal(of.driver.name) + pascal(field);
    const other = made.get(short);
    const isFree = !taken.has(short) && (!other || (other.driver === of.driver.name && other.text === text(short)));
    const name = isFree ? short : of.name;
    return define({ ...of, name }, text(name));
  }

  /** The type of an input or output value; also defines the types of objects and enums in it. */
  function typeOf(of: Named, use: "input" | "output"): string {
    const { shape, name, driver } = of;
    switch (shape.kind) {
      case "text":
        if (!isEnum(shape) || !shape.values) return "String";
        const shared = textOf(shape.schema, "sharedEnum");
        return shared === undefined ? enumOf(of, shape.values, of.field) : sharedEnum(schema, shared, of);
      case "whole":
        return "Int";
      case "number":
        return "Float";
      case "truth":
        return "Boolean";
      case "json":
        return "JSON";
      case "list":
        return `[${typeOf({ ...of, shape: shape.of }, use)}${shape.of.nullable ? "" : "!"}]`;
      case "object": {
        const fields = isTyped(shape) ? shape.fields.filter(({ secret }) => use === "input" || !secret) : [];
        if (fields.length === 0) return "JSON";
        const text = (field: Field) => {
          const type = typeOf(inside(of, field), use);
          return use === "output"
            ? line(described(field), `${field.name}: ${type}${deprecation(field)}`)
            : inputLine(field, type);
        };
        const about = sentence(textOf(shape.schema, "description") ?? `Settings for driver ${driver.name}.`);
        const [word, ending] = use === "input" ? ["input", "Input"] : ["type", ""];
        return define(
          { ...of, name: name + ending },
          `${quoted(about)} ${word} ${name}${ending} {${fields.map(text).join("")}}`,
        );
      }
    }
  }

  return {
    input: (of: Named) => typeOf(of, "input"),
    output: (of: Named) => typeOf(of, "output"),
    /** An input in which every field is optional. */
    change(of: Named): string {
      const { shape, driver } = of;
      if (!isTyped(shape)) return "JSON";
      const fields = shape.fields.map((field) =>
        inputLine({ ...field, required: false, fallback: undefined }, typeOf(inside(of, field), "input")),
      );
      const name = `${of.name}ChangeInput`;
      return define(
        { ...of, name },
        `${quoted(`Changes to the settings for driver ${driver.name}. An omitted setting stays as it is; null removes it.`)} input ${name} {${fields.join("")}}`,
      );
    },
    definitions: () => [...made.values()].map(({ text }) => text),
  };
}

/** The enum of the schema that a setting shares. The driver may accept only some of its values. */
function sharedEnum(schema: GraphQLSchema, name: string, { driver, field, shape }: Named): string {
  const type = schema.getType(name);
  const values = shape.kind === "text" ? (shape.values ?? []) : [];
  const unknown = isEnumType(type) ? values.filter((value) => !type.getValue(value)) : values;
  if (!isEnumType(type) || unknown.length > 0)
    throw new Error(
      `Driver "${driver.name}" declares that its setting \`${field}\` has values of the enum ${name}, but the schema has ${isEnumType(type) ? `no value ${unknown.join(", ")} in it` : "no such enum"}; correct the setting's \`sharedEnum\`, or leave it out.`,
    );
  return name;
}

function inside({ driver, name }: Named, { shape, name: field }: Field): Named {
  return { driver, shape, name: name + pascal(field), field };
}

/** Whether an object becomes a type: it declares all its fields, and at least one. Otherwise it is JSON. */
function isTyped(shape: Shape): shape is ObjectShape {
  return shape.kind === "object" && !shape.open && shape.fields.length > 0;
}

/**
 * Whether a text becomes an enum: its values are declared, and are valid names in GraphQL. Otherwise it is a String.
 */
function isEnum(shape: Shape): boolean {
  return (
    shape.kind === "text" &&
    shape.values !== undefined &&
    shape.values.length > 0 &&
    shape.values.every((value) => isName(value) && !["true", "false", "null"].includes(value))
  );
}

function inputLine(field: Field, type: string): string {
  if (field.required) return line(described(field), `${field.name}: ${type}${field.shape.nullable ? "" : "!"}`);
  const fallback =
    field.fallback === undefined || field.fallback === null ? null : literal(field.shape, field.fallback);
  return line(
    described(field),
    `${field.name}: ${type}${fallback === null ? "" : ` = ${fallback}`}${deprecation(field)}`,
  );
}

function deprecation({ shape }: Field): string {
  return shape.schema["deprecated"] === true ? ` @deprecated(reason: "Deprecated by the driver.")` : "";
}

/** A default as a GraphQL literal; null if it cannot be written, or if its type would reject it. */
function literal(shape: Shape, value: unknown): string | null {
  switch (shape.kind) {
    case "text":
      if (typeof value !== "string") return null;
      if (!isEnum(shape)) return JSON.stringify(value);
      return shape.values?.includes(value) ? value : null;
    case "whole":
      return Number.isInteger(value) ? String(value) : null;
    case "number":
      return typeof value === "number" ? String(value) : null;
    case "truth":
      return typeof value === "boolean" ? String(value) : null;
    case "list": {
      const items = Array.isArray(value) ? value.map((one: unknown) => literal(shape.of, one)) : [null];
      return items.includes(null) ? null : `[${items.join(", ")}]`;
    }
    case "object":
    case "json":
      if (!isTyped(shape)) return plainLiteral(value);
      if (shape.fields.some(({ name, required }) => required && !Object.hasOwn(Object(value), name))) return null;
      return objectLiteral(value, (name) => shape.fields.find((field) => field.name === name)?.shape);
  }
}

function objectLiteral(value: unknown, shapeOfField: (name: string) => Shape | undefined): string | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const fields = Object.entries(value).map(([name, field]) => {
    const shape = shapeOfField(name);
    const text = shape ? literal(shape, field) : null;
    return text === null || !isName(name) ? null : `${name}: ${text}`;
  });
  return fields.includes(null) ? null : `{${fields.join(", ")}}`;
}

const ANYTHING: Shape = { kind: "json", nullable: true, schema: {} };

function plainLiteral(value: unknown): string | null {
  if (Array.isArray(value)) return literal({ kind: "list", of: ANYTHING, nullable: false, schema: {} }, value);
  return typeof value === "object" && value !== null ? objectLiteral(value, () => ANYTHING) : JSON.stringify(value);
}

// ---- descriptions

/** The description of a setting, with the constraints that its type cannot express. */
function described({ name, shape, secret, bindsSecret, fallback }: Field): string {
  const fallbackText =
    fallback === undefined || fallback === null || literal(shape, fallback) !== null
      ? []
      : [`Default: \`${JSON.stringify(fallback)}\`.`];
  return [
    sentence(textOf(shape.schema, "description") ?? `The setting \`${name}\`.`),
    ...(secret ? ["Secret: can be written, but not read."] : []),
    ...(bindsSecret ? ["To change it, send the secrets again."] : []),
    ...bounds(shape),
    ...fallbackText,
  ].join(" ");
}

function bounds(shape: Shape): string[] {
  const { schema, kind } = shape;
  const [pattern, format] = [textOf(schema, "pattern"), textOf(schema, "format")];
  switch (kind) {
    case "text":
      return [
        ...(shape.values && !isEnum(shape)
          ? [`One of ${shape.values.map((value) => JSON.stringify(value)).join(", ")}.`]
          : []),
        ...range(schema, "minLength", "maxLength", " characters"),
        ...(pattern === undefined ? [] : [`Matches \`${pattern}\`.`]),
        ...(format === undefined ? [] : [`Format: ${format}.`]),
      ];
    case "whole":
    case "number": {
      const values = schema["enum"] ?? ("const" in schema ? [schema["const"]] : undefined);
      const isLongWhole = kind === "number" && schema["type"] === "integer";
      return [
        ...(Array.isArray(values) ? [`One of ${values.join(", ")}.`] : []),
        ...(isLongWhole ? ["A whole number."] : []),
        ...range(schema, "minimum", "maximum", ""),
      ];
    }
    case "list":
      return [
        ...range(schema, "minItems", "maxItems", " items"),
        ...bounds(shape.of).map((text) => `Each: ${text.replace(/^[A-Z](?=[a-z ])/, (first) => first.toLowerCase())}`),
      ];
    case "truth":
      return [];
    case "object":
    case "json":
      return isTyped(shape) ? [] : ["JSON; the driver's JSON Schema defines its structure."];
  }
}

/** The bounds of two keywords of a JSON Schema, except bounds that every number has. */
function range(schema: JsonSchema, least: string, most: string, unit: string): string[] {
  const bound = (key: string) =>
    typeof schema[key] === "number" && Math.abs(schema[key]) < Number.MAX_SAFE_INTEGER ? schema[key] : undefined;
  const [from, to] = [bound(least), bound(most)];
  if (from !== undefined && to !== undefined)
    return [from === to ? `Exactly ${from}${unit}.` : `${from} to ${to}${unit}.`];
  if (from !== undefined) return from === 0 && unit !== "" ? [] : [`At least ${from}${unit}.`];
  return to === undefined ? [] : [`At most ${to}${unit}.`];
}

function textOf(schema: JsonSchema, key: string): string | undefined {
  const value = schema[key];
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}

function line(description: string, text: string): string {
  return ` ${quoted(description)} ${text}\n`;
}

function quoted(text: string): string {
  return JSON.stringify(text.replaceAll(/\s+/g, " "));
}

/** `boot_mode`, `bootMode` → `BootMode`. */
function pascal(name: string): string {
  return name
    .split("_")
    .map((word) => word.slice(0, 1).toUpperCase() + word.slice(1))
    .join("");
}
