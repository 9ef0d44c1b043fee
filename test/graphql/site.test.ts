/** The site's policy and the catalogues of steps through the API. */
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import * as z from "zod";
import { describeDrivers } from "../../src/drivers/load.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";
import { aGate } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { serviceUnderTest } from "../support/service.ts";

const done = async () => ({ kind: "done" }) as const;
const careful = aDriver("careful", {
  clean: stepsOf(
    aStep("flash", "clean", done, {
      priority: 3,
      touches: ["FIRMWARE", "NETWORK"],
      retries: { times: 4, backoffSeconds: 2.5 },
      interruptible: "NEVER",
      idempotent: false,
      timeoutSeconds: 90,
      verify: done,
    }),
    aStep("tune", "clean", done, { priority: 0, args: z.strictObject({ level: z.int() }) }),
  ),
  deploy: stepsOf(
    aStep("install", "deploy", done, { reaches: "PROVISIONED", touches: [] }),
    aStep("remove", "undeploy", done),
  ),
});

const ostler = await serviceUnderTest({ drivers: [careful] });
afterAll(() => ostler[Symbol.asyncDispose]());

const SITE =
  "phaseLimits { phase limit } controllerLimit automaticCleaning correctPower steps { step driver priority forbidden } revision updatedAt updatedBy";

interface Site {
  readonly phaseLimits: readonly { readonly phase: string; readonly limit: number }[];
  readonly revision: number;
  readonly [field: string]: unknown;
}

async function site(): Promise<Site> {
  return (await ostler.query<{ site: Site }>(`{ site { ${SITE} } }`)).site;
}

async function change(input: object) {
  const { updateSite } = await ostler.query<{
    updateSite: {
      site: Site | null;
      errors: { code: string; path: string[] }[];
      query: { site: { revision: number } };
    };
  }>(
    `mutation Change($input: UpdateSiteInput!) { updateSite(input: $input) { site { ${SITE} } errors { type: __typename code status message path } query { site { revision } } } }`,
    { input },
  );
  return updateSite;
}

interface Entry {
  readonly name: string;
  readonly order: number | null;
  readonly [field: string]: unknown;
}

async function catalogue(name: string, phase: string): Promise<Entry[]> {
  const { node } = await ostler.query<{ node: { stepCatalogue: Entry[] } }>(
    `query Catalogue($name: String!, $phase: Phase!) { node(by: { name: $name }) { stepCatalogue(phase: $phase) { order driver interface name title priority declaredPriority disabledReason disabledMessage definition { name priority } } } }`,
    { name, phase },
  );
  return node.stepCatalogue;
}

const schema = buildSchema(await describeDrivers());

function scopeOf(root: "query" | "mutation", field: string): unknown {
  const type = root === "query" ? schema.getQueryType() : schema.getMutationType();
  return type?.getFields()[field]?.extensions["scope"];
}

const EMPTY = { phaseLimits: null, controllerLimit: null, automaticCleaning: null, correctPower: null, steps: null };
beforeEach(() => change(EMPTY));

describe("the site", () => {
  test("the site's policy is empty by default", async () => {
    expect(await site()).toMatchObject({
      phaseLimits: [],
      controllerLimit: null,
      automaticCleaning: true,
      correctPower: false,
      steps: [],
    });
  });

  test("updateSite returns the changed policy and keeps omitted fields", async () => {
    const { revision } = await site();
    const policy = {
      phaseLimits: [
        { phase: "CLEAN", limit: 2 },
        { phase: "DEPLOY", limit: 40 },
      ],
      controllerLimit: 1,
      automaticCleaning: false,
      correctPower: true,
      steps: [
        { step: "clean.erase_disks", driver: "fake", priority: 7 },
        { step: "clean.flash", forbidden: true },
      ],
    };
    const first = await change({ ifRevision: revision, ...policy });
    const shown = {
      ...policy,
      steps: [
        { step: "clean.erase_disks", driver: "fake", priority: 7, forbidden: null },
        { step: "clean.flash", driver: null, priority: null, forbidden: true },
      ],
    };
    expect(first).toMatchObject({
      site: { ...shown, revision: revision + 1, updatedBy: "anonymous" },
      errors: [],
      query: { site: { revision: revision + 1 } },
    });
    expect((await change({ automaticCleaning: null })).site).toMatchObject({ ...shown, automaticCleaning: true });
    expect((await change({ phaseLimits: [], steps: [] })).site).toMatchObject({
      phaseLimits: [],
      controllerLimit: 1,
      correctPower: true,
      steps: [],
    });
  });

  test("updateSite with invalid input returns every error", async () => {
    const before = await site();
    const { site: after, errors } = await change({
      phaseLimits: [{ phase: "POWER", limit: 0 }],
      controllerLimit: 0,
      steps: [
        { step: "clean.polish", priority: 1 },
        { step: "clean.tune", driver: "careful", priority: 1 },
        { step: "clean.flash", driver: "lost", forbidden: true },
      ],
    });
    expect(after).toBeNull();
    expect(errors.map(({ code, path }) => `${code} ${path.join(".")}`)).toEqual([
      "INVALID_INPUT input.phaseLimits.0.phase",
      "INVALID_INPUT input.phaseLimits.0.limit",
      "INVALID_INPUT input.controllerLimit",
      "INVALID_INPUT input.steps.0.step",
      "INVALID_INPUT input.steps.1.priority",
      "INVALID_INPUT input.steps.2.driver",
    ]);
    expect(await site()).toEqual(before);
  });

  test("updateSite with an outdated revision is refused", async () => {
    const { revision } = await site();
    await change({ controllerLimit: 3 });
    expect(await change({ ifRevision: revision, controllerLimit: 4 })).toMatchObject({
      site: null,
      errors: [{ type: "ConflictError", code: "STALE_REVISION", status: 409, path: ["input", "ifRevision"] }],
    });
    expect(await site()).toMatchObject({ controllerLimit: 3 });
  });

  test("reading the site needs scope READ, and changing it ADMIN", () => {
    // The scopes stand with the fields; schema.test.ts holds every root field to having one.
    expect(scopeOf("query", "site")).toBe("READ");
    expect(scopeOf("mutation", "updateSite")).toBe("ADMIN");
    expect(scopeOf("mutation", "createRunbook")).toBe("MANAGE");
    expect(scopeOf("mutation", "updateRunbook")).toBe("MANAGE");
    expect(scopeOf("mutation", "deleteRunbook")).toBe("MANAGE");
  });
});

describe("a limit that is lifted", () => {
  test("removing a limit lets the waiting runs continue", async () => {
    const gate = aGate();
    expect((await change({ phaseLimits: [{ phase: "VERIFY", limit: 1 }] })).errors).toEqual([]);
    const names = await ostler.register(3, { steps: { "power.read": { gate: gate.name } } });
    const uuid = await ostler.begin("manageNodes", names);
    expect(await gate.arrivals()).toHaveLength(1);
    const { operation } = await ostler.query<{ operation: { runCounts: object[] } }>(
      "query Runs($id: ID!) { operation(id: $id) { runCounts { state count } } }",
      { id: uuid },
    );
    expect(operation.runCounts).toContainEqual({ state: "QUEUED", count: 2 });
    await change({ phaseLimits: null });
    expect(await gate.arrivals(3)).toHaveLength(3);
    gate.open();
    expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
  });
});

describe("the catalogue of a node", () => {
  test("Node.stepCatalogue lists automatic steps in order, and the others with a reason", async () => {
    const [name = ""] = await ostler.register(1);
    expect(await catalogue(name, "CLEAN")).toMatchObject([
      {
        order: 0,
        driver: "fake",
        interface: "CLEAN",
        name: "erase_metadata",
        title: "Erase partition tables",
        priority: 20,
        declaredPriority: 20,
        disabledReason: null,
        disabledMessage: null,
        definition: { name: "erase_metadata", priority: 20 },
      },
      { order: 1, name: "erase_disks", priority: 10, disabledReason: null },
      {
        order: null,
        name: "update_firmware",
        priority: 0,
        disabledReason: "PRIORITY",
        disabledMessage: expect.stringContaining("runs only if requested by name"),
      },
    ]);
    expect((await catalogue(name, "DEPLOY")).map((step) => [step.name, step.order])).toEqual([
      ["prepare", 0],
      ["write_image", 1],
      ["boot_system", 2],
      ["configure", 3],
    ]);
    expect((await catalogue(name, "UNDEPLOY")).map((step) => step.name)).toEqual(["remove_system"]);
    expect((await catalogue(name, "INSPECT")).map((step) => step.name)).toEqual(["collect_inventory"]);
  });

  test("Node.stepCatalogue follows the site's policy and matches the plan", async () => {
    const [name = ""] = await ostler.register(1);
    await change({
      steps: [
        { step: "clean.erase_disks", priority: 30 },
        { step: "clean.erase_metadata", driver: "fake", priority: 0 },
        { step: "clean.update_firmware", forbidden: true },
      ],
    });
    expect(await catalogue(name, "CLEAN")).toMatchObject([
      { order: 0, name: "erase_disks", priority: 30, declaredPriority: 10, disabledReason: null },
      { order: null, name: "erase_metadata", priority: 0, declaredPriority: 20, disabledReason: "SITE_PRIORITY" },
      { order: null, name: "update_firmware", disabledReason: "FORBIDDEN" },
    ]);
    const { commissionNodes } = await ostler.query<{
      commissionNodes: { results: { steps: { phase: string; name: string; priority: number }[] }[] };
    }>(
      "mutation Plan($input: CommissionNodesInput!) { commissionNodes(input: $input) { results { steps { phase name priority } } } }",
      { input: { nodes: { names: [name] }, dryRun: true } },
    );
    expect(commissionNodes.results[0]?.steps.filter(({ phase }) => phase === "CLEAN")).toEqual([
      { phase: "CLEAN", name: "erase_disks", priority: 30 },
    ]);
    await change({ steps: null, automaticCleaning: false });
    expect((await catalogue(name, "CLEAN")).map(({ disabledReason, order }) => [disabledReason, order])).toEqual([
      ["CLEANING_OFF", null],
      ["CLEANING_OFF", null],
      ["PRIORITY", null],
    ]);
    expect((await catalogue(name, "DEPLOY")).every(({ disabledReason }) => disabledReason === null)).toBe(true);
  });

  test("Node.stepCatalogue of a phase without declared steps is empty", async () => {
    const [name = ""] = await ostler.register(1);
    expect(await catalogue(name, "VERIFY")).toEqual([]);
    expect(await catalogue(name, "POWER")).toEqual([]);
  });
});

describe("the catalogue of a driver", () => {
  test("Driver.interfaces lists each step as declared [R-060]", async () => {
    const { drivers } = await ostler.query<{
      drivers: { name: string; interfaces: { kind: string; steps: object[] }[] }[];
    }>(
      "{ drivers { name interfaces { kind steps { name priority interruptible idempotent timeoutSeconds retries backoffSeconds changes reaches verifies argsSchema } } } }",
    );
    const interfaces = drivers.find(({ name }) => name === "careful")?.interfaces ?? [];
    expect(interfaces.find(({ kind }) => kind === "CLEAN")?.steps).toEqual([
      {
        name: "flash",
        priority: 3,
        interruptible: "NEVER",
        idempotent: false,
        timeoutSeconds: 90,
        retries: 4,
        backoffSeconds: 3,
        changes: ["FIRMWARE", "NETWORK"],
        reaches: null,
        verifies: true,
        argsSchema: null,
      },
      {
        name: "tune",
        priority: 0,
        interruptible: "ALWAYS",
        idempotent: true,
        timeoutSeconds: 60,
        retries: 0,
        backoffSeconds: 0,
        changes: ["DISKS"],
        reaches: null,
        verifies: false,
        argsSchema: expect.objectContaining({ required: ["level"] }),
      },
    ]);
    expect(interfaces.find(({ kind }) => kind === "DEPLOY")?.steps).toMatchObject([
      { name: "install", reaches: "PROVISIONED", changes: [] },
      { name: "remove", changes: ["DISKS"] },
    ]);
  });
});

describe("the reserved steps", () => {
  test("reservedSteps lists arguments, and each step can be planned on any node", async () => {
    const { reservedSteps } = await ostler.query<{
      reservedSteps: {
        interface: string;
        name: string;
        title: string;
        argsSchema: { required: string[]; properties: object };
      }[];
    }>("{ reservedSteps { interface name title argsSchema } }");
    expect(reservedSteps.map((step) => `${step.interface} ${step.name}`)).toEqual([
      "POWER power_on",
      "POWER power_off",
      "POWER soft_power_off",
      "POWER reboot",
      "POWER soft_reboot",
      "POWER boot_device",
      "ENGINE wait",
      "ENGINE hold",
    ]);
    expect(reservedSteps[6]?.argsSchema).toMatchObject({
      type: "object",
      required: ["seconds"],
      properties: { seconds: { type: "number" } },
    });
    const [name = ""] = await ostler.register(1);
    expect(await ostler.operationEnds(await ostler.begin("manageNodes", [name]))).toBe("SUCCEEDED");
    const args: Readonly<Record<string, object>> = { wait: { seconds: 1 }, boot_device: { device: "DISK" } };
    const steps = reservedSteps.map((step) => ({
      interface: step.interface,
      name: step.name,
      args: args[step.name] ?? null,
    }));
    const { cleanNodes } = await ostler.query<{
      cleanNodes: { errors: object[]; results: { steps: { interface: string; name: string }[] }[] };
    }>(
      "mutation Plan($input: CleanNodesInput!) { cleanNodes(input: $input) { errors { message } results { steps { interface name } } } }",
      { input: { nodes: { names: [name] }, steps, dryRun: true } },
    );
    expect(cleanNodes).toMatchObject({
      errors: [],
      results: [{ steps: reservedSteps.map((step) => ({ interface: step.interface, name: step.name })) }],
    });
  });
});
