/** Enums of the schema, most of them from the tables that the code uses. */
import { ERROR_MEANING, FAILURE_KIND_MEANING, IMAGE_MISMATCHES } from "../../errors.ts";
import {
  ACCEPTANCES,
  EDIT_OUTCOMES,
  OFF_REASONS,
  RESTART_FROM,
  UNKNOWN_VARIABLES,
  VARIABLE_SOURCES,
} from "../../engine/views.ts";
import { RESET_REASONS } from "../../feed/kinds/node-stream.ts";
import { CLUSTER_STATES, STAGES } from "../../lifecycle/cluster-state.ts";
import { COMMISSION_FROM } from "../../lifecycle/admission.ts";
import { UNERASED_DISKS } from "../../lifecycle/erasure.ts";
import { ABORT_MODES, POWER_ON_FAILURE } from "../../lifecycle/interrupts.ts";
import { NODE_EVENTS, NODE_STATES } from "../../lifecycle/node-states.ts";
import { FAILURE_POLICIES, OPERATION_STATES, RUN_STATES } from "../../lifecycle/operation-states.ts";
import { TOUCHES } from "../../lifecycle/touches.ts";
import { CHECKSUM_ALGORITHMS, ARCHITECTURES, IMAGE_FORMATS } from "../../lifecycle/images.ts";
import { BOOT_DEVICES, BOOT_MODES, OPERATION_KINDS, POWER_CHANGES } from "../../lifecycle/verbs.ts";
import { NODE_FAULTS } from "../../lifecycle/faults.ts";
import { IDENTITY_KINDS } from "../../lifecycle/identity.ts";
import { WAIT_REASONS } from "../../lifecycle/waiting.ts";
import { WAVE_STATES } from "../../lifecycle/waves.ts";
import type {
  ClusterChangeField,
  NodeChangeField,
  OperationChangeField,
  RunChangeField,
} from "../../store/log/change-fields.ts";
import { DECLARED_NAMES, declared } from "../../store/nodes/node-fields.ts";
import type { CountedField, DeclaredChange, DeclaredCount } from "../../store/nodes/node-fields.ts";
import { builder, enumValues } from "./builder.ts";

const named = <Name extends string>(
  name: string,
  description: string,
  meanings: Readonly<Record<Name, string | { readonly description: string }>>,
) => builder.enumType(name, { description, values: enumValues(meanings) as Record<Name, { description: string }> });

/** An enum in upper case whose values the service stores in lower case. */
const namedInUpperCase = <Name extends string>(
  name: string,
  description: string,
  meanings: Readonly<Record<Name, string | { readonly description: string }>>,
) => {
  const values = Object.entries(enumValues(meanings)).map(([value, meaning]) => [
    value.toUpperCase(),
    { ...(meaning as { description: string }), value },
  ]);
  return builder.enumType(name, {
    description,
    values: Object.fromEntries(values) as {
      [Value in Name as Uppercase<Value>]: { description: string; value: Value };
    },
  });
};

export const NodeStateEnum = named(
  "NodeState",
  "Lifecycle state of a node. `*_WAIT`: parked until the hardware calls back or a time has passed. `*_FAILED`: an operator has to decide. New values may be added.",
  NODE_STATES,
);
export const NodeEventEnum = namedInUpperCase("NodeEvent", "Event in the life of a node. New values may be added.", {
  ...NODE_EVENTS,
  register: "The node was registered.",
  delete: "The node was deleted.",
});
export const StageEnum = named(
  "Stage",
  "How much is installed on a node. A restart decides by it which steps to keep.",
  STAGES,
);
/** The declared fields by which nodes are counted. */
function countsOfDeclared(): Record<DeclaredCount, string> {
  const counts = DECLARED_NAMES.flatMap((name) => {
    const { change, count } = declared(name);
    return count === undefined ? [] : [[change, count] as const];
  });
  return Object.fromEntries(counts) as Record<DeclaredCount, string>;
}

export const CountedFieldEnum = named<CountedField>(
  "NodeCountField",
  "Field by which nodes are counted. New values may be added.",
  {
    ...countsOfDeclared(),
    STATE: "Lifecycle state.",
    CLUSTER: "Name of the `cluster`; null for nodes of none.",
    POWER: "Power state as last read.",
    PRESENCE: "Whether monitoring sees the machine.",
    DRIVER: "Name of the driver.",
    STAGE: "How much is installed.",
  },
);
export const ClusterStateEnum = named(
  "ClusterState",
  "State of a cluster, computed from its nodes and their unfinished runs.",
  CLUSTER_STATES,
);
export const OperationKindEnum = named("OperationKind", "Kind of operation. New values may be added.", OPERATION_KINDS);
export const OperationStateEnum = named(
  "OperationState",
  "State of an operation. QUEUED, RUNNING, STOPPING and ABORTING are unfinished; the others are final.",
  OPERATION_STATES,
);
export const RunStateEnum = named(
  "RunState",
  "State of a run. QUEUED, RUNNING, WAITING and HOLDING are unfinished; the others are final.",
  RUN_STATES,
);
export const FailurePolicyEnum = named(
  "FailurePolicy",
  "Effect of a failed node on the other nodes of its operation, once work has started.",
  FAILURE_POLICIES,
);
export const AcceptanceEnum = named(
  "Acceptance",
  "Effect of a refused node on the whole request, before any work starts.",
  ACCEPTANCES,
);
export const EditOutcomeEnum = named("NodeEditOutcome", "What an edit does to a node.", EDIT_OUTCOMES);
export const AbortModeEnum = named("AbortMode", "How far an abort goes to end the step that has begun.", ABORT_MODES);
export const PowerOnFailureEnum = named(
  "PowerOnFailure",
  "Power of a node after the failure of its work.",
  POWER_ON_FAILURE,
);
export const UnerasedDisksEnum = named(
  "UnerasedDisks",
  "Consequence of an erasure that is not proven for every disk.",
  UNERASED_DISKS,
);
export const RestartFromEnum = named("RestartFrom", "How much completed work a restart keeps.", RESTART_FROM);
export const ErrorCodeEnum = named(
  "ErrorCode",
  "Machine-readable reason, with the equivalent HTTP status. A code never changes its meaning. New codes may be added.",
  ERROR_MEANING,
);
export const IdentityKindEnum = named(
  "IdentityKind",
  "What identifies a machine. New values may be added.",
  IDENTITY_KINDS,
);
export const FailureKindEnum = named(
  "FailureKind",
  "Cause of a failure as the driver classified it. New values may be added.",
  FAILURE_KIND_MEANING,
);
export const StreamResetReasonEnum = named("StreamResetReason", "Reason for the end of a stream.", RESET_REASONS);

export const NodeChangeFieldEnum = named<NodeChangeField>(
  "NodeChangeField",
  "What has changed of a node. New values may be added.",
  {
    ...(Object.fromEntries(
      DECLARED_NAMES.map((name) => [declared(name).change, `The field \`${name}\` of the node.`]),
    ) as Record<DeclaredChange, string>),
    NAME: "The field `name` of the node.",
    PROJECT: "The field `project` of the node.",
    STATE: "`state`, and with it `transitionCount`.",
    STAGE: "The field `stage` of the node.",
    POWER: "`powerState`, `powerReadAt`, `wantedPower`, `powerDrift`, `powerProblem` or `powerProblemKind`.",
    PRESENCE: "The field `presence` of the node.",
    MAINTENANCE: "The field `maintenance` of the node.",
    FAULT: "The field `fault` of the node.",
    PROTECTED: "The field `protected` of the node.",
    RETIRED: "`retired` and `retiredReason`.",
    LABELS: "The field `labels` of the node.",
    VARIABLES: "The field `variables` of the node.",
    CLUSTER: "`cluster`, or the name of the cluster.",
    SETTINGS: "`drivers`: the drivers, their settings or their secrets.",
    MACS: "The field `macs` of the node.",
    CONTROLLER: "`controller` or `sharedController`.",
    IDENTITY_CONFLICT: "The field `identityConflict` of the node.",
    LAST_ERROR: "The field `lastError` of the node.",
    IMAGE: "The field `image` of the node.",
    INVENTORY: "`inventory` and `inventories`.",
    CURRENT_RUN:
      "`currentRun` and `targetState`: the run began, ended, or changed its state, step, wait or interrupt. Progress within a step is not included.",
  },
);

export const OperationChangeFieldEnum = named<OperationChangeField>(
  "OperationChangeField",
  "What has changed of an operation. New values may be added.",
  {
    STATE: "`state`, `startedAt` and `finishedAt`.",
    PROGRESS:
      "`runCounts`, `finishedCount`, `failedCount`, `reachedCount`, `totalCount`, `progress`, `etaSeconds` or `cleanUpFailures`: runs began, ended, waited or reached another step, or addresses were probed.",
    WAVES: "The field `rollout` of the operation: waves began, paused, halted or were changed.",
    INTERRUPT: "An abort or a stop was requested or withdrawn.",
    FAILURE: "The field `firstFailure` of the operation.",
    OPTIONS: "`cluster`, `onFailure`, `maxParallel`, `runbook` or `variables`; also when a cluster was deleted.",
  },
);

export const RunChangeFieldEnum = named<RunChangeField>(
  "RunChangeField",
  "What has changed of a run. New values may be added.",
  {
    STATE: "`state`, `startedAt` and `finishedAt`.",
    STEP: "`currentStep`, `steps` or `progress`: the run reached another step, or began an attempt.",
    WAIT: "`waiting`, `waitReason` or `wakeAt`.",
    INTERRUPT: "An abort or a stop was requested or withdrawn, and with it the fields about the abort.",
    FAILURE: "`failure`, `errors`, `cleanupFailed` or `machineCondition`.",
    PROGRESS: "The progress within the step, as the driver reports it.",
  },
);

export const ClusterChangeFieldEnum = named<ClusterChangeField>(
  "ClusterChangeField",
  "What has changed of a cluster. New values may be added.",
  {
    NAME: "The field `name` of the cluster.",
    SETTINGS: "`variables`, `hostGroups` or `image` of the cluster.",
    MEMBERS: "Nodes were added, removed or deleted.",
    STATE: "`state` and `nodeCounts`: the state of a node changed, or work on it began or ended.",
    PENDING_CHANGES: "`pendingChanges` may have: the settings, a node, an image, a runbook or the site changed.",
  },
);

export const WaveStateEnum = named("WaveState", "Progress of an operation that works in waves.", WAVE_STATES);

export const UntilEnum = named("Until", "State in which a commission ends.", {
  AVAILABLE: "Verify, inspect and clean.",
  ACTIVE: "Verify, inspect, clean and deploy.",
});
export const VariableSourceEnum = named(
  "VariableSource",
  "Where the value of a variable comes from, lowest precedence first.",
  VARIABLE_SOURCES,
);
export const UnknownVariablesEnum = named(
  "UnknownVariables",
  "Effect of variables that no driver of a node reads.",
  UNKNOWN_VARIABLES,
);
export const CommissionFromEnum = named(
  "CommissionFrom",
  "What a commission keeps of a node's earlier work.",
  COMMISSION_FROM,
);
export const AbortEffectEnum = named("AbortEffect", "Time at which an accepted abort takes effect.", {
  BEFORE_START: "At once: no step has run, and the node stays in its state.",
  NOW: "At once: no step is running, or the running step can be canceled.",
  PENDING: "After the running step has ended.",
});
export const RunPurposeEnum = named("RunPurpose", "Why a run was created.", {
  WORK: "The work that the operation was requested for.",
  CLEAN_UP: "Clean-up by the failure policy, which returns the node to AVAILABLE.",
});
export const WaitReasonEnum = named("WaitReason", "Reason why a run waits. New values may be added.", WAIT_REASONS);
export const RejectedCallbackKindEnum = named("RejectedCallbackKind", "Reason why a callback was rejected.", {
  LATE: "Its URL belongs to an earlier call of the step, or to work that has ended.",
  DUPLICATE: "A callback to its URL was accepted before.",
  FORGED: "Its URL was never issued.",
  STRANGER: "A second agent presented the secret of an agent session. Nothing of it was accepted.",
});
export const StepPartEnum = named("StepPart", "Part of a step: the driver function that is called.", {
  RUN: "Do the work.",
  VERIFY: "Verify that the work has taken effect.",
  ABORT: "Clean up after an abort.",
});
export const StepStateEnum = named("StepState", "Progress of a step of a run.", {
  PENDING: "Not started yet.",
  RUNNING: "A driver works on it.",
  WAITING: "Parked; the driver will be called again.",
  SUCCEEDED: "Ended without an error.",
  FAILED: "Ended with an error.",
  ABORTED: "Ended by an abort.",
  KEPT: "Completed by the run that this one restarts; not repeated.",
  SKIPPED: "Not started, because the run ended before.",
});
export const InterruptibleEnum = named("Interruptible", "Whether a running step can be interrupted.", {
  ALWAYS: "At any time: an abort cancels the step.",
  AT_BOUNDARY: "Between steps: an abort waits until the step has ended, unless it has `mode: CUT`.",
  NEVER: "Never: while the step runs, an abort is refused, or waits with `mode: AFTER_STEP`.",
});
export const PhaseEnum = namedInUpperCase("Phase", "Activity on a node that consists of steps.", {
  verify: { description: "Check power and credentials." },
  inspect: { description: "Collect the inventory." },
  clean: { description: "Remove data and configuration." },
  deploy: { description: "Install the system." },
  undeploy: { description: "Remove the system." },
  power: { description: "Change the power state or the boot device; the lifecycle state stays." },
});
export const DriverInterfaceEnum = builder.enumType("DriverInterfaceKind", {
  description: "Interface of a driver, or of the service itself (ENGINE).",
  values: {
    POWER: {
      value: "power",
      description:
        "Read and change power; verify credentials. Includes the reserved steps power_on, power_off, soft_power_off, reboot, soft_reboot and boot_device.",
    },
    INSPECT: { value: "inspect", description: "Collect the inventory." },
    DEPLOY: { value: "deploy", description: "Install and remove the system." },
    CLEAN: { value: "clean", description: "Erase and configure the machine." },
    MEDIA: { value: "media", description: "Insert and eject virtual media." },
    FIRMWARE: { value: "firmware", description: "Read the versions of the firmware." },
    BIOS: { value: "bios", description: "Read the BIOS settings." },
    CONSOLE: { value: "console", description: "Address of the serial console." },
    ENGINE: { value: "engine", description: "The service itself, with the reserved steps wait and hold." },
  } as const,
});
export const CircuitStateEnum = named("CircuitState", "Circuit breaker of a controller that does not answer.", {
  OPEN: "Calls fail at once until `nextProbeAt`.",
  HALF_OPEN: "One call tries the controller; the others fail at once.",
});
export const StepDisabledReasonEnum = named(
  "StepDisabledReason",
  "Reason why a step does not run automatically.",
  OFF_REASONS,
);
export const MachinePartEnum = named("MachinePart", "Part of a machine that a step can change.", TOUCHES);
export const NodeFaultKindEnum = named(
  "NodeFaultKind",
  "What the service knows to be wrong with a node. New values may be added.",
  NODE_FAULTS,
);
export const PowerStateEnum = named("PowerState", "Power state as last read from the BMC.", {
  ON: "Powered on.",
  OFF: "Powered off.",
  UNKNOWN: "Not read yet, or the BMC did not answer.",
});
export const PowerActionEnum = named(
  "PowerAction",
  "Power action. A node that already has the requested power state succeeds without a call to its BMC.",
  POWER_CHANGES,
);
export const BootDeviceEnum = named("BootDevice", "Device from which a machine starts.", BOOT_DEVICES);
export const BootModeEnum = named(
  "BootMode",
  "Firmware mode in which a machine starts, or a device or an image is started.",
  BOOT_MODES,
);
export const ImageFormatEnum = named("ImageFormat", "Format of the file of an image.", IMAGE_FORMATS);
export const ChecksumAlgorithmEnum = named(
  "ChecksumAlgorithm",
  "Hash function by which a file is identified.",
  CHECKSUM_ALGORITHMS,
);
export const ArchitectureEnum = named("Architecture", "Processor architecture.", ARCHITECTURES);
export const ImageMismatchEnum = named(
  "ImageMismatch",
  "Property of an image that a machine contradicts. New values may be added.",
  IMAGE_MISMATCHES,
);
export const StepGroupEnum = namedInUpperCase(
  "StepGroup",
  "Part of a machine's setup that a step works on. Steps of equal priority run in the order of these values.",
  {
    vendor: "What is special to the vendor.",
    management: "The management controller.",
    firmware: "Firmware versions.",
    bios: "BIOS settings.",
    raid: "RAID controllers.",
    storage: "Drives.",
  },
);
export const InventoryChangeKindEnum = named("InventoryChangeKind", "Difference between two inventories at one path.", {
  ADDED: "Only in the later inventory.",
  REMOVED: "Only in the earlier inventory.",
  CHANGED: "In both, with different values.",
});
export const PresenceEnum = named(
  "Presence",
  "Presence as reported by monitoring. A change of presence never starts work.",
  {
    DISCOVERED: "Reported as seen.",
    DISAPPEARED: "Reported as disappeared.",
    UNSEEN: "Not reported yet.",
  },
);
const MOVES =
  "A node whose key changes between two pages may be missing or come twice: `nodeChanges` after `asOf` of the first page has it.";
export const NodeOrderFieldEnum = named(
  "NodeOrderField",
  "Sort key of a list of nodes. Nodes with equal keys are sorted by ID. Pages by CREATED_AT miss no node, and pages by name only one that is renamed meanwhile.",
  {
    NAME: "By name, without regard to case; `n10` precedes `n2`.",
    NATURAL_NAME: "By name, with numbers in it by their value: `n2` precedes `n10`.",
    CLUSTER: `By cluster, so that the nodes of each are together, those without one last. Clusters are in the order of their IDs. ${MOVES}`,
    STATE: `By the name of the state; combine it with a filter by \`states\` in large fleets. ${MOVES}`,
    CREATED_AT: "By registration time.",
    UPDATED_AT: `By time of the last change. ${MOVES}`,
  },
);
export const OrderDirectionEnum = named("OrderDirection", "Sort direction.", {
  ASC: "Ascending.",
  DESC: "Descending.",
});
