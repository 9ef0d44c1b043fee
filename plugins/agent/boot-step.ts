/** The step `boot_agent`, the first of each phase. */
import type { DriverPhase, StepResult } from "../../src/drivers/driver.ts";
import { abandon } from "./abandon.ts";
import { bootAgent } from "./boot.ts";
import type { AgentCall, AgentStep } from "./call.ts";
import { imageProblem } from "./image.ts";
import { refused } from "./error.ts";
import { BOOT_SECONDS_MAX } from "./settings.ts";

/** Limit of two starts: the longest times of the settings, and those of the BMC for the medium and the power. */
export const BOOT_LIMIT_SECONDS = 2 * BOOT_SECONDS_MAX + 900;

export function bootStep(phase: DriverPhase): AgentStep {
  return {
    name: "boot_agent",
    title: "Start the agent on the machine",
    phase,
    priority: 100,
    interruptible: "ALWAYS",
    timeoutSeconds: BOOT_LIMIT_SECONDS,
    idempotent: true,
    retries: { times: 1, backoffSeconds: 30 },
    touches: [],
    run: (call) => boot(call, phase),
    abort: (call) => abandon(call, { powerOff: true }),
  };
}

async function boot(call: AgentCall, phase: DriverPhase): Promise<StepResult> {
  // A deployment that cannot succeed does not switch the machine off.
  const problem = phase === "deploy" && call.memo === null ? imageProblem(call) : null;
  if (problem !== null) return refused(problem);
  const booted = await bootAgent(call);
  if ("result" in booted) return booted.result;
  // The output of an inspect step would become a part of the inventory.
  if (phase === "inspect") return { kind: "done" };
  const { version, architecture, bootMode, address } = booted.agent;
  return { kind: "done", output: { agent: { version, architecture, bootMode, address } } };
}
