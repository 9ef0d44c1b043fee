/** The agents of machines, as the provisioning listener sees them: the types of its requests and answers. */
import type { Architecture, AgentNetwork, AgentResult, BootMode } from "../../drivers/driver.ts";
import type { StoredJson } from "../../store/records.ts";

/** The credentials of a request of an agent. */
export interface Bearer {
  readonly session: string;
  readonly secret: string;
}

/** The report of an agent with every poll. */
export interface AgentReport {
  /** Random text that the agent makes once per boot. */
  readonly instance: string;
  readonly version: string;
  readonly protocol: number;
  readonly architecture: Architecture;
  readonly bootMode: BootMode;
  readonly address: string;
  readonly macs: readonly string[];
  /** Number of disks that are parts of the machine. Agents of earlier releases do not report it. */
  readonly disks?: number;
  /** The task that it works on, or whose result was not yet taken. */
  readonly task?: { readonly id: string; readonly percent: number; readonly message: string | null };
}

/** The answer to a poll. `continue`: with the reported task. `cancel`: end it and report its end. */
export type AgentOrder =
  | { readonly do: "wait"; readonly seconds: number }
  | { readonly do: "task"; readonly task: { readonly id: string; readonly kind: string; readonly args: StoredJson } }
  | { readonly do: "continue" | "cancel" | "power_off" };

/** `UNKNOWN`: there is no such session, or the secret is wrong. `STRANGER`: another agent has this session. */
export type NoAgent = "UNKNOWN" | "STRANGER";

/**
 * `TAKEN`: stored, also if it was before. `RETRY`: the step cannot take it yet. `NOT_CURRENT`: the task has ended, and
 * nothing waits for it.
 */
export type ResultAnswer = "TAKEN" | "RETRY" | "NOT_CURRENT" | NoAgent;

/** The parts that a machine needs to boot the agent. */
export interface BootTicket {
  readonly session: string;
  readonly secret: string;
  readonly architecture: Architecture;
  readonly kernelArguments: readonly string[];
  readonly network: AgentNetwork | null;
}

/**
 * A machine that fetches its boot script: the MACs that it names, and where the request came from. `isLeased`: the DHCP
 * server has leased that address to each of these MACs.
 */
export interface BootingMachine {
  readonly macs: readonly string[];
  readonly address: string;
  readonly isLeased: boolean;
}

export interface Agents {
  /** Takes the report of an agent; the first one fixes which agent has the session. */
  poll(bearer: Bearer, report: AgentReport): Promise<AgentOrder | NoAgent>;
  /** Takes the result of a task. */
  result(bearer: Bearer, instance: string, result: AgentResult): Promise<ResultAnswer>;
  /**
   * For the boot script of a network boot: only while a session of the node with one of the MACs waits for its agent.
   * Makes a new secret each time. A second address that is not leased ends the session, and fails the step.
   */
  networkBoot(machine: BootingMachine): Promise<BootTicket | null>;
  /** For a boot medium: the ticket that it contains, while the session is open. */
  medium(bearer: Bearer): Promise<BootTicket | null>;
  /** Whether the session of the bearer is open, by whatever its machine was booted. */
  isOpen(bearer: Bearer): Promise<boolean>;
  /** The machine fetched the kernel of a network boot. Does nothing for an unknown session. */
  reached(session: string, milestone: "KERNEL"): Promise<void>;
  /** A machine got an address by DHCP. */
  leased(mac: string): Promise<void>;
  /** The report of an installed system. False: the token is unknown, or the node was booted since. */
  callHome(token: string, body: StoredJson): Promise<boolean>;
}
