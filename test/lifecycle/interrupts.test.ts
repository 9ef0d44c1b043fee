/** The meaning of an abort and a stop for a run in each situation. */
import { describe, expect, test } from "vitest";
import { atBoundary, judgeAbort } from "../../src/lifecycle/interrupts.ts";
import type { RunFacts } from "../../src/lifecycle/interrupts.ts";

const NODE = { id: "1", name: "rack3-u12" };
const run = (change: Partial<RunFacts>): RunFacts => ({
  state: "RUNNING",
  interrupt: null,
  interruptMode: null,
  step: null,
  ...change,
});
const inStep = (interruptible: "ALWAYS" | "AT_BOUNDARY" | "NEVER", supportsAbort = true): RunFacts["step"] => ({
  name: "clean.step",
  interruptible,
  supportsAbort,
});

describe("abort answer", () => {
  test.each([
    { is: "queued", facts: run({ state: "QUEUED" }), mode: "NOW", answer: "BEFORE_START" },
    { is: "between two steps", facts: run({}), mode: "NOW", answer: "NOW" },
    {
      is: "in a step that is interruptible ALWAYS",
      facts: run({ step: inStep("ALWAYS") }),
      mode: "NOW",
      answer: "NOW",
    },
    {
      is: "parked in a step that is interruptible ALWAYS",
      facts: run({ state: "WAITING", step: inStep("ALWAYS") }),
      mode: "NOW",
      answer: "NOW",
    },
    {
      is: "in a step that is interruptible AT_BOUNDARY",
      facts: run({ step: inStep("AT_BOUNDARY") }),
      mode: "NOW",
      answer: "PENDING after clean.step",
    },
    {
      is: "parked in a step that is interruptible AT_BOUNDARY",
      facts: run({ state: "WAITING", step: inStep("AT_BOUNDARY") }),
      mode: "NOW",
      answer: "PENDING after clean.step",
    },
    {
      is: "in a step that is interruptible AT_BOUNDARY, with CUT,",
      facts: run({ step: inStep("AT_BOUNDARY") }),
      mode: "CUT",
      answer: "NOW",
    },
    {
      is: "being cut in a step that is interruptible AT_BOUNDARY, repeated without the mode,",
      facts: run({ interrupt: "ABORT", interruptMode: "CUT", step: inStep("AT_BOUNDARY") }),
      mode: "NOW",
      answer: "NOW",
    },
    {
      is: "in a step that is interruptible NEVER, with CUT,",
      facts: run({ step: inStep("NEVER") }),
      mode: "CUT",
      answer: "NOT_INTERRUPTIBLE",
    },
    {
      is: "in a step that is interruptible NEVER, with FORCE,",
      facts: run({ step: inStep("NEVER") }),
      mode: "FORCE",
      answer: "NOW",
    },
    {
      is: "in a step whose interface has no abort, with FORCE,",
      facts: run({ step: inStep("ALWAYS", false) }),
      mode: "FORCE",
      answer: "NOW",
    },
    {
      is: "in a step that is interruptible NEVER",
      facts: run({ step: inStep("NEVER") }),
      mode: "NOW",
      answer: "NOT_INTERRUPTIBLE",
    },
    {
      is: "parked in a step that is interruptible NEVER",
      facts: run({ state: "WAITING", step: inStep("NEVER") }),
      mode: "NOW",
      answer: "NOT_INTERRUPTIBLE",
    },
    {
      is: "in a step that is interruptible NEVER, with AFTER_STEP,",
      facts: run({ step: inStep("NEVER") }),
      mode: "AFTER_STEP",
      answer: "PENDING after clean.step",
    },
    {
      is: "in a step that is interruptible NEVER and has been aborted already",
      facts: run({ interrupt: "ABORT", step: inStep("NEVER") }),
      mode: "NOW",
      answer: "PENDING after clean.step",
    },
    {
      is: "in a step whose interface has no abort",
      facts: run({ step: inStep("ALWAYS", false) }),
      mode: "NOW",
      answer: "UNSUPPORTED_BY_DRIVER",
    },
    {
      is: "stopping, in a step that is interruptible ALWAYS,",
      facts: run({ interrupt: "STOP", step: inStep("ALWAYS") }),
      mode: "NOW",
      answer: "NOW",
    },
  ] as const)("abort of a run that is $is answers $answer [R-073]", ({ facts, mode, answer }) => {
    const verdict = judgeAbort(NODE, facts, mode);
    const text = verdict.accepted
      ? `${verdict.effect}${verdict.afterStep === null ? "" : ` after ${verdict.afterStep}`}`
      : verdict.refusal.code;
    expect(text).toBe(answer);
  });
});

test.each([
  { code: "NOT_INTERRUPTIBLE", step: inStep("NEVER") },
  { code: "UNSUPPORTED_BY_DRIVER", step: inStep("ALWAYS", false) },
])("abort that is refused with $code names the node and the step", ({ code, step }) => {
  expect(judgeAbort(NODE, run({ step }), "NOW")).toMatchObject({
    accepted: false,
    refusal: {
      code,
      nodeId: "1",
      step: "clean.step",
      message: expect.stringContaining("Node rack3-u12 is running clean.step"),
    },
  });
});

describe("run at a boundary", () => {
  test.each([
    { interrupt: null, workLeft: true, does: "GO_ON" },
    { interrupt: null, workLeft: false, does: "FINISH" },
    { interrupt: "STOP", workLeft: true, does: "STOP" },
    { interrupt: "STOP", workLeft: false, does: "FINISH" },
    { interrupt: "ABORT", workLeft: true, does: "ABORT" },
    { interrupt: "ABORT", workLeft: false, does: "ABORT" },
  ] as const)(
    "run at a boundary with interrupt $interrupt and work left $workLeft does $does",
    ({ interrupt, workLeft, does }) => {
      expect(atBoundary({ interrupt, workLeft })).toBe(does);
    },
  );
});
