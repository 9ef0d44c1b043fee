/** The deploy step that prepares the written system: grows it, adds its seed, and makes the machine start it. */
import type { Json, StepArgs } from "../../src/drivers/driver.ts";
import { abandon } from "./abandon.ts";
import type { AgentStep } from "./call.ts";
import { seedOf } from "./seed.ts";
import type { Seed } from "./seed.ts";
import { limitWithBoot, throughAgent } from "./task-step.ts";
import type { AgentWork } from "./task-step.ts";
import { rootDiskOf } from "./write-image.ts";

const configuring: AgentWork<StepArgs> = {
  limitSeconds: 1800,
  what: ({ image, node }) => `The system of image ${image?.name ?? "(none)"} on node ${node.name} was not configured`,
  async task(call, agent) {
    const { image } = call;
    if (image === null) return { problem: `Node ${call.node.name} has no image. Deploy it with one.` };
    const homeUrl = image.callsHome ? await call.agent.homeUrl() : null;
    const seed: Seed = seedOf(call, homeUrl);
    return {
      kind: "configure",
      args: {
        // Null: the disk that this agent has written; one that was booted since then selects it by the hints.
        disk: null,
        rootDisk: rootDiskOf(call),
        ...(image.diskBytes !== null && { minimumBytes: image.diskBytes }),
        growLast: true,
        seed,
        bootEntry: agent.bootMode === "UEFI",
      },
    };
  },
  output: withoutSeed,
  hidden: ({ userData }) => [{ text: userData ?? "", by: "(user data)" }],
};

export const configureSystem: AgentStep = {
  name: "configure_system",
  title: "Grow the last partition, write the configuration, and add a boot entry",
  phase: "deploy",
  priority: 60,
  interruptible: "ALWAYS",
  timeoutSeconds: limitWithBoot(configuring),
  idempotent: true,
  retries: { times: 2, backoffSeconds: 10 },
  touches: ["DISKS"],
  run: (call) => throughAgent(call, configuring),
  abort: (call) => abandon(call, { powerOff: false }),
};

/** The seed holds user data and the token of the call home. */
function withoutSeed(output: Json): Json {
  if (typeof output !== "object" || output === null || Array.isArray(output)) return null;
  const { partitions = null, bootEntry = null, bootNote } = output as Readonly<Record<string, Json>>;
  return { partitions, bootEntry, ...(bootNote !== undefined && { bootNote }) };
}
