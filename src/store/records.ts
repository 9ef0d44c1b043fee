/** Shapes of what is stored as JSON, shared by whoever writes and whoever reads it. Types only. */
import type { ErrorCode } from "../errors.ts";
import type { Interruptible } from "../lifecycle/interrupts.ts";
import type { NodeEvent } from "../lifecycle/node-states.ts";
import type { LegPhase } from "../lifecycle/verbs.ts";

export type StoredJson =
  | null
  | boolean
  | number
  | string
  | readonly StoredJson[]
  | { readonly [key: string]: StoredJson };
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
  /** Whether a step had begun that touches disks: one that says so, or any clean, deploy or undeploy step that says nothing. */
  readonly disksTouched: boolean;
  /** Whether a step had begun that says it writes firmware. Absent in records older than this field. */
  readonly firmwareTouched?: boolean;
  /** Whether a step had begun that says it attaches networks. Absent in records older than this field. */
  readonly networkAttached?: boolean;
  /** What the tear-down itself failed with. */
  readonly tearDownError: string | null;
}

/** What a step changes on a machine, as its driver declares it. */
export type Touch = "DISKS" | "FIRMWARE" | "NETWORK";

/** A step of a plan: everything of its declaration that the engine goes by, fixed when the operation was accepted. */
export interface PlannedStep {
  readonly leg: number;
  readonly phase: LegPhase;
  /** `power`, `inspect`, `deploy`, `clean`, or `engine`: the reserved steps `wait` and `hold`. */
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
  /** Null: the declaration says nothing. Absent in plans older than this field. */
  readonly touches?: readonly Touch[] | null;
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

/** A step chosen by name, in place of the automatic list. */
export interface StepChoice {
  readonly interface: "power" | "inspect" | "deploy" | "clean" | "engine";
  readonly name: string;
  readonly args: JsonObject;
}

/** What a verb was given besides nodes, policy and variables. */
export interface VerbOptions {
  readonly until?: "AVAILABLE" | "ACTIVE";
  readonly force?: boolean;
  readonly powerAction?: "ON" | "OFF" | "SOFT_OFF" | "REBOOT";
  /** Of a soft power off: how long the system may take before the power is cut. */
  readonly softTimeoutSeconds?: number;
  /** Steps in place of the automatic ones of the verb's own phase (clean or deploy). */
  readonly steps?: readonly StepChoice[];
  /** The runbook that the steps were taken from. */
  readonly runbook?: string;
  /** Host group that the nodes get. */
  readonly hostGroup?: string;
  /** Of a discovery: the driver, its settings without secrets, and what the nodes get that are found. */
  readonly discovery?: {
    readonly driver: string;
    readonly settings: JsonObject;
    readonly labels?: Readonly<Record<string, string>>;
    readonly namePrefix?: string;
  };
}

/**
 * What a parked run waits for.
 * Within a step: TIME, CALLBACK, RETRY, HOLD. Between two steps: CAPACITY (a limit of the service), MAINTENANCE.
 */
export type WaitReason = "TIME" | "CALLBACK" | "RETRY" | "HOLD" | "CAPACITY" | "MAINTENANCE";

/** How an operation takes its nodes on in waves, resolved when it was accepted. */
export interface Waves {
  /** Nodes in each wave; they add up to all. */
  readonly sizes: readonly number[];
  readonly pauseSeconds: number;
  /** The next wave begins when somebody says so. */
  readonly manual: boolean;
  /** So many runs may fail before the rest is held; null: any number. */
  readonly maxFailures: number | null;
  /** Failures that somebody has seen and gone on after. */
  readonly forgiven: number;
}

/** Phases whose runs can be limited. */
export type LimitedPhase = "verify" | "inspect" | "clean" | "deploy" | "undeploy";

/** A site's word on one step of whatever driver offers it. */
export interface StepPolicy {
  /** `interface.name`, as in `clean.erase_disks`. */
  readonly step: string;
  /** Of this driver only; absent: of every driver. */
  readonly driver?: string;
  /** In place of the declared one; 0 switches it off. */
  readonly priority?: number;
  /** Never run, not even when asked for by name. */
  readonly forbidden?: boolean;
}

/** What holds for all nodes. An absent member is as if it said nothing. */
export interface SitePolicy {
  /** Runs at work in a phase at the same time, over the whole service. */
  readonly phaseLimits?: Readonly<Partial<Record<LimitedPhase, number>>>;
  /** Runs at work at the same time on nodes of one management controller. */
  readonly controllerLimit?: number;
  /** False: no automatic clean steps, neither in a commission nor after a tear-down. */
  readonly automaticCleaning?: boolean;
  readonly steps?: readonly StepPolicy[];
  /** Whether a power state that somebody else changed is changed back. */
  readonly correctPower?: boolean;
}
