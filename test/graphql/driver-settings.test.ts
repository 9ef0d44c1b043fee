/**
 * Driver settings as GraphQL types: their shape, equal validation by GraphQL and the driver, and secrets as input only.
 */
import {
  buildClientSchema,
  coerceInputValue,
  getIntrospectionQuery,
  isInputObjectType,
  isObjectType,
  lexicographicSortSchema,
  parse,
  printSchema,
  printType,
  validate,
  validateSchema,
} from "graphql";
import type { GraphQLSchema, IntrospectionQuery } from "graphql";
import { afterAll, describe, expect, test } from "vitest";
import * as z from "zod";
import type { Driver } from "../../src/drivers/driver.ts";
import { describeDrivers } from "../../src/drivers/load.ts";
import { createRegistry } from "../../src/drivers/registry.ts";
import type { AnyDriver } from "../../src/drivers/interfaces.ts";
import { shapeOf } from "../../src/drivers/settings-shape.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { AUDIT, serviceUnderTest } from "../support/service.ts";

const described = (description: string) => ({ description });

/** A driver with settings of every type. */
const rich = {
  ...aDriver("rich_blade", { clean: stepsOf(aStep("rinse", "clean", async () => ({ kind: "done" }))) }),
  description: "Blades with everything",
  settings: z
    .strictObject({
      address: z.url().max(200).meta(described("Where it is")),
      port: z.int().min(1).max(65535).default(443).meta(described("Port.")),
      quota: z.int().min(0).optional().meta(described("Bytes.")),
      ratio: z.number().min(0).max(1).default(0.5).meta(described("Ratio.")),
      mode: z
        .enum(["FAST", "SAFE"])
        .default("SAFE")
        .meta({ ...described("How it works."), enumDescriptions: { FAST: "Without checks" } }),
      dialect: z.enum(["1.0", "2.0"]).default("2.0").meta(described("Version that it speaks.")),
      slots: z.array(z.int().min(0).max(15)).max(4).default([0]).meta(described("Slots.")),
      proxy: z
        .strictObject({
          host: z.string().meta(described("Host.")),
          verify: z.boolean().default(true).meta(described("Whether its certificate is looked at.")),
        })
        .default({ host: "none", verify: false })
        .meta(described("What it is reached through.")),
      rack: z.string().nullable().default(null).meta(described("Rack.")),
      tags: z.record(z.string(), z.string()).default({ "not-a-name": "x" }).meta(described("Tags.")),
      password: z
        .string()
        .min(4)
        .meta({ ...described("Password."), writeOnly: true }),
      old: z
        .string()
        .optional()
        .meta({ ...described("Name before."), deprecated: true }),
    })
    .meta(described("Settings of a blade.")),
} as unknown as Driver<never>;
/** Drivers without settings, with settings of any name, and with a secret only. */
const plain = { ...aDriver("plain"), settings: z.strictObject({}) } as unknown as Driver<never>;
const loose = aDriver("loose", { secret: true });
const sealed = {
  ...aDriver("sealed"),
  settings: z.strictObject({
    token: z
      .string()
      .optional()
      .meta({ ...described("Token."), writeOnly: true }),
  }),
} as unknown as Driver<never>;
/** Requires one of two secrets, which its schema declares with `oneOf`. */
const either = {
  ...aDriver("either"),
  settings: z
    .strictObject({
      user: z.string().default("root").meta(described("User.")),
      password: z
        .string()
        .optional()
        .meta({ ...described("Password."), writeOnly: true }),
      token: z
        .string()
        .optional()
        .meta({ ...described("Token."), writeOnly: true }),
    })
    .meta({ oneOf: [{ required: ["password"] }, { required: ["token"] }] }),
} as unknown as Driver<never>;

const drivers = (...list: readonly Driver<never>[]) => list as unknown as readonly AnyDriver[];
const textOf = (schema: GraphQLSchema, ...names: readonly string[]) =>
  names.map((name) => printType(schema.getType(name) as never)).join("\n\n");

describe("types of driver settings", () => {
  const schema = buildSchema(drivers(rich, plain, sealed));

  test("types of driver settings express what GraphQL can, and describe the other rules", () => {
    expect(validateSchema(schema)).toEqual([]);
    expect(textOf(schema, "RichBladeSettingsInput", "RichBladeSettingsProxyInput", "RichBladeMode"))
      .toMatchInlineSnapshot(`
        """"Settings of a blade."""
        input RichBladeSettingsInput {
          """Where it is. At most 200 characters. Format: uri."""
          address: String!

          """Port. 1 to 65535."""
          port: Int = 443

          """Bytes. A whole number. At least 0."""
          quota: Float

          """Ratio. 0 to 1."""
          ratio: Float = 0.5

          """How it works."""
          mode: RichBladeMode = SAFE

          """Version that it speaks. One of "1.0", "2.0"."""
          dialect: String = "2.0"

          """Slots. At most 4 items. Each: 0 to 15."""
          slots: [Int!] = [0]

          """What it is reached through."""
          proxy: RichBladeSettingsProxyInput = { host: "none", verify: false }

          """Rack."""
          rack: String

          """
          Tags. JSON; the driver's JSON Schema defines its structure. Default: \`{"not-a-name":"x"}\`.
          """
          tags: JSON

          """Password. Secret: can be written, but not read. At least 4 characters."""
          password: String!

          """Name before."""
          old: String @deprecated(reason: "Deprecated by the driver.")
        }

        """What it is reached through."""
        input RichBladeSettingsProxyInput {
          """Host."""
          host: String!

          """Whether its certificate is looked at."""
          verify: Boolean = true
        }

        """How it works."""
        enum RichBladeMode {
          """Without checks."""
          FAST

          """SAFE, of \`mode\`: How it works."""
          SAFE
        }"
      `);
  });

  test("the change input of driver settings has the same fields, all optional and without defaults", () => {
    const [input, change] = ["RichBladeSettingsInput", "RichBladeSettingsChangeInput"].map((name) =>
      schema.getType(name),
    );
    if (!isInputObjectType(input) || !isInputObjectType(change)) throw new Error("Both are inputs.");
    expect(Object.values(change.getFields()).map(({ name, type }) => `${name}: ${String(type)}`)).toEqual(
      Object.values(input.getFields()).map(({ name, type }) => `${name}: ${String(type).replace(/!$/, "")}`),
    );
    expect(
      Object.values(change.getFields()).filter(
        (field) => field.default !== undefined || field.defaultValue !== undefined,
      ),
    ).toEqual([]);
  });

  test("the output type of driver settings has no secrets, and all fields are nullable", () => {
    const type = schema.getType("RichBladeSettings");
    if (!isObjectType(type)) throw new Error("It is an object.");
    expect(Object.values(type.getFields()).map((field) => `${field.name}: ${String(field.type)}`)).toEqual([
      "address: String",
      "port: Int",
      "quota: Float",
      "ratio: Float",
      "mode: RichBladeMode",
      "dialect: String",
      "slots: [Int!]",
      "proxy: RichBladeSettingsProxy",
      "rack: String",
      "tags: JSON",
      "old: String",
    ]);
  });

  test("the default of a secret is neither a GraphQL default nor in a description", () => {
    const settings = z.strictObject({
      password: z
        .string()
        .default("calvin")
        .meta({ ...described("Password."), writeOnly: true }),
    });
    const eager = buildSchema(drivers({ ...plain, name: "eager", settings, discover: { settings } } as never));
    expect(printSchema(eager)).not.toContain("calvin");
    for (const name of ["EagerSettingsInput", "EagerSettingsChangeInput", "EagerDiscoverySettingsInput"])
      expect(textOf(eager, name)).toContain(
        `"""Password. Secret: can be written, but not read."""\n  password: String\n`,
      );
  });

  test("driver settings with dependent fields are JSON", () => {
    const combined = buildSchema(drivers(either));
    for (const name of ["DriverSettingsInput", "DriverSettingsChangeInput", "DriverSettings"])
      expect(textOf(combined, name)).toContain("either: JSON\n");
  });

  test("driver settings without fields, or with secrets only, are JSON", () => {
    expect(textOf(schema, "DriverSettingsInput")).toMatch(/plain: JSON\n[\s\S]*sealed: SealedSettingsInput\n/);
    expect(textOf(schema, "DriverSettings")).toMatch(/plain: JSON\n[\s\S]*sealed: JSON\n/);
  });

  test("schemas of two sets of drivers coexist in one process", () => {
    const [one, other] = [buildSchema(drivers(rich)), buildSchema(drivers(plain))];
    expect([one.getType("RichBladeSettings"), other.getType("RichBladeSettings")]).toEqual([
      expect.anything(),
      undefined,
    ]);
    expect(printSchema(lexicographicSortSchema(buildSchema(drivers(rich))))).toBe(
      printSchema(lexicographicSortSchema(one)),
    );
    expect(
      validate(
        other,
        parse('mutation { registerNodes(input: { nodes: [{ name: "a", driver: { plain: {} } }] }) { count } }'),
      ),
    ).toEqual([]);
  });

  test("a schema without drivers is valid and says how to add a plugin", () => {
    const none = buildSchema([]);
    expect(validateSchema(none)).toEqual([]);
    expect(textOf(none, "DriverSettingsInput", "DiscoverySettings")).toContain(
      "No loaded driver fits here; add a plugin to OSTLER_PLUGINS.",
    );
  });

  test("drivers with equal setting names of different types do not conflict", () => {
    const [port, ports] = [
      z.strictObject({ port: z.string().meta(described("Port.")) }),
      z.strictObject({ port: z.int().meta(described("Port.")), mode: z.enum(["A"]).meta(described("Mode.")) }),
    ];
    const both = buildSchema(
      drivers({ ...plain, name: "one", settings: port } as never, { ...plain, name: "two", settings: ports } as never),
    );
    expect(
      validate(both, parse("{ nodes { edges { node { drivers { settings { one { port } two { port mode } } } } } } }")),
    ).toEqual([]);
  });

  test("settings of several drivers share an enum of the schema, of which a driver may accept a part", () => {
    const mode = (...values: [string, ...string[]]) => ({
      settings: z.strictObject({ mode: z.enum(values).meta({ ...described("Mode."), sharedEnum: "BootMode" }) }),
    });
    const list = [
      { ...plain, name: "one", ...mode("UEFI", "BIOS") },
      { ...plain, name: "two", ...mode("UEFI") },
    ];
    expect(textOf(buildSchema(list as never), "OneSettingsInput", "TwoSettings").match(/mode: .*/g)).toEqual([
      "mode: BootMode!",
      "mode: BootMode",
    ]);
    expect(() => buildSchema([{ ...plain, ...mode("LEGACY") }] as never)).toThrow(
      'Driver "plain" declares that its setting `mode` has values of the enum BootMode, but the schema has no value LEGACY in it',
    );
  });

  test.each([
    {
      what: "a type of the schema",
      list: [{ ...rich, name: "driver" }],
      says: 'Driver "driver" needs a type DriverSettingsInput for its settings, but the schema already has a type of this name; rename the driver or the setting.',
    },
    {
      what: "a type of another driver",
      list: [
        { ...plain, name: "x", discover: { settings: (sealed as unknown as AnyDriver).settings } },
        { ...sealed, name: "x_discovery" },
      ],
      says: 'Driver "x" needs a type XDiscoverySettingsInput for its settings, but driver "x_discovery" already has a type of this name; rename the driver or the setting.',
    },
  ])("a settings type with the name of $what is refused", ({ list, says }) => {
    expect(() => buildSchema(list as never)).toThrow(says);
  });

  test("the bundled BMC drivers have typed settings", async () => {
    const bundled = buildSchema(await describeDrivers());
    expect(textOf(bundled, "IpmiSettingsInput").replaceAll(/^ *"""[\s\S]*?"""\n/gm, "")).toBe(`input IpmiSettingsInput {
  address: String!

  port: Int = 623

  username: String!

  password: String!

  cipherSuite: Int = 17

  privilege: IpmiPrivilege = ADMINISTRATOR

  bootMode: BootMode = UEFI

  replySeconds: Int = 2

  sessionTries: Int = 3
}`);
    expect(textOf(bundled, "IpmiDiscoverySettingsInput")).toContain("privilege: IpmiPrivilege = ADMINISTRATOR");
  });
});

describe("GraphQL and the driver agree", () => {
  /** Values of every type, near and beyond the bounds of all settings. */
  const VALUES: readonly unknown[] = [
    "",
    "a",
    "UEFI",
    "FAST",
    "2.0",
    "https://h",
    "10.0.0.7",
    "x".repeat(300),
    0,
    1,
    -1,
    3,
    17,
    0.5,
    1.5,
    65535,
    65536,
    2 ** 31,
    2 ** 53,
    -(2 ** 31),
    true,
    false,
    null,
    [],
    [0],
    [16],
    ["a"],
    [null],
    [0, "a"],
    {},
    { a: "b" },
    { host: "h" },
    { host: "h", verify: null },
    { host: 1 },
    { "deploy.prepare": { fail: "no" } },
    { "deploy.prepare": null },
  ];

  test.each([
    { name: "rich_blade", base: { address: "https://10.0.0.7", password: "open-sesame" } },
    { name: "ipmi", base: { address: "10.0.0.7", username: "admin", password: "secret" } },
    { name: "fake", base: {} },
  ])("GraphQL accepts every setting of $name that the driver accepts, unchanged", async ({ name, base }) => {
    const all = [...(await describeDrivers()), ...drivers(rich)];
    const driver = all.find((one) => one.name === name);
    const type = buildSchema(all).getType("DriverSettingsInput");
    if (!driver || !isInputObjectType(type)) throw new Error("The driver or the type is missing.");
    const registry = createRegistry([driver]);
    const shape = shapeOf(driver.settings);
    let [taken, refused] = [0, 0];
    for (const field of shape.kind === "object" ? shape.fields.map((one) => one.name) : []) {
      for (const value of VALUES) {
        const settings = { ...base, [field]: value };
        const byDriver = await registry.checkSettings(driver, settings);
        const coerced = coerceInputValue({ [name]: settings }, type) as Readonly<Record<string, unknown>> | undefined;
        const byBoth = coerced && (await registry.checkSettings(driver, coerced[name]));
        if (byDriver.ok) expect(byBoth, `${field}: ${JSON.stringify(value)}`).toEqual(byDriver);
        else if (byBoth?.ok)
          await expect(
            registry.checkSettings(driver, { ...base, [field]: [value] }),
            "GraphQL coerces one value to a list of one item.",
          ).resolves.toEqual(byBoth);
        if (byDriver.ok) taken += 1;
        else refused += 1;
      }
    }
    expect(taken).toBeGreaterThan(20);
    expect(refused).toBeGreaterThan(100);
  });
});

// Settings in a running service.

const ostler = await serviceUnderTest({ drivers: [rich, plain, sealed, loose, either] });
afterAll(() => ostler[Symbol.asyncDispose]());

interface Answer {
  readonly nodes: readonly {
    readonly id: string;
    readonly drivers: readonly {
      readonly name: string;
      readonly interfaces: readonly string[];
      readonly settings: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
      readonly secretsSet: readonly string[];
    }[];
  }[];
  readonly errors: readonly { readonly code: string; readonly message: string; readonly path: readonly string[] }[];
}

const DRIVERS = `drivers { name interfaces secretsSet settings {
  rich_blade { address port quota ratio mode dialect slots proxy { host verify } rack tags old } plain sealed loose fake { delayMs serial }
} }`;
const SHOWN = `nodes { id } errors { code message path }`;
const BLADE = { address: "https://10.0.0.7", password: "open-sesame" };
const STORED = {
  address: "https://10.0.0.7",
  port: 443,
  quota: null,
  ratio: 0.5,
  mode: "SAFE",
  dialect: "2.0",
  slots: [0],
  proxy: { host: "none", verify: false },
  rack: null,
  tags: { "not-a-name": "x" },
  old: null,
};

let named = 0;
/**
 * The payload of a mutation, with the drivers of its nodes from a separate query: together they would exceed the cost
 * limit.
 */
async function shown({ nodes, errors }: Answer): Promise<Answer> {
  const read = async ({ id }: { readonly id: string }) =>
    (
      await ostler.query<{ node: Answer["nodes"][number] }>(
        `query Read($id: ID!) { node(by: { id: $id }) { id ${DRIVERS} } }`,
        { id },
      )
    ).node;
  return { nodes: await Promise.all(nodes.map(read)), errors };
}
const register = async (driver: object, more: object = {}) =>
  shown(
    (
      await ostler.query<{ registerNodes: Answer }>(
        `mutation Register($input: RegisterNodesInput!) { registerNodes(input: $input) { ${SHOWN} } }`,
        { input: { nodes: [{ name: `typed-${(named += 1)}`, driver, ...more }] } },
      )
    ).registerNodes,
  );
const update = async (id: string, more: object) =>
  shown(
    (
      await ostler.query<{ updateNodes: Answer }>(
        `mutation Update($input: UpdateNodesInput!) { updateNodes(input: $input) { ${SHOWN} } }`,
        { input: { nodes: { ids: [id] }, ...more } },
      )
    ).updateNodes,
  );

async function made(driver: object, more: object = {}): Promise<string> {
  const { nodes, errors } = await register(driver, more);
  expect(errors).toEqual([]);
  return nodes[0]?.id ?? "";
}

describe("given settings", () => {
  test("given settings are returned as stored, under the driver's name, with secrets by name only", async () => {
    const { nodes, errors } = await register({
      rich_blade: { ...BLADE, mode: "FAST", proxy: { host: "p" }, tags: { a: "b" }, rack: null, quota: 2 ** 40 },
    });
    expect(errors).toEqual([]);
    expect(nodes[0]?.drivers).toEqual([
      {
        name: "rich_blade",
        interfaces: ["POWER", "CLEAN"],
        secretsSet: ["password"],
        settings: {
          rich_blade: { ...STORED, mode: "FAST", proxy: { host: "p", verify: true }, tags: { a: "b" }, quota: 2 ** 40 },
          plain: null,
          sealed: null,
          loose: null,
          fake: null,
        },
      },
    ]);
  });

  test("settings can be written as literals in the document", async () => {
    const { registerNodes } = await ostler.query<{ registerNodes: Answer }>(
      `mutation { registerNodes(input: { nodes: [{ name: "typed-literal", driver: { rich_blade: { address: "https://10.0.0.7", password: "open-sesame", mode: FAST, slots: 3, proxy: { host: "p" } } } }] }) { ${SHOWN} } }`,
    );
    expect(await shown(registerNodes)).toMatchObject({
      errors: [],
      nodes: [
        {
          drivers: [
            { settings: { rich_blade: { ...STORED, mode: "FAST", slots: [3], proxy: { host: "p", verify: true } } } },
          ],
        },
      ],
    });
  });

  test("settings that are null count as omitted, unless null is a valid value", async () => {
    const { nodes } = await register({
      rich_blade: { ...BLADE, port: null, mode: null, slots: null, proxy: { host: "p", verify: null }, rack: null },
    });
    expect(nodes[0]?.drivers[0]?.settings["rich_blade"]).toEqual({ ...STORED, proxy: { host: "p", verify: true } });
  });

  test("settings of a driver without readable settings are {}", async () => {
    const { nodes } = await register({ plain: {} });
    expect(nodes[0]?.drivers[0]).toMatchObject({ name: "plain", settings: { plain: {} }, secretsSet: [] });
    const {
      nodes: [shut],
    } = await register({ sealed: { token: "t0ken" } });
    expect(shut?.drivers[0]).toMatchObject({ secretsSet: ["token"] });
    expect(shut?.drivers[0]?.settings["sealed"]).toEqual({});
  });

  test("secrets of settings with dependent fields are stored apart", async () => {
    const id = await made({ either: { password: "open-sesame" } });
    const read = async () =>
      ostler.ask<{ node: { drivers: object[] } }>(
        "query Read($id: ID!) { node(by: { id: $id }) { drivers { secretsSet settings { either } } } }",
        { id },
      );
    expect((await read()).data?.node.drivers).toEqual([
      { secretsSet: ["password"], settings: { either: { user: "root" } } },
    ]);
    expect((await update(id, { driver: { either: { password: null, token: "t0ken-t0ken" } } })).errors).toEqual([]);
    expect((await read()).data?.node.drivers).toEqual([
      { secretsSet: ["token"], settings: { either: { user: "root" } } },
    ]);
    const stored = await ostler.test.sql`select settings from nodes where name = ${`typed-${named}`}`;
    expect(stored).toMatchObject([{ settings: { either: { user: "root" } } }]);
    expect(JSON.stringify(stored)).not.toMatch(/open-sesame|t0ken-t0ken/);
  });

  test.each<[string, object, string]>([
    ["a bound", { port: 0 }, "port"],
    ["a format", { address: "not a URL" }, "address"],
    ["a list of allowed values", { dialect: "3.0" }, "dialect"],
    ["an integer type", { quota: 1.5 }, "quota"],
    ["a bound of a list item", { slots: [1, 16] }, "slots.1"],
    ["a name in a JSON value", { tags: { a: 1 } }, "tags.a"],
    ["the length of a secret", { password: "abc" }, "password"],
  ])("settings that violate %s are refused by the driver with their path", async (_what, flaw, at) => {
    const { nodes, errors } = await register({ rich_blade: { ...BLADE, ...flaw } });
    expect(nodes).toEqual([]);
    expect(errors.map(({ code, path }) => `${code} ${path.join(".")}`)).toEqual([
      `INVALID_INPUT input.nodes.0.driver.rich_blade.${at}`,
    ]);
    expect(JSON.stringify(errors)).not.toContain("abc");
  });

  test.each<[string, object, string]>([
    ["a type", { port: "443" }, ".rich_blade.port"],
    ["an enum", { mode: "SLOW" }, ".rich_blade.mode"],
    ["the known settings", { prot: 1 }, 'unknown field \\"prot\\"'],
    ["the known settings of a nested object", { proxy: { host: "p", prot: 1 } }, 'unknown field \\"prot\\"'],
    ["a required setting", { address: undefined }, 'required field \\"address\\"'],
  ])("settings that violate %s are refused by GraphQL and the driver", async (_what, flaw, named_) => {
    const answer = await ostler.ask(
      'mutation Register($driver: DriverSettingsInput!) { registerNodes(input: { nodes: [{ name: "x", driver: $driver }] }) { count } }',
      { driver: { rich_blade: { ...BLADE, ...flaw } } },
    );
    expect(JSON.stringify(answer.errors)).toContain(named_);
    expect(answer.errors[0]?.extensions).toMatchObject({ code: "BAD_USER_INPUT" });
    expect(
      (await (rich as unknown as AnyDriver).settings["~standard"].validate({ ...BLADE, ...flaw })).issues?.length,
    ).toBeGreaterThan(0);
  });
});

describe("changed settings", () => {
  test("changed settings keep omitted fields and secrets, and reset fields that are null", async () => {
    const id = await made({ rich_blade: { ...BLADE, port: 8443, mode: "FAST", proxy: { host: "p" } } });
    expect(
      (await update(id, { driver: { rich_blade: { port: null, slots: [1, 2] } } })).nodes[0]?.drivers[0],
    ).toMatchObject({
      settings: { rich_blade: { ...STORED, mode: "FAST", slots: [1, 2], proxy: { host: "p", verify: true } } },
      secretsSet: ["password"],
    });
    expect((await update(id, { driver: { rich_blade: {} } })).nodes[0]?.drivers[0]).toMatchObject({
      settings: { rich_blade: { ...STORED, mode: "FAST", slots: [1, 2], proxy: { host: "p", verify: true } } },
    });
  });

  test("changed settings that the driver refuses are refused as a whole", async () => {
    const id = await made({ rich_blade: BLADE });
    const before = await ostler.dump(AUDIT);
    expect(
      (await update(id, { driver: { rich_blade: { address: null, ratio: 2 } } })).errors.map(({ path }) =>
        path.join("."),
      ),
    ).toEqual(["input.driver.rich_blade.address", "input.driver.rich_blade.ratio"]);
    expect(await ostler.dump(AUDIT)).toBe(before);
  });

  test("a secret is removed by null only", async () => {
    const id = await made({ sealed: { token: "t0ken" } });
    expect((await update(id, { driver: { sealed: {} } })).nodes[0]?.drivers[0]?.secretsSet).toEqual(["token"]);
    expect((await update(id, { driver: { sealed: { token: null } } })).nodes[0]?.drivers[0]?.secretsSet).toEqual([]);
  });

  test("settings of another driver change the driver of the node", async () => {
    const id = await made({ rich_blade: BLADE });
    expect((await update(id, { driver: { fake: { serial: "S-1" } } })).nodes[0]?.drivers).toMatchObject([
      { name: "fake", settings: { fake: { delayMs: 0, serial: "S-1" }, rich_blade: null }, secretsSet: [] },
    ]);
    expect((await update(id, { driver: { rich_blade: {} } })).errors.map(({ path }) => path.join("."))).toEqual([
      "input.driver.rich_blade.address",
      "input.driver.rich_blade.password",
    ]);
  });
});

describe("interfaces from another driver", () => {
  const blade = { kinds: ["CLEAN", "POWER"], driver: { rich_blade: BLADE } };

  test("interfaces from another driver have its settings, can be changed in part, and are removed with the list", async () => {
    const id = await made({ plain: {} }, { interfaces: [blade] });
    const changed = await update(id, { interfaces: [{ kinds: ["CLEAN"], driver: { rich_blade: { mode: "FAST" } } }] });
    expect(changed.nodes[0]?.drivers).toMatchObject([
      { name: "plain", interfaces: ["POWER"] },
      {
        name: "rich_blade",
        interfaces: ["CLEAN"],
        settings: { rich_blade: { ...STORED, mode: "FAST" } },
        secretsSet: ["password"],
      },
    ]);
    expect((await update(id, { driver: { plain: {} } })).nodes[0]?.drivers).toHaveLength(2);
    expect((await update(id, { interfaces: [] })).nodes[0]?.drivers).toMatchObject([
      { name: "plain", interfaces: ["POWER"] },
    ]);
  });

  test("a driver that provided an interface can become the node's own driver and keeps its settings", async () => {
    const id = await made({ plain: {} }, { interfaces: [blade] });
    expect((await update(id, { driver: { rich_blade: { port: 1 } } })).nodes[0]?.drivers).toMatchObject([
      {
        name: "rich_blade",
        interfaces: ["POWER", "CLEAN"],
        settings: { rich_blade: { ...STORED, port: 1 } },
        secretsSet: ["password"],
      },
    ]);
  });

  test("invalid interfaces from another driver are refused with their paths", async () => {
    const { errors } = await register(
      { plain: {} },
      {
        interfaces: [
          { kinds: [], driver: { plain: {} } },
          blade,
          { kinds: ["CLEAN", "DEPLOY"], driver: { rich_blade: { ...BLADE, port: 0 } } },
          { kinds: ["INSPECT"], driver: { fake: { delayMs: -1 } } },
        ],
      },
    );
    expect(errors.map(({ path }) => path.slice(3).join("."))).toEqual([
      "interfaces.0.driver.plain",
      "interfaces.0.kinds",
      "interfaces.2.driver.rich_blade",
      "interfaces.2.kinds.0",
      "interfaces.2.kinds.1",
      "interfaces.3.driver.fake.delayMs",
    ]);
  });
});

test("settings of a driver that is no longer loaded are null, and Node.verbs gives the reason", async () => {
  const id = await made({ plain: {} });
  await ostler.test.sql`update nodes set driver = 'gone' where name = ${`typed-${named}`}`;
  const { node } = await ostler.query<{ node: { drivers: object[]; verbs: { reason: string | null }[] } }>(
    "query Read($id: ID!) { node(by: { id: $id }) { drivers { name settings { plain } secretsSet } verbs { reason } } }",
    { id },
  );
  expect(node.drivers).toEqual([{ name: "gone", settings: null, secretsSet: [] }]);
  expect(node.verbs[0]?.reason).toContain('driver "gone" is not loaded');
});

test("settings stored by an older plugin are returned if their types still match", async () => {
  const id = await made({ rich_blade: BLADE });
  const left = {
    address: 7,
    port: "443",
    quota: 2 ** 40,
    ratio: "x",
    mode: "TURBO",
    dialect: "3.0",
    slots: [1, "a"],
    proxy: { host: "p", verify: "yes", gone: 1 },
    rack: null,
    tags: { a: 1 },
    gone: "x",
  };
  await ostler.test
    .sql`update nodes set settings = ${ostler.test.sql.json({ rich_blade: left })} where name = ${`typed-${named}`}`;
  const { node } = await ostler.query<{ node: { drivers: Answer["nodes"][number]["drivers"] } }>(
    `query Read($id: ID!) { node(by: { id: $id }) { ${DRIVERS} } }`,
    { id },
  );
  expect(node.drivers[0]?.settings["rich_blade"]).toEqual({
    address: null,
    port: null,
    quota: 2 ** 40,
    ratio: null,
    mode: null,
    dialect: "3.0",
    slots: null,
    proxy: { host: "p", verify: null },
    rack: null,
    tags: { a: 1 },
    old: null,
  });
});

test.each([
  { name: "sealed", left: { token: "once-open" }, shown: {} },
  { name: "loose", left: { password: "once-open", note: "x" }, shown: { note: "x" } },
  { name: "rich_blade", left: { ...STORED, password: "once-open" }, shown: STORED },
])(
  "a stored setting that the plugin $name now declares as a secret is not returned",
  async ({ name, left, shown: expected }) => {
    const id = await made({ plain: {} });
    await ostler.test
      .sql`update nodes set driver = ${name}, settings = ${ostler.test.sql.json({ [name]: left })} where name = ${`typed-${named}`}`;
    const answer = await ostler.ask<{ node: { drivers: Answer["nodes"][number]["drivers"] } }>(
      `query Read($id: ID!) { node(by: { id: $id }) { ${DRIVERS} } }`,
      { id },
    );
    expect(answer.data?.node.drivers[0]?.settings[name]).toEqual(expected);
    expect(answer.text).not.toContain("once-open");
  },
);

test("introspection returns the types of the loaded drivers", async () => {
  const served = buildClientSchema(
    await ostler.query<IntrospectionQuery>(getIntrospectionQuery({ oneOf: true, inputValueDeprecation: true })),
  );
  const built = buildSchema([...(await describeDrivers(["fake"])), ...drivers(rich, plain, sealed, loose, either)]);
  for (const name of [
    "DriverSettingsInput",
    "RichBladeSettingsInput",
    "RichBladeSettings",
    "FakeDiscoverySettingsInput",
  ])
    expect(textOf(served, name)).toBe(textOf(built, name));
});
