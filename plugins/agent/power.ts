/** Power of a node that takes it from this driver, which has none: the agent runs only while the machine is on. */
import type { Call, PowerInterface } from "../../src/drivers/driver.ts";
import { AgentError } from "./error.ts";
import type { AgentSettings } from "./settings.ts";

export const noPower: PowerInterface<AgentSettings> = {
  read: async (call) => refuse(call),
  set: async (call) => refuse(call),
};

function refuse({ node, signal }: Call<AgentSettings>): never {
  signal.throwIfAborted();
  throw new AgentError(
    "UNSUPPORTED",
    `Node ${node.name} takes its power from the driver agent, which has none. Register it with the driver of its BMC, such as redfish, and take only INSPECT, CLEAN and DEPLOY from agent.`,
  );
}
