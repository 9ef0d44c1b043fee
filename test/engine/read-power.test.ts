/**
 * One power reading: when it is a result about the node, and when it is not, because it got no slot in the driver's
 * processes in time.
 */
import { getEventListeners } from "node:events";
import { pino } from "pino";
import { expect, test } from "vitest";
import { Circuits } from "../../src/drivers/circuits.ts";
import { Deadline } from "../../src/drivers/deadline.ts";
import { dispatchOf } from "../../src/drivers/isolation/dispatch.ts";
import type { Lane } from "../../src/drivers/isolation/lanes.ts";
import type { Call } from "../../src/drivers/driver.ts";
import { createRedactor } from "../../src/engine/input/secret-redactor.ts";
import { readPower, setPower } from "../../src/engine/execution/call/power-call.ts";
import type { Machine } from "../../src/engine/execution/call/machine.ts";

const log = pino({ enabled: false });
const { signal: never } = new AbortController();

/** A machine whose driver reads the power with this function. */
const aMachine = (read: (call: Call<unknown>) => Promise<unknown>) =>
  ({
    node: { id: "n", name: "n", powerState: "OFF", labels: {}, settings: {}, powerProblem: null },
    composition: { givers: () => [{ name: "lab", power: { read } }] },
    redactor: createRedactor([]),
    circuits: new Circuits(),
    settingsOf: () => ({}),
  }) as unknown as Machine;

const obeys = ({ signal }: Call<unknown>) =>
  new Promise<never>((_, leave) =>
    signal.addEventListener("abort", () => leave(signal.reason as Error), { once: true }),
  );
const waits = (call: Call<unknown>) => {
  (call.deadline as Deadline).hold();
  return obeys(call);
};

test("power reading of a BMC that does not answer fails with a timeout", async () => {
  const reading = await readPower(
    aMachine(obeys),
    { deadline: new Deadline(50), all: new Deadline(60_000) },
    never,
    log,
  );
  expect(reading).toEqual({ code: "TIMEOUT", reason: "the BMC did not answer in time" });
});

test("power reading that used up the whole time, mostly waiting, fails with a timeout", async () => {
  const reading = await readPower(aMachine(obeys), { deadline: new Deadline(900), all: new Deadline(50) }, never, log);
  expect(reading).toEqual({ code: "TIMEOUT", reason: "the BMC did not answer in time" });
});

test("power reading that never got a slot returns no result, though its driver obeys the signal", async () => {
  expect(await readPower(aMachine(waits), { deadline: new Deadline(30_000), all: new Deadline(50) }, never, log)).toBe(
    "NO_SLOT",
  );
});

test("power reading that got a slot too late returns no result", async () => {
  expect(await readPower(aMachine(obeys), { deadline: new Deadline(30_000), all: new Deadline(50) }, never, log)).toBe(
    "NO_SLOT",
  );
});

test("power reading that waited for a slot still has its full timeout", async () => {
  const machine = aMachine(async ({ deadline }) => {
    (deadline as Deadline).hold();
    await new Promise((goOn) => setTimeout(goOn, 300));
    (deadline as Deadline).resume();
    return "ON";
  });
  expect(await readPower(machine, { deadline: new Deadline(200), all: new Deadline(60_000) }, never, log)).toEqual({
    state: "ON",
    driver: "lab",
  });
});

/** A machine that answers only a call in one of these lanes. */
const answersIn = (lane: Lane, lanes: Lane[]) =>
  aMachine(async (call) => {
    const { lane: used } = dispatchOf(call);
    lanes.push(used);
    return used === lane ? "ON" : obeys(call);
  });

test("power reading on request goes on among the nodes without an answer if there is none soon [R-517]", async () => {
  const lanes: Lane[] = [];
  const machine = answersIn("TROUBLED", lanes);
  const time = { deadline: new Deadline(30_000), all: new Deadline(60_000), patienceMs: 20 };
  expect(await readPower(machine, time, never, log)).toEqual({ state: "ON", driver: "lab" });
  expect(lanes).toEqual(["READING", "TROUBLED"]);
});

test("power reading in the background ends if there is no answer soon, which is the node's problem [R-517]", async () => {
  const lanes: Lane[] = [];
  const machine = answersIn("TROUBLED", lanes);
  const time = { deadline: new Deadline(30_000), all: new Deadline(60_000), patienceMs: 20, isBackground: true };
  expect(await readPower(machine, time, never, log)).toEqual({
    code: "TIMEOUT",
    failureKind: "TIMEOUT",
    reason: "the BMC did not answer within 0.02 s",
  });
  expect(lanes).toEqual(["READING"]);
});

test("power reading of a BMC that is known to be slow has its whole time at once", async () => {
  const lanes: Lane[] = [];
  const machine = aMachine(async (call) => {
    lanes.push(dispatchOf(call).lane);
    await new Promise((goOn) => setTimeout(goOn, 50));
    call.signal.throwIfAborted();
    return "ON";
  });
  const read = () =>
    readPower(machine, { deadline: new Deadline(30_000), all: new Deadline(60_000), patienceMs: 20 }, never, log);
  await read();
  await read();
  expect(lanes).toEqual(["READING", "TROUBLED", "READING"]);
});

test("power reading and power change leave no listener on the caller's signal, which would retain memory", async () => {
  const signals: AbortSignal[] = [];
  const machine = aMachine(async ({ signal }) => {
    signals.push(signal);
    return "ON";
  });
  await readPower(machine, { deadline: new Deadline(30_000), all: new Deadline(60_000) }, never, log);
  await setPower(machine, "ON", { deadline: new Deadline(30_000), lane: "READING", log });
  expect(signals.map((signal) => getEventListeners(signal, "abort"))).toEqual([[], []]);
});
