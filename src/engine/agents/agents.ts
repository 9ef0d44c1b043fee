/** The agents of machines, as the provisioning listener sees them: the types of its requests and answers. */
import type { Architecture, AgentNetwork, BootMode } from "../../drivers/driver.ts";
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
