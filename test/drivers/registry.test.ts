/** The drivers of a node from those that are loaded, and which of its settings are secret. */
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { findStep } from "../../src/drivers/interfaces.ts";
import { createRegistry, discoverySchema, settingsSchema } from "../../src/drivers/registry.ts";
import type { AnyDriver } from "../../src/drivers/interfaces.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const done = async () => ({ kind: "done" }) as const;
const washer = aDriver("washer", { clean: stepsOf(aStep("rinse", "clean", done)) }) as unknown as AnyDriver;
const installer = aDriver("installer", {
  deploy: stepsOf(aStep("install", "deploy", done), aStep("remove", "undeploy", done)),
  inspect: { supportsAbort: true, withoutReboot: true, steps: [aStep("look", "inspect", done)] },
}) as unknown as AnyDriver;
const bare = aDriver("bare") as unknown as AnyDriver;
const registry = createRegistry([washer, installer, bare]);

describe("drivers of a node", () => {
  test("drivers of a node are its own driver for everything that it offers", () => {
    const composed = registry.compose({ driver: "installer", borrowed: {} });
    if ("problem" in composed) throw new Error(composed.problem);
    const { composition } = composed;
    expect(
      (["power", "inspect", "deploy", "clean"] as const).map((name) => composition.giver(name)?.name ?? null),
    ).toEqual(["installer", "installer", "installer", null]);
    expect(composition.inspectors[0]?.inspect?.withoutReboot).toBe(true);
    expect(composition.drivers.map(({ name }) => name)).toEqual(["installer"]);
  });

  test("drivers of a node include other drivers for borrowed interfaces, each once", () => {
    const composed = registry.compose({
      driver: "bare",
      borrowed: { clean: "washer", deploy: "installer", inspect: "installer" },
    });
    if ("problem" in composed) throw new Error(composed.problem);
    const { composition } = composed;
    expect((["power", "inspect", "deploy", "clean"] as const).map((name) => composition.giver(name)?.name)).toEqual([
      "bare",
      "installer",
      "installer",
      "washer",
    ]);
    expect(composition.drivers.map(({ name }) => name).toSorted()).toEqual(["bare", "installer", "washer"]);
  });

  test.each<{ what: string; choice: { driver: string; borrowed: Record<string, string> }; says: string }>([
    {
      what: "a driver that is not loaded",
      choice: { driver: "redfish", borrowed: {} },
      says: 'driver "redfish" is not loaded (loaded: washer, installer, bare); add its plugin to OSTLER_PLUGINS.',
    },
    {
      what: "an interface of a driver that is not loaded",
      choice: { driver: "bare", borrowed: { clean: "redfish" } },
      says: 'driver "redfish", which provides its clean interface, is not loaded',
    },
    {
      what: "an interface that the driver does not offer",
      choice: { driver: "bare", borrowed: { deploy: "washer" } },
      says: 'driver "washer" offers no deploy interface.',
    },
    {
      what: "an unknown interface",
      choice: { driver: "bare", borrowed: { wheels: "washer" } },
      says: 'there is no interface "wheels"',
    },
  ])("drivers of a node cannot include $what", ({ choice, says }) => {
    expect(registry.compose(choice)).toEqual({ problem: expect.stringContaining(says) });
  });

  test("drivers of a node have steps that are found by phase and exact name", () => {
    expect(findStep(installer, "undeploy", "remove")?.name).toBe("remove");
    expect([
      findStep(installer, "deploy", "remove"),
      findStep(installer, "clean", "install"),
      findStep(bare, "deploy", "install"),
    ]).toEqual([undefined, undefined, undefined]);
  });
});

describe("driver settings", () => {
  const schema = z.strictObject({
    address: z.string().meta({ description: "Address." }),
    port: z.int().min(1).default(623).meta({ description: "Port." }),
    password: z.string().min(4).optional().meta({ writeOnly: true, description: "Password." }),
    token: z.string().optional().meta({ writeOnly: true, description: "Token." }),
  });
  const driver = { ...bare, name: "locked", settings: schema } as AnyDriver;
  const locked = createRegistry([driver]);

  test("driver settings are checked, filled with defaults, and separated from secrets", async () => {
    expect(locked.secretFields(driver)).toEqual(["password", "token"]);
    expect(await locked.checkSettings(driver, { address: "10.0.0.7", password: "secret" })).toEqual({
      ok: true,
      settings: { address: "10.0.0.7", port: 623 },
      secrets: { password: "secret" },
    });
  });

  test("driver settings with errors are refused with the path of each", async () => {
    const verdict = await locked.checkSettings(driver, { port: 0, password: "abc", colour: "red" });
    expect(verdict.ok).toBe(false);
    const paths = verdict.ok ? [] : verdict.issues.map(({ path }) => path.join("."));
    expect(paths.toSorted((a, b) => a.localeCompare(b))).toEqual(["", "address", "password", "port"]);
  });

  test("driver settings that are null count as absent, unless null is a valid value", async () => {
    expect(await locked.checkSettings(driver, { address: "10.0.0.7", port: null, password: null })).toEqual({
      ok: true,
      settings: { address: "10.0.0.7", port: 623 },
      secrets: {},
    });
    const open = {
      ...driver,
      name: "open",
      settings: z.strictObject({ rack: z.string().nullable().meta({ description: "Rack." }) }),
    } as AnyDriver;
    expect(await createRegistry([open]).checkSettings(open, { rack: null })).toEqual({
      ok: true,
      settings: { rack: null },
      secrets: {},
    });
  });

  test("driver settings are refused if the driver throws while it checks them, without exposing the error", async () => {
    const crashing = {
      ...driver,
      name: "crashing",
      settings: schema.transform(({ password }) => {
        throw new Error(`no such field: ${password}`);
      }),
    } as unknown as AnyDriver;
    const verdict = await createRegistry([crashing]).checkSettings(crashing, {
      address: "10.0.0.7",
      password: "correct-horse",
    });
    expect(verdict).toEqual({
      ok: false,
      issues: [
        { path: [], message: "its driver fails to validate this value; report that to the author of the driver" },
      ],
    });
  });

  test("driver settings that are refused do not expose secrets", async () => {
    expect(JSON.stringify(await locked.checkSettings(driver, { address: "10.0.0.7", password: "abc" }))).not.toContain(
      "abc",
    );
  });

  test("driver settings are separated from secrets even if their schema has conditions between fields", async () => {
    const either = {
      ...driver,
      settings: schema.meta({ oneOf: [{ required: ["password"] }, { required: ["token"] }] }),
    } as AnyDriver;
    expect(createRegistry([either]).secretFields(either)).toEqual(["password", "token"]);
    expect(
      await createRegistry([either]).checkSettings(either, { address: "10.0.0.7", password: "secret", token: null }),
    ).toEqual({ ok: true, settings: { address: "10.0.0.7", port: 623 }, secrets: { password: "secret" } });
  });

  test("driver settings are described without the defaults of secrets, also for discovery", () => {
    const settings = z.strictObject({
      password: z.string().default("calvin").meta({ writeOnly: true, description: "Password." }),
    });
    const repeating = { ...driver, settings, discover: { settings } } as unknown as AnyDriver;
    expect(JSON.stringify([settingsSchema(repeating), discoverySchema(repeating)])).not.toContain("calvin");
    expect(settingsSchema(repeating)).toMatchObject({ properties: { password: { type: "string", writeOnly: true } } });
  });

  test("driver settings are described by the JSON Schema of the driver", () => {
    expect(settingsSchema(driver)).toMatchObject({
      type: "object",
      properties: { password: { writeOnly: true }, port: { default: 623 } },
    });
  });
});
