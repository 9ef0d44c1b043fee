/** One reading of a node's power, and when it tells nothing of the node: it had no place among its driver's processes in time. */
import { getEventListeners } from "node:events";
import { pino } from "pino";
import { expect, test } from "vitest";
import { Deadline } from "../../src/drivers/deadline.ts";
import type { Call } from "../../src/drivers/driver.ts";
import { createRedactor } from "../../src/engine/input/secret-redactor.ts";
import { readPower, setPower } from "../../src/engine/execution/perform-step.ts";
import type { Machine } from "../../src/engine/execution/perform-step.ts";

const log = pino({ enabled: false });
const { signal: never } = new AbortController();

/** A machine whose BMC is read so. */
const aMachine = (read: (call: Call<unknown>) => Promise<unknown>) =>
  ({
    node: { id: "n", name: "n", powerState: "OFF", labels: {}, powerProblem: null },
    composition: { giver: () => ({ name: "lab", power: { read } }) },
    redactor: createRedactor([]),
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

test("of a BMC that gives no answer is one of no answer", async () => {
  const reading = await readPower(
    aMachine(obeys),
    { deadline: new Deadline(50), all: new Deadline(60_000) },
    never,
    log,
  );
  expect(reading).toEqual({ code: "TIMEOUT", reason: "the BMC did not answer in time" });
});

test("for which all the time was over, but hardly any of its own was left, is one of no answer", async () => {
  const reading = await readPower(aMachine(obeys), { deadline: new Deadline(900), all: new Deadline(50) }, never, log);
  expect(reading).toEqual({ code: "TIMEOUT", reason: "the BMC did not answer in time" });
});

test("that had no place is none, though its driver obeys", async () => {
  expect(await readPower(aMachine(waits), { deadline: new Deadline(30_000), all: new Deadline(50) }, never, log)).toBe(
    "NO_TURN",
  );
});

test("that had a place too late is none", async () => {
  expect(await readPower(aMachine(obeys), { deadline: new Deadline(30_000), all: new Deadline(50) }, never, log)).toBe(
    "NO_TURN",
  );
});

test("that waited for longer than it may take has all its time then", async () => {
  const machine = aMachine(async ({ deadline }) => {
    (deadline as Deadline).hold();
    await new Promise((goOn) => setTimeout(goOn, 300));
    (deadline as Deadline).goOn();
    return "ON";
  });
  expect(await readPower(machine, { deadline: new Deadline(200), all: new Deadline(60_000) }, never, log)).toEqual({
    state: "ON",
  });
});

test("leaves nobody who listens to its signal: that would keep it, and all that it knows, for ever; nor does a change of power", async () => {
  const signals: AbortSignal[] = [];
  const machine = aMachine(async ({ signal }) => {
    signals.push(signal);
    return "ON";
  });
  await readPower(machine, { deadline: new Deadline(30_000), all: new Deadline(60_000) }, never, log);
  await setPower(machine, "ON", { deadline: new Deadline(30_000), lane: "READING", log });
  expect(signals.map((signal) => getEventListeners(signal, "abort"))).toEqual([[], []]);
});
