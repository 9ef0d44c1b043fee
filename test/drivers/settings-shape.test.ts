/** The shape of settings, read from JSON Schema: each kind, and the meaning of null in a value. */
import { describe, expect, test } from "vitest";
import * as z from "zod";
import type { Schema } from "../../src/drivers/driver.ts";
import {
  bindingNames,
  secretNames,
  shapeProblem,
  shapeOf,
  publicSchemaOf,
  withoutNulls,
} from "../../src/drivers/settings-shape.ts";
import type { Shape } from "../../src/drivers/settings-shape.ts";

/** Settings of which only the JSON Schema matters. */
function declaring(json: Record<string, unknown>): Schema<unknown> {
  return {
    "~standard": {
      version: 1,
      vendor: "test",
      validate: (value) => ({ value }),
      jsonSchema: { input: () => json, output: () => json },
    },
  };
}

/** The shape of one field of this JSON Schema. */
function fieldOf(json: Record<string, unknown>, $defs: Record<string, unknown> = {}): Shape {
  const shape = shapeOf(declaring({ type: "object", properties: { it: json }, $defs }));
  if (shape.kind !== "object" || !shape.fields[0]) throw new Error("An object with one field was declared.");
  return shape.fields[0].shape;
}

/** A shape in words, such as `list of text?`. */
function worded(shape: Shape): string {
  const inside =
    shape.kind === "list"
      ? ` of ${worded(shape.of)}`
      : shape.kind === "object"
        ? ` {${shape.fields.map(({ name, shape: of, required }) => `${name}${required ? "!" : ""}: ${worded(of)}`).join(", ")}${shape.open ? ", …" : ""}}`
        : shape.kind === "text" && shape.values
          ? ` of ${shape.values.join("|")}`
          : "";
  return `${shape.kind}${inside}${shape.nullable ? "?" : ""}`;
}

describe("shape of a field", () => {
  test.each<[Record<string, unknown>, string]>([
    [{ type: "string" }, "text"],
    [{ type: "string", enum: ["a", "b"] }, "text of a|b"],
    [{ enum: ["a", "b"] }, "text of a|b"],
    [{ enum: ["a", null] }, "text of a?"],
    [{ enum: ["a", 1] }, "json"],
    [{ const: "a" }, "text of a"],
    [{ type: "integer", minimum: 0, maximum: 65535 }, "whole"],
    [{ type: "integer", minimum: 0, maximum: 2 ** 31 }, "number"],
    [{ type: "integer" }, "number"],
    [{ type: "number" }, "number"],
    [{ type: "number", enum: [3, 17] }, "whole"],
    [{ type: "number", enum: [0.5, 1] }, "number"],
    [{ const: 4 }, "whole"],
    [{ type: "boolean" }, "truth"],
    [{ type: ["string", "null"] }, "text?"],
    [{ type: ["string", "integer"] }, "json"],
    [{ anyOf: [{ type: "string", minLength: 1 }, { type: "null" }] }, "text?"],
    [{ anyOf: [{ type: "string" }, { type: "number" }, { type: "null" }] }, "json?"],
    [{ anyOf: [{ type: "string" }, { type: "number" }] }, "json"],
    [{ allOf: [{ type: "string" }] }, "json?"],
    [{ type: "array", items: { type: "string" } }, "list of text"],
    [{ type: "array", items: { type: ["string", "null"] } }, "list of text?"],
    [{ type: "array" }, "json"],
    [{ type: "array", prefixItems: [{ type: "string" }], items: false }, "json"],
    [
      {
        type: "object",
        properties: { a: { type: "string" }, b: { type: "boolean", default: true } },
        required: ["a", "b"],
        additionalProperties: false,
      },
      "object {a!: text, b: truth}",
    ],
    [{ type: "object", additionalProperties: { type: "string" } }, "object {, …}"],
    [{ type: "object", properties: { a: { type: "string" } }, patternProperties: { "^x": {} } }, "object {a: text, …}"],
    [
      { type: "object", properties: { a: { type: "string" } }, unevaluatedProperties: { type: "string" } },
      "object {a: text, …}",
    ],
    [{ type: "object", properties: { a: { type: "string" } }, unevaluatedProperties: false }, "object {a: text}"],
    [{ type: "object", properties: { a: { type: "string" } }, oneOf: [{ required: ["a"] }] }, "object {a: text, …}"],
    [{}, "json?"],
    [{ type: "null" }, "json?"],
  ])("shape of a field %j is %s", (json, expected) => expect(worded(fieldOf(json))).toBe(expected));

  test("shape of a field with a reference is that of its target, with the keywords beside the reference", () => {
    const shape = fieldOf(
      { $ref: "#/$defs/port~1number", description: "Its port." },
      { "port/number": { type: "integer", minimum: 1, maximum: 9, description: "A port." } },
    );
    expect([worded(shape), shape.schema["description"]]).toEqual(["whole", "Its port."]);
  });

  test("shape of a field that refers to itself is JSON below itself", () => {
    const tree = {
      type: "object",
      properties: { name: { type: "string" }, below: { type: "array", items: { $ref: "#/$defs/tree" } } },
    };
    expect(worded(fieldOf({ $ref: "#/$defs/tree" }, { tree }))).toBe("object {name: text, below: list of json?}");
  });

  test("shape of a field that refers to nothing is JSON", () =>
    expect(worded(fieldOf({ $ref: "#/$defs/gone" }))).toBe("json?"));
});

test("shape of settings from a standard-schema library is the one that the library reports", () => {
  const shape = shapeOf(
    z.strictObject({
      address: z.string(),
      port: z.int().min(1).max(65535).default(623),
      mode: z.enum(["UEFI", "LEGACY"]).optional(),
      rack: z.string().nullable(),
      password: z.string().meta({ writeOnly: true }),
      proxy: z.strictObject({ url: z.url(), verify: z.boolean().default(true) }).optional(),
      tags: z.record(z.string(), z.string()).default({}),
    }),
  );
  expect(worded(shape)).toBe(
    "object {address!: text, port: whole, mode: text of UEFI|LEGACY, rack!: text?, password!: text, proxy: object {url!: text, verify: truth}, tags: object {, …}}",
  );
  expect(secretNames(shape)).toEqual(["password"]);
});

describe("settings that bind a secret", () => {
  test("settings that bind a secret are those at the top that are marked, also behind a reference", () => {
    const place = z.string().meta({ id: "place", bindsSecret: true });
    const shape = shapeOf(
      z.strictObject({ address: place, port: z.int().default(623).meta({ bindsSecret: true }), rack: z.string() }),
    );
    expect(bindingNames(shape)).toEqual(["address", "port"]);
  });

  test("settings that bind a secret are refused with the mark inside another setting, where it was overlooked", () => {
    const inside = z.strictObject({ bmc: z.strictObject({ address: z.string().meta({ bindsSecret: true }) }) });
    expect(shapeProblem(inside, "they")).toContain("they mark a part of a setting with `bindsSecret`");
  });
});

describe("secret settings", () => {
  const SECRET = { type: "string", writeOnly: true };
  const [user, either] = [{ type: "string" }, [{ required: ["password"] }, { required: ["user"] }]];
  const flawOf = (json: Record<string, unknown>) => shapeProblem(declaring({ type: "object", ...json }), "they");

  test.each<[string, Record<string, unknown>]>([
    ["no condition", {}],
    ...["oneOf", "anyOf", "allOf"].map((word): [string, Record<string, unknown>] => [word, { [word]: either }]),
    ["not", { not: { required: ["password", "user"] } }],
    ["if", { if: { required: ["user"] }, else: { required: ["password"] } }],
    ["dependentSchemas", { dependentSchemas: { user: { required: ["password"] } } }],
    ["dependentRequired", { dependentRequired: { user: ["password"] } }],
    [
      "values that look like schemas",
      {
        default: { writeOnly: true },
        examples: [{ writeOnly: true }],
        properties: { user, writeOnly: true, password: SECRET },
      },
    ],
    ["a definition that is not used", { $defs: { login: { type: "object", properties: { pin: SECRET } } } }],
    [
      "a reference",
      {
        properties: { user, password: { $ref: "#/$defs/one" } },
        $defs: { one: { $ref: "#/$defs/other" }, other: SECRET },
      },
    ],
    [
      "a reference with another mark",
      { properties: { user, password: { $ref: "#/$defs/one", writeOnly: false } }, $defs: { one: SECRET } },
    ],
    [
      "a reference of the whole",
      {
        properties: undefined,
        $ref: "#/$defs/all",
        $defs: { all: { type: "object", properties: { user, password: SECRET } } },
      },
    ],
    ["combined text", { properties: { user, password: { ...SECRET, anyOf: [{ minLength: 8 }, { pattern: "^x" }] } } }],
  ])("secret settings are known at the top level, beside conditions between fields: %s", (_what, more) => {
    const json = Object.fromEntries(
      Object.entries({ properties: { user, password: SECRET }, ...more }).filter(([, value]) => value !== undefined),
    );
    expect(flawOf(json)).toBeNull();
    expect(secretNames(shapeOf(declaring({ type: "object", ...json })))).toEqual(["password"]);
  });

  const apart = "where it would not be stored as a secret";
  test.each<[string, Record<string, unknown>, string]>([
    [
      "in a variant of a setting",
      { properties: { password: { anyOf: [SECRET, { type: "number" }] } } },
      `they mark a secret by \`anyOf\` of password, ${apart}. Set \`writeOnly\` on a setting itself, at the top and of type string.`,
    ],
    [
      "in all of a setting",
      { properties: { password: { allOf: [SECRET] } } },
      `they mark a secret by \`allOf\` of password, ${apart}`,
    ],
    [
      "beside null",
      { properties: { password: { anyOf: [SECRET, { type: "null" }] } } },
      `they mark a secret by \`anyOf\` of password, ${apart}`,
    ],
    [
      "that may be null",
      { properties: { password: { type: ["string", "null"], writeOnly: true } } },
      "they hold the secret password, which is not a string.",
    ],
    [
      "in a list",
      { properties: { keys: { type: "array", items: SECRET } } },
      `they mark a secret by \`items\` of keys, ${apart}`,
    ],
    [
      "in a tuple",
      { properties: { keys: { type: "array", prefixItems: [{}, SECRET] } } },
      `they mark a secret by \`prefixItems\` of keys, ${apart}`,
    ],
    [
      "in a record",
      { properties: { tokens: { type: "object", additionalProperties: SECRET } } },
      `they mark a secret by \`additionalProperties\` of tokens, ${apart}`,
    ],
    [
      "among the fields that are not named",
      { additionalProperties: SECRET },
      `they mark a secret by \`additionalProperties\`, ${apart}`,
    ],
    [
      "among those that are left",
      { unevaluatedProperties: SECRET },
      `they mark a secret by \`unevaluatedProperties\`, ${apart}`,
    ],
    [
      "by a pattern",
      { patternProperties: { "^pass": SECRET } },
      `they mark a secret by \`patternProperties\`, ${apart}`,
    ],
    [
      "in a variant of the whole",
      { oneOf: [{ properties: { password: SECRET } }] },
      `they mark a secret password in a variant, ${apart}`,
    ],
    [
      "under a condition",
      { if: {}, else: { properties: { password: SECRET } } },
      `they mark a secret password in a variant, ${apart}`,
    ],
    [
      "inside another setting",
      { properties: { login: { type: "object", properties: { pin: SECRET } } } },
      `they hold the secret login.pin inside another setting, ${apart}. Move it to the top.`,
    ],
    [
      "behind a reference",
      { properties: { keys: { type: "array", items: { $ref: "#/$defs/key" } } }, $defs: { key: SECRET } },
      `they mark a secret by \`$ref\` of keys, ${apart}`,
    ],
    [
      "of a recursive schema",
      { properties: { password: SECRET, below: { $ref: "#" } } },
      `they hold the secret below.password inside another setting, ${apart}`,
    ],
    [
      "by an unknown keyword",
      { properties: { a: { "x-either": [{ "x-one": SECRET }] } } },
      `they mark a secret by \`x-one\` of a, ${apart}`,
    ],
    ["that are the whole settings", { writeOnly: true }, "they are marked as one secret. Mark single settings."],
    [
      "behind a reference with properties beside it",
      { properties: { user }, $ref: "#/$defs/all", $defs: { all: { properties: { password: SECRET } } } },
      `they hold the secret password behind a reference with sibling properties, ${apart}. Declare all settings in one list of properties.`,
    ],
    [
      "that may be behind an external reference",
      { properties: { a: { $ref: "other.json#/key" } } },
      'they refer to "other.json#/key", which cannot be resolved',
    ],
    [
      "that may be behind an anchor",
      { properties: { a: { $dynamicRef: "#key" } } },
      'they refer to "#key", which cannot be resolved',
    ],
  ])("secret settings are refused %s", (_what, json, says) => expect(flawOf(json)).toContain(says));

  test.each<[string, z.ZodType]>([
    ["a record", z.strictObject({ tokens: z.record(z.string(), z.string().meta({ writeOnly: true })) })],
    ["a nullable text", z.strictObject({ password: z.string().meta({ writeOnly: true }).nullable() })],
    ["any other field", z.object({}).catchall(z.string().meta({ writeOnly: true }))],
  ])("secret settings are refused as %s of a library", (_what, settings) =>
    expect(shapeProblem(settings, "they")).toContain(apart),
  );

  test("secret settings have no default, and the published schema proposes none", () => {
    const schema = declaring({
      type: "object",
      default: { password: "calvin" },
      examples: [{ password: "calvin" }],
      properties: {
        port: { type: "integer", default: 623 },
        password: { ...SECRET, default: "calvin", examples: ["calvin"] },
        token: { $ref: "#/$defs/token", default: "calvin" },
      },
      required: ["password"],
      $defs: { token: { ...SECRET, default: "calvin", minLength: 4 } },
    });
    const shape = shapeOf(schema);
    expect(
      shape.kind === "object" && shape.fields.map(({ name, fallback, required }) => [name, fallback, required]),
    ).toEqual([
      ["port", 623, false],
      ["password", undefined, false],
      ["token", undefined, false],
    ]);
    expect(publicSchemaOf(schema)).toEqual({
      type: "object",
      properties: { port: { type: "integer", default: 623 }, password: SECRET, token: { $ref: "#/$defs/token" } },
      required: ["password"],
      $defs: { token: { ...SECRET, minLength: 4 } },
    });
  });
});

describe("null in settings", () => {
  const shape = shapeOf(
    declaring({
      type: "object",
      properties: {
        name: { type: "string" },
        rack: { type: ["string", "null"] },
        any: {},
        proxy: { type: "object", properties: { url: { type: "string" } } },
        users: { type: "array", items: { type: "object", properties: { login: { type: "string" } } } },
        tags: { type: "object", additionalProperties: { type: "string" } },
      },
    }),
  );

  test.each<[unknown, unknown]>([
    [{ name: null, rack: "7" }, { rack: "7" }],
    [
      { rack: null, any: null },
      { rack: null, any: null },
    ],
    [{ proxy: null, users: null }, {}],
    [
      { proxy: { url: null }, users: [{ login: null }, { login: "a" }] },
      { proxy: {}, users: [{}, { login: "a" }] },
    ],
    [
      { tags: { a: null }, misspelt: null },
      { tags: { a: null }, misspelt: null },
    ],
    [null, null],
    [[null], [null]],
    ["text", "text"],
  ])("null in settings %j leaves %j", (value, left) => expect(withoutNulls(shape, value)).toEqual(left));
});
