/**
 * `Node.targetState`: where the work on a node leads. It belongs to the run, from its first state to its end, and to
 * nothing else.
 */
import { afterAll, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const seen = async (name = "") =>
  (
    await ostler.query<{ node: { state: string; targetState: string | null } }>(
      "query Seen($name: String!) { node(by: { name: $name }) { state targetState } }",
      { name },
    )
  ).node;

test("Node.targetState stays set through every phase and wait of a run and is null after its end [R-008]", async () => {
  const [early, late] = [aGate(), aGate()];
  const [name = ""] = await ostler.register(1, {
    steps: {
      "inspect.collect_inventory": { gate: early.name },
      "deploy.boot_system": { waitSeconds: 0.5 },
      "deploy.configure": { gate: late.name },
    },
  });
  expect(await seen(name)).toEqual({ state: "ENROLLED", targetState: null });
  const uuid = await ostler.begin("commissionNodes", [name]);
  await early.arrivals();
  expect(await seen(name)).toEqual({ state: "INSPECTING", targetState: "ACTIVE" });
  early.open();
  await eventually("it waits", async () => (await seen(name)).state === "DEPLOY_WAIT");
  expect((await seen(name)).targetState).toBe("ACTIVE");
  await late.arrivals();
  expect(await seen(name)).toEqual({ state: "DEPLOYING", targetState: "ACTIVE" });
  late.open();
  await ostler.operationEnds(uuid);
  expect(await seen(name)).toEqual({ state: "ACTIVE", targetState: null });
});

test("Node.targetState is null after an abort [R-081]", async () => {
  const gate = aGate();
  const [name = ""] = await ostler.register(1, { steps: { "inspect.collect_inventory": { gate: gate.name } } });
  const uuid = await ostler.begin("commissionNodes", [name], { until: "AVAILABLE", onFailure: "LEAVE" });
  await gate.arrivals();
  expect((await seen(name)).targetState).toBe("AVAILABLE");
  await ostler.query(
    "mutation Abort($id: ID!) { abort(input: { work: { operationId: $id } }) { errors { message } } }",
    { id: uuid },
  );
  expect(await ostler.operationEnds(uuid)).toBe("ABORTED");
  expect(await seen(name)).toEqual({ state: "INSPECT_FAILED", targetState: null });
});
