/** Leaves a machine alone: the `abort` of the steps that work through the agent. */
import type { AgentStatus } from "../../src/drivers/driver.ts";
import { ejectMedium } from "./boot.ts";
import type { AgentCall } from "./call.ts";
import { isUnsupported, messageOf } from "./error.ts";

/**
 * Ends the session, so that the agent stops its work and switches the machine off, and ejects the medium. With
 * `powerOff` the BMC cuts the power too: before the first contact there may be no agent. Each part is tried although an
 * earlier one failed.
 */
export async function abandon(call: AgentCall, { powerOff }: { readonly powerOff: boolean }): Promise<void> {
  if ((await sessionOf(call)) === null) return;
  const problems: string[] = [];
  const attempt = async (what: string, work: () => Promise<void>) => {
    await work().catch((error: unknown) => problems.push(`${what}: ${messageOf(error)}`));
  };
  await attempt("the agent's session could not be ended", () => call.agent.close());
  if (powerOff) await attempt("the power could not be cut", () => call.power.set("OFF"));
  await attempt("the medium could not be ejected", () => ejectMedium(call));
  if (problems.length > 0) throw new Error(problems.join("; "));
}

/** Null if nothing was begun, or the service has no agent. */
async function sessionOf({ agent }: AgentCall): Promise<AgentStatus | null> {
  return agent.status().catch((error: unknown) => {
    if (isUnsupported(error)) return null;
    throw error;
  });
}
