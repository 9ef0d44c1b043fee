/**
 * Loading plugins by name, path or package; each way in which a plugin can be broken stops the start with a message.
 */
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { describeDrivers, loadPlugins } from "../../src/drivers/load.ts";
import { createLog } from "../../src/log.ts";

const log = createLog("silent");
const folder = mkdtempSync(join(tmpdir(), "ostler-plugins-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let written = 0;
function aPlugin(source: string): string {
  const file = join(folder, `plugin-${(written += 1)}.mjs`);
  writeFileSync(file, source);
  return file;
}

/** The source of a schema with this JSON Schema. */
const declaring = (json: string) =>
  `{ "~standard": { version: 1, vendor: "test", validate: (value) => ({ value }), jsonSchema: { input: () => (${json}), output: () => ({}) } } }`;
const SCHEMA = declaring(`{ type: "object", properties: {} }`);
const POWER = `{ read: async () => "OFF", set: async () => {} }`;

/** The source of a plugin whose driver is valid except for `flaw`. */
function withDriver(flaw: Record<string, string | undefined> = {}): string {
  const members = {
    contract: "2",
    name: '"sound"',
    version: '"1.0.0"',
    description: '"Made for a test."',
    settings: SCHEMA,
    power: POWER,
    ...flaw,
  };
  const body = Object.entries(members).flatMap(([key, value]) => (value === undefined ? [] : [`${key}: ${value}`]));
  return `export default (host) => { host.log("loading"); return { ${body.join(", ")} }; };`;
}

const step = (members: string) => `{ supportsAbort: true, steps: [{ ${members} }] }`;

describe("plugin", () => {
  test("bundled plugins are loaded by name", async () => {
    const path = process.env["PATH"];
    const programs = mkdtempSync(join(folder, "programs-"));
    // The ipmi driver only looks for its program when it is created.
    writeFileSync(join(programs, "ipmitool"), "#!/bin/sh\n", { mode: 0o755 });
    process.env["PATH"] = programs;
    try {
      await using registry = await loadPlugins(["fake", "ipmi"], log);
      expect(registry.drivers.map(({ name }) => name)).toEqual(["fake", "ipmi"]);
      expect(registry.get("fake")?.description).toContain("Simulated machines");
    } finally {
      process.env["PATH"] = path;
    }
  });

  test("plugin is loaded by path, and may create its driver asynchronously", async () => {
    const slow = aPlugin(
      `const made = (${withDriver().replace("export default ", "").replace(/;$/, "")}); export default async (host) => made(host);`,
    );
    await using registry = await loadPlugins([slow], log);
    expect(registry.drivers.map(({ name }) => name)).toEqual(["sound"]);
  });

  test("plugins are loaded in the given order, and an empty list is allowed", async () => {
    await using registry = await loadPlugins([], log);
    expect(registry.drivers).toEqual([]);
  });

  test("plugins are closed with the registry, although one of them throws", async () => {
    const file = join(folder, "closed");
    const closing = aPlugin(
      withDriver({ close: `async () => (await import("node:fs")).writeFileSync(${JSON.stringify(file)}, "closed")` }),
    );
    const failing = aPlugin(withDriver({ name: '"failing"', close: `async () => { throw new Error("no"); }` }));
    {
      await using registry = await loadPlugins([failing, closing], log);
      expect(registry.drivers).toHaveLength(2);
    }
    expect(readFileSync(file, "utf8")).toBe("closed");
  });
});

describe("broken plugin", () => {
  test.each<{ what: string; source: string; says: string }>([
    { what: "that is not a module", source: "export default {{", says: "it cannot be loaded" },
    {
      what: "that throws when it is imported",
      source: `throw new Error("libfoo is missing.")`,
      says: "it cannot be loaded (libfoo is missing.)",
    },
    {
      what: "that imports a missing module",
      source: `import "no-such-package"; export default () => {};`,
      says: "it cannot be loaded (Cannot find package 'no-such-package'",
    },
    {
      what: "without a default export",
      source: "export const driver = 1;",
      says: "its default export is not a driver factory",
    },
    {
      what: "whose default export is not a function",
      source: "export default { name: 'x' };",
      says: "its default export is not a driver factory",
    },
    {
      what: "whose factory throws",
      source: `export default () => { throw new Error("Set FOO_HOME."); };`,
      says: "Set FOO_HOME.",
    },
    {
      what: "whose factory rejects",
      source: `export default async () => { throw new Error("Set FOO_HOME."); };`,
      says: "Set FOO_HOME.",
    },
    {
      what: "whose factory returns no driver",
      source: "export default () => null;",
      says: "its factory did not return a driver",
    },
    {
      what: "of an earlier contract",
      source: withDriver({ contract: "1" }),
      says: "it implements driver contract 1, but this service supports 2. Change it as docs/drivers.md describes",
    },
    {
      what: "of another contract",
      source: withDriver({ contract: "3" }),
      says: "it implements driver contract 3, but this service supports 2. Change it as docs/drivers.md describes",
    },
    {
      what: "with a clean step of another phase",
      source: withDriver({
        clean: step(`name: "wipe", run: async () => {}, phase: "deploy", priority: 1, timeoutSeconds: 1`),
      }),
      says: 'step "wipe" of its clean interface has the phase "deploy", in which it would never run. Declare "clean"',
    },
    {
      what: "with a step of an unknown group",
      source: withDriver({
        clean: step(
          `name: "wipe", run: async () => {}, phase: "clean", priority: 1, timeoutSeconds: 1, group: "disks"`,
        ),
      }),
      says: 'has the group "disks". Use one of raid, bios',
    },
    {
      what: "with a required variable",
      source: withDriver({
        variables: declaring(`{ type: "object", properties: { image: { type: "string" } }, required: ["image"] }`),
      }),
      says: "its variable image is required. Make every variable optional",
    },
    {
      what: "whose media cannot be ejected",
      source: withDriver({ media: "{ insert() {} }" }),
      says: "media interface lacks eject",
    },
    { what: "without a contract", source: withDriver({ contract: undefined }), says: "driver contract undefined" },
    {
      what: "whose driver has an invalid name",
      source: withDriver({ name: '"No Good"' }),
      says: `name "No Good" is invalid. Use lower-case`,
    },
    { what: "whose driver has no name", source: withDriver({ name: undefined }), says: "its driver's name undefined" },
    {
      what: "whose driver has no version",
      source: withDriver({ version: undefined }),
      says: "lacks a version or a description",
    },
    {
      what: "with an interface that is null",
      source: withDriver({ inspect: "null" }),
      says: "its inspect interface lacks steps or supportsAbort",
    },
    {
      what: "with a step that is null",
      source: withDriver({ clean: "{ supportsAbort: true, steps: [null] }" }),
      says: "step undefined of its clean interface lacks",
    },
    {
      what: "whose discovery finds nothing",
      source: withDriver({ discover: `{ settings: ${SCHEMA} }` }),
      says: "its discovery lacks probe",
    },
    {
      what: "that throws when it is inspected",
      source: withDriver({ power: "0, get clean() { throw new Error('later'); }" }).replace(
        "power: 0",
        `power: ${POWER}`,
      ),
      says: "it cannot be inspected (later)",
    },
    {
      what: "whose settings are not a schema",
      source: withDriver({ settings: "{}" }),
      says: "its settings are not a Standard Schema",
    },
    {
      what: "whose schema has no JSON Schema",
      source: withDriver({ settings: `{ "~standard": { version: 1, vendor: "x", validate: () => {} } }` }),
      says: "its settings are not a Standard Schema",
    },
    {
      what: "whose name clients cannot write as a field",
      source: withDriver({ name: '"no-good"' }),
      says: `name "no-good" is invalid. Use lower-case letters and digits, in words joined by _`,
    },
    {
      what: "whose settings cannot be written as JSON Schema",
      source: withDriver({ settings: declaring(`(() => { throw new Error("Dates have no JSON Schema"); })()`) }),
      says: "its settings cannot be expressed as JSON Schema (Dates have no JSON Schema). Use types that JSON has.",
    },
    {
      what: "whose settings are not an object",
      source: withDriver({ settings: declaring(`{ type: "string" }`) }),
      says: `its settings are not an object: the JSON Schema has type "string"`,
    },
    {
      what: "whose settings are one of two objects",
      source: withDriver({ settings: declaring(`{ anyOf: [{ type: "object" }] }`) }),
      says: "its settings are not an object: the JSON Schema has no single type",
    },
    {
      what: "with a setting that clients cannot write",
      source: withDriver({
        settings: declaring(
          `{ type: "object", properties: { tls: { type: "object", properties: { "ca-file": {} } } } }`,
        ),
      }),
      says: `its settings have a field "tls.ca-file", which is not a GraphQL name`,
    },
    {
      what: "with a secret inside another setting",
      source: withDriver({
        settings: declaring(
          `{ type: "object", properties: { users: { type: "array", items: { type: "object", properties: { pin: { type: "string", writeOnly: true } } } } } }`,
        ),
      }),
      says: "its settings hold the secret users.pin inside another setting, where it would not be stored as a secret",
    },
    {
      what: "with a secret that is not a string",
      source: withDriver({
        settings: declaring(`{ type: "object", properties: { pin: { type: "integer", writeOnly: true } } }`),
      }),
      says: "its settings hold the secret pin, which is not a string",
    },
    {
      what: "with a secret in a variant",
      source: withDriver({
        settings: declaring(
          `{ type: "object", properties: { pin: { anyOf: [{ type: "string", writeOnly: true }, { type: "number" }] } } }`,
        ),
      }),
      says: "its settings mark a secret by `anyOf` of pin, where it would not be stored as a secret",
    },
    {
      what: "whose discovery has a secret in a record",
      source: withDriver({
        discover: `{ settings: ${declaring(`{ type: "object", additionalProperties: { type: "string", writeOnly: true } }`)}, probe() {} }`,
      }),
      says: "the settings of its discovery mark a secret by `additionalProperties`, where it would not be stored as a secret",
    },
    {
      what: "whose discovery settings cannot be typed",
      source: withDriver({ discover: `{ settings: ${declaring(`{ type: "array" }`)}, probe() {} }` }),
      says: `the settings of its discovery are not an object`,
    },
    { what: "without power", source: withDriver({ power: undefined }), says: "lacks power.read" },
    {
      what: "that cannot read power",
      source: withDriver({ power: `{ set: async () => {} }` }),
      says: "lacks power.read",
    },
    {
      what: "with an interface without steps",
      source: withDriver({ clean: "{ supportsAbort: true }" }),
      says: "its clean interface lacks steps or supportsAbort",
    },
    {
      what: "with an interface that does not declare whether it can be aborted",
      source: withDriver({ deploy: "{ steps: [] }" }),
      says: "its deploy interface lacks steps or supportsAbort",
    },
    {
      what: "with a step that cannot be run",
      source: withDriver({ clean: step(`name: "wipe", priority: 1, timeoutSeconds: 1`) }),
      says: `step "wipe" of its clean interface lacks`,
    },
    {
      what: "with a step without a timeout",
      source: withDriver({ inspect: step(`name: "look", priority: 1, timeoutSeconds: 0, run() {}`) }),
      says: `step "look" of its inspect interface lacks`,
    },
  ])("plugin $what stops the start with a message that names it", async ({ source, says }) => {
    const file = aPlugin(source);
    const error: unknown = await loadPlugins([file], log).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Error);
    const { message } = error as Error;
    expect(message).toContain(`Plugin "${file}" cannot be used: `);
    expect(message).toContain(says);
    expect(message).toContain("OSTLER_PLUGINS");
  });

  test.each(["no-such-plugin", "./no/such/file.mjs", "@no/such-package"])(
    "plugin that does not exist stops the start: %s",
    async (word) => {
      await expect(loadPlugins([word], log)).rejects.toThrow(`Plugin "${word}" cannot be used: it cannot be loaded`);
    },
  );

  test("plugin that is pinned by a hash is loaded with that content only [R-214]", async () => {
    const file = aPlugin(withDriver());
    const hash = createHash("sha512").update(readFileSync(file)).digest("base64");
    await using registry = await loadPlugins([`${file}#sha512-${hash}`], log);
    expect(registry.drivers).toHaveLength(1);
    const other = createHash("sha512").update("another content").digest("base64");
    await expect(loadPlugins([`${file}#sha512-${other}`], log)).rejects.toThrow(`has the hash sha512-${hash}, not`);
    await expect(loadPlugins([`${file}#sha256-abc`], log)).rejects.toThrow("has an invalid hash");
  });

  test("plugin whose driver has a taken name stops the start", async () => {
    const [one, two] = [aPlugin(withDriver()), aPlugin(withDriver())];
    await expect(loadPlugins([one, two], log)).rejects.toThrow(
      `Plugin "${two}" provides a driver "sound", but another plugin already provides a driver of that name`,
    );
  });

  test("plugin that is broken stops the start, although the others are valid", async () => {
    await expect(loadPlugins(["fake", aPlugin("export default 7;")], log)).rejects.toThrow("is not a driver factory");
  });
});

describe("described driver", () => {
  test("described driver declares all that a loaded one declares, although its tools are missing", async () => {
    const path = process.env["PATH"];
    process.env["PATH"] = folder;
    try {
      await expect(loadPlugins(["ipmi"], log)).rejects.toThrow("needs the program ipmitool");
      const [ipmi] = await describeDrivers(["ipmi"]);
      expect(ipmi?.name).toBe("ipmi");
      expect(ipmi?.inspect?.steps.length).toBeGreaterThan(0);
    } finally {
      process.env["PATH"] = path;
    }
  });

  test("described driver gets the information that it is only described, and may ignore it", async () => {
    const aware = aPlugin(withDriver().replace(`name: "sound"`, `name: host.describing ? "described" : "loaded"`));
    expect((await describeDrivers([aware])).map(({ name }) => name)).toEqual(["described"]);
    await using registry = await loadPlugins([aware], log);
    expect(registry.drivers.map(({ name }) => name)).toEqual(["loaded"]);
  });

  test("described drivers are by default those that come with Ostler", async () => {
    expect((await describeDrivers()).map(({ name }) => name)).toEqual(["agent", "ansible", "fake", "ipmi", "redfish"]);
  });
});
