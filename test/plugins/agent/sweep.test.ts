/**
 * Sweeps over a whole deployment by the driver `agent`: at each of its calls to the outside in turn, a process dies
 * before or after it, the call fails, or the step is aborted.
 */
import { describe, expect, test } from "vitest";
import type { DriverPhase } from "../../../src/drivers/driver.ts";
import { AgentLab, driverError } from "../../support/agent-lab.ts";

const STEPS: readonly (readonly [DriverPhase, string])[] = [
  ["inspect", "boot_agent"],
  ["inspect", "collect_inventory"],
  ["clean", "erase_disks"],
  ["deploy", "boot_agent"],
  ["deploy", "write_image"],
  ["deploy", "configure_system"],
  ["deploy", "boot_from_disk"],
  ["deploy", "await_call_home"],
];

/** Runs the steps up to one, which is left to the test. */
async function before(lab: AgentLab, index: number): Promise<void> {
  for (const [phase, name] of STEPS.slice(0, index))
    expect((await lab.perform(phase, name)).result, `${phase}.${name}`).toMatchObject({ kind: "done" });
  lab.reset();
}

async function callsOf(index: number): Promise<number> {
  using lab = new AgentLab();
  await before(lab, index);
  const [phase, name] = STEPS[index] ?? ["deploy", ""];
  expect((await lab.perform(phase, name)).result.kind).toBe("done");
  expect(lab.calls).toBeGreaterThan(0);
  return lab.calls;
}

/** The rest of the deployment works, and the machine runs the installed system at its end. */
async function expectInstalled(lab: AgentLab, index: number): Promise<void> {
  for (const [phase, name] of STEPS.slice(index + 1))
    expect((await lab.perform(phase, name)).result, `${phase}.${name}`).toMatchObject({ kind: "done" });
  expect([lab.running, lab.power, lab.medium]).toEqual(["SYSTEM", "ON", null]);
}

test("a machine that runs the installed system is not switched off by the process that continues its start [R-497]", async () => {
  const index = STEPS.findIndex(([, name]) => name === "boot_from_disk");
  const calls = await callsOf(index);
  for (let at = 1; at <= calls; at += 1) {
    using lab = new AgentLab();
    await before(lab, index);
    lab.disturb = (call, isAfter) => {
      if (call !== at || !isAfter) return;
      lab.disturb = () => {};
      lab.crash();
    };
    await lab.perform("deploy", "boot_from_disk");
    await lab.perform("deploy", "await_call_home");
    expect(lab.journal.slice(lab.journal.indexOf("ON") + 1), `call ${at}`).not.toContain("OFF");
  }
});

describe.each(STEPS.map(([phase, name], index) => ({ phase, name, index })))(
  "$name of $phase",
  ({ phase, name, index }) => {
    test.each([false, true])(
      "goes on after its process died at any call (after the call: %s) [R-499]",
      async (isAfter) => {
        const calls = await callsOf(index);
        for (let at = 1; at <= calls; at += 1) {
          using lab = new AgentLab();
          await before(lab, index);
          lab.disturb = (call, now) => {
            if (call !== at || now !== isAfter) return;
            lab.disturb = () => {};
            lab.crash();
          };
          expect((await lab.perform(phase, name)).result, `call ${at}`).toMatchObject({ kind: "done" });
          await expectInstalled(lab, index);
        }
      },
    );

    test("fails with the error of any call, and succeeds when it is tried again", async () => {
      const calls = await callsOf(index);
      for (let at = 1; at <= calls; at += 1) {
        using lab = new AgentLab();
        await before(lab, index);
        lab.disturb = (call, isAfter) => {
          if (call !== at || isAfter) return;
          lab.disturb = () => {};
          throw driverError("UNREACHABLE", "BMC b does not answer.", true);
        };
        const { result } = await lab.perform(phase, name, { attemptKey: "run:1:1" });
        // An ejection that fails in the middle is repeated by a later step.
        if (result.kind === "failed") expect(result).toMatchObject({ errorKind: "UNREACHABLE", retryable: true });
        if (result.kind === "failed")
          expect((await lab.perform(phase, name, { attemptKey: "run:1:2" })).result).toMatchObject({ kind: "done" });
        await expectInstalled(lab, index);
      }
    });

    test("is undone by its abort at any call, also the second time", async () => {
      const calls = await callsOf(index);
      for (let at = 1; at <= calls; at += 1) {
        using lab = new AgentLab();
        await before(lab, index);
        const cut = new AbortController();
        lab.disturb = (call, isAfter) => {
          if (call !== at || !isAfter) return;
          cut.abort(new Error("aborted"));
          throw new Error("aborted");
        };
        const { result, memo } = await lab.perform(phase, name, { signal: cut.signal });
        expect(result.kind).not.toBe("wait");
        lab.disturb = () => {};
        await lab.abort(phase, name, memo);
        await lab.abort(phase, name, memo);
        lab.pass(5);
        expect([lab.task, lab.medium], `call ${at}`).toEqual([null, null]);
        expect(lab.running, `call ${at}`).not.toBe("AGENT");
      }
    });
  },
);
