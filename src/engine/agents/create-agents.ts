/** Creates the engine's faces to the agents of machines: one for the provisioning listener, one for steps. */
import type { BindAgent } from "../execution/call/driver-call.ts";
import type { AgentParts } from "./agent-parts.ts";
import type { Agents } from "./agents.ts";
import { callHome, isOpen, leased, medium, networkBoot, reached } from "./boots.ts";
import { AgentContacts } from "./contacts.ts";
import { StepAgent } from "./node-agent.ts";

export function createAgents(parts: AgentParts): { readonly agents: Agents; readonly bindAgent: BindAgent } {
  const contacts = new AgentContacts(parts);
  return {
    agents: {
      poll: (bearer, report) => contacts.poll(bearer, report),
      result: (bearer, instance, result) => contacts.result(bearer, instance, result),
      networkBoot: (machine) => networkBoot(parts, machine),
      medium: (bearer) => medium(parts, bearer),
      isOpen: (bearer) => isOpen(parts, bearer),
      reached: (session) => reached(parts, session),
      leased: (mac) => leased(parts, mac),
      callHome: (token, body) => callHome(parts, token, body),
    },
    bindAgent: (entry) => (signal) => new StepAgent(parts, entry, signal),
  };
}
