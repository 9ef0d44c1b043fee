/** Presence: reports of monitoring change the presence of nodes and nothing else, node by node. */
import { afterAll, describe, expect, test } from "vitest";
import { nodesByNames } from "../../src/store/nodes/nodes.ts";
import { secretsOf } from "../support/keyring.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import { heldIn } from "../support/held-work.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const report = (event: "DISCOVERED" | "DISAPPEARED", ...names: readonly string[]) =>
  ostler.engine.reportPresence(
    ALICE,
    event,
    names.map((name) => ({ name })),
  );
const named = async (name: string) => (await nodesByNames(ostler.database.reader, [name]))[0];

describe("presence report", () => {
  test("presence report sets the presence of every node it names, with results in the order of the request [R-037]", async () => {
    const [one, two] = [await ostler.aNode().made(), await ostler.aNode().made()];
    expect(await report("DISCOVERED", two.name, one.name)).toEqual({
      refusals: [],
      results: [
        { ref: two.name, nodeId: two.id, change: "UPDATED", refusal: null },
        { ref: one.name, nodeId: one.id, change: "UPDATED", refusal: null },
      ],
    });
    expect(await ostler.node(one)).toMatchObject({
      presence: "DISCOVERED",
      state: "ENROLLED",
      revision: 2,
      transitionCount: 1,
    });
    await report("DISAPPEARED", one.name);
    expect([(await ostler.node(one)).presence, (await ostler.node(two)).presence]).toEqual([
      "DISAPPEARED",
      "DISCOVERED",
    ]);
  });

  test("presence report that is repeated writes nothing [R-039]", async () => {
    const nodes = await ostler.aNode().times(3);
    const names = nodes.map(({ name }) => name);
    await report("DISCOVERED", ...names);
    const before = await ostler.dump();
    const again = await report("DISCOVERED", ...names);
    expect(again.results.map(({ change }) => change)).toEqual(["UNCHANGED", "UNCHANGED", "UNCHANGED"]);
    expect(await ostler.changesSince(before)).toEqual([]);
  });

  test("presence report works during runs and does not affect them [R-037]", async () => {
    const { gate, node, id } = await heldIn(ostler, "clean.erase_disks");
    expect(await report("DISAPPEARED", node.name)).toMatchObject({ results: [{ change: "UPDATED" }] });
    expect(await ostler.node(node)).toMatchObject({ presence: "DISAPPEARED", state: "CLEANING" });
    gate.open();
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "SUCCEEDED" });
    expect(await ostler.node(node)).toMatchObject({ presence: "DISAPPEARED", state: "AVAILABLE" });
  });

  test("presence report starts no work [R-037]", async () => {
    const node = await ostler.aNode().made();
    const operations = async () => (await ostler.test.sql`select count(*)::int from operations`)[0]?.["count"];
    const before = await operations();
    await report("DISCOVERED", node.name);
    await report("DISAPPEARED", node.name);
    expect(await operations()).toBe(before);
    expect(await ostler.story(node)).toEqual(["register → ENROLLED"]);
  });

  test("presence report without nodes is refused", async () => {
    expect(await report("DISCOVERED")).toMatchObject({
      results: [],
      refusals: [{ code: "INVALID_INPUT", path: ["input", "nodes"] }],
    });
  });
});

describe("presence report of an unknown node", () => {
  test("presence report of an unknown node registers it if it is DISCOVERED and names a driver [R-038]", async () => {
    const node = {
      name: "seen-first",
      driver: "fake",
      settings: { password: "correct-horse", controller: "10.0.0.7" },
      labels: { rack: "1" },
    };
    expect(await ostler.engine.reportPresence(ALICE, "DISCOVERED", [node])).toMatchObject({
      refusals: [],
      results: [{ ref: "seen-first", nodeId: expect.any(String), change: "REGISTERED", refusal: null }],
    });
    const made = await named("seen-first");
    expect(made).toMatchObject({
      state: "ENROLLED",
      presence: "DISCOVERED",
      labels: { rack: "1" },
      controller: "10.0.0.7",
      revision: 1,
    });
    expect(await secretsOf(ostler.database, made?.id ?? "")).toEqual({ fake: { password: "correct-horse" } });
    expect(await ostler.transitions({ id: made?.id ?? "", name: "" })).toMatchObject([
      { event: "register", toState: "ENROLLED", actor: "alice", operationId: null },
    ]);
    expect(await ostler.engine.reportPresence(ALICE, "DISCOVERED", [{ ...node, labels: { rack: "2" } }])).toMatchObject(
      { results: [{ change: "UNCHANGED" }] },
    );
    expect(await named("seen-first")).toMatchObject({ revision: 1, labels: { rack: "1" } });
  });

  test("presence report of an unknown node that fails has its own result, and the other nodes are updated [R-038]", async () => {
    const known = await ostler.aNode().made();
    const discovered = await ostler.engine.reportPresence(ALICE, "DISCOVERED", [
      { name: "no-driver" },
      { name: "lost", driver: "tape" },
      { name: "typo", driver: "fake", settings: { delayMS: 1 } },
      { name: "-bad-", driver: "fake", labels: { "no good": "x" } },
      { name: known.name },
      { name: "sound", driver: "fake" },
    ]);
    expect(discovered.refusals).toEqual([]);
    expect(
      discovered.results.map(
        ({ change, refusal }) => change ?? `${refusal?.code} ${refusal?.path?.slice(1).join(".")}`,
      ),
    ).toEqual([
      "INVALID_INPUT nodes.0.driver",
      "INVALID_INPUT nodes.1.driver",
      "INVALID_INPUT nodes.2.driver.fake",
      "INVALID_INPUT nodes.3.name",
      "UPDATED",
      "REGISTERED",
    ]);
    expect(discovered.results[0]?.refusal?.message).toMatch(/no-driver is not registered\. Name its driver/);
    expect(discovered.results[3]?.refusal?.message).toMatch(/-bad-.*no good/);
    const gone = await report("DISAPPEARED", "ghost", known.name, "spectre");
    expect(gone.refusals).toEqual([]);
    expect(gone.results).toMatchObject([
      {
        ref: "ghost",
        nodeId: null,
        change: null,
        refusal: { code: "NOT_FOUND", missing: ["ghost"], path: ["input", "nodes", "0", "name"] },
      },
      { ref: known.name, change: "UPDATED", refusal: null },
      { ref: "spectre", refusal: { code: "NOT_FOUND", missing: ["spectre"] } },
    ]);
    expect(await named("ghost")).toBeUndefined();
  });

  test("presence report that names an unknown node twice registers it once", async () => {
    const known = await ostler.aNode().made();
    const twice = [
      { name: "doubled" },
      { name: "doubled", driver: "fake" },
      { name: known.name },
      { name: "doubled", driver: "fake" },
      { name: known.name },
    ];
    const { results } = await ostler.engine.reportPresence(ALICE, "DISCOVERED", twice);
    expect(results.map(({ change }) => change)).toEqual([null, "REGISTERED", "UPDATED", "UNCHANGED", "UNCHANGED"]);
    expect((await ostler.node(known)).revision).toBe(2);
  });

  test("presence reports of an unknown node at the same moment register it once, and each gets the result", async () => {
    const answers = await Promise.all(
      Array.from({ length: 6 }, () =>
        ostler.engine.reportPresence(ALICE, "DISCOVERED", [{ name: "contested", driver: "fake" }]),
      ),
    );
    const changes = answers.map(({ results }) => results[0]?.change);
    expect([
      changes.filter((change) => change === "REGISTERED"),
      changes.filter((change) => change === "UNCHANGED"),
    ]).toMatchObject([{ length: 1 }, { length: 5 }]);
  });
});

describe("concurrent presence reports", () => {
  test("presence reports with the same nodes in different orders do not deadlock", async () => {
    const nodes = await ostler.aNode().times(30);
    const names = nodes.map(({ name }) => name);
    await Promise.all(
      Array.from({ length: 20 }, (_, turn) =>
        report(turn % 2 === 0 ? "DISCOVERED" : "DISAPPEARED", ...(turn % 3 === 0 ? names : names.toReversed())),
      ),
    );
    const fresh = Array.from({ length: 40 }, (_, number) => ({ name: `crossing-${number}`, driver: "fake" }));
    const made = await Promise.all(
      [fresh, fresh.toReversed(), fresh, fresh.toReversed()].map((list) =>
        ostler.engine.reportPresence(ALICE, "DISCOVERED", list),
      ),
    );
    expect(made.flatMap(({ results }) => results.filter(({ change }) => change === "REGISTERED"))).toHaveLength(40);
    const seen = await Promise.all(nodes.map(async (node) => (await ostler.node(node)).presence));
    expect(new Set(seen).size).toBe(1);
  });
});
