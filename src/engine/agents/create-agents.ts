/** Creates the engine's faces to the agents of machines: one for the provisioning listener, one for steps. */
import type { AgentResult } from "../../drivers/driver.ts";
import type { StoredJson } from "../../store/records.ts";
import type { BindAgent } from "../execution/call/driver-call.ts";
import type { AgentParts } from "./agent-parts.ts";
import type { AgentReport, Bearer, BootingMachine } from "./agents.ts";
import { callHome, isOpen, leased, medium, networkBoot, reached } from "./boots.ts";
import { AgentContacts } from "./contacts.ts";
import { StepAgent } from "./node-agent.ts";

export type Agents = ReturnType<typeof createAgents>["agents"];

export function createAgents(parts: AgentParts) {
  const contacts = new AgentContacts(parts);
  const bindAgent: BindAgent = (entry) => (signal) => new StepAgent(parts, entry, signal);
  return {
    bindAgent,
    agents: {
      /** Takes the report of an agent; the first one fixes which agent has the session. */
      poll: (bearer: Bearer, report: AgentReport) => contacts.poll(bearer, report),
      /** Takes the result of a task. */
      result: (bearer: Bearer, instance: string, result: AgentResult) => contacts.result(bearer, instance, result),
      /**
       * For the boot script of a network boot: only while a session of the node with one of the MACs waits for its
       * agent. Makes a new secret each time. A second address that is not leased ends the session, and fails the step.
       */
      networkBoot: (machine: BootingMachine) => networkBoot(parts, machine),
      /** For a boot medium: the ticket that it contains, while the session is open. */
      medium: (bearer: Bearer) => medium(parts, bearer),
      /** Whether the session of the bearer is open, by whatever its machine was booted. */
      isOpen: (bearer: Bearer) => isOpen(parts, bearer),
      /** The machine fetched the kernel of a network boot. Does nothing for an unknown session. */
      reached: (session: string, _milestone: "KERNEL") => reached(parts, session),
      /** A machine got an address by DHCP. */
      leased: (mac: string) => leased(parts, mac),
      /** The report of an installed system. False: the token is unknown, or the node was booted since. */
      callHome: (token: string, body: StoredJson) => callHome(parts, token, body),
    },
  };
}
