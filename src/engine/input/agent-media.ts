/** Whether machines can boot the agent: the provisioning listener, and the agent for their architecture. */
import type { Architecture } from "../../drivers/driver.ts";

/** How machines reach the service, and the agents that it can let them boot. */
export interface Provisioning {
  /** Address of the provisioning listener as machines reach it, without a slash at its end. */
  readonly url: string;
  /** The agent for an architecture; null if it is not installed. */
  mediaFor(architecture: Architecture): { readonly version: string; readonly protocol: number } | null;
}

/** Version of the protocol between the service and the agent. */
export const AGENT_PROTOCOL = 2;

/** Why machines of an architecture cannot boot the agent, and what to do; null if they can. */
export function agentProblem(provisioning: Provisioning | null, architecture: Architecture): string | null {
  if (!provisioning)
    return "The service has no provisioning listener, which the agent needs: set OSTLER_PROVISION_HOST, and restart the service.";
  const agent = provisioning.mediaFor(architecture);
  if (!agent)
    return `The service has no agent for ${architecture}: build it as packages/agent describes, and put it into OSTLER_AGENT_DIR.`;
  if (agent.protocol !== AGENT_PROTOCOL)
    return `The agent for ${architecture} (version ${agent.version}) speaks version ${agent.protocol} of the protocol, and the service version ${AGENT_PROTOCOL}: build the agent of this release, and put it into OSTLER_AGENT_DIR.`;
  return null;
}
