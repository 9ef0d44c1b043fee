/** Erases disks, in a cleaning and in a tear-down. */
import type { StepArgs } from "../../src/drivers/driver.ts";
import type { AgentCall, AgentStep } from "./call.ts";
import { abandon } from "./abandon.ts";
import { limitWithBoot, throughAgent } from "./task-step.ts";
import type { AgentWork } from "./task-step.ts";

function erasure(mode: "METADATA" | "ALL", limitSeconds: number): AgentWork<StepArgs> {
  return {
    limitSeconds,
    ...(mode === "ALL" && { worksAlone: true }),
    what: ({ node }) => `The disks of node ${node.name} could not be erased`,
    task: async () => ({ kind: "erase", args: { mode } }),
    output: (output) => output,
  };
}

const metadata = erasure("METADATA", 900);
/** A large hard disk without an erasure of its own is overwritten, which takes days. */
const everything = erasure("ALL", 72 * 3600);

export const eraseMetadata: AgentStep = {
  name: "erase_disk_metadata",
  title: "Erase the partition tables and signatures of all disks",
  phase: "clean",
  priority: 50,
  group: "storage",
  interruptible: "ALWAYS",
  timeoutSeconds: limitWithBoot(metadata),
  idempotent: true,
  retries: { times: 1, backoffSeconds: 30 },
  touches: ["DISKS"],
  run: (call) => throughAgent(call, metadata),
  abort,
};

/** A disk whose own erasure is cut off can stay locked, so an abort waits for the end. */
export function eraseDisks(phase: "clean" | "undeploy"): AgentStep {
  return {
    name: "erase_disks",
    title: "Erase all disks by the best means of each",
    phase,
    priority: phase === "clean" ? 10 : 50,
    group: "storage",
    interruptible: "AT_BOUNDARY",
    timeoutSeconds: limitWithBoot(everything),
    idempotent: true,
    retries: { times: 1, backoffSeconds: 30 },
    touches: ["DISKS"],
    worksAlone: true,
    run: (call) => throughAgent(call, everything),
    abort,
  };
}

function abort(call: AgentCall): Promise<void> {
  return abandon(call, { powerOff: false });
}
