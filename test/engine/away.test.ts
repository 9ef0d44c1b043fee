/** Controllers that are away, as while they restart: how long a step waits for them, and what ends the wait. */
import { afterAll, beforeEach, expect, test } from "vitest";
import type { Driver, PowerInterface } from "../../src/drivers/driver.ts";
import { FAILURES_MAX } from "../../src/drivers/circuits.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnySettings } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";

/** A driver whose controller is away while `isAway`, and what its step was entered with. */
let isAway = true;
const memos: unknown[] = [];
beforeEach(() => {
  isAway = true;
  memos.length = 0;
});

function answer(): void {
  const error = { name: "DriverError", kind: "UNREACHABLE", retryable: true, away: true };
  if (isAway) throw Object.assign(new Error("the BMC restarts"), error);
}

const made = aDriver("restarting");
const own = made.power as unknown as PowerInterface<AnySettings>;
const power: PowerInterface<AnySettings> = {
  read: async (call) => (answer(), own.read(call)),
  set: async (call, action) => (answer(), own.set?.(call, action)),
};
const poll = aStep(
  "poll",
  "clean",
  async ({ memo, power: { read } }) => {
    memos.push(memo);
    if (memo === null) return { kind: "wait", seconds: 0, memo: "begun" };
    await read();
    return { kind: "done" };
  },
  { retries: { times: 2, backoffSeconds: 0 }, timeoutSeconds: 3600 },
);
const driver: Driver<never> = Object.assign(made, { power, clean: stepsOf(poll) });
const lacking: Driver<never> = Object.assign(aDriver("lacking"), {
  power: {
    ...own,
    read: async () => {
      throw Object.assign(new Error("no power"), { name: "DriverError", kind: "UNSUPPORTED", retryable: false });
    },
  },
});
const ostler = await engineUnderTest({ drivers: [driver, lacking] });
afterAll(() => ostler[Symbol.asyncDispose]());

async function parked(id: string, node: TestNode) {
  return eventually("the run waits for the controller", async () => {
    const run = await ostler.run(id, node);
    return run.waitReason === "RETRY" && run;
  });
}

const attemptsOf = async (id: string, node: TestNode) =>
  (await ostler.steps(await ostler.run(id, node)))[0]?.attempts ?? [];

/** The ten seconds until the controller is asked again are over; `seconds`: it has been away for so long. */
async function pass(runId: string, seconds = 10) {
  const { sql } = ostler.test;
  const since = new Date(Date.now() - seconds * 1000).toISOString();
  if (seconds > 10)
    await sql`update attempts set failure = jsonb_set(failure, '{at}', to_jsonb(${since}::text)) where run_id = ${runId}`;
  await sql`update runs set wake_at = now(), due_at = now() where id = ${runId}`;
}

test("step goes on in the same attempt, with its memo, when a controller that was away answers [R-801]", async () => {
  const node = await ostler.aNode().in("AVAILABLE").with("restarting").made();
  const id = await ostler.begin("CLEAN", [node]);
  const run = await parked(id, node);
  expect((run.wakeAt?.getTime() ?? 0) - (run.waitingSince?.getTime() ?? 0)).toBe(10_000);
  expect(await attemptsOf(id, node)).toMatchObject([{ state: "WAITING", failure: { kind: "UNREACHABLE" } }]);
  isAway = false;
  await pass(run.id);
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  expect(memos).toEqual([null, "begun", "begun"]);
  expect(await attemptsOf(id, node)).toMatchObject([{ number: 1, state: "SUCCEEDED", failure: null }]);
});

test("verification waits for a controller beyond its open circuit, for five minutes [R-801]", async () => {
  const node = await ostler.aNode().in("ENROLLED").with("restarting").made();
  for (let reads = 0; reads < FAILURES_MAX; reads += 1) {
    const { answers } = await ostler.engine.readPower({ names: [node.name] });
    expect(answers).toMatchObject([{ refusal: { message: expect.stringContaining("the BMC restarts") } }]);
  }
  const id = await ostler.begin("MANAGE", [node]);
  const run = await parked(id, node);
  await pass(run.id, 285);
  await eventually("the controller was asked again", async () => (await attemptsOf(id, node))[0]?.entries === 2);
  await parked(id, node);
  isAway = false;
  await pass(run.id);
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
});

test("controller that is away for five minutes fails the step, which is not retried [R-801]", async () => {
  const node = await ostler.aNode().in("AVAILABLE").with("restarting").made();
  const id = await ostler.begin("CLEAN", [node]);
  const run = await parked(id, node);
  await pass(run.id, 295);
  expect((await ostler.operationEnds(id)).state).toBe("FAILED");
  expect(await attemptsOf(id, node)).toMatchObject([{ number: 1, state: "FAILED" }]);
  expect((await ostler.run(id, node)).failure?.message).toContain("the BMC restarts");
});

test.each([
  ["abort", "ABORTED"],
  ["stop", "FAILED"],
] as const)("%s ends the wait for a controller that is away at once [R-801]", async (interrupt, state) => {
  const node = await ostler.aNode().in("AVAILABLE").with("restarting").made();
  const id = await ostler.begin("CLEAN", [node]);
  await parked(id, node);
  await ostler.engine[interrupt](ALICE, { work: { operationId: id } });
  await ostler.operationEnds(id);
  expect((await ostler.run(id, node)).state).toBe(state);
});

test("controller that is away is waited for also if the next driver lacks the function [R-801]", async () => {
  const node = await ostler
    .aNode()
    .in("ENROLLED")
    .with("restarting")
    .borrowing([{ kinds: [], fallbackFor: ["power"], driver: "lacking" }])
    .made();
  const id = await ostler.begin("MANAGE", [node]);
  await parked(id, node);
});

test("change of power that a person requests does not wait for a controller that is away [R-801]", async () => {
  const node = await ostler.aNode().in("AVAILABLE").with("restarting").made();
  const id = await ostler.begin("POWER", [node], { options: { powerAction: "ON" } });
  expect((await ostler.operationEnds(id)).state).toBe("FAILED");
});
