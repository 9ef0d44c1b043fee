/** Shapes of what is stored as JSON, shared by whoever writes and whoever reads it. Types only. */
import type { ErrorCode } from "../errors.ts";
import type { Interruptible } from "../lifecycle/interrupts.ts";
import type { NodeEvent } from "../lifecycle/node-states.ts";
import type { LegPhase } from "../lifecycle/verbs.ts";

export type StoredJson = null | boolean | number | string | readonly StoredJson[] | { readonly [key: string]: StoredJson };
export type JsonObject = { readonly [key: string]: StoredJson };

/** Why a step, a run or an operation failed. Secrets are masked before it is stored. */
export interface Failure {
  readonly code: ErrorCode;
  readonly message: string;
  /** `interface.name`, null when it failed before or between steps. */
  readonly step: string | null;
  readonly nodeId: string | null;
  readonly nodeName: string | null;
  /** RFC 3339, UTC. */
  readonly at: string;
  readonly retryable: boolean;
}

/** In what condition an abort left the node, as far as is known. */
export interface LeftAs {
  readonly power: "ON" | "OFF" | "UNKNOWN";
  /** Whether a clean, deploy or undeploy step had begun. */
  readonly disksTouched: boolean;
  /** What the tear-down itself failed with. */
  readonly tearDownError: string | null;
}

/** A step of a plan: everything of its declaration that the engine goes by, fixed when the operation was accepted. */
export interface PlannedStep {
  readonly leg: number;
  readonly phase: LegPhase;
  /** `power`, `inspect`, `deploy` or `clean`. */
  readonly interface: string;
  readonly name: string;
  readonly title: string;
  readonly driver: string;
  readonly args: JsonObject;
  readonly priority: number;
  readonly interruptible: Interruptible;
  readonly supportsAbort: boolean;
  readonly idempotent: boolean;
  readonly timeoutSeconds: number;
  readonly retries: number;
  readonly backoffSeconds: number;
  readonly reaches: "PROVISIONED" | null;
  /** Done by the run that this one restarts, and not done again. */
  readonly kept: boolean;
}

/** What a run will do. Never changes once stored. */
export interface Plan {
  readonly legs: readonly { readonly phase: LegPhase; readonly enter: readonly NodeEvent[] }[];
  readonly finish: readonly NodeEvent[];
  readonly bestEffort: boolean;
  readonly steps: readonly PlannedStep[];
}

/** What a verb was given besides nodes, policy and variables. */
export interface VerbOptions {
  readonly until?: "AVAILABLE" | "ACTIVE";
  readonly force?: boolean;
  readonly powerAction?: "ON" | "OFF" | "SOFT_OFF" | "REBOOT";
  readonly cleanSteps?: readonly { readonly interface: "power" | "inspect" | "deploy" | "clean"; readonly name: string; readonly args: JsonObject }[];
}
