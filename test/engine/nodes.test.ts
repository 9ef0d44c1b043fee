/** Registering, updating and deleting nodes: all or none, and never while something depends on the node. */
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import type { BorrowedInterfaces } from "../../src/engine/inventory/node-settings.ts";
import { secretFieldsOf } from "../../src/store/nodes/nodes.ts";
import { secretsOf } from "../support/keyring.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { changeNode } from "../support/change-node.ts";
import { fakeSteps } from "../support/fake-steps.ts";

const cleaner = aDriver("cleaner", {
  clean: stepsOf(
    aStep("rinse", "clean", async ({ settings }) => ({ kind: "done", output: { with: String(settings["soap"]) } })),
  ),
});
const bare = aDriver("bare");
const mute = aDriver("mute", {
  inspect: {
    ...stepsOf(aStep("look", "inspect", async () => ({ kind: "done", output: { model: 7 } }))),
    withoutReboot: true,
  },
});
/** Reports the chassis of its nodes as their controller; fails where the settings say so. */
const blade = {
  ...aDriver("blade", { secret: true }),
  controllerOf({ chassis = "", label = "", password = "" }: Record<string, string>) {
    if (chassis === "broken") throw new Error(`no chassis with ${password}`);
    return `${chassis} ${label}`.trim();
  },
} as unknown as typeof bare;

const ostler = await engineUnderTest({ drivers: [cleaner, bare, blade, mute] });
afterAll(() => ostler[Symbol.asyncDispose]());

const count = async () => (await ostler.test.sql`select count(*)::int from nodes`)[0]?.["count"];

test("description of a node is set, changed with its settings, removed, and refused if it would deceive a terminal [R-234]", async () => {
  const { nodeIds } = await ostler.engine.registerNodes(ALICE, [
    { name: "described", driver: "fake", description: "Rack 3, fan replaced" },
  ]);
  const [id = ""] = nodeIds;
  const node = { id, name: "described" };
  expect(await ostler.node(node)).toMatchObject({ description: "Rack 3, fan replaced", revision: 1 });
  for (const settings of [undefined, { delayMs: 1 }])
    for (const description of ["two\nlines", "\u202Ereversed", "\u001B[2J", "x".repeat(1_001)])
      expect((await changeNode(ostler.engine, ALICE, id, { description, settings })).refusals).toMatchObject([
        { code: "INVALID_INPUT", path: ["input", "description"] },
      ]);
  await changeNode(ostler.engine, ALICE, id, { description: "Rack 4", settings: { delayMs: 1 } });
  expect(await ostler.node(node)).toMatchObject({ description: "Rack 4", revision: 2 });
  await changeNode(ostler.engine, ALICE, id, { description: null });
  expect(await ostler.node(node)).toMatchObject({ description: null, revision: 3 });
  expect(
    (await ostler.engine.registerNodes(ALICE, [{ name: "odd", driver: "fake", description: "\0" }])).refusals,
  ).toMatchObject([{ code: "INVALID_INPUT", path: ["input", "nodes", "0", "description"] }]);
});

describe("registerNodes", () => {
  test("registerNodes makes every node ENROLLED, with its transition [R-015]", async () => {
    const answer = await ostler.engine.registerNodes(ALICE, [
      { name: "rack1-u1", driver: "fake", labels: { rack: "1" } },
      { name: "rack1-u2", driver: "fake" },
    ]);
    expect(answer).toMatchObject({ refusals: [], nodeIds: [expect.any(String), expect.any(String)] });
    const node = { id: answer.nodeIds[0] ?? "", name: "rack1-u1" };
    expect(await ostler.node(node)).toMatchObject({
      state: "ENROLLED",
      labels: { rack: "1" },
      powerState: "UNKNOWN",
      presence: "UNSEEN",
      stage: "NONE",
    });
    expect(await ostler.transitions(node)).toMatchObject([
      { event: "register", fromState: null, toState: "ENROLLED", sequence: 1, actor: "alice" },
    ]);
  });

  test("registerNodes with errors is refused whole, with every error [R-015]", async () => {
    const before = await count();
    const answer = await ostler.engine.registerNodes(ALICE, [
      { name: "sound", driver: "fake" },
      { name: "-bad-", driver: "fake" },
      { name: "twice", driver: "fake" },
      { name: "twice", driver: "fake" },
      { name: "lost", driver: "tape" },
      { name: "typo", driver: "fake", settings: { delayMS: 5 } },
      { name: "odd", driver: "fake", interfaces: [{ kinds: ["wheels"], driver: "bare" }] },
      { name: "lacking", driver: "fake", interfaces: [{ kinds: ["clean"], driver: "bare" }] },
      { name: "labelled", driver: "fake", labels: { "no good": "x" } },
    ]);
    expect(answer.nodeIds).toEqual([]);
    const flawed = new Set(answer.refusals.map(({ path }) => Number(path?.[2])));
    expect(flawed).toEqual(new Set([1, 3, 4, 5, 6, 7, 8]));
    expect(new Set(answer.refusals.map(({ code }) => code))).toEqual(new Set(["INVALID_INPUT"]));
    expect(await count()).toBe(before);
  });

  test("registerNodes with errors and conflicts is refused with both, node by node, each with its path", async () => {
    const node = await ostler.aNode().made();
    const before = await ostler.dump();
    const answer = await ostler.engine.registerNodes(ALICE, [
      { name: "fine", driver: "fake" },
      { name: node.name, driver: "fake", labels: { "no good": "x" }, cluster: { name: "ghost" } },
      { name: "also-fine", driver: "fake" },
      { name: node.name, driver: "tape", cluster: { id: "garbage" }, hostGroup: "-" },
      {
        name: "-",
        driver: "fake",
        settings: { delayMs: -1 },
        interfaces: [
          { kinds: ["clean"], driver: "tape" },
          { kinds: ["clean", "wheels"], driver: "bare" },
        ],
      },
    ]);
    expect(answer.refusals.map(({ code, path }) => `${code} ${path?.slice(2).join(".")}`)).toEqual([
      "INVALID_INPUT 1.labels",
      "NOT_FOUND 1.cluster",
      "INVALID_INPUT 1.name",
      "INVALID_INPUT 3.hostGroup",
      "INVALID_INPUT 3.driver",
      "INVALID_INPUT 3.name",
      "NOT_FOUND 3.cluster",
      "INVALID_INPUT 4.name",
      "INVALID_INPUT 4.interfaces.0.driver",
      "INVALID_INPUT 4.interfaces.1.kinds.0",
      "INVALID_INPUT 4.interfaces.1.kinds.0",
      "INVALID_INPUT 4.interfaces.1.kinds.1",
      "INVALID_INPUT 4.driver.fake.delayMs",
    ]);
    expect(await ostler.changesSince(before)).toEqual([]);
  });

  test("registerNodes with an unknown driver is refused with the names of the loaded ones", async () => {
    const { refusals } = await ostler.engine.registerNodes(ALICE, [
      { name: "taped", driver: "tape", interfaces: [{ kinds: ["clean"], driver: "spool" }] },
    ]);
    expect(refusals.map(({ message }) => message)).toEqual([
      expect.stringContaining('driver "tape" is not loaded (loaded: fake, cleaner, bare, blade, mute)'),
      expect.stringContaining('driver "spool" is not loaded (loaded: fake, cleaner, bare, blade, mute)'),
    ]);
  });

  test("registerNodes with no nodes, a taken name or an unknown cluster is refused", async () => {
    const node = await ostler.aNode().made();
    const answers = await Promise.all([
      ostler.engine.registerNodes(ALICE, []),
      ostler.engine.registerNodes(ALICE, [{ name: node.name, driver: "fake" }]),
      ostler.engine.registerNodes(ALICE, [{ name: "homeless", driver: "fake", cluster: { name: "ghost" } }]),
    ]);
    expect(answers.map(({ refusals }) => refusals.map(({ code }) => code))).toEqual([
      ["INVALID_INPUT"],
      ["INVALID_INPUT"],
      ["NOT_FOUND"],
    ]);
  });

  test("registerNodes with the same name at the same moment succeeds once", async () => {
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => ostler.engine.registerNodes(ALICE, [{ name: "contested", driver: "fake" }])),
    );
    expect(answers.filter(({ refusals }) => refusals.length === 0)).toHaveLength(1);
    expect(answers.flatMap(({ refusals }) => refusals).map(({ message }) => message)).toEqual(
      Array.from({ length: 4 }, () => "A node contested exists already."),
    );
  });

  test("registerNodes stores secrets apart from the settings", async () => {
    const node = await ostler.aNode().with("fake", { password: "correct-horse" }).made();
    expect((await ostler.node(node)).settings).toEqual({
      fake: expect.not.objectContaining({ password: expect.anything() }),
    });
    expect(await secretsOf(ostler.database, node.id)).toEqual({ fake: { password: "correct-horse" } });
    expect((await secretFieldsOf(ostler.database.reader, [node.id])).get(node.id)).toEqual({ fake: ["password"] });
  });
});

describe("controller of a node", () => {
  const made = async (
    driver: string,
    settings: Record<string, unknown>,
    interfaces: readonly BorrowedInterfaces[] = [],
  ) => ostler.aNode().with(driver, settings).borrowing(interfaces).sharingController().made();

  test("controller of a node comes from the driver of its power, and nodes that share it have the same one", async () => {
    const [one, two, other, own] = [
      await made("blade", { chassis: "c7" }),
      await made("bare", {}, [{ kinds: ["power"], driver: "blade", settings: { chassis: "c7" } }]),
      await made("blade", { chassis: "c8" }),
      await made("bare", {}),
    ];
    expect(await Promise.all([one, two, other, own].map(async (node) => (await ostler.node(node)).controller))).toEqual(
      ["c7", "c7", "c8", null],
    );
  });

  test("controller of a node is determined again when its driver settings change, and only then", async () => {
    const node = await made("blade", { chassis: "c7" });
    await changeNode(ostler.engine, ALICE, node.id, { labels: { a: "1" } });
    expect((await ostler.node(node)).controller).toBe("c7");
    await changeNode(ostler.engine, ALICE, node.id, { settings: { chassis: "c9" } });
    expect((await ostler.node(node)).controller).toBe("c9");
    await changeNode(ostler.engine, ALICE, node.id, { driver: "bare" });
    expect((await ostler.node(node)).controller).toBeNull();
  });

  test("controller of a node contains no secret, and a driver that fails to report it is refused without its own message", async () => {
    const node = await made("blade", { chassis: "c7", label: "by Xyzzy-plugh", password: "Xyzzy-plugh" });
    expect((await ostler.node(node)).controller).toBe("c7 by ***");
    const { refusals } = await ostler.engine.registerNodes(ALICE, [
      { name: "broken", driver: "blade", settings: { chassis: "broken", password: "Xyzzy-plugh" } },
    ]);
    expect(refusals).toMatchObject([{ code: "UNSUPPORTED_BY_DRIVER", path: ["input", "nodes", "0", "driver"] }]);
    expect(refusals[0]?.message).not.toContain("Xyzzy");
  });
});

describe("optional fields of a node", () => {
  test("host group and automatic cleaning of a node can be set by register and update, and cleared with null", async () => {
    const { nodeIds } = await ostler.engine.registerNodes(ALICE, [
      { name: "grouped", driver: "fake", hostGroup: "service-master", automaticCleaning: false, diskless: true },
    ]);
    const node = { id: nodeIds[0] ?? "", name: "grouped" };
    expect(await ostler.node(node)).toMatchObject({ hostGroup: "service-master", automaticCleaning: false });
    await changeNode(ostler.engine, ALICE, node.id, { labels: {} });
    expect(await ostler.node(node)).toMatchObject({
      hostGroup: "service-master",
      automaticCleaning: false,
      diskless: true,
    });
    await changeNode(ostler.engine, ALICE, node.id, { hostGroup: null, automaticCleaning: null, diskless: null });
    expect(await ostler.node(node)).toMatchObject({ hostGroup: null, automaticCleaning: null, diskless: null });
    expect((await changeNode(ostler.engine, ALICE, node.id, { hostGroup: "a b" })).refusals).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "hostGroup"] },
    ]);
  });

  test("automatic cleaning that is switched off for a node affects that node only", async () => {
    const [dirty, clean] = await ostler.aNode().in("ACTIVE").times(2);
    if (!dirty || !clean) throw new Error("Two nodes were asked for.");
    await changeNode(ostler.engine, ALICE, dirty.id, { automaticCleaning: false });
    await ostler.operationEnds(await ostler.begin("UNDEPLOY", [dirty, clean]));
    expect(
      [ostler.entered(dirty), ostler.entered(clean)].map((steps) => steps.filter((step) => step.startsWith("clean"))),
    ).toEqual([[], fakeSteps("clean")]);
  });
});

describe("model of a node", () => {
  test("model of a node comes from an inspection, and stays when a later one reports none", async () => {
    const node = await ostler.aNode().in("MANAGEABLE").made();
    await ostler.operationEnds(await ostler.begin("INSPECT", [node]));
    expect((await ostler.node(node)).model).toBe("Fake 1000");
    await changeNode(ostler.engine, ALICE, node.id, { interfaces: [{ kinds: ["inspect"], driver: "mute" }] });
    await ostler.operationEnds(await ostler.begin("INSPECT", [node]));
    expect((await ostler.node(node)).model).toBe("Fake 1000");
    expect(
      (
        await ostler.test.sql`select data from inventories where node_id = ${node.id} order by taken_at desc limit 1`
      )[0]?.["data"],
    ).toEqual({ model: 7 });
  });
});

describe("node that borrows an interface from another driver", () => {
  test("node that borrows an interface is cleaned by the other driver with its settings", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .borrowing([{ kinds: ["clean"], driver: "cleaner", settings: { soap: "green" } }])
      .made();
    const id = await ostler.begin("CLEAN", [node]);
    await ostler.operationEnds(id);
    const steps = await ostler.steps(await ostler.run(id, node));
    expect(steps.map(({ name, attempts: [attempt] }) => [name, attempt?.output])).toEqual([
      ["clean.rinse", { with: "green" }],
    ]);
  });

  test("node that borrows an interface supports verbs that its own driver does not", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("bare").made();
    expect((await ostler.submit("CLEAN", [node])).refusals).toMatchObject([{ code: "UNSUPPORTED_BY_DRIVER" }]);
    await changeNode(ostler.engine, ALICE, node.id, {
      interfaces: [{ kinds: ["clean"], driver: "cleaner", settings: { soap: "red" } }],
    });
    expect((await ostler.operationEnds(await ostler.begin("CLEAN", [node]))).state).toBe("SUCCEEDED");
  });
});

describe("updateNodes", () => {
  test("updateNodes changes the given fields only and keeps secrets", async () => {
    const node = await ostler
      .aNode()
      .with("fake", { password: "correct-horse", delayMs: 5 })
      .labelled({ rack: "1" })
      .made();
    await changeNode(ostler.engine, ALICE, node.id, { settings: { delayMs: 9 } });
    expect(await ostler.node(node)).toMatchObject({
      name: node.name,
      labels: { rack: "1" },
      settings: { fake: { delayMs: 9 } },
    });
    expect(await secretsOf(ostler.database, node.id)).toEqual({ fake: { password: "correct-horse" } });
  });

  test("updateNodes without a change keeps the revision and the secrets", async () => {
    const node = await ostler
      .aNode()
      .with("fake", { password: "correct-horse", delayMs: 5 })
      .labelled({ rack: "1", row: "2" })
      .made();
    const before = await ostler.node(node);
    for (const change of [
      { name: node.name },
      { labels: { row: "2", rack: "1" } },
      { settings: { delayMs: 5 } },
      { settings: {} },
      { driver: "fake" },
      { hostGroup: null, automaticCleaning: null, isProtected: false },
    ]) {
      expect(await changeNode(ostler.engine, ALICE, node.id, change)).toMatchObject({
        isStored: true,
        refusals: [],
        results: [{ outcome: "UNCHANGED" }],
      });
      expect(await ostler.node(node)).toEqual(before);
    }
    await changeNode(ostler.engine, ALICE, node.id, { settings: { password: "battery-staple" } });
    expect(await ostler.node(node)).toMatchObject({ revision: before.revision + 1, settings: before.settings });
    expect(await secretsOf(ostler.database, node.id)).toEqual({ fake: { password: "battery-staple" } });
    expect(
      (await changeNode(ostler.engine, ALICE, node.id, { ifRevision: before.revision, labels: {} })).refusals,
    ).toMatchObject([{ code: "STALE_REVISION" }]);
  });

  test("updateNodes with a stale revision is refused with STALE_REVISION", async () => {
    const node = await ostler.aNode().made();
    const { revision } = await ostler.node(node);
    expect(
      (await changeNode(ostler.engine, ALICE, node.id, { ifRevision: revision, labels: { a: "1" } })).refusals,
    ).toEqual([]);
    expect(
      (await changeNode(ostler.engine, ALICE, node.id, { ifRevision: revision, labels: { a: "2" } })).refusals,
    ).toMatchObject([{ code: "STALE_REVISION", nodeId: node.id }]);
    expect((await ostler.node(node)).labels).toEqual({ a: "1" });
  });

  test("updateNodes from two callers with the same revision succeeds once", async () => {
    const node = await ostler.aNode().made();
    const { revision } = await ostler.node(node);
    const answers = await Promise.all(
      ["1", "2", "3", "4"].map((a) =>
        changeNode(ostler.engine, ALICE, node.id, { ifRevision: revision, labels: { a } }),
      ),
    );
    expect(answers.flatMap(({ refusals }) => refusals.map(({ code }) => code))).toEqual([
      "STALE_REVISION",
      "STALE_REVISION",
      "STALE_REVISION",
    ]);
    expect(await ostler.node(node)).toMatchObject({ revision: revision + 1 });
  });

  test("updateNodes to a taken name, or of an unknown node, is refused", async () => {
    const [one, two] = await ostler.aNode().times(2);
    expect((await changeNode(ostler.engine, ALICE, one?.id ?? "", { name: two?.name ?? "" })).refusals).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "name"] },
    ]);
    expect((await changeNode(ostler.engine, ALICE, "7", { name: "x" })).refusals).toMatchObject([
      { code: "NOT_FOUND", missing: ["7"] },
    ]);
  });
});

describe("deleteNodes", () => {
  test("deleteNodes ends the nodes in the log and keeps their history", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("CLEAN", [node]);
    await ostler.operationEnds(id);
    expect((await ostler.engine.deleteNodes(ALICE, { ids: [node.id] })).refusals).toEqual([]);
    expect((await ostler.transitions(node)).at(-1)).toMatchObject({
      event: "delete",
      fromState: "AVAILABLE",
      toState: null,
    });
    expect(await ostler.run(id, node)).toMatchObject({ nodeName: node.name });
    expect(await ostler.foldedLog()).toEqual(await ostler.nodeStates());
  });

  test("deleteNodes with one node that is busy, protected or ACTIVE is refused for all", async () => {
    const gate = aGate();
    const busy = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_disks": { gate: gate.name } })
      .made();
    const guarded = await ostler.aNode().made();
    const active = await ostler.aNode().in("ACTIVE").made();
    const free = await ostler.aNode().made();
    await changeNode(ostler.engine, ALICE, guarded.id, { isProtected: true });
    const id = await ostler.begin("CLEAN", [busy]);
    await gate.arrivals();
    const answer = await ostler.engine.deleteNodes(ALICE, {
      ids: [busy, guarded, active, free].map((node) => node.id),
    });
    expect(Object.fromEntries(answer.refusals.map(({ code, nodeId }) => [code, nodeId]))).toEqual({
      BUSY: busy.id,
      INVALID_STATE: active.id,
      PROTECTED: guarded.id,
    });
    expect(await ostler.nodeState(free)).toBe("ENROLLED");
    gate.open();
    await ostler.operationEnds(id);
  });
});

describe("refusals of deleteNodes", () => {
  test("deleteNodes does not list every refused node in errors [R-262]", async () => {
    const guarded = await ostler.aNode().times(12);
    const free = await ostler.aNode().made();
    for (const { id } of guarded) await changeNode(ostler.engine, ALICE, id, { isProtected: true });
    const answer = await ostler.engine.deleteNodes(ALICE, { names: [...guarded, free].map(({ name }) => name) });
    expect(answer).toMatchObject({
      nodeIds: [],
      refusals: [
        {
          code: "PROTECTED",
          nodeId: guarded[0]?.id,
          nodes: { count: 12, refs: guarded.slice(0, 10).map(({ name }) => name) },
        },
      ],
      results: guarded.map(({ id, name }) => ({
        ref: name,
        nodeId: id,
        accepted: false,
        refusal: { code: "PROTECTED", message: expect.stringContaining(name) },
      })),
    });
    expect(answer.refusals).toHaveLength(1);
    expect(answer.results).toHaveLength(12);
  });
});

describe("settings that bind a secret", () => {
  const PASSWORD = "correct-horse";
  const registered = async (controller?: string) => {
    const name = `bound-${randomUUID()}`;
    const { nodeIds } = await ostler.engine.registerNodes(ALICE, [
      {
        name,
        driver: "fake",
        settings: { password: PASSWORD, ...(controller && { controller }) },
        sharedController: true,
      },
    ]);
    return nodeIds[0] ?? "";
  };
  const change = (id: string, settings: object) => changeNode(ostler.engine, ALICE, id, { settings });

  test.each([
    ["a new value", undefined, { controller: "203.0.113.9" }],
    ["another value", "10.0.0.7", { controller: "203.0.113.9" }],
    ["its default", "10.0.0.7", { controller: null }],
    ["another value, and null for the secret's neighbours", "10.0.0.7", { controller: "203.0.113.9", serial: null }],
  ])("stored secret is not sent to an address of the caller's choice: %s", async (_what, controller, settings) => {
    const id = await registered(controller);
    const before = await ostler.dump();
    expect((await change(id, settings)).refusals).toMatchObject([
      {
        code: "INVALID_INPUT",
        message: expect.stringContaining(
          "controller decides where the stored password is sent. Send the password again",
        ),
        path: ["input", "driver", "fake", "controller"],
      },
    ]);
    expect(await ostler.changesSince(before)).toEqual([]);
    expect((await change(id, { ...settings, password: PASSWORD })).refusals).toEqual([]);
  });

  test("stored secret is kept by a change of other settings, and needs no repetition where it is removed", async () => {
    const id = await registered("10.0.0.7");
    for (const settings of [{ delayMs: 3 }, { controller: "10.0.0.7" }, { controller: "10.0.0.8", password: null }])
      expect((await change(id, settings)).refusals).toEqual([]);
    expect((await change(id, { controller: "10.0.0.9" })).refusals).toEqual([]);
  });

  test("stored secret of a borrowed driver does not follow it to another address when the drivers change places", async () => {
    const { nodeIds } = await ostler.engine.registerNodes(ALICE, [
      {
        name: `bound-${randomUUID()}`,
        driver: "blade",
        interfaces: [{ kinds: ["clean"], driver: "fake", settings: { password: PASSWORD, controller: "10.0.0.7" } }],
        sharedController: true,
      },
    ]);
    const next = { driver: "fake", settings: { controller: "203.0.113.9" }, interfaces: [] };
    expect((await changeNode(ostler.engine, ALICE, nodeIds[0] ?? "", next)).refusals).toMatchObject([
      { path: ["input", "driver", "fake", "controller"] },
    ]);
  });
});
