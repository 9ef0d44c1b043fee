/** The shape of settings, read from JSON Schema: kind by kind, and what nulls in a value mean by it. */
import { describe, expect, test } from "vitest";
import * as z from "zod";
import type { Schema } from "../../src/drivers/driver.ts";
import { secretNames, shapeOf, withoutNulls } from "../../src/drivers/settings-shape.ts";
import type { Shape } from "../../src/drivers/settings-shape.ts";

/** Settings of which only the JSON Schema matters. */
function declaring(json: Record<string, unknown>): Schema<unknown> {
  return { "~standard": { version: 1, vendor: "test", validate: (value) => ({ value }), jsonSchema: { input: () => json, output: () => json } } };
}

/** The shape of one field of this JSON Schema. */
function fieldOf(json: Record<string, unknown>, $defs: Record<string, unknown> = {}): Shape {
  const shape = shapeOf(declaring({ type: "object", properties: { it: json }, $defs }));
  if (shape.kind !== "object" || !shape.fields[0]) throw new Error("An object with one field was declared.");
  return shape.fields[0].shape;
}

/** A shape as a word, as in `list of text?`. */
function worded(shape: Shape): string {
  const inside = shape.kind === "list" ? ` of ${worded(shape.of)}` : shape.kind === "object" ? ` {${shape.fields.map(({ name, shape: of, required }) => `${name}${required ? "!" : ""}: ${worded(of)}`).join(", ")}${shape.open ? ", …" : ""}}` : shape.kind === "text" && shape.values ? ` of ${shape.values.join("|")}` : "";
  return `${shape.kind}${inside}${shape.nullable ? "?" : ""}`;
}

describe("the shape of a field", () => {
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
    [{ type: "object", properties: { a: { type: "string" }, b: { type: "boolean", default: true } }, required: ["a", "b"], additionalProperties: false }, "object {a!: text, b: truth}"],
    [{ type: "object", additionalProperties: { type: "string" } }, "object {, …}"],
    [{ type: "object", properties: { a: { type: "string" } }, patternProperties: { "^x": {} } }, "object {a: text, …}"],
    [{}, "json?"],
    [{ type: "null" }, "json?"],
  ])("%j is %s", (json, expected) => expect(worded(fieldOf(json))).toBe(expected));

  test("is that of what it refers to, with what stands beside the reference", () => {
    const shape = fieldOf({ $ref: "#/$defs/port~1number", description: "Its port." }, { "port/number": { type: "integer", minimum: 1, maximum: 9, description: "A port." } });
    expect([worded(shape), shape.schema["description"]]).toEqual(["whole", "Its port."]);
  });

  test("that refers to itself is JSON below itself", () => {
    const tree = { type: "object", properties: { name: { type: "string" }, below: { type: "array", items: { $ref: "#/$defs/tree" } } } };
    expect(worded(fieldOf({ $ref: "#/$defs/tree" }, { tree }))).toBe("object {name: text, below: list of json?}");
  });

  test("that refers to nothing is JSON", () => expect(worded(fieldOf({ $ref: "#/$defs/gone" }))).toBe("json?"));
});

test("settings of a library that speaks the standard have the shape that it tells", () => {
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
  expect(worded(shape)).toBe("object {address!: text, port: whole, mode: text of UEFI|LEGACY, rack!: text?, password!: text, proxy: object {url!: text, verify: truth}, tags: object {, …}}");
  expect(secretNames(shape)).toEqual(["password"]);
});

describe("nulls", () => {
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
    [{ rack: null, any: null }, { rack: null, any: null }],
    [{ proxy: null, users: null }, {}],
    [{ proxy: { url: null }, users: [{ login: null }, { login: "a" }] }, { proxy: {}, users: [{}, { login: "a" }] }],
    [{ tags: { a: null }, misspelt: null }, { tags: { a: null }, misspelt: null }],
    [null, null],
    [[null], [null]],
    ["text", "text"],
  ])("of %j: %j is left", (value, left) => expect(withoutNulls(shape, value)).toEqual(left));
});
