/** Loads a part of the machine for a time, and checks that it works. Runs only on request. */
import * as z from "zod";
import { abandon } from "./abandon.ts";
import type { AgentStep } from "./call.ts";
import { limitWithBoot, throughAgent } from "./task-step.ts";
import type { AgentWork } from "./task-step.ts";

const SECONDS_MAX = 7 * 24 * 3600;
/** A pass over memory or a disk that has begun is completed. */
const LAST_PASS_SECONDS = 3600;

const seconds = z
  .int()
  .min(10)
  .max(SECONDS_MAX)
  .default(3600)
  .meta({ description: "How long the part is loaded, in seconds: 10 to 604800 (7 days)." });
const timed = z.strictObject({ seconds });
const disk = z.strictObject({
  seconds,
  destructive: z
    .boolean()
    .default(false)
    .meta({ description: "True: writes to the disks too, and destroys their content. False: only reads." }),
});

type TimedArgs = z.output<typeof timed>;
type DiskArgs = z.output<typeof disk>;

function burnIn(part: "CPU" | "MEMORY" | "DISK"): AgentWork<TimedArgs & { readonly destructive?: boolean }> {
  return {
    limitSeconds: SECONDS_MAX + LAST_PASS_SECONDS,
    limitOf: ({ args }) => args.seconds + LAST_PASS_SECONDS,
    what: ({ node }) => `The burn-in of node ${node.name} (${part}) failed`,
    task: async ({ args }) => ({
      kind: "burn_in",
      args: { part, seconds: args.seconds, ...(part === "DISK" && { destructive: args.destructive ?? false }) },
    }),
    output: (output) => output,
  };
}

const usual = {
  phase: "clean",
  priority: 0,
  interruptible: "ALWAYS",
  idempotent: true,
} as const;

const cpu = burnIn("CPU");
const memory = burnIn("MEMORY");
const disks = burnIn("DISK");

export const burnInCpu: AgentStep<TimedArgs> = {
  ...usual,
  name: "burn_in_cpu",
  title: "Load the processors and check their results",
  timeoutSeconds: limitWithBoot(cpu),
  touches: [],
  args: timed,
  run: (call) => throughAgent(call, cpu),
  abort: (call) => abandon(call, { powerOff: false }),
};

export const burnInMemory: AgentStep<TimedArgs> = {
  ...usual,
  name: "burn_in_memory",
  title: "Write and check the memory",
  timeoutSeconds: limitWithBoot(memory),
  touches: [],
  args: timed,
  run: (call) => throughAgent(call, memory),
  abort: (call) => abandon(call, { powerOff: false }),
};

export const burnInDisk: AgentStep<DiskArgs> = {
  ...usual,
  name: "burn_in_disk",
  title: "Read all disks, or write and check them",
  timeoutSeconds: limitWithBoot(disks),
  touches: ["DISKS"],
  args: disk,
  run: (call) => throughAgent(call, disks),
  abort: (call) => abandon(call, { powerOff: false }),
};
