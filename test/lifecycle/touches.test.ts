/** What steps change on a machine, and from which one on there is no way back. */
import { describe, expect, test } from "vitest";
import { pointOfNoReturn, touchedBy, touchesOf } from "../../src/lifecycle/touches.ts";
import type { Touch, TouchingStep } from "../../src/lifecycle/touches.ts";

const step = (phase: TouchingStep["phase"], touches?: readonly Touch[] | null, kept = false): TouchingStep => ({
  phase,
  kept,
  ...(touches !== undefined && { touches }),
});

describe("a step touches", () => {
  test.each([
    { phase: "clean", touches: ["DISKS"] },
    { phase: "deploy", touches: ["DISKS"] },
    { phase: "undeploy", touches: ["DISKS"] },
    { phase: "verify", touches: [] },
    { phase: "inspect", touches: [] },
    { phase: "power", touches: [] },
  ] as const)("$touches in $phase when it says nothing", ({ phase, touches }) => {
    expect(touchesOf(step(phase))).toEqual(touches);
    expect(touchesOf(step(phase, null))).toEqual(touches);
  });

  test("what it says, whatever its phase", () => {
    expect(touchesOf(step("clean", []))).toEqual([]);
    expect(touchesOf(step("clean", ["FIRMWARE"]))).toEqual(["FIRMWARE"]);
    expect(touchesOf(step("inspect", ["NETWORK"]))).toEqual(["NETWORK"]);
  });
});

describe("the point of no return", () => {
  test("is the first step that touches disks or firmware [R-050]", () => {
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

  test("is not a step that is kept: it is not done again", () => {
    expect(pointOfNoReturn([step("clean", ["DISKS"], true), step("deploy", []), step("deploy", ["DISKS"])])).toBe(2);
  });

  test("is nowhere when no step takes it that far", () => {
    expect(pointOfNoReturn([step("verify"), step("deploy", ["NETWORK"]), step("power")])).toBeNull();
    expect(pointOfNoReturn([])).toBeNull();
  });
});

describe("what has been touched", () => {
  const steps = [
    step("deploy", ["NETWORK"]),
    step("clean", ["FIRMWARE"]),
    step("deploy", ["DISKS"]),
    step("deploy", []),
  ];

  test("is what the steps that have begun touch, no more", () => {
    expect(touchedBy(steps, new Set())).toEqual(new Set());
    expect(touchedBy(steps, new Set([0]))).toEqual(new Set(["NETWORK"]));
    expect(touchedBy(steps, new Set([0, 1]))).toEqual(new Set(["NETWORK", "FIRMWARE"]));
    expect(touchedBy(steps, new Set([2, 3]))).toEqual(new Set(["DISKS"]));
  });

  test("is also what a kept step touched in the run before", () => {
    expect(touchedBy([step("deploy", ["DISKS"], true), step("deploy", [])], new Set([1]))).toEqual(new Set(["DISKS"]));
  });
});
