/**
 * The end of one entry of a step. After its deadline nothing else starts on the machine before the step has ended, and
 * its outcome is TIMEOUT whatever its driver returns. After its end nothing that it started continues.
 */
import { setImmediate as turn } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import { Circuits } from "../../src/drivers/circuits.ts";
import { noAgent } from "../../src/drivers/no-agent.ts";
import { Deadline, leftUntil } from "../../src/drivers/deadline.ts";
import type { StepCall, StepResult } from "../../src/drivers/driver.ts";
import { dispatchOf } from "../../src/drivers/isolation/dispatch.ts";
import { createRedactor } from "../../src/engine/input/secret-redactor.ts";
import { performStep } from "../../src/engine/execution/call/perform-step.ts";
import { readPower } from "../../src/engine/execution/call/power-call.ts";
import type { Machine } from "../../src/engine/execution/call/machine.ts";
import type { StepRequest } from "../../src/engine/execution/call/perform-step.ts";

const log = pino({ enabled: false });
const never = () => new AbortController().signal;
const TIMED_OUT = { kind: "failed", code: "TIMEOUT", reason: "clean.wipe did not end within 60 s", retryable: true };

/** A machine whose driver runs `work` in the step `clean.wipe`, and when its power is read. */
function aMachine(
  work: (call: Pick<StepCall<unknown>, "signal" | "deadline" | "power">) => Promise<unknown>,
  power: object = { read: work },
): Machine {
  const driver = { name: "lab", power, clean: { steps: [{ name: "wipe", phase: "clean", run: work }] } };
  return {
    node: { id: "n", name: "n", powerState: "OFF", labels: {}, settings: {}, powerProblem: null },
    composition: { giver: () => driver, givers: () => [driver], drivers: [driver] },
    circuits: new Circuits(),
    redactor: createRedactor([]),
    settingsOf: () => ({}),
  } as unknown as Machine;
}

const entered = (work: Parameters<typeof aMachine>[0], more: Partial<StepRequest> = {}) =>
  performStep({
    machine: aMachine(work),
    step: { interface: "clean", name: "wipe", phase: "clean", driver: "lab", args: {}, timeoutSeconds: 60 },
    part: "RUN",
    variables: {},
    installation: { image: null, userData: null },
    agent: () => noAgent("No agent in this test."),
    deadline: new Deadline(20),
    confirm: async () => {},
    cancel: never(),
    abandon: never(),
    graceMs: 60_000,
    log,
    stepLog: { line() {}, progress() {} },
    imageServersOf: async () => [],
    ...more,
  } as unknown as StepRequest);

const fired = ({ signal }: Pick<StepCall<unknown>, "signal">) =>
  new Promise<void>((go) => {
    // Under load the deadline may pass before the driver is called.
    if (signal.aborted) go();
    else signal.addEventListener("abort", () => go(), { once: true });
  });
/** Fails at the deadline, before any of our timers can run. */
const failsAtTheDeadline = async ({ deadline }: Pick<StepCall<unknown>, "deadline">): Promise<never> => {
  while (leftUntil(deadline) > 0);
  throw new Error("the driver's own word for it");
};

test("step that exceeds its timeout has no outcome before it has ended", async () => {
  const cancelled = Promise.withResolvers<void>();
  const end = Promise.withResolvers<StepResult>();
  let outcome: unknown;
  const over = entered(async (call) => {
    await fired(call);
    cancelled.resolve();
    return end.promise;
  }).then((came) => (outcome = came));
  await cancelled.promise;
  for (let turns = 0; turns < 10; turns += 1) await turn();
  expect(outcome).toBeUndefined();
  end.resolve({ kind: "done" });
  expect(await over).toMatchObject(TIMED_OUT);
});

test("step that ignores its signal is abandoned, and its failure says so", async () => {
  expect(await entered(() => new Promise(() => {}), { graceMs: 20 })).toMatchObject({
    ...TIMED_OUT,
    reason: `${TIMED_OUT.reason} and may still be running`,
  });
});

test("step whose deadline has passed is cancelled before its driver is called", async () => {
  let cancelled: boolean | undefined;
  const outcome = await entered(async ({ signal }) => void (cancelled = signal.aborted), { deadline: new Deadline(0) });
  expect([cancelled, outcome]).toMatchObject([true, TIMED_OUT]);
});

test("step that exceeds its timeout fails with TIMEOUT, though its driver fails with its own message at that moment", async () => {
  expect(await entered(failsAtTheDeadline)).toMatchObject(TIMED_OUT);
});

test("power reading that exceeds its timeout fails with TIMEOUT, though its driver fails with its own message at that moment", async () => {
  const reading = await readPower(
    aMachine(failsAtTheDeadline),
    { deadline: new Deadline(20), all: new Deadline(60_000) },
    never(),
    log,
  );
  expect(reading).toEqual({ code: "TIMEOUT", reason: "the BMC did not answer in time" });
});

/** Answers in another thread, and blocks this one until the deadline has passed. */
async function answeredWhilePaused(answer: StepResult, deadline: Deadline): Promise<unknown> {
  const sent = new Int32Array(new SharedArrayBuffer(4));
  const other = new Worker(
    `const { parentPort, workerData: { sent, answer } } = require("node:worker_threads"); parentPort.postMessage(answer); Atomics.store(sent, 0, 1); Atomics.notify(sent, 0);`,
    { eval: true, workerData: { sent, answer } },
  );
  onTestFinished(async () => void (await other.terminate()));
  const heard = new Promise((give) => other.once("message", give));
  // From here on the timers fire before any answer is received.
  await turn();
  Atomics.wait(sent, 0, 0);
  // Past the deadline by more than timers are rounded.
  while (leftUntil(deadline) > -10);
  return heard;
}

test("step that ended in time has not exceeded its timeout, though the process was paused over the deadline", async () => {
  const deadline = new Deadline(200);
  expect(
    await entered(async () => answeredWhilePaused({ kind: "done", output: "in time" }, deadline), { deadline }),
  ).toMatchObject({ kind: "done", output: "in time" });
});

test("power reading that ended in time has not exceeded its timeout, though the process was paused over the deadline", async () => {
  const deadline = new Deadline(200);
  const machine = aMachine(
    async () => ((await answeredWhilePaused({ kind: "done", output: "ON" }, deadline)) as { output: string }).output,
  );
  expect(await readPower(machine, { deadline, all: new Deadline(60_000) }, never(), log)).toEqual({
    state: "ON",
    driver: "lab",
  });
});

test("step that has ended cannot continue a power change that it requested", async () => {
  const asked = Promise.withResolvers<AbortSignal>();
  const power = {
    read: async () => "OFF",
    set: ({ signal }: { readonly signal: AbortSignal }) => {
      asked.resolve(signal);
      return new Promise(() => {});
    },
  };
  const machine = aMachine(async (call) => {
    call.power.set("ON").catch(() => {});
    await asked.promise;
    throw new Error("its process ended");
  }, power);
  expect(await entered(async () => {}, { machine, deadline: new Deadline(60_000) })).toMatchObject({
    kind: "failed",
    reason: "its process ended",
  });
  expect((await asked.promise).aborted).toBe(true);
});

test("step calls its driver only after the ownership check", async () => {
  const confirm = async () => {};
  let asked: unknown;
  await entered(async (call) => void (asked = dispatchOf(call).confirm), { confirm });
  expect(asked).toBe(confirm);
});
