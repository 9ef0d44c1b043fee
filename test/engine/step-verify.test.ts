/**
 * The verify part of a step checks the effect of its work in the same attempt; after a wait or a crash only the check
 * is repeated.
 */
import { afterAll, describe, expect, test } from "vitest";
import { passGate } from "../../plugins/fake/gates.ts";
import type { StepResult } from "../../src/drivers/driver.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest, TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnyCall } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { unsound } from "../support/soundness.ts";

/** Calls on nodes in order: the part, the memo it received, and the key of the attempt. */
const calls: {
  readonly node: string;
  readonly part: "run" | "verify" | "abort";
  readonly memo: unknown;
  readonly key: string;
  readonly path: string;
}[] = [];
const gates = { run: aGate(), verify: aGate() };
const succeeded: StepResult = { kind: "done" };

/** A driver with one step of these parts; step `after` follows it. */
function verifying(
  name: string,
  run: (call: AnyCall) => Promise<StepResult>,
  verify: (call: AnyCall) => Promise<StepResult>,
  more: Parameters<typeof aStep>[3] = {},
  phase: "clean" | "deploy" = "clean",
) {
  const noted = (part: "run" | "verify", body: (call: AnyCall) => Promise<StepResult>) => (call: AnyCall) => {
    calls.push({ node: call.node.name, part, memo: call.memo, key: call.attemptKey, path: call.callbackPath });
    return body(call);
  };
  const step = aStep("work", phase, noted("run", run), {
    priority: 9,
    verify: noted("verify", verify),
    abort: async (call) =>
      void calls.push({
        node: call.node.name,
        part: "abort",
        memo: call.memo,
        key: call.attemptKey,
        path: call.callbackPath,
      }),
    ...more,
  });
  const steps = stepsOf(
    step,
    aStep("after", phase, async () => succeeded, { priority: 1 }),
  );
  return aDriver(name, phase === "clean" ? { clean: steps } : { deploy: steps });
}

const tries = new Map<string, number>();
const tried = ({ node }: AnyCall) => {
  const count = (tries.get(node.name) ?? 0) + 1;
  tries.set(node.name, count);
  return count;
};
const untilCancelled = ({ signal }: AnyCall) =>
  new Promise<StepResult>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
const writeFirmware = async (): Promise<StepResult> => ({ kind: "done", output: { version: "2.1" } });

const ostler = await engineUnderTest({
  drivers: [
    verifying("content", writeFirmware, async () => ({ kind: "done", output: "not kept" })),
    verifying(
      "waiting",
      async ({ memo }) => (memo === null ? { kind: "wait", seconds: 0, memo: "of run" } : writeFirmware()),
      async ({ memo }) => (memo === null ? { kind: "wait", seconds: 0, memo: "of verify" } : succeeded),
    ),
    verifying(
      "disappointed",
      writeFirmware,
      async () => ({ kind: "failed", reason: "version 2.0 still runs", retryable: false }),
      { retries: { times: 2, backoffSeconds: 0 } },
    ),
    verifying(
      "doubtful",
      writeFirmware,
      async (call) =>
        tried(call) < 3 ? { kind: "failed", reason: `look ${tries.get(call.node.name)}`, retryable: true } : succeeded,
      { retries: { times: 2, backoffSeconds: 0 } },
    ),
    verifying("broken", writeFirmware, async () => "fine" as unknown as StepResult),
    verifying("parked", writeFirmware, async () => ({ kind: "wait", seconds: 600, memo: "of verify" })),
    verifying("at_work", writeFirmware, untilCancelled),
    verifying("deaf_to_time", writeFirmware, untilCancelled, { timeoutSeconds: 0.3 }),
    verifying(
      "gated",
      async (call) => {
        await passGate(gates.run.name, call.node.name, null);
        return writeFirmware();
      },
      async (call) => {
        await passGate(gates.verify.name, call.node.name, null);
        return succeeded;
      },
      { interruptible: "AT_BOUNDARY" },
    ),
    verifying(
      "called",
      async ({ memo }) => (memo === null ? { kind: "wait", callback: true, seconds: 600, memo: 1 } : writeFirmware()),
      async ({ memo, callback }) =>
        memo === null
          ? { kind: "wait", callback: true, seconds: 600, memo: 1 }
          : callback === null
            ? { kind: "failed", reason: "no call", retryable: false }
            : succeeded,
    ),
    verifying(
      "installing",
      writeFirmware,
      async () => ({ kind: "failed", reason: "it does not start", retryable: false }),
      { reaches: "PROVISIONED" },
      "deploy",
    ),
    verifying("installed", writeFirmware, async () => succeeded, { reaches: "PROVISIONED" }, "deploy"),
  ],
});
afterAll(() => ostler[Symbol.asyncDispose]());

async function begun(driver: string, kind: "CLEAN" | "DEPLOY" = "CLEAN") {
  const node = await ostler.aNode().in("AVAILABLE").with(driver).made();
  return { node, id: await ostler.begin(kind, [node]) };
}

async function ended(driver: string, kind: "CLEAN" | "DEPLOY" = "CLEAN") {
  const { node, id } = await begun(driver, kind);
  const operation = await ostler.operationEnds(id);
  return { node, id, operation, attempts: await attemptsOf(id, node) };
}

const attemptsOf = async (id: string, node: TestNode, of: EngineUnderTest = ostler) =>
  (await of.steps(await of.run(id, node)))[0]?.attempts ?? [];
const callsOn = ({ name }: TestNode) => calls.filter(({ node }) => node === name);
const partsOn = (node: TestNode) => callsOn(node).map(({ part }) => part);

describe("step with a verify part", () => {
  test("step with a verify part succeeds with it, with the output of its work, in one attempt", async () => {
    const { node, operation, attempts } = await ended("content");
    expect(operation.state).toBe("SUCCEEDED");
    expect(partsOn(node)).toEqual(["run", "verify"]);
    expect(new Set(callsOn(node).map(({ key }) => key)).size).toBe(1);
    expect(attempts).toMatchObject([
      { number: 1, state: "SUCCEEDED", part: "VERIFY", entries: 2, output: { version: "2.1" } },
    ]);
  });

  test("step with a verify part keeps the memos of both parts apart, and resumes the part that waited", async () => {
    const { node, attempts } = await ended("waiting");
    expect(callsOn(node).map(({ part, memo }) => [part, memo])).toEqual([
      ["run", null],
      ["run", "of run"],
      ["verify", null],
      ["verify", "of verify"],
    ]);
    expect(attempts).toMatchObject([{ state: "SUCCEEDED", entries: 4, output: { version: "2.1" } }]);
  });

  test("step with a verify part shows which part waits, and the output of the work", async () => {
    const { node, id } = await begun("parked");
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    expect(await attemptsOf(id, node)).toMatchObject([
      { state: "WAITING", part: "VERIFY", memo: "of verify", output: { version: "2.1" } },
    ]);
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
  });

  test("step with a verify part fails with the reason of that part if it is not retryable", async () => {
    const { node, operation, attempts } = await ended("disappointed");
    expect(operation).toMatchObject({
      state: "FAILED",
      firstFailure: { step: "clean.work", message: `Node ${node.name}: clean.work failed: version 2.0 still runs.` },
    });
    expect(partsOn(node)).toEqual(["run", "verify", "abort"]);
    expect(attempts).toMatchObject([{ state: "FAILED", part: "ABORT" }]);
  });

  test("step with a verify part is retried as a whole if that part fails as retryable", async () => {
    const { node, operation, attempts } = await ended("doubtful");
    expect(operation.state).toBe("SUCCEEDED");
    expect(partsOn(node)).toEqual(["run", "verify", "run", "verify", "run", "verify"]);
    expect(attempts.map(({ state, failure }) => [state, failure?.message ?? null])).toEqual([
      ["FAILED", `Node ${node.name}: clean.work failed: look 1.`],
      ["FAILED", `Node ${node.name}: clean.work failed: look 2.`],
      ["SUCCEEDED", null],
    ]);
  });

  test("step with a verify part fails if that part returns an invalid result", async () => {
    expect((await ended("broken")).operation).toMatchObject({
      state: "FAILED",
      firstFailure: { message: expect.stringContaining("The driver returned") as string },
    });
  });

  test("step with a verify part has one timeout for both parts", async () => {
    const { operation, attempts } = await ended("deaf_to_time");
    expect(operation.firstFailure).toMatchObject({ code: "TIMEOUT" });
    const [attempt] = attempts;
    expect((attempt?.deadlineAt.getTime() ?? 0) - (attempt?.startedAt.getTime() ?? 0)).toBe(300);
  });

  test("step with a verify part accepts no callback for its work during the verify part", async () => {
    const { node, id } = await begun("called");
    const token = () => callsOn(node).at(-1)?.path.split("/").at(-1) ?? "";
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    const first = token();
    expect(await ostler.engine.receiveCallback(first, {})).toBe("TAKEN");
    await eventually(
      "the verify part runs",
      async () => partsOn(node).includes("verify") && (await ostler.run(id, node)).waitReason === "CALLBACK",
    );
    expect(await ostler.engine.receiveCallback(first, {})).toBe("LATE");
    expect(await ostler.engine.receiveCallback(token(), {})).toBe("TAKEN");
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("step with a verify part reaches its stage only after that part [R-011]", async () => {
    const failed = await ended("installing", "DEPLOY");
    expect((await ostler.node(failed.node)).stage).toBe("NONE");
    const good = await ended("installed", "DEPLOY");
    expect(good.operation.state).toBe("SUCCEEDED");
    expect((await ostler.node(good.node)).stage).toBe("DEPLOYED");
  });
});

describe("abort of a step with a verify part", () => {
  test("abort during an interruptible verify part takes effect now", async () => {
    const { node, id } = await begun("at_work");
    await eventually("the verify part runs", () => partsOn(node).includes("verify"));
    expect((await ostler.engine.abort(ALICE, { work: { operationId: id } })).results).toMatchObject([
      { accepted: true, effect: "NOW" },
    ]);
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(partsOn(node)).toEqual(["run", "verify", "abort"]);
  });

  test("abort of a parked verify part takes effect now, with the memo of that part", async () => {
    const { node, id } = await begun("parked");
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(callsOn(node).at(-1)).toMatchObject({ part: "abort", memo: "of verify" });
  });

  test("abort that waits for the end of the work takes effect before the verify part", async () => {
    const { node, id } = await begun("gated");
    await gates.run.arrivals();
    expect((await ostler.engine.abort(ALICE, { work: { operationId: id } })).results).toMatchObject([
      { accepted: true, effect: "PENDING", afterStep: "clean.work" },
    ]);
    gates.run.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(partsOn(node)).toEqual(["run", "abort"]);
  });

  test("abort during the verify part of a step that must not be interrupted is refused", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.update_firmware.verify": { gate: gate.name } })
      .made();
    const id = await ostler.begin("CLEAN", [node], {
      options: { steps: [{ interface: "clean", name: "update_firmware", args: { version: "2.1" } }] },
    });
    await gate.arrivals();
    expect(await ostler.engine.abort(ALICE, { work: { operationId: id } })).toMatchObject({
      refusals: [{ code: "NOT_INTERRUPTIBLE", step: "clean.update_firmware" }],
    });
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });
});

test("stop during a step with a verify part lets both parts end and keeps their results", async () => {
  gates.run.open();
  const { node, id } = await begun("gated");
  await eventually("the verify part runs", () => partsOn(node).includes("verify"));
  await ostler.engine.stop(ALICE, { work: { operationId: id } });
  gates.verify.open();
  expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
  expect(await attemptsOf(id, node)).toMatchObject([{ state: "SUCCEEDED", part: "VERIFY" }]);
});

test("process that is killed during the verify part: another process verifies again and does not repeat the work [R-133]", async () => {
  await using crashed = await engineUnderTest({ started: false });
  const gate = aGate();
  const node = await crashed
    .aNode()
    .in("AVAILABLE")
    .scripted({ "clean.update_firmware.verify": { gate: gate.name } })
    .made();
  const victim = await crashed.inAnotherProcess();
  const id = await crashed.begin("CLEAN", [node], {
    options: { steps: [{ interface: "clean", name: "update_firmware", args: { version: "2.1" } }] },
  });
  const looks = () => crashed.journal(node).filter(({ verify }) => verify === "clean.update_firmware.verify").length;
  await eventually("the verify part runs", () => looks() === 1);
  await victim.kill();
  await crashed.leasesRunOut();
  gate.open();
  await crashed.engine.start();
  expect((await crashed.operationEnds(id)).state).toBe("SUCCEEDED");
  expect(crashed.entered(node)).toEqual(["clean.update_firmware"]);
  expect(looks()).toBe(2);
  expect(await attemptsOf(id, node, crashed)).toMatchObject([
    { number: 1, state: "SUCCEEDED", entries: 3, output: { version: "2.1" } },
  ]);
  expect(await unsound(crashed)).toEqual([]);
});
