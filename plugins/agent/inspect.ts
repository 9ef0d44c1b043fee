/** Inspection from within the machine. */
import type { InspectInterface, Json, StepArgs } from "../../src/drivers/driver.ts";
import { abandon } from "./abandon.ts";
import { bootStep } from "./boot-step.ts";
import type { AgentSettings } from "./settings.ts";
import { limitWithBoot, throughAgent } from "./task-step.ts";
import type { AgentWork } from "./task-step.ts";

const inventory: AgentWork<StepArgs> = {
  limitSeconds: 900,
  what: ({ node }) => `Node ${node.name} could not be inspected`,
  task: async ({ settings }) => ({ kind: "inventory", args: { lldpSeconds: settings.lldpSeconds } }),
  output: (output) => reported(output) ?? {},
};

export const agentInspect: InspectInterface<AgentSettings> = {
  withoutReboot: false,
  supportsAbort: true,
  steps: [
    bootStep("inspect"),
    {
      name: "collect_inventory",
      title: "Read the inventory of the machine from within",
      phase: "inspect",
      priority: 50,
      interruptible: "ALWAYS",
      timeoutSeconds: limitWithBoot(inventory),
      idempotent: true,
      retries: { times: 1, backoffSeconds: 10 },
      touches: [],
      run: (call) => throughAgent(call, inventory),
      abort: (call) => abandon(call, { powerOff: true }),
    },
  ],
};

/** Without the members that the machine does not report: the terms of an inventory have no nulls. */
function reported(value: Json): Json | undefined {
  if (value === null) return undefined;
  if (Array.isArray(value)) return value.map((one: Json) => reported(one)).filter((one) => one !== undefined);
  if (typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, member]: [string, Json]) => {
      const kept = reported(member);
      return kept === undefined ? [] : [[name, kept]];
    }),
  );
}
