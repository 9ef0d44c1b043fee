/** Enums, each from the table that the code itself goes by. */
import { ERROR_MEANING } from "../../errors.ts";
import { ACCEPTANCES, OFF_REASONS, RESTART_FROM } from "../../engine/engine.ts";
import { RESET_REASONS } from "../../feed/node-stream.ts";
import { CLUSTER_STATES, STAGES } from "../../lifecycle/cluster-state.ts";
import { ABORT_MODES } from "../../lifecycle/interrupts.ts";
import { NODE_EVENTS, NODE_STATES } from "../../lifecycle/node-states.ts";
import { FAILURE_POLICIES, OPERATION_STATES, RUN_STATES } from "../../lifecycle/operation-states.ts";
import { TOUCHES } from "../../lifecycle/touches.ts";
import { OPERATION_KINDS } from "../../lifecycle/verbs.ts";
import { WAIT_REASONS } from "../../lifecycle/waiting.ts";
import { WAVE_STATES } from "../../lifecycle/waves.ts";
import { builder, enumValues } from "./builder.ts";

const named = <Name extends string>(
  name: string,
  description: string,
  meanings: Readonly<Record<Name, string | { readonly description: string }>>,
) => builder.enumType(name, { description, values: enumValues(meanings) as Record<Name, { description: string }> });

export const NodeStateEnum = named(
  "NodeState",
  "Lifecycle state of a node. `*_WAIT`: parked until the hardware calls back or time has passed. `*_FAILED`: somebody has to decide. May gain values.",
  NODE_STATES,
);
export const NodeEventEnum = named("NodeEvent", "What happened to a node. May gain values.", {
  ...NODE_EVENTS,
  register: "The node was registered.",
  delete: "The node was deleted.",
});
export const StageEnum = named("Stage", "How far a node has come; a restart decides by it.", STAGES);
export const ClusterStateEnum = named(
  "ClusterState",
  "State of a cluster, computed from its nodes and the work on them.",
  CLUSTER_STATES,
);
export const OperationKindEnum = named("OperationKind", "Kind of work. May gain values.", OPERATION_KINDS);
export const OperationStateEnum = named(
  "OperationState",
  "State of an operation. The first four are unfinished, the others final.",
  OPERATION_STATES,
);
export const RunStateEnum = named(
  "RunState",
  "State of a run. The first four are unfinished, the others final.",
  RUN_STATES,
);
export const FailurePolicyEnum = named(
  "FailurePolicy",
  "What a failed node does to the others, once work runs.",
  FAILURE_POLICIES,
);
export const AcceptanceEnum = named(
  "Acceptance",
  "What one bad node does to the request as a whole, before any work starts.",
  ACCEPTANCES,
);
export const AbortModeEnum = named(
  "AbortMode",
  "How an abort is meant where the running step must not be interrupted.",
  ABORT_MODES,
);
export const RestartFromEnum = named("RestartFrom", "How much of what was done a restart keeps.", RESTART_FROM);
export const ErrorCodeEnum = named(
  "ErrorCode",
  "Machine-readable reason, with the HTTP status it stands for. Codes are permanent; there may be more of them.",
  ERROR_MEANING,
);
export const StreamResetReasonEnum = named("StreamResetReason", "Why a stream ended.", RESET_REASONS);

export const WaveStateEnum = named("WaveState", "Where an operation stands with its waves.", WAVE_STATES);

export const UntilEnum = named("Until", "How far a commission goes.", {
  AVAILABLE: "Verified, inspected and cleaned.",
  ACTIVE: "Deployed as well.",
});
const INTERRUPTS = {
  STOP: "Let the running step end, then start no further step. The work can be restarted from there.",
  ABORT: "Give up: cancel the running step where it allows that, and end the work.",
};
export const InterruptEnum = named(
  "Interrupt",
  "Request to end unfinished work early. It is stored first and carried out as soon as the running step allows.",
  INTERRUPTS,
);
export const WishEnum = named("Wish", "Earlier name of `Interrupt`, with the same values.", INTERRUPTS);
export const AbortEffectEnum = named("AbortEffect", "When an accepted abort takes effect.", {
  BEFORE_START: "Nothing was run; the node stays where it was.",
  NOW: "At once: nothing is being run, or the running step can be cut.",
  PENDING: "When the running step has ended.",
});
export const RunPurposeEnum = named("RunPurpose", "Why a run is made.", {
  WORK: "What the operation was asked for.",
  CLEAN_UP: "The failure policy brings the node back to AVAILABLE.",
});
export const WaitReasonEnum = named("WaitReason", "What a run waits for. May gain values.", WAIT_REASONS);
export const AnomalyKindEnum = named("CallBackAnomalyKind", "Why a call-back was not taken.", {
  LATE: "Its path was given out for an earlier entry of the step, or for work that has ended.",
  DUPLICATE: "A call-back to its path was taken before.",
  FORGED: "Its path was never given out.",
});
export const StepPartEnum = named("StepPart", "Which of its functions a driver is called for.", {
  RUN: "Does the work.",
  VERIFY: "Looks whether the work has taken effect.",
  ABORT: "Undone by an abort.",
});
export const StepStateEnum = named("StepState", "Where a step stands.", {
  PENDING: "Its turn has not come.",
  RUNNING: "Being run.",
  WAITING: "Parked; it will be entered again.",
  SUCCEEDED: "Ended well.",
  FAILED: "Ended badly.",
  ABORTED: "Cut by an abort.",
  KEPT: "Done by the run that this one restarts, and not done again.",
  SKIPPED: "The run ended before its turn came.",
});
export const InterruptibleEnum = named("Interruptible", "Whether a running step may be cut.", {
  ALWAYS: "Its signal fires and it ends.",
  AT_BOUNDARY: "An abort waits until it has ended.",
  NEVER: "An abort is refused while it runs, or waits if asked to.",
});
export const PhaseEnum = named("Phase", "One activity on a node: a list of steps.", {
  verify: { description: "Power and credentials are checked." },
  inspect: { description: "The inventory is collected." },
  clean: { description: "Data and configuration are removed." },
  deploy: { description: "The system is installed." },
  undeploy: { description: "The system is taken down." },
  power: { description: "Power is changed; no lifecycle state is." },
});
export const DriverInterfaceEnum = builder.enumType("DriverInterfaceKind", {
  description: "Interfaces that a driver can offer, and the service's own.",
  values: {
    POWER: {
      value: "power",
      description:
        "Power on, off, reboot, read; verification; the reserved steps power_on, power_off, soft_power_off and reboot.",
    },
    INSPECT: { value: "inspect", description: "Collect the inventory." },
    DEPLOY: { value: "deploy", description: "Install and take down." },
    CLEAN: { value: "clean", description: "Erase and configure." },
    ENGINE: { value: "engine", description: "The service itself: the reserved steps wait and hold." },
  } as const,
});
export const StepOffEnum = named("StepOff", "Why a step does not run by itself.", OFF_REASONS);
export const TouchEnum = named("Touch", "What a step can change on a machine.", TOUCHES);
export const PowerStateEnum = named("PowerState", "Power as last read from the BMC.", {
  ON: "Powered on.",
  OFF: "Powered off.",
  UNKNOWN: "Never read, or the BMC gave no answer.",
});
export const PowerActionEnum = named(
  "PowerAction",
  "Change of power. A node that is there already succeeds without a call.",
  {
    ON: "Power on.",
    OFF: "Cut power.",
    SOFT_OFF: "Ask the system to shut down; when that takes too long, the power is cut.",
    REBOOT: "Off, then on.",
  },
);
export const InventoryChangeKindEnum = named("InventoryChangeKind", "How two inventories differ in one place.", {
  ADDED: "It is there only later.",
  REMOVED: "It is there only before.",
  CHANGED: "It is another.",
});
export const PresenceEnum = named("Presence", "Presence as told by monitoring. Never starts work by itself.", {
  DISCOVERED: "Seen recently.",
  DISAPPEARED: "Was seen, is not any more.",
  UNSEEN: "Never reported.",
});
export const NodeOrderFieldEnum = named(
  "NodeOrderField",
  "Sort key of node lists. Ties are broken by ID, so pages are stable.",
  { NAME: "By name.", CREATED_AT: "By time of registration.", UPDATED_AT: "By time of the last change." },
);
export const OrderDirectionEnum = named("OrderDirection", "Direction of a sort.", {
  ASC: "Smallest first.",
  DESC: "Largest first.",
});
