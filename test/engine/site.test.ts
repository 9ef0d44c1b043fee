/** The site's policy: what an update keeps, what is refused, and who is notified. */
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import * as z from "zod";
import createFake from "../../plugins/fake/index.ts";
import { createRegistry } from "../../src/drivers/registry.ts";
import { updateSite } from "../../src/engine/inventory/site.ts";
import type { SiteChange } from "../../src/engine/inventory/site.ts";
import { cleansAutomatically, readSite } from "../../src/store/site.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { testKeyring } from "../support/keyring.ts";

const ostler = await engineUnderTest({ started: false });
afterAll(() => ostler[Symbol.asyncDispose]());

const done = async () => ({ kind: "done" }) as const;
const other = aDriver("other", {
  clean: stepsOf(
    aStep("erase_disks", "clean", done),
    aStep("tune", "clean", done, { args: z.strictObject({ level: z.int() }) }),
  ),
});
const registry = createRegistry([createFake({ log: () => {} }), other]);
const { transact } = ostler;
const keyring = await testKeyring(ostler.database);

let notified = 0;
const change = (input: SiteChange) =>
  updateSite({ transact, registry, keyring, nudge: () => void (notified += 1) }, ALICE, input);
const site = () => readSite(ostler.database.reader);

async function changed(input: SiteChange) {
  expect(await change(input)).toEqual({ done: true, refusals: [] });
  return (await site()).policy;
}

/** Paths of the errors, such as `input.steps.0.driver`, with their messages. */
async function flaws(input: SiteChange) {
  const before = await site();
  const { done: isDone, refusals } = await change(input);
  expect(isDone).toBe(false);
  expect(await site()).toEqual(before);
  for (const { code } of refusals) expect(code).toBe("INVALID_INPUT");
  return refusals.map(({ path, message }) => [path?.join("."), message] as const);
}

const EMPTY = { phaseLimits: null, controllerLimit: null, automaticCleaning: null, correctPower: null, steps: null };
beforeEach(async () => {
  await change(EMPTY);
  notified = 0;
});

describe("updateSite", () => {
  test("updateSite keeps absent fields and clears fields that are null", async () => {
    const all = {
      phaseLimits: { clean: 3, deploy: 5 },
      controllerLimit: 2,
      automaticCleaning: false,
      correctPower: true,
      steps: [{ step: "clean.erase_disks", driver: "fake", priority: 5 }],
    };
    expect(
      await changed({
        phaseLimits: [
          { phase: "clean", limit: 3 },
          { phase: "deploy", limit: 5 },
        ],
        controllerLimit: 2,
        automaticCleaning: false,
        correctPower: true,
        steps: [{ step: "clean.erase_disks", driver: "fake", priority: 5, forbidden: null }],
      }),
    ).toEqual(all);
    expect(await changed({})).toEqual(all);
    expect(await changed({ automaticCleaning: null })).toEqual({
      phaseLimits: all.phaseLimits,
      controllerLimit: 2,
      correctPower: true,
      steps: all.steps,
    });
    expect(await changed({ phaseLimits: [{ phase: "verify", limit: 1 }], steps: [] })).toEqual({
      phaseLimits: { verify: 1 },
      controllerLimit: 2,
      correctPower: true,
      steps: [],
    });
    expect(await changed(EMPTY)).toEqual({});
  });

  test("updateSite records revision, time and caller", async () => {
    const before = await site();
    await changed({ correctPower: true });
    const after = await site();
    expect(after).toMatchObject({ revision: before.revision + 1, updatedBy: "alice" });
    expect(after.updatedAt.getTime()).toBeGreaterThanOrEqual(before.updatedAt.getTime());
  });

  test("updateSite with a stale revision is refused and keeps the other change", async () => {
    const { revision } = await site();
    expect(await change({ ifRevision: revision, controllerLimit: 4 })).toMatchObject({ done: true });
    expect(await change({ ifRevision: revision, controllerLimit: 9 })).toEqual({
      done: false,
      refusals: [
        {
          code: "STALE_REVISION",
          message: `The site's policy is at revision ${revision + 1}, not ${revision}. Read it again and repeat the change.`,
          path: ["input", "ifRevision"],
        },
      ],
    });
    expect((await site()).policy.controllerLimit).toBe(4);
  });

  test("updateSite at the same moment as another update loses neither", async () => {
    const { revision } = await site();
    await Promise.all([
      change({ controllerLimit: 4 }),
      change({ correctPower: true }),
      change({ automaticCleaning: false }),
      change({ phaseLimits: [{ phase: "clean", limit: 1 }] }),
    ]);
    expect(await site()).toMatchObject({
      revision: revision + 4,
      policy: { controllerLimit: 4, correctPower: true, automaticCleaning: false, phaseLimits: { clean: 1 } },
    });
  });
});

describe("slot scheduler", () => {
  test("slot scheduler is notified after the commit of a change of limits", async () => {
    let seen: unknown;
    const parts = { transact, registry, keyring, nudge: () => void (seen = site()) };
    await updateSite(parts, ALICE, { controllerLimit: 3 });
    expect(await seen).toMatchObject({ policy: { controllerLimit: 3 } });
    await change({ phaseLimits: [{ phase: "clean", limit: 2 }] });
    await change({ phaseLimits: null });
    expect(notified).toBe(2);
  });

  test("slot scheduler is not notified of other changes or of refused ones", async () => {
    await change({ correctPower: true, steps: [] });
    await change({ controllerLimit: 0 });
    await change({ ifRevision: 0, controllerLimit: 5 });
    expect(notified).toBe(0);
  });
});

describe("limit of the site", () => {
  test("limit of the site is a positive integer for a phase that can have one, given once; every error is named", async () => {
    const found = await flaws({
      phaseLimits: [
        { phase: "clean", limit: 0 },
        { phase: "power", limit: 2 },
        { phase: "deploy", limit: 1.5 },
        { phase: "deploy", limit: 2 },
        { phase: "inspect", limit: -3 },
      ],
      controllerLimit: 0,
    });
    expect(found.map(([place]) => place)).toEqual([
      "input.phaseLimits.0.limit",
      "input.phaseLimits.1.phase",
      "input.phaseLimits.2.limit",
      "input.phaseLimits.3.phase",
      "input.phaseLimits.4.limit",
      "input.controllerLimit",
    ]);
    expect(found[1]?.[1]).toContain("verify, inspect, clean, deploy, undeploy");
    expect(found[3]?.[1]).toBe("The phase deploy is given twice.");
  });
});

describe("step policy of the site", () => {
  test("step policy of the site names steps that a loaded driver offers; every error of every entry is named", async () => {
    const found = await flaws({
      controllerLimit: 0,
      steps: [
        { step: "clean.polish", priority: 1 },
        { step: "erase_disks", forbidden: true },
        { step: "clean.tune", driver: "fake", forbidden: true },
        { step: "clean.erase_disks", driver: "redfish", priority: -1 },
        { step: "clean.erase_disks" },
        { step: "clean.erase_disks", priority: 2_000_000 },
        { step: "deploy.remove_system", priority: 0.5 },
        { step: "power.reboot", forbidden: true },
      ],
    });
    expect(found.map(([place]) => place)).toEqual([
      "input.controllerLimit",
      "input.steps.0.step",
      "input.steps.1.step",
      "input.steps.2.step",
      "input.steps.3.driver",
      "input.steps.3.priority",
      "input.steps.4.step",
      "input.steps.5.step",
      "input.steps.5.priority",
      "input.steps.6.priority",
      "input.steps.7.step",
    ]);
    const offered =
      "inspect.collect_inventory, deploy.prepare, deploy.write_image, deploy.boot_system, deploy.configure, deploy.remove_system, clean.erase_metadata, clean.erase_disks, clean.update_firmware";
    expect(found[1]?.[1]).toBe(`No loaded driver offers a step clean.polish (offered: ${offered}, clean.tune).`);
    expect(found[2]?.[1]).toMatch(/A step is named interface\.name\.$/);
    expect(found[3]?.[1]).toBe(`Driver fake does not offer a step clean.tune (offered: ${offered}).`);
    expect(found[4]?.[1]).toBe("Driver redfish is not loaded (loaded: fake, other).");
    expect(found[6]?.[1]).toContain("give it one of them");
    expect(found[7]?.[1]).toBe("The step clean.erase_disks of every driver is given twice.");
  });

  test("step policy of the site may be given once for all drivers and once for each driver", async () => {
    const steps = [
      { step: "clean.erase_disks", priority: 1 },
      { step: "clean.erase_disks", driver: "fake", priority: 2 },
      { step: "clean.erase_disks", driver: "other", forbidden: true },
    ];
    expect((await changed({ steps })).steps).toEqual(steps);
    expect(
      (await flaws({ steps: [...steps, { step: "clean.erase_disks", driver: "other", priority: 0 }] })).map(
        ([, message]) => message,
      ),
    ).toEqual(["The step clean.erase_disks of driver other is given twice."]);
  });

  test("step policy of the site cannot enable a step with required arguments", async () => {
    const found = await flaws({
      steps: [
        { step: "clean.update_firmware", priority: 5 },
        { step: "clean.tune", driver: "other", priority: 1 },
      ],
    });
    expect(found.map(([place]) => place)).toEqual(["input.steps.0.priority", "input.steps.1.priority"]);
    expect(found[0]?.[1]).toMatch(
      /^The step clean\.update_firmware of driver fake cannot run automatically: it needs arguments \(version: .+\)\. Request it by name/,
    );
    expect(
      (
        await changed({
          steps: [
            { step: "clean.update_firmware", priority: 0 },
            { step: "clean.tune", forbidden: true },
          ],
        })
      ).steps,
    ).toHaveLength(2);
  });
});

describe("automatic cleaning of a node", () => {
  test.each([
    { site: undefined, node: null, cleans: true },
    { site: true, node: null, cleans: true },
    { site: false, node: null, cleans: false },
    { site: false, node: true, cleans: true },
    { site: true, node: false, cleans: false },
    { site: undefined, node: false, cleans: false },
  ])(
    "automatic cleaning with $site for the site and $node for the node is $cleans",
    ({ site: siteValue, node, cleans }) => {
      expect(
        cleansAutomatically(siteValue === undefined ? {} : { automaticCleaning: siteValue }, {
          automaticCleaning: node,
        }),
      ).toBe(cleans);
    },
  );
});
