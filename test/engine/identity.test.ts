/** One machine, one node: equal controllers are refused, equal machines are found by inspections and marked. */
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { Json } from "../../src/drivers/driver.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { changeNode } from "../support/change-node.ts";

/** The inventory that the machine of a node reports. */
const reported = new Map<string, Json>();

const ostler = await engineUnderTest({
  drivers: [
    aDriver("probed", {
      inspect: {
        withoutReboot: true,
        ...stepsOf(
          aStep("look", "inspect", async ({ node }) => ({ kind: "done", output: reported.get(node.name) ?? {} })),
        ),
      },
    }),
    { ...aDriver("other"), controllerOf: (settings: unknown) => (settings as { at?: string }).at ?? "" },
  ],
});
afterAll(() => ostler[Symbol.asyncDispose]());
afterEach(() => ostler.engine.updateSite(ALICE, { sharedIdentities: null }));

let count = 0;
/** A text that no other test uses. */
const unique = (prefix: string) => `${prefix}-${(count += 1)}`;
const fake = (settings: object, more: object = {}) => ({ name: unique("machine"), driver: "fake", settings, ...more });

async function registered(...nodes: ReturnType<typeof fake>[]): Promise<TestNode[]> {
  const { nodeIds, refusals } = await ostler.engine.registerNodes(ALICE, nodes);
  expect(refusals).toEqual([]);
  return nodes.map(({ name }, index) => ({ name, id: nodeIds[index] ?? "" }));
}

const conflictOf = async (node: TestNode) => (await ostler.node(node)).identityConflict;
const refusalsOf = async (...nodes: ReturnType<typeof fake>[]) =>
  (await ostler.engine.registerNodes(ALICE, nodes)).refusals;

/** Two nodes whose machines report these inventories, inspected one after the other. */
async function inspected(one: Json, two: Json): Promise<[TestNode, TestNode]> {
  const a = await ostler.aNode().in("AVAILABLE").with("probed").named(unique("a")).made();
  const b = await ostler.aNode().in("AVAILABLE").with("probed").named(unique("b")).made();
  await finds(a, one);
  await finds(b, two);
  return [a, b];
}

async function finds(node: TestNode, output: Json): Promise<void> {
  reported.set(node.name, output);
  const id = await ostler.begin("INSPECT", [node]);
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
}

describe("registration", () => {
  test("a second node with the same controller is refused, with both names, the remedy and the path [R-740]", async () => {
    const bmc = unique("bmc");
    const [first] = await registered(fake({ controller: bmc, serial: "S1" }));
    for (const settings of [{ controller: bmc, serial: "S1" }, { controller: bmc }, { controller: bmc.toUpperCase() }])
      expect(await refusalsOf(fake(settings))).toMatchObject([
        {
          code: "IDENTITY_CONFLICT",
          message: expect.stringMatching(new RegExp(`${first?.name}.*sharedController: true`)),
          path: ["input", "nodes", "0", "driver", "fake"],
          nodeId: first?.id,
        },
      ]);
  });

  test("two nodes of one request with the same controller are refused", async () => {
    const bmc = unique("bmc");
    expect(await refusalsOf(fake({ controller: bmc, serial: "S1" }), fake({ controller: bmc }))).toMatchObject([
      { code: "IDENTITY_CONFLICT", path: ["input", "nodes", "1", "driver", "fake"] },
    ]);
  });

  test("another system, or another port, of the same controller is another machine, and sharedController allows the same one", async () => {
    const bmc = unique("bmc");
    await registered(fake({ controller: `${bmc}:6230` }), fake({ controller: `${bmc}:6231` }));
    await registered(fake({ controller: bmc, serial: "S1" }), fake({ controller: bmc, serial: "S2" }));
    const [, third] = await registered(
      fake({ controller: unique("bmc") }),
      fake({ controller: bmc }, { sharedController: true }),
    );
    expect(third && (await conflictOf(third))).toBeNull();
  });

  test("a controller that a second driver of the node reaches counts, under its default port too", async () => {
    const bmc = unique("bmc");
    const borrowed = { interfaces: [{ kinds: ["power"], driver: "other", settings: { at: `${bmc}:623` } }] };
    await registered(fake({}, borrowed));
    expect(await refusalsOf(fake({ controller: `${bmc}:443` }))).toMatchObject([{ code: "IDENTITY_CONFLICT" }]);
  });

  test("of many concurrent registrations with one controller exactly one wins [R-740]", async () => {
    const controller = unique("bmc");
    const answers = await Promise.all(Array.from({ length: 8 }, () => refusalsOf(fake({ controller }))));
    expect(answers.map((refusals) => refusals[0]?.code ?? "none").toSorted()).toEqual([
      ...Array.from({ length: 7 }, () => "IDENTITY_CONFLICT"),
      "none",
    ]);
  });

  test("a report of monitoring does not register a second node of the same machine", async () => {
    const controller = unique("bmc");
    const report = [fake({ controller }), fake({ controller })];
    const { results } = await ostler.engine.reportPresence(ALICE, "DISCOVERED", report);
    expect(results).toMatchObject([
      { change: "REGISTERED" },
      {
        change: null,
        nodeId: null,
        refusal: { code: "IDENTITY_CONFLICT", path: ["input", "nodes", "1", "driver", "fake"] },
      },
    ]);
  });

  test("3000 nodes behind one controller are registered, and none of them is in a conflict", async () => {
    const controller = unique("bmc");
    const nodes = await registered(
      ...Array.from({ length: 3000 }, () => fake({ controller }, { sharedController: true })),
    );
    const ids = nodes.map(({ id }) => id);
    const marked = await ostler.test
      .sql`select name from nodes where id = any(${ids}::uuid[]) and identity_conflict is not null`;
    expect(marked).toEqual([]);
  });
});

describe("edits", () => {
  test("an edit to the controller of another node is refused, and one that leaves the controller is not [R-740]", async () => {
    const [one, two] = [unique("bmc"), unique("bmc")];
    const [first, second] = await registered(fake({ controller: one }), fake({ controller: two }));
    const update = (settings: object, more: object = {}) =>
      changeNode(ostler.engine, ALICE, second?.id ?? "", { settings, ...more });
    expect((await update({ controller: one })).refusals).toMatchObject([
      { code: "IDENTITY_CONFLICT", path: ["input", "driver", "fake"], nodeId: first?.id },
    ]);
    expect((await update({ delayMs: 1 })).refusals).toEqual([]);
    expect((await update({ controller: one }, { sharedController: true })).refusals).toEqual([]);
    // The one that was there first needs no flag of its own.
    expect((await changeNode(ostler.engine, ALICE, first?.id ?? "", { settings: { delayMs: 1 } })).refusals).toEqual(
      [],
    );
    expect(
      (await changeNode(ostler.engine, ALICE, second?.id ?? "", { sharedController: null })).refusals,
    ).toMatchObject([{ code: "IDENTITY_CONFLICT", path: ["input", "sharedController"] }]);
  });

  test("updateNodes does not give one controller to two nodes", async () => {
    const controller = unique("bmc");
    const nodes = await registered(fake({}), fake({}));
    const edit = (more: object = {}) =>
      ostler.engine.updateNodes(ALICE, {
        nodes: { ids: nodes.map(({ id }) => id) },
        acceptance: "BEST_EFFORT",
        dryRun: false,
        patch: { settingsOfDrivers: [{ driver: "fake", settings: { controller } }], ...more },
      });
    expect((await edit()).results).toMatchObject([
      { outcome: "CHANGED" },
      { outcome: "REFUSED", refusal: { code: "IDENTITY_CONFLICT", path: ["input", "settings", "0", "fake"] } },
    ]);
    expect((await edit({ sharedController: true })).results.map(({ outcome }) => outcome)).toEqual([
      "CHANGED",
      "CHANGED",
    ]);
  });
});

describe("inspection", () => {
  const UUID = "4c4c4544-0043-5310-8052-b4c04f4e3233";
  const nic = (mac: string, name = "eth0") => ({ networkInterfaces: [{ name, mac }] });

  test.each<[string, Json, Json, string]>([
    ["serial number", { serial: "one-s" }, { serial: " ONE-S " }, "SERIAL_NUMBER"],
    ["UUID", { uuid: UUID }, { uuid: UUID.toUpperCase() }, "UUID"],
    ["UUID in the other order of bytes", { uuid: UUID }, { uuid: "44454c4c-4300-1053-8052-b4c04f4e3233" }, "UUID"],
    [
      "universal MAC",
      { serial: "m1", ...nic("a0:36:9f:00:00:01") },
      { serial: "m2", ...nic("A0-36-9F-00-00-01") },
      "MAC",
    ],
  ])(
    "a %s that another node has is a conflict on both nodes until one of them is deleted [R-741]",
    async (_what, one, two, kind) => {
      const [a, b] = await inspected(one, two);
      expect(await conflictOf(a)).toMatchObject({ kind, nodeName: b.name });
      expect(await conflictOf(b)).toMatchObject({ kind, nodeName: a.name });
      for (const node of [a, b])
        expect(await ostler.submit("CLEAN", [node], { options: { force: true } })).toMatchObject({
          refusals: [{ code: "IDENTITY_CONFLICT" }],
        });
      expect((await ostler.engine.deleteNodes(ALICE, { ids: [b.id] })).refusals).toEqual([]);
      expect(await conflictOf(a)).toBeNull();
      await ostler.engine.deleteNodes(ALICE, { ids: [a.id] });
    },
  );

  test.each<[string, Json, Json]>([
    ["meaningless serial number", { serial: "0123456789" }, { serial: "0123456789" }],
    [
      "meaningless UUID",
      { uuid: "03000200-0400-0500-0006-000700080009" },
      { uuid: "03000200-0400-0500-0006-000700080009" },
    ],
    ["MAC of an internal USB link", nic("be:3a:f2:b6:05:9f"), nic("be:3a:f2:b6:05:9f")],
    ["MAC of an interface to the BMC", nic("a0:36:9f:00:01:01", "usb0"), nic("a0:36:9f:00:01:01", "usb0")],
    ["MAC of a bridge of containers", nic("02:42:ac:11:00:02", "docker0"), nic("02:42:ac:11:00:02", "docker0")],
    ["locally administered MAC", nic("52:54:00:00:aa:01"), nic("52:54:00:00:aa:01")],
  ])("a %s makes no conflict [R-743]", async (_what, one, two) => {
    const [a, b] = await inspected(one, two);
    expect([await conflictOf(a), await conflictOf(b)]).toEqual([null, null]);
  });

  test("an inspection that finds another machine ends the conflict on both nodes", async () => {
    const [a, b] = await inspected({ serial: "swap-1", ...nic("a0:36:9f:00:02:01") }, { serial: "swap-1" });
    await finds(b, { serial: "swap-2" });
    expect([await conflictOf(a), await conflictOf(b)]).toEqual([null, null]);
    await finds(b, nic("a0:36:9f:00:02:01"));
    expect(await conflictOf(a)).toMatchObject({ kind: "MAC" });
    await finds(a, nic("a0:36:9f:00:02:02"));
    expect([await conflictOf(a), await conflictOf(b)]).toEqual([null, null]);
  });

  test("the site's list declares a value as shared, and without it the conflict comes back [R-743]", async () => {
    const [a, b] = await inspected({ serial: "Vendor 7" }, { serial: "Vendor 7" });
    expect((await ostler.engine.updateSite(ALICE, { sharedIdentities: ["vendor 7"] })).refusals).toEqual([]);
    expect([await conflictOf(a), await conflictOf(b)]).toEqual([null, null]);
    await ostler.engine.updateSite(ALICE, { sharedIdentities: [] });
    expect(await conflictOf(a)).toMatchObject({ kind: "SERIAL_NUMBER", value: "Vendor 7", nodeName: b.name });
    const third = await ostler.aNode().in("AVAILABLE").with("probed").made();
    await finds(third, { serial: "vendor 7" });
    // The third shows the first; when that is gone, the second.
    await ostler.engine.deleteNodes(ALICE, { ids: [a.id] });
    expect([(await conflictOf(b))?.nodeName, (await conflictOf(third))?.nodeName]).toEqual([third.name, b.name]);
  });

  test("the site's list is refused if it or a value is too long", async () => {
    const update = async (sharedIdentities: readonly string[]) =>
      (await ostler.engine.updateSite(ALICE, { sharedIdentities })).refusals;
    const path = ["input", "sharedIdentities"];
    expect(await update(["ok", "x".repeat(129)])).toMatchObject([{ code: "INVALID_INPUT", path: [...path, "1"] }]);
    expect(await update(Array.from({ length: 1001 }, String))).toMatchObject([{ code: "INVALID_INPUT", path }]);
    expect(await update(["x".repeat(128)])).toEqual([]);
  });

  test("an edit of the address forgot what was found, and the machine was erased as another one: the next inspection decides", async () => {
    const serial = unique("S");
    const [a, b] = await registered(
      fake({ controller: unique("bmc"), serial }),
      fake({ controller: unique("bmc"), serial }),
    );
    if (!a || !b) throw new Error("Two nodes are registered.");
    for (const node of [a, b]) await ostler.operationEnds(await ostler.begin("COMMISSION", [node]));
    expect((await conflictOf(a))?.nodeName).toBe(b.name);
    await changeNode(ostler.engine, ALICE, b.id, { name: `${b.name}-new` });
    expect((await conflictOf(a))?.nodeName).toBe(`${b.name}-new`);
    await changeNode(ostler.engine, ALICE, b.id, { settings: { controller: unique("bmc") } });
    expect([await conflictOf(a), await conflictOf(b)]).toMatchObject([{ value: serial }, { value: serial }]);
    await changeNode(ostler.engine, ALICE, b.id, { settings: { serial: unique("S") } });
    await ostler.operationEnds(await ostler.begin("INSPECT", [b]));
    expect([await conflictOf(a), await conflictOf(b)]).toEqual([null, null]);
  });
});

describe("work", () => {
  test("a commission whose inspection finds the machine of another node ends before it erases, and cleans nothing up [R-742]", async () => {
    const serial = unique("S");
    const [active, second] = await registered(fake({ serial }), fake({ serial }));
    if (!active || !second) throw new Error("Two nodes are registered.");
    await ostler.operationEnds(await ostler.begin("COMMISSION", [active]));
    const id = await ostler.begin("COMMISSION", [second], { onFailure: "CLEAN_UP_ALL" });
    const operation = await ostler.operationEnds(id);
    expect(operation).toMatchObject({ state: "FAILED", firstFailure: { code: "IDENTITY_CONFLICT" } });
    expect(ostler.entered(second)).toEqual(["inspect.collect_inventory"]);
    expect(await ostler.runs(id)).toHaveLength(1);
    expect(await ostler.node(second)).toMatchObject({ state: "MANAGEABLE", lastError: { code: "IDENTITY_CONFLICT" } });
    expect(await ostler.node(active)).toMatchObject({ state: "ACTIVE", stage: "DEPLOYED", powerState: "ON" });
    for (const kind of ["UNDEPLOY", "REDEPLOY", "DECOMMISSION", "DEPLOY", "COMMISSION", "CLEAN", "PROVIDE"] as const)
      for (const node of [active, second])
        expect((await ostler.submit(kind, [node])).refusals).toMatchObject([{ code: "IDENTITY_CONFLICT" }]);
    await ostler.operationEnds(await ostler.begin("INSPECT", [second]));
    await ostler.operationEnds(await ostler.begin("POWER", [active], { options: { powerAction: "ON" } }));
  });

  test("two nodes of one machine in one commission are not both erased", async () => {
    const serial = unique("S");
    const nodes = await registered(fake({ serial }), fake({ serial }));
    await ostler.operationEnds(await ostler.begin("COMMISSION", nodes, { onFailure: "LEAVE" }));
    expect(nodes.filter((node) => ostler.entered(node).includes("clean.erase_disks")).length).toBeLessThan(2);
    for (const node of nodes) expect(await conflictOf(node)).not.toBeNull();
  });

  test("a run that is working when its node gets a conflict begins no further step that erases [R-742]", async () => {
    const serial = unique("S");
    const gate = aGate();
    const steps = { "clean.erase_metadata": { gate: gate.name } };
    const [first, second] = await registered(fake({ serial, steps }), fake({ serial }));
    if (!first || !second) throw new Error("Two nodes are registered.");
    const id = await ostler.begin("COMMISSION", [first]);
    await gate.arrivals();
    await ostler.operationEnds(await ostler.begin("COMMISSION", [second]));
    gate.open();
    expect(await ostler.operationEnds(id)).toMatchObject({ firstFailure: { code: "IDENTITY_CONFLICT" } });
    expect(ostler.entered(first)).not.toContain("clean.erase_disks");
  });
});
