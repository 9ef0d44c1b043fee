/** Picking free nodes: the service chooses and locks them, so that two requests never get the same node. */
import { afterAll, describe, expect, test } from "vitest";
import type { NodePick } from "../../src/engine/input/node-pick.ts";
import type { NodeFilter } from "../../src/store/nodes/node-filter.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

let racks = 0;

/** AVAILABLE nodes with a label of their own, and the filter that matches them. */
async function aRack(count: number, gate?: string) {
  racks += 1;
  const rack = `r${racks}`;
  const builder = ostler.aNode().in("AVAILABLE");
  const nodes = await (gate === undefined ? builder : builder.scripted({ "deploy.prepare": { gate } })).times(count);
  await ostler.test
    .sql`update nodes set labels = ${ostler.test.sql.json({ rack })} where id in ${ostler.test.sql(nodes.map(({ id }) => id))}`;
  return { nodes, filter: { labels: { rack } } };
}

const pick = (choice: NodePick, more: object = {}) =>
  ostler.engine.submit(ALICE, { kind: "DEPLOY", nodes: { pick: choice }, ...more });
const refsOf = ({ results }: Awaited<ReturnType<typeof pick>>) => results.map(({ ref }) => ref);
const namesOf = (nodes: readonly TestNode[]) => nodes.map(({ name }) => name);

describe("pick", () => {
  test("two concurrent requests pick disjoint nodes, and both get all that they need [R-154]", async () => {
    const { nodes, filter } = await aRack(10);
    const answers = await Promise.all(Array.from({ length: 5 }, () => pick({ count: 2, filter })));
    expect(answers.flatMap(({ refusals }) => refusals)).toEqual([]);
    expect(answers.flatMap(refsOf).toSorted()).toEqual(namesOf(nodes).toSorted());
    for (const { operationId } of answers)
      expect((await ostler.operationEnds(operationId ?? "")).state).toBe("SUCCEEDED");
  });

  test("of two concurrent requests for more nodes than are free, at most one is accepted [R-154]", async () => {
    const { filter } = await aRack(3);
    const answers = await Promise.all([pick({ count: 2, filter }), pick({ count: 2, filter })]);
    expect(answers.filter(({ operationId }) => operationId !== null)).toHaveLength(1);
    expect(answers.flatMap(({ refusals }) => refusals)).toMatchObject([
      { code: "CAPACITY", path: ["input", "nodes", "pick", "count"] },
    ]);
    await Promise.all(answers.map(async ({ operationId }) => operationId && ostler.operationEnds(operationId)));
  });

  test("a pick passes over a node with a queued run, whose row has not changed", async () => {
    const gate = aGate();
    const { nodes, filter } = await aRack(3, gate.name);
    const id = await ostler.begin("DEPLOY", nodes.slice(0, 2), { maxParallel: 1 });
    await gate.arrivals(1);
    const answer = await pick({ count: 1, filter });
    expect(refsOf(answer)).toEqual([nodes[2]?.name]);
    gate.open();
    await ostler.operationEnds(id);
    await ostler.operationEnds(answer.operationId ?? "");
  });

  test("a pick passes over a node with a fault, which would be refused [R-154]", async () => {
    const { nodes, filter } = await aRack(2);
    await ostler.test
      .sql`update nodes set fault_kind = 'BMC_UNREACHABLE', fault_since = now() where id = ${nodes[0]?.id ?? ""}`;
    const answer = await pick({ count: 1, filter });
    expect(refsOf(answer)).toEqual([nodes[1]?.name]);
    await ostler.operationEnds(answer.operationId ?? "");
  });

  test("a pick with too few free nodes is refused with their number and locks none [R-155]", async () => {
    const { nodes, filter } = await aRack(6);
    const [kept, old, lost, guarded, spare, other] = nodes as [
      TestNode,
      TestNode,
      TestNode,
      TestNode,
      TestNode,
      TestNode,
    ];
    await ostler.engine.setMaintenance(ALICE, { names: [kept.name] }, "fan");
    await ostler.engine.setRetired(ALICE, { names: [old.name] }, "old");
    await ostler.test.sql`update nodes set presence = 'DISAPPEARED' where id = ${lost.id}`;
    await ostler.test.sql`update nodes set is_protected = true where id = ${guarded.id}`;
    const before = await ostler.dump();
    const answer = await pick({ count: 3, filter });
    expect(answer).toMatchObject({
      operationId: null,
      results: [],
      refusals: [{ code: "CAPACITY", available: 2, path: ["input", "nodes", "pick", "count"] }],
    });
    expect(answer.refusals[0]?.message).toMatch("The request needs 3 nodes, and only 2 that match are free.");
    expect(await ostler.changesSince(before)).toEqual([]);
    expect(refsOf(await pick({ count: 2, filter }, { dryRun: true }))).toEqual(namesOf([spare, other]).toSorted());
  });

  test("a pick does not take nodes that are reserved for a cluster [R-420]", async () => {
    const { nodes, filter } = await aRack(3);
    const [member, spare] = nodes as [TestNode, TestNode, TestNode];
    const { clusterId } = await ostler.engine.createCluster(ALICE, {
      name: "pick-web",
      nodes: { names: [member.name] },
    });
    const planned = async (choice: NodePick) => refsOf(await pick(choice, { dryRun: true }));
    const answer = await pick({ count: 3, filter });
    expect(answer.refusals).toMatchObject([{ code: "CAPACITY", available: 2 }]);
    expect(answer.refusals[0]?.message).toMatch("not in a cluster, unless the filter has a condition on clusters");
    expect(await planned({ count: 2, filter })).not.toContain(member.name);
    const others = namesOf(nodes)
      .filter((name) => name !== member.name)
      .toSorted();
    const all = namesOf(nodes).toSorted();
    const chosenBy = async (condition: NodeFilter, count: number) =>
      planned({ count, filter: { ...filter, ...condition } });
    expect(await chosenBy({ clusterName: "pick-web" }, 1)).toEqual([member.name]);
    expect(await chosenBy({ clusterId: clusterId ?? "" }, 1)).toEqual([member.name]);
    expect(await chosenBy({ inCluster: true }, 1)).toEqual([member.name]);
    expect(await chosenBy({ inCluster: false }, 2)).toEqual(others);
    expect(await chosenBy({ not: { clusterName: "pick-other" } }, 3)).toEqual(all);
    expect(await chosenBy({ or: [{ clusterName: "pick-web" }, { name: { eq: spare.name } }] }, 2)).toEqual(
      [member.name, spare.name].toSorted(),
    );
    expect(await chosenBy({ or: [{ driver: "fake" }, { not: { inCluster: true } }] }, 3)).toEqual(all);
    const inWork = await pick({ count: 1, filter: { ...filter, clusterName: "pick-web" } });
    expect(refsOf(inWork)).toEqual([member.name]);
    await ostler.operationEnds(inWork.operationId ?? "");
  });

  test("a plan picks nodes without locking them, and while a request has them locked", async () => {
    const { nodes, filter } = await aRack(1);
    await ostler.test.sql.begin(async (sql) => {
      await sql`select 1 from nodes where id = ${nodes[0]?.id ?? ""} for no key update`;
      expect(refsOf(await pick({ count: 1, filter }, { dryRun: true }))).toEqual(namesOf(nodes));
      const { refusals } = await pick({ count: 1, filter });
      expect(refusals).toMatchObject([{ code: "CAPACITY", available: 1 }]);
      expect(refusals[0]?.message).toMatch("other requests are taking 1 of the 1 free ones right now");
    });
  });

  test("a repeated pick with the same idempotency key returns the same nodes [R-047]", async () => {
    const { filter } = await aRack(2);
    const once = () => pick({ count: 2, filter }, { idempotencyKey: "pick-two" });
    const [first, second] = await Promise.all([once(), once()]);
    expect(second.operationId).toBe(first.operationId);
    expect(refsOf(second).toSorted()).toEqual(refsOf(first).toSorted());
    await ostler.operationEnds(first.operationId ?? "");
  });

  test.each([0, -1, 1001])("a pick of %d nodes is refused", async (count) => {
    expect((await pick({ count })).refusals).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "nodes", "pick", "count"] },
    ]);
  });

  test("a pick by a filter without a condition is refused", async () => {
    expect((await pick({ count: 1, filter: {} })).refusals).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "nodes", "pick", "filter"] },
    ]);
  });
});
