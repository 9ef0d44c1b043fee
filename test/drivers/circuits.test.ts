/** Circuit breakers of controllers: when calls fail at once, and when one tries again. */
import { expect, test } from "vitest";
import { Circuits, FAILURES_MAX } from "../../src/drivers/circuits.ts";

const BMC = { driver: "redfish", controller: "10.0.0.7" };
const OTHER = { driver: "redfish", controller: "10.0.0.8" };
const DEAD = { kind: "UNREACHABLE", reason: "no route to host" } as const;

function lab() {
  let now = 0;
  const circuits = new Circuits(() => now);
  return {
    circuits,
    pass: (seconds: number) => {
      now += seconds * 1000;
    },
    fail(times: number, of = BMC) {
      for (let count = 0; count < times; count += 1) {
        expect(circuits.enter(of)).toBeNull();
        circuits.note(of, DEAD);
      }
    },
  };
}

test("circuit opens after five failures in a row, with the reason and the time of the next probe [R-384]", () => {
  const { circuits, fail } = lab();
  fail(FAILURES_MAX - 1);
  expect(circuits.circuitOf(BMC)).toBeNull();
  fail(1);
  expect(circuits.enter(BMC)).toEqual({
    ...BMC,
    state: "OPEN",
    failures: 5,
    reason: "no route to host",
    kind: "UNREACHABLE",
    away: false,
    openedAt: new Date(0),
    nextProbeAt: new Date(10_000),
  });
  expect(circuits.enter(OTHER)).toBeNull();
  expect(circuits.openByDriver()).toEqual(new Map([["redfish", 1]]));
});

test("circuit stays closed if the machine answers in between, even with a refusal", () => {
  const { circuits, fail } = lab();
  fail(FAILURES_MAX - 1);
  circuits.note(BMC, "ANSWERED");
  fail(FAILURES_MAX - 1);
  expect(circuits.enter(BMC)).toBeNull();
});

test("circuit that is half-open lets one call through, and an answer closes it [R-385]", () => {
  const { circuits, fail, pass } = lab();
  fail(FAILURES_MAX);
  pass(10);
  expect(circuits.enter(BMC)).toBeNull();
  expect(circuits.enter(BMC)).toMatchObject({ state: "HALF_OPEN" });
  circuits.note(BMC, "ANSWERED");
  expect([circuits.enter(BMC), circuits.circuitOf(BMC)]).toEqual([null, null]);
});

test("circuit whose probe fails opens for twice the time, and for at most five minutes", () => {
  const { circuits, fail, pass } = lab();
  fail(FAILURES_MAX);
  for (const seconds of [10, 20, 40, 80, 160, 300, 300]) {
    pass(seconds - 1);
    expect(circuits.enter(BMC)).toMatchObject({ state: "OPEN" });
    pass(1);
    fail(1);
  }
  expect(circuits.circuitOf(BMC)?.openedAt).toEqual(new Date(0));
});

test("circuit whose probe is canceled leaves the probe to the next call", () => {
  const { circuits, fail, pass } = lab();
  fail(FAILURES_MAX);
  pass(10);
  expect(circuits.enter(BMC)).toBeNull();
  circuits.note(BMC, "NOTHING");
  expect(circuits.enter(BMC)).toBeNull();
});

test("circuit does not open later because of calls that began before it opened", () => {
  const { circuits, fail } = lab();
  for (let count = 0; count < 3; count += 1) expect(circuits.enter(BMC)).toBeNull();
  fail(FAILURES_MAX);
  for (let count = 0; count < 3; count += 1) circuits.note(BMC, DEAD);
  expect(circuits.circuitOf(BMC)).toMatchObject({ failures: 8, nextProbeAt: new Date(10_000) });
});

test("pace of a controller is that of its last call; a late answer alone does not open the circuit", () => {
  const { circuits, fail } = lab();
  const paces = () => circuits.paceOf(BMC);
  expect(paces()).toBe("PROMPT");
  for (let count = 0; count <= FAILURES_MAX; count += 1) circuits.noteLate(BMC);
  expect([paces(), circuits.enter(BMC)]).toEqual(["FAILING", null]);
  circuits.note(BMC, "ANSWERED_SLOWLY");
  expect([paces(), circuits.paceOf(OTHER)]).toEqual(["SLOW", "PROMPT"]);
  fail(1);
  expect(paces()).toBe("FAILING");
  circuits.note(BMC, "ANSWERED");
  expect(paces()).toBe("PROMPT");
});
