/** updateNodes: one change of many nodes, in one transaction, decided node by node. */
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import type { UpdateNodesRequest, UpdatedNodes } from "../../src/engine/inventory/update-nodes.ts";
import { editGroups } from "../../src/engine/inventory/update-nodes.ts";
import type { NodePatch } from "../../src/engine/inventory/node-patch.ts";

import { secretsOf } from "../support/keyring.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver } from "../support/driver.ts";

const vault = aDriver("vault", { secret: true });
const bare = aDriver("bare");
const ostler = await engineUnderTest({ drivers: [vault, bare] });
afterAll(() => ostler[Symbol.asyncDispose]());

function edit(
  nodes: readonly TestNode[],
  patch: NodePatch,
  more: Partial<Omit<UpdateNodesRequest, "patch">> = {},
): Promise<UpdatedNodes> {
  return ostler.engine.updateNodes(ALICE, {
    nodes: more.revisions ? undefined : { ids: nodes.map(({ id }) => id) },
    acceptance: "ALL_OR_NOTHING",
    dryRun: false,
    patch,
    ...more,
  });
}

const rows = (nodes: readonly TestNode[]) => Promise.all(nodes.map((node) => ostler.node(node)));
const outcomes = ({ results }: UpdatedNodes) => results.map(({ outcome, refusal }) => refusal?.code ?? outcome);
const revisionsOf = async (nodes: readonly TestNode[]) =>
  (await rows(nodes)).map(({ id, revision }) => ({ nodeId: id, revision }));

describe("labels", () => {
  test("updateNodes sets and removes single labels, keeps the others, and leaves nodes that have them already [R-583]", async () => {
    const nodes = [
      await ostler.aNode().labelled({ rack: "1", old: "x", keep: "y" }).made(),
      await ostler.aNode().labelled({ rack: "2", room: "b" }).made(),
      await ostler.aNode().made(),
    ];
    const answer = await edit(nodes, { setLabels: [{ key: "rack", value: "2" }], removeLabels: ["old"] });
    expect(answer).toMatchObject({ isStored: true, refusals: [] });
    expect(outcomes(answer)).toEqual(["CHANGED", "UNCHANGED", "CHANGED"]);
    expect((await rows(nodes)).map(({ labels, revision }) => ({ labels, revision }))).toEqual([
      { labels: { rack: "2", keep: "y" }, revision: 2 },
      { labels: { rack: "2", room: "b" }, revision: 1 },
      { labels: { rack: "2" }, revision: 2 },
    ]);
  });

  test("updateNodes with labels replaces all of them", async () => {
    const nodes = await ostler.aNode().labelled({ rack: "1" }).times(2);
    await edit(nodes, { labels: [{ key: "room", value: "c" }] });
    expect((await rows(nodes)).map(({ labels }) => labels)).toEqual([{ room: "c" }, { room: "c" }]);
  });

  test("updateNodes refuses the nodes that would have more labels than are stored", async () => {
    const full = await ostler
      .aNode()
      .labelled(Object.fromEntries(Array.from({ length: 64 }, (_, index) => [`key${index}`, ""])))
      .made();
    const node = await ostler.aNode().made();
    const patch = { setLabels: [{ key: "more", value: "1" }] };
    expect(outcomes(await edit([full, node], patch))).toEqual(["INVALID_INPUT", "CHANGED"]);
    expect((await ostler.node(node)).labels).toEqual({});
    expect(outcomes(await edit([full], { ...patch, removeLabels: ["key7"] }))).toEqual(["CHANGED"]);
  });
});

describe("fields", () => {
  test("updateNodes sets and removes host group, description, protection and automatic cleaning", async () => {
    const nodes = await ostler.aNode().times(2);
    const given = {
      hostGroup: "worker",
      description: "row 4",
      isProtected: true,
      automaticCleaning: false,
      diskless: true,
    };
    expect(outcomes(await edit(nodes, given))).toEqual(["CHANGED", "CHANGED"]);
    expect(await rows(nodes)).toMatchObject([given, given]);
    expect(outcomes(await edit(nodes, given))).toEqual(["UNCHANGED", "UNCHANGED"]);
    const none = { hostGroup: null, description: null, isProtected: false, automaticCleaning: null, diskless: null };
    await edit(nodes, none);
    expect(await rows(nodes)).toMatchObject([
      { ...none, revision: 3 },
      { ...none, revision: 3 },
    ]);
  });

  test("updateNodes of the host group refuses a node that is being deployed for another one", async () => {
    const gate = aGate();
    const busy = await ostler
      .aNode()
      .in("ACTIVE")
      .scripted({ "deploy.configure": { gate: gate.name } })
      .made();
    const free = await ostler.aNode().made();
    const id = await ostler.begin("REDEPLOY", [busy], { options: { reinstall: true, hostGroup: "master" } });
    await gate.arrivals();
    const answer = await edit([busy, free], { hostGroup: "worker" }, { acceptance: "BEST_EFFORT" });
    expect(outcomes(answer)).toEqual(["BUSY", "CHANGED"]);
    expect(outcomes(await edit([busy], { setLabels: [{ key: "a", value: "b" }] }))).toEqual(["CHANGED"]);
    gate.open();
    await ostler.operationEnds(id);
    expect(await rows([busy, free])).toMatchObject([{ hostGroup: "master" }, { hostGroup: "worker" }]);
  });

  test.each([
    ["nothing", {}, "input"],
    ["a bad key", { setLabels: [{ key: "a b", value: "" }] }, "input.setLabels.0"],
    ["a key twice", { setLabels: ["1", "2"].map((value) => ({ key: "a", value })) }, "input.setLabels"],
    ["a label set and removed", { setLabels: [{ key: "a", value: "" }], removeLabels: ["a"] }, "input.removeLabels"],
    ["labels replaced and removed", { labels: [], removeLabels: ["a"] }, "input.labels"],
    ["a bad host group", { hostGroup: "-" }, "input.hostGroup"],
    ["a bad description", { description: "two\nlines" }, "input.description"],
    ["no settings", { settingsOfDrivers: [] }, "input.settings"],
    [
      "a driver twice",
      { settingsOfDrivers: ["bare", "bare"].map((driver) => ({ driver, settings: {} })) },
      "input.settings",
    ],
  ] satisfies [string, NodePatch, string][])("updateNodes with %s is refused whole", async (_, patch, path) => {
    const node = await ostler.aNode().made();
    const before = await ostler.dump();
    const { refusals, results } = await edit([node], patch);
    expect(refusals.map((one) => `${one.code} ${one.path?.join(".")}`)).toContain(`INVALID_INPUT ${path}`);
    expect(results).toEqual([]);
    expect(await ostler.changesSince(before)).toEqual([]);
  });
});

describe("selection", () => {
  test("updateNodes refuses a node that has another revision than the caller read, and stores nothing [R-584]", async () => {
    const nodes = await ostler.aNode().times(3);
    const revisions = await revisionsOf(nodes);
    await edit(nodes.slice(1, 2), { description: "changed meanwhile" });
    const before = await ostler.dump();
    const patch = { setLabels: [{ key: "a", value: "b" }] };
    const answer = await edit(nodes, patch, { revisions });
    expect(outcomes(answer)).toEqual(["CHANGED", "STALE_REVISION", "CHANGED"]);
    expect(answer).toMatchObject({ isStored: false, refusals: [{ code: "STALE_REVISION", nodeId: nodes[1]?.id }] });
    expect(await ostler.changesSince(before)).toEqual([]);
    const partly = await edit(nodes, patch, { revisions, acceptance: "BEST_EFFORT" });
    expect(partly).toMatchObject({ isStored: true, refusals: [] });
    expect((await rows(nodes)).map(({ labels }) => labels)).toEqual([{ a: "b" }, {}, { a: "b" }]);
  });

  test("updateNodes with BEST_EFFORT changes the others when a node of `revisions` was deleted", async () => {
    const nodes = await ostler.aNode().times(2);
    const revisions = [
      ...(await revisionsOf(nodes)),
      { nodeId: randomUUID(), revision: 1 },
      { nodeId: "x", revision: 1 },
    ];
    const patch = { description: "still here" };
    const whole = await edit(nodes, patch, { revisions });
    expect(whole).toMatchObject({ isStored: false, refusals: [{ code: "NOT_FOUND", nodes: { count: 2 } }] });
    const answer = await edit(nodes, patch, { revisions, acceptance: "BEST_EFFORT" });
    expect(outcomes(answer)).toEqual(["CHANGED", "CHANGED", "NOT_FOUND", "NOT_FOUND"]);
    expect(answer.results.map(({ nodeId }) => nodeId)).toEqual([nodes[0]?.id, nodes[1]?.id, null, null]);
  });

  test("updateNodes refuses a selection of another size than the caller means, and a filter without a condition [R-585]", async () => {
    const nodes = await ostler.aNode().labelled({ batch: "counted" }).times(3);
    const before = await ostler.dump();
    const select = (expectedCount: number | undefined, filter: object) =>
      edit(nodes, { description: "x" }, { nodes: { filter }, expectedCount });
    const filter = { labels: { batch: "counted" } };
    expect(await select(2, filter)).toMatchObject({ results: [], refusals: [{ code: "STALE_REVISION" }] });
    expect(await select(undefined, {})).toMatchObject({ results: [], refusals: [{ code: "INVALID_INPUT" }] });
    expect(await ostler.changesSince(before)).toEqual([]);
    expect(outcomes(await select(3, filter))).toEqual(["CHANGED", "CHANGED", "CHANGED"]);
  });

  test.each([
    ["neither", { nodes: undefined }],
    ["both", { revisions: [{ nodeId: randomUUID(), revision: 1 }], nodes: { all: true } }],
    ["no revision", { revisions: [] }],
    ["a node twice", { revisions: ["a", "a"].map((nodeId) => ({ nodeId, revision: 1 })) }],
    ["an unknown name", { nodes: { names: ["nowhere"] } }],
  ] satisfies [string, Partial<UpdateNodesRequest>][])(
    "updateNodes that selects by %s is refused whole",
    async (_, more) => {
      const { refusals, results } = await edit([], { description: "x" }, more);
      expect(refusals).toHaveLength(1);
      expect(results).toEqual([]);
    },
  );

  test("dry run of updateNodes returns what would change, writes nothing, and does not wait for locked nodes [R-586]", async () => {
    const nodes = await ostler.aNode().labelled({ rack: "1" }).times(2);
    const before = await ostler.dump();
    const answer = await ostler.test.sql.begin(async (sql) => {
      await sql`select 1 from nodes where id = ${nodes[0]?.id ?? ""} for update`;
      return edit(nodes, { setLabels: [{ key: "rack", value: "2" }] }, { dryRun: true });
    });
    expect(outcomes(answer)).toEqual(["CHANGED", "CHANGED"]);
    expect(answer).toMatchObject({ isStored: false, refusals: [] });
    expect(await ostler.changesSince(before)).toEqual([]);
  });
});

describe("settings", () => {
  const aVault = (settings: object = {}) =>
    ostler
      .aNode()
      .with("vault", { password: "s3cret", ...settings })
      .made();
  const secretOf = async ({ id }: TestNode) => secretsOf(ostler.database, id);

  test("updateNodes lays settings over those of the drivers that each node uses, and refuses nodes of other drivers [R-587]", async () => {
    const own = await ostler.aNode().made();
    const borrowing = await ostler
      .aNode()
      .with("bare")
      .borrowing([{ kinds: ["power"], driver: "vault", settings: { password: "one" } }])
      .made();
    const other = await ostler.aNode().with("bare").made();
    const answer = await edit(
      [own, borrowing, other],
      {
        settingsOfDrivers: [
          { driver: "fake", settings: { delayMs: 7 } },
          { driver: "vault", settings: { password: "two" } },
        ],
      },
      { acceptance: "BEST_EFFORT" },
    );
    expect(outcomes(answer)).toEqual(["CHANGED", "CHANGED", "UNSUPPORTED_BY_DRIVER"]);
    expect((await ostler.node(own)).settings).toMatchObject({ fake: { delayMs: 7 } });
    expect(await secretOf(borrowing)).toEqual({ vault: { password: "two" } });
    expect((await ostler.node(other)).revision).toBe(1);
  });

  test("updateNodes reports the flaws of settings with their place in the request, and stores nothing", async () => {
    const nodes = await ostler.aNode().times(2);
    const before = await ostler.dump();
    const settings = [
      { driver: "vault", settings: {} },
      { driver: "fake", settings: { delayMs: -1 } },
    ];
    const { refusals } = await edit(nodes, { settingsOfDrivers: settings });
    expect(refusals).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "settings", "1", "fake", "delayMs"], nodes: { count: 2 } },
    ]);
    expect(await ostler.changesSince(before)).toEqual([]);
  });

  test("updateNodes counts a sent secret as a change, so that a dry run does not confirm a guess [R-588]", async () => {
    const node = await aVault();
    const guess = (password: string) =>
      edit([node], { settingsOfDrivers: [{ driver: "vault", settings: { password } }] }, { dryRun: true });
    expect(await guess("s3cret")).toEqual(await guess("wrong"));
    expect(outcomes(await guess("s3cret"))).toEqual(["CHANGED"]);
    expect(JSON.stringify(await guess("s3cret"))).not.toContain("s3cret");
  });
});

test("groups of an edit are the outcomes, and refused nodes by code with their number", async () => {
  const nodes = await ostler.aNode().times(2);
  const revisions = [
    { nodeId: nodes[0]?.id ?? "", revision: 9 },
    { nodeId: nodes[1]?.id ?? "", revision: 1 },
    ...Array.from({ length: 12 }, () => ({ nodeId: randomUUID(), revision: 1 })),
  ];
  const { results } = await edit(nodes, { description: "grouped" }, { revisions });
  expect(editGroups(results)).toMatchObject([
    { outcome: "CHANGED", results: { length: 1 }, refusal: null },
    { outcome: "REFUSED", results: { length: 12 }, refusal: { code: "NOT_FOUND", nodes: { count: 12 } } },
    { outcome: "REFUSED", results: { length: 1 }, refusal: { code: "STALE_REVISION" } },
  ]);
});

test("edits of overlapping selections in opposite orders do not deadlock, and each is stored whole [R-589]", async () => {
  const nodes = await ostler.aNode().times(40);
  const round = (index: number) =>
    edit(index % 2 === 0 ? nodes : nodes.toReversed(), { setLabels: [{ key: `round${index}`, value: "x" }] });
  const answers = await Promise.all(Array.from({ length: 12 }, (_, index) => round(index)));
  expect(answers.every(({ isStored }) => isStored)).toBe(true);
  for (const { labels, revision } of await rows(nodes)) {
    expect(Object.keys(labels)).toHaveLength(12);
    expect(revision).toBe(13);
  }
});
