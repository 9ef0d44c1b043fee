/** The check that machines can boot the agent that steps of a plan need. */
import type { Refusal } from "../../errors.ts";
import type { Composition } from "../../drivers/registry.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Plan, PlannedStep } from "../../store/records.ts";
import { agentProblem } from "../input/agent-media.ts";
import type { Provisioning } from "../input/agent-media.ts";
import { isReserved } from "./reserved-steps.ts";

/** The refusal of a plan with a step that needs the agent, where the node cannot boot it; null if it can. */
export function agentFlaw(
  node: Pick<NodeRow, "id" | "name" | "settings">,
  plan: Plan,
  { composition, provisioning }: { readonly composition: Composition; readonly provisioning: Provisioning | null },
): Refusal | null {
  const users = new Set(composition.drivers.filter(({ usesAgent }) => usesAgent).map(({ name }) => name));
  const needsAgent = (step: PlannedStep) => !step.kept && users.has(step.driver) && isDeclared(step);
  const step = users.size > 0 && plan.steps.find(needsAgent);
  if (!step) return null;
  const architecture = node.settings[step.driver]?.["architecture"] === "ARM64" ? "ARM64" : "X64";
  const problem = agentProblem(provisioning, architecture);
  if (problem === null) return null;
  return {
    code: "AGENT_UNAVAILABLE",
    message: `Node ${node.name} cannot boot the agent for ${step.interface}.${step.name}. ${problem}`,
    nodeId: node.id,
  };
}

/** The engine's own steps use the power of the driver, and not its agent. */
function isDeclared(step: PlannedStep): boolean {
  return !isReserved(step) && step.phase !== "verify" && step.phase !== "power";
}
