/** Types of values that are stored as JSON. */
import type { ErrorCode, FailureKind } from "../errors.ts";
import type { UnerasedDisks } from "../lifecycle/erasure.ts";
import type { Interruptible, PowerOnFailure } from "../lifecycle/interrupts.ts";
import type { NodeEvent } from "../lifecycle/node-states.ts";
import type { GroupRules } from "../lifecycle/host-groups.ts";
import type { FailurePolicy } from "../lifecycle/operation-states.ts";
import type { Scope } from "../lifecycle/scopes.ts";
import type { BootDeviceName, BootModeName, LegPhase, PowerChange } from "../lifecycle/verbs.ts";

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
  /** The driver's or the engine's words alone, without node and step. Absent: as the message. */
  readonly cause?: string;
  /** `interface.name`; null if it failed before or between steps. */
  readonly step: string | null;
  readonly nodeId: string | null;
  readonly nodeName: string | null;
  /** RFC 3339, UTC. */
  readonly at: string;
  readonly retryable: boolean;
  /** As the driver classified it. Absent: the failure is not a driver's, or older than this member. */
  readonly kind?: FailureKind;
  /** The machine does nothing for the step any more, as its driver says. Absent: that is not known. */
  readonly atRest?: true;
}

/** One call of a driver for a node that names several drivers for the interface. */
export interface DriverTry {
  readonly interface: string;
  /** The function that was called, such as `power set on`. */
  readonly call: string;
  readonly driver: string;
  /** RFC 3339, UTC. */
  readonly at: string;
  /** Null: it succeeded. */
  readonly kind: FailureKind | null;
  /** Why it failed, with secrets masked. */
  readonly error: string | null;
}

/** Condition in which an abort or a failure left the node, as far as is known. */
export interface LeftAs {
  readonly power: "ON" | "OFF" | "UNKNOWN";
  /**
   * Whether a step that touches disks had started: one that declares it, or a clean, deploy or undeploy step without a
   * declaration.
   */
  readonly disksTouched: boolean;
  /** Whether a step that declares to write firmware had started. Absent in older records. */
  readonly firmwareTouched?: boolean;
  /** Whether a step that declares to attach networks had started. Absent in older records. */
  readonly networkAttached?: boolean;
  /** Whether the machine may still be at the step, and was left as it is. Absent in older records. */
  readonly mayBeWorking?: boolean;
  /** Error of the abort clean-up itself. */
  readonly tearDownError: string | null;
}

/** The parts of a machine that a step changes, declared by its driver. */
export type Touch = "DISKS" | "FIRMWARE" | "NETWORK";

/** A step of a plan: the part of its declaration that the engine uses, fixed when the operation was accepted. */
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
  /** Null: not declared. Absent in older plans. */
  readonly touches?: readonly Touch[] | null;
  /** The machine continues the work on its disks on its own. */
  readonly worksAlone?: true;
  /** Absent: a restart keeps the step's erasure. */
  readonly repeatOnRestart?: true;
  /** Its output accounts for the disks of the machine. Absent in older plans, whose erasures are not checked. */
  readonly erases?: true;
  /** Of the files that the driver runs; absent if it has none. */
  readonly revision?: string;
  /** Members of its output that other nodes can take as variables; the secret ones also in `secret`. */
  readonly outputs?: { readonly names: readonly string[]; readonly secret: readonly string[] };
  /** True if the restarted run completed it: it is not run again. */
  readonly kept: boolean;
}

/** Immutable once stored. */
export interface Plan {
  readonly legs: readonly { readonly phase: LegPhase; readonly enter: readonly NodeEvent[] }[];
  readonly finish: readonly NodeEvent[];
  readonly bestEffort: boolean;
  /** It was made for a node in maintenance, and does not wait for the end of it. */
  readonly inMaintenance?: true;
  /** It works on a system in service, and keeps it: a failure or an abort leaves the power as it is. */
  readonly inService?: true;
  /** No driver of the node can change its power, so neither an abort nor a failure does. */
  readonly keepsPower?: true;
  /** Its deploy steps were chosen, by a runbook or by a list. Absent: the automatic ones. */
  readonly chosen?: { readonly runbook: string | null };
  readonly steps: readonly PlannedStep[];
}

/** A step of a deployment, with the arguments that it had. */
export interface DeployedStep {
  /** `interface.name`. */
  readonly step: string;
  readonly driver: string;
  readonly args: JsonObject;
}

/** Inputs of a deployment up to PROVISIONED. */
export interface InstalledSystem {
  readonly image: { readonly id: string; readonly name: string; readonly checksum: string } | null;
  /** Keyed digest; null: none. */
  readonly userData: string | null;
  /** The request gave the user data, in place of that of the image. */
  readonly hasOwnUserData?: true;
  readonly steps: readonly DeployedStep[];
}

/** Inputs of a deployment from PROVISIONED to its end. */
export interface Configuration {
  readonly hostGroup: string | null;
  /** The effective variables: their values, and of secret ones keyed digests. */
  readonly variables: Readonly<Record<string, { readonly value: StoredJson } | { readonly digest: string }>>;
  readonly steps: readonly DeployedStep[];
  /** As in the plan. */
  readonly chosen?: Plan["chosen"];
}

/** A change of power beside the step of a run, which waits. */
export interface ForcedPower {
  readonly step: PlannedStep;
  /** Position of the step that waited. */
  readonly position: number;
  readonly by: string;
}

/** The interfaces of drivers. */
type InterfaceName = "power" | "inspect" | "deploy" | "clean" | "media" | "firmware" | "bios" | "console";

/** A host group of a cluster: what its nodes have in common. */
export interface HostGroup extends GroupRules {
  readonly variables: JsonObject;
}

/** By name. */
export type HostGroups = { readonly [name: string]: HostGroup };

/** The host groups whose rules apply to an operation, by their keys (`groupKey`). */
export interface OperationGroups {
  /** Of nodes that are deployed. */
  readonly deployed: readonly string[];
  /** Of nodes that are taken out of service, as far as a budget binds the request. */
  readonly budgeted: readonly string[];
}

/** Whether work that takes a node out of service brings it back. */
export type TakesOut = "RETURNS" | "STAYS";

/** A step chosen by name in place of the automatic list. */
export interface StepChoice {
  readonly interface: InterfaceName | "engine";
  readonly name: string;
  readonly args: JsonObject;
}

/** Options of a verb, apart from nodes, policy and variables. */
export interface VerbOptions {
  readonly until?: "AVAILABLE" | "ACTIVE";
  /** For COMMISSION: what it keeps of the earlier work; absent counts as STAGE. */
  readonly from?: "STAGE" | "BEGINNING";
  /** For DEPLOY, REDEPLOY and APPLY: install again on ACTIVE nodes. */
  readonly reinstall?: boolean;
  /** The request gave the user data of its deployments, in place of that of the image. */
  readonly ownUserData?: true;
  readonly force?: boolean;
  readonly powerAction?: PowerChange;
  /** For BOOT_DEVICE. */
  readonly bootDevice?: {
    readonly device: BootDeviceName;
    readonly persistent: boolean;
    /** Absent: as the settings of the node or the machine decide. */
    readonly mode?: BootModeName;
  };
  /** For POWER with `force`: the runs of other work that were given the change. */
  readonly givenTo?: readonly { readonly nodeId: string; readonly nodeName: string; readonly id: string }[] | undefined;
  /** For SOFT_OFF and SOFT_REBOOT: time before the power is switched off hard. */
  readonly softTimeoutSeconds?: number;
  /** Steps in place of the automatic ones in the verb's own phase (clean or deploy). */
  readonly steps?: readonly StepChoice[];
  /** The runbook that the steps were taken from. */
  readonly runbook?: string;
  /** The power of a node whose work fails; absent: as the site's policy says. */
  readonly powerOnFailure?: PowerOnFailure;
  /** New host group of the nodes. */
  readonly hostGroup?: string;
  /** For a discovery: the driver, its settings without secrets, and labels and names for the nodes found. */
  readonly discovery?: {
    readonly driver: string;
    readonly settings: JsonObject;
    readonly labels?: Readonly<Record<string, string>>;
    readonly namePrefix?: string;
  };
}

/**
 * Why a run is parked.
 * Within a step: TIME, CALLBACK, RETRY, HOLD. Between two steps: CAPACITY (a slot of a capacity limit), MAINTENANCE.
 * A QUEUED run that is due: CONCURRENCY (a worker). Other QUEUED runs have none.
 */
export type WaitReason = "TIME" | "CALLBACK" | "RETRY" | "HOLD" | "CAPACITY" | "MAINTENANCE" | "CONCURRENCY";

/** Waves of an operation, resolved when it was accepted. */
export interface Waves {
  /** Number of nodes in each wave; the sum is all nodes. */
  readonly sizes: readonly number[];
  readonly pauseSeconds: number;
  /** True if each next wave waits for `advanceWave`. */
  readonly manual: boolean;
  /** Number of failed runs at which further waves are held; null for no limit. */
  readonly maxFailures: number | null;
  /** Failures that an operator accepted by continuing. */
  readonly forgiven: number;
}

/** Phases with a capacity limit. */
export type LimitedPhase = "verify" | "inspect" | "clean" | "deploy" | "undeploy";

/** The site's policy for one step. */
export interface StepPolicy {
  /** `interface.name`, as in `clean.erase_disks`. */
  readonly step: string;
  /** For this driver only; absent: for all drivers. */
  readonly driver?: string;
  /** In place of the declared priority; 0 disables the step. */
  readonly priority?: number;
  /** Not run even if chosen by name. */
  readonly forbidden?: boolean;
}

/** Policy for all nodes. Absent members have their defaults. */
export interface SitePolicy {
  /** Maximum number of runs in a phase at the same time, over all replicas. */
  readonly phaseLimits?: Readonly<Partial<Record<LimitedPhase, number>>>;
  /** Maximum number of runs at the same time on nodes of one management controller. */
  readonly controllerLimit?: number;
  /** False: no automatic clean steps in commissions and after tear-downs. */
  readonly automaticCleaning?: boolean;
  readonly steps?: readonly StepPolicy[];
  /** How long a step waits for a node that has disappeared; absent: no limit but its own timeout. */
  readonly disappearedTimeoutSeconds?: number;
  /** Whether power drift is corrected. */
  readonly correctPower?: boolean;
  /** The power of a node whose cleaning or deployment fails. */
  readonly powerOnFailure?: PowerOnFailure;
  /** The failure policy of commissions that do not choose one. */
  readonly commissionOnFailure?: FailurePolicy;
  /** Serial numbers, UUIDs and MACs that several machines have, so that they identify none. */
  readonly sharedIdentities?: readonly string[];
  /** Whether an erasure succeeds that has not reached every disk. */
  readonly unerasedDisks?: UnerasedDisks;
  /** Scopes that chosen steps demand, in place of MANAGE, and steps of runbooks, in place of OPERATE. */
  readonly stepScopes?: readonly StepScope[];
}

export interface StepScope {
  /** `interface.name`. */
  readonly step: string;
  readonly scope: Scope;
}

export type DocumentKind = "QUERY" | "MUTATION" | "SUBSCRIPTION";

/** A registered document that a token may send. */
export interface BoundDocument {
  readonly id: string;
  /** Variables for which the token sends no other values. */
  readonly variables: JsonObject;
}

/** A static network configuration of an agent. */
export interface AgentNetworkSettings {
  readonly mac: string;
  readonly address: string;
  readonly gateway?: string;
  readonly dns?: readonly string[];
}

/** The agent of a session, as it reported itself. */
export interface AgentIdentity {
  readonly version: string;
  readonly architecture: "X64" | "ARM64";
  readonly bootMode: "UEFI" | "BIOS";
  readonly address: string;
  readonly macs: readonly string[];
  readonly disks?: number;
}

export interface TaskIdentity {
  readonly id: string;
  /** MAC of the attempt, the kind and the arguments: equal for the same task of the same attempt. */
  readonly key: string;
}

/** A task of an agent, and the attempt that waits for it. */
export interface StoredTask extends TaskIdentity {
  readonly kind: string;
  readonly args: StoredJson;
  readonly step: number;
  readonly attempt: number;
  readonly interruptible: "ALWAYS" | "AT_BOUNDARY" | "NEVER";
}
