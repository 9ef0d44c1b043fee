/** The parts of a machine that steps change, and the first step after which there is no way back. */
import { describe, expect, test } from "vitest";
import { pointOfNoReturn, touchedBy, touchesOf } from "../../src/lifecycle/touches.ts";
import type { Touch, TouchingStep } from "../../src/lifecycle/touches.ts";

const step = (phase: TouchingStep["phase"], touches?: readonly Touch[] | null, kept = false): TouchingStep => ({
  phase,
  kept,
  ...(touches !== undefined && { touches }),
});

describe("touched parts of a step", () => {
  test.each([
    { phase: "clean", touches: ["DISKS"] },
    { phase: "deploy", touches: ["DISKS"] },
    { phase: "undeploy", touches: ["DISKS"] },
    { phase: "verify", touches: [] },
    { phase: "inspect", touches: [] },
    { phase: "power", touches: [] },
  ] as const)("step in $phase without a declaration touches $touches", ({ phase, touches }) => {
    expect(touchesOf(step(phase))).toEqual(touches);
    expect(touchesOf(step(phase, null))).toEqual(touches);
  });

  test("step touches what it declares, in any phase", () => {
    expect(touchesOf(step("clean", []))).toEqual([]);
    expect(touchesOf(step("clean", ["FIRMWARE"]))).toEqual(["FIRMWARE"]);
    expect(touchesOf(step("inspect", ["NETWORK"]))).toEqual(["NETWORK"]);
  });
});

describe("point of no return", () => {
  test("point of no return is the first step that touches disks or firmware [R-050]", () => {
    expect(
      pointOfNoReturn([
        step("verify"),
        step("inspect"),
        step("deploy", ["NETWORK"]),
        step("deploy", ["DISKS"]),
        step("deploy"),
      ]),
    ).toBe(3);
    expect(pointOfNoReturn([step("clean", []), step("clean", ["NETWORK", "FIRMWARE"])])).toBe(1);
  });

  test("point of no return is not a kept step, which is not repeated", () => {
    expect(pointOfNoReturn([step("clean", ["DISKS"], true), step("deploy", []), step("deploy", ["DISKS"])])).toBe(2);
  });

  test("point of no return does not exist if no step touches disks or firmware", () => {
    expect(pointOfNoReturn([step("verify"), step("deploy", ["NETWORK"]), step("power")])).toBeNull();
    expect(pointOfNoReturn([])).toBeNull();
  });
});

describe("touched parts of a run", () => {
  const steps = [
    step("deploy", ["NETWORK"]),
    step("clean", ["FIRMWARE"]),
    step("deploy", ["DISKS"]),
    step("deploy", []),
  ];

  test("touched parts of a run are those of its started steps", () => {
    expect(touchedBy(steps, new Set())).toEqual(new Set());
    expect(touchedBy(steps, new Set([0]))).toEqual(new Set(["NETWORK"]));
    expect(touchedBy(steps, new Set([0, 1]))).toEqual(new Set(["NETWORK", "FIRMWARE"]));
    expect(touchedBy(steps, new Set([2, 3]))).toEqual(new Set(["DISKS"]));
  });

  test("touched parts of a run include those of kept steps from the run before", () => {
    expect(touchedBy([step("deploy", ["DISKS"], true), step("deploy", [])], new Set([1]))).toEqual(new Set(["DISKS"]));
  });
});
