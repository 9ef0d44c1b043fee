/** Waking many parked runs at once: each is claimed once more, and none is lost. */
import { afterAll, expect, test } from "vitest";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { unsound } from "../support/soundness.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

/** An operation whose runs all wait for a callback. */
async function parked(nodes: readonly TestNode[]): Promise<string> {
  const id = await ostler.begin("DEPLOY", nodes);
  await eventually("every run waits for its callback", async () =>
    (await ostler.runs(id)).every(({ state, waitReason }) => state === "WAITING" && waitReason === "CALLBACK"),
  );
  return id;
}

const callers = () =>
  ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.prepare": { callback: true } });

/** The fence of a run that was claimed to park, claimed to end, and ended. */
const CLAIMED_TWICE = 3;

test("wake of many parked runs by an abort has each claimed once [R-136]", async () => {
  const nodes = await callers().times(60);
  const id = await parked(nodes);
  const answer = await ostler.engine.abort(ALICE, { work: { operationId: id } });
  expect(answer.results.map(({ effect }) => effect)).toEqual(nodes.map(() => "NOW"));
  expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  expect((await ostler.runs(id)).map(({ fence }) => fence)).toEqual(nodes.map(() => CLAIMED_TWICE));
  expect(await unsound(ostler)).toEqual([]);
});

test("wake of the same runs by two callers at the same moment has each claimed once", async () => {
  const nodes = await callers().times(30);
  const id = await parked(nodes);
  const half = nodes.slice(0, 20).map((node) => node.id);
  const other = nodes
    .slice(10)
    .map((node) => node.id)
    .toReversed();
  await Promise.all([half, other].map((ids) => ostler.engine.abort(ALICE, { work: { ids } })));
  expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  expect((await ostler.runs(id)).map(({ fence }) => fence)).toEqual(nodes.map(() => CLAIMED_TWICE));
  expect(await unsound(ostler)).toEqual([]);
});

test("stop wakes a parked run that another transaction had locked meanwhile", async () => {
  const node = await ostler.aNode().in("AVAILABLE").made();
  const id = await ostler.begin("CLEAN", [node], {
    options: { steps: [{ interface: "engine", name: "hold", args: {} }] },
  });
  await eventually("the run is on hold", async () => (await ostler.run(id, node)).state === "HOLDING");
  const { id: runId } = await ostler.run(id, node);
  await ostler.test.sql.begin(async (tx) => {
    await tx`select from runs where id = ${runId} for update`;
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
  });
  expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
});
