/** The time for which steps wait for nodes that have disappeared, if the site limits it. */
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { heldIn } from "../support/held-work.ts";

const HOUR = 3_600;

const calling = aDriver("calling", {
  clean: stepsOf(
    aStep(
      "listen",
      "clean",
      async ({ memo }) => (memo === null ? { kind: "wait", callback: true, memo: 1 } : { kind: "done" }),
      {
        timeoutSeconds: 86_400,
        retries: { times: 3, backoffSeconds: 0 },
      },
    ),
  ),
});

const ostler = await engineUnderTest({ drivers: [calling] });
afterAll(() => ostler[Symbol.asyncDispose]());

const limit = (seconds: number | null) => ostler.engine.updateSite(ALICE, { disappearedTimeoutSeconds: seconds });
const report = (event: "DISCOVERED" | "DISAPPEARED", ...nodes: readonly TestNode[]) =>
  ostler.engine.reportPresence(
    ALICE,
    event,
    nodes.map(({ name }) => ({ name })),
  );
/** As if monitoring had reported the node, and the work on it had begun, an hour earlier. */
const anHourAgo = async ({ id }: TestNode) => {
  await ostler.test.sql`update runs set created_at = created_at - interval '1 hour' where node_id = ${id}`;
  await ostler.test.sql`update nodes set disappeared_at = disappeared_at - interval '1 hour' where id = ${id}`;
};

beforeEach(() => limit(null));

async function waits(): Promise<{ readonly node: TestNode; readonly id: string }> {
  const node = await ostler.aNode().in("AVAILABLE").with("calling").made();
  const id = await ostler.begin("CLEAN", [node], { onFailure: "LEAVE" });
  await ostler.nodeBecomes(node, "CLEAN_WAIT");
  return { node, id };
}

/** Runs whose time is over have been failed by now: they are looked for in the order of their times. */
async function lookedFor(): Promise<void> {
  const { node, id } = await waits();
  await report("DISAPPEARED", node);
  await anHourAgo(node);
  expect((await ostler.operationEnds(id)).state).toBe("FAILED");
}

describe("step that waits for a node that has disappeared", () => {
  test("step that waits for a node that has disappeared fails with TIMEOUT when the site's time is over [R-1204]", async () => {
    const { node, id } = await waits();
    await limit(1);
    await report("DISAPPEARED", node);
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "FAILED", firstFailure: { code: "TIMEOUT" } });
    const run = await ostler.run(id, node);
    expect(run).toMatchObject({ state: "FAILED", failure: { code: "TIMEOUT", step: "clean.listen", retryable: true } });
    expect(run.failure?.message).toContain(`Node ${node.name}: clean.listen failed: monitoring has reported`);
    // No retry: the machine is not there.
    const [step] = await ostler.steps(run);
    expect(step?.attempts.map(({ state, failure }) => [state, failure?.code])).toEqual([["FAILED", "TIMEOUT"]]);
    expect(await ostler.nodeState(node)).toBe("CLEAN_FAILED");
  });

  test("step that waits for a node that has disappeared waits on without a limit, as does one within it [R-1204]", async () => {
    const unlimited = await waits();
    await report("DISAPPEARED", unlimited.node);
    await anHourAgo(unlimited.node);
    await ostler.engine.abort(ALICE, { work: { operationId: unlimited.id } });
    expect((await ostler.operationEnds(unlimited.id)).state).toBe("ABORTED");
    await limit(2 * HOUR);
    const within = await waits();
    await report("DISAPPEARED", within.node);
    await anHourAgo(within.node);
    await limit(HOUR);
    expect((await ostler.operationEnds(within.id)).state).toBe("FAILED");
  });

  test("step that waits for a node that is seen again waits on [R-1205]", async () => {
    await limit(HOUR);
    const { node, id } = await waits();
    await report("DISAPPEARED", node);
    await report("DISCOVERED", node);
    expect(await ostler.node(node)).toMatchObject({ presence: "DISCOVERED", disappearedAt: null });
    await anHourAgo(node);
    await lookedFor();
    expect((await ostler.run(id, node)).state).toBe("WAITING");
  });

  test("step that waits for a node that disappears once more has the whole time again [R-1205]", async () => {
    await limit(HOUR);
    const { node, id } = await waits();
    await report("DISAPPEARED", node);
    await ostler.test
      .sql`update nodes set disappeared_at = disappeared_at - interval '59 minutes' where id = ${node.id}`;
    await report("DISAPPEARED", node);
    const { disappearedAt } = await ostler.node(node);
    expect(Date.now() - (disappearedAt?.getTime() ?? 0), "a repeated report moves nothing").toBeGreaterThan(3_500_000);
    await report("DISCOVERED", node);
    await report("DISAPPEARED", node);
    expect(Date.now() - ((await ostler.node(node)).disappearedAt?.getTime() ?? 0)).toBeLessThan(60_000);
    await lookedFor();
    expect((await ostler.run(id, node)).state).toBe("WAITING");
  });

  test("time in maintenance does not count for a node that has disappeared [R-1205]", async () => {
    await limit(HOUR);
    const { node, id } = await waits();
    await report("DISAPPEARED", node);
    await ostler.engine.setMaintenance(ALICE, { ids: [node.id] }, "fan");
    await anHourAgo(node);
    await ostler.test
      .sql`update nodes set maintenance_since = maintenance_since - interval '59 minutes' where id = ${node.id}`;
    await lookedFor();
    expect((await ostler.run(id, node)).state).toBe("WAITING");
    await ostler.engine.clearMaintenance(ALICE, { ids: [node.id] });
    await lookedFor();
    expect((await ostler.run(id, node)).state).toBe("WAITING");
    const { disappearedAt } = await ostler.node(node);
    expect((Date.now() - (disappearedAt?.getTime() ?? 0)) / 1_000).toBeLessThan(120);
    await ostler.engine.clearMaintenance(ALICE, { ids: [node.id] });
    expect((await ostler.node(node)).disappearedAt).toEqual(disappearedAt);
  });

  test("work that is forced on a node that has disappeared has the whole time from its request on [R-1205]", async () => {
    await limit(HOUR);
    const node = await ostler.aNode().in("AVAILABLE").with("calling").made();
    await report("DISAPPEARED", node);
    await anHourAgo(node);
    const id = await ostler.begin("CLEAN", [node], { onFailure: "LEAVE", options: { force: true } });
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    await lookedFor();
    expect((await ostler.run(id, node)).state).toBe("WAITING");
  });

  test("decommission of a node that has disappeared goes on after the wait for it, and ends [R-1204]", async () => {
    await limit(1);
    const node = await ostler.aNode().in("ACTIVE").with("calling").made();
    await report("DISAPPEARED", node);
    const id = await ostler.begin("DECOMMISSION", [node], { options: { force: true } });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED_WITH_ERRORS");
    expect(await ostler.nodeState(node)).toBe("DECOMMISSIONED");
    expect((await ostler.run(id, node)).errors).toMatchObject([{ code: "TIMEOUT", step: "clean.listen" }]);
  });

  test("step that runs on a node that has disappeared is not ended by the limit [R-1204]", async () => {
    await limit(1);
    const { gate, node, id } = await heldIn(ostler, "clean.erase_disks");
    await report("DISAPPEARED", node);
    await anHourAgo(node);
    await lookedFor();
    expect((await ostler.run(id, node)).state).toBe("RUNNING");
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test.each([0, -1, 1.5, 2_592_001, Number.NaN])("a limit of %s s is refused, and none is changed", async (seconds) => {
    expect(await limit(seconds)).toMatchObject({
      done: false,
      refusals: [{ code: "INVALID_INPUT", path: ["input", "disappearedTimeoutSeconds"] }],
    });
  });
});
