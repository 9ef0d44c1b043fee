/** Creates the engine's face to the agents of machines. */
import { noAgent } from "../../drivers/no-agent.ts";
import type { BindAgent } from "../execution/driver-call.ts";
import type { Agents } from "./agents.ts";

/** No session can be opened yet. */
export function createAgents(): { readonly agents: Agents; readonly bindAgent: BindAgent } {
  return {
    agents: {
      poll: async () => "UNKNOWN",
      result: async () => "UNKNOWN",
      networkBoot: async () => null,
      medium: async () => null,
      reached: async () => {},
      leased: async () => {},
      callHome: async () => false,
    },
    bindAgent: () => () =>
      noAgent("The service has no provisioning listener: set OSTLER_PROVISION_HOST, and restart the service."),
  };
}
