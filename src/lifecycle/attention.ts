/** Reasons for which nodes need a person: their kinds and limits, and the remedy for each. */
import { ERROR_REMEDY } from "../errors.ts";
import type { ErrorCode } from "../errors.ts";
import type { PowerChange } from "./verbs.ts";

/** Actions that a node may accept or refuse. */
type TriedAction =
  | "RESTART"
  | "MANAGE"
  | "ABORT"
  | "STOP"
  | "RELEASE_HOLDS"
  | "CLEAN"
  | "INSPECT"
  | "POWER"
  | "CLEAR_MAINTENANCE";

interface Kind {
  readonly description: string;
  readonly remedy: string;
  /** Actions to try on the oldest node, the best first. */
  readonly actions: readonly TriedAction[];
}

/** When something counts as stuck, waiting or forgotten. */
export const ATTENTION_LIMITS = {
  /** A step is stuck when it lasts longer than this share of the earlier ones, and than `stuckSeconds`. */
  stuckQuantile: 0.9,
  stuckSeconds: 60,
  /** With fewer earlier ones, it is stuck after `waitSeconds`. */
  samplesMin: 5,
  /** Work that has not begun waits too long. */
  waitSeconds: 3_600,
  maintenanceDays: 7,
} as const;

export const ATTENTION_KINDS = {
  FAILED: {
    description: "The last work failed or was aborted, and no work has followed.",
    remedy: "Fix the cause, then restart.",
    actions: ["RESTART", "MANAGE"],
  },
  STUCK: {
    description:
      "A step, or the wait after one, has lasted longer than 90 % of the earlier ones, and more than a minute; with fewer than five earlier ones, more than an hour.",
    remedy: "Look at the log of the step, then abort the work.",
    actions: ["ABORT", "STOP"],
  },
  WAITING: {
    description:
      "The work has not begun for more than an hour: it waits for a slot, for `maxParallel` or for an earlier wave.",
    remedy: "Wait for the work before it, raise its limits, or abort it.",
    actions: [],
  },
  ON_HOLD: {
    description: "The work waits until a person releases it.",
    remedy: "Check what the hold is for, then release it.",
    actions: ["RELEASE_HOLDS"],
  },
  WAVES_HALTED: {
    description: "The node has not begun, because the waves of the operation are halted or wait for a request.",
    remedy: "Check the nodes that have begun, then start the others.",
    actions: [],
  },
  STOPPED: {
    description: "The work was stopped, and can be restarted.",
    remedy: "Restart the work, or verify the node with manageNodes.",
    actions: ["RESTART", "MANAGE"],
  },
  FAULT: {
    description: "The service has found a fault.",
    remedy:
      "Check the machine; for an unreachable BMC, repair its connection. Do not switch off a machine that may still be working: ask it with readPower, or look at it and send the request with force: true.",
    actions: ["CLEAN", "MANAGE"],
  },
  IDENTITY_CONFLICT: {
    description: "Another node seems to be the same machine; verbs that erase or install are refused.",
    remedy:
      "Find out which node is the machine. Delete the other one, or correct its address and inspect it, or say that the value is shared (Node.sharedController, Site.sharedIdentities).",
    actions: ["INSPECT"],
  },
  POWER_DRIFT: {
    description: "The power differs from the one that Ostler last set, and no work is running.",
    remedy: "Set the power again, or have Ostler correct it (Site.correctPower).",
    actions: ["POWER"],
  },
  PENDING_CHANGES: {
    description: "The node differs from what its cluster wants, and needs a person for no other reason.",
    remedy: "Look at the pending changes of the cluster, then apply them with applyCluster.",
    actions: [],
  },
  DISAPPEARED: {
    description: "Monitoring has reported the node as disappeared.",
    remedy: "Find the machine; abort its work if it will not come back.",
    actions: ["ABORT"],
  },
  MAINTENANCE: {
    description: "The node has been in maintenance for more than seven days.",
    remedy: "End the maintenance, or decommission the node.",
    actions: ["CLEAR_MAINTENANCE"],
  },
} as const satisfies Record<string, Kind>;
export type AttentionKind = keyof typeof ATTENTION_KINDS;

/** Cause that the nodes of a group have in common; null for facts on which its kind does not depend. */
export interface AttentionCause {
  readonly kind: AttentionKind;
  readonly state: string | null;
  readonly code: ErrorCode | null;
  readonly step: string | null;
  readonly driver: string | null;
  /** Kind of the fault or of the conflict, wanted power, state of the waves, reason of the wait, or CLEAN_UP. */
  readonly detail: string | null;
  /** The text of the oldest: an error, a fault, a reason. */
  readonly message: string | null;
  /** The same without node and step, in the words of the driver. */
  readonly cause: string | null;
  /** Number of different causes in the group. */
  readonly causeCount: number;
}

export function remedyOf({ kind, code }: Pick<AttentionCause, "kind" | "code">): string {
  return code === null ? ATTENTION_KINDS[kind].remedy : ERROR_REMEDY[code];
}

/** Actions to propose: one that follows from the cause, or the first one that the oldest node accepts. */
export type Proposal =
  | { readonly follows: "ADVANCE_WAVES" | "RESUME_WAVES" | "READ_POWER" | "APPLY" }
  | {
      readonly tried: readonly TriedAction[];
      /** For POWER. */
      readonly power: PowerChange | null;
    };

export function proposalFor({ kind, detail }: Pick<AttentionCause, "kind" | "detail">): Proposal {
  if (kind === "WAVES_HALTED") return { follows: detail === "AWAITING" ? "ADVANCE_WAVES" : "RESUME_WAVES" };
  if (kind === "PENDING_CHANGES") return { follows: "APPLY" };
  if (kind === "FAULT" && (detail === "BMC_UNREACHABLE" || detail === "MACHINE_BUSY")) return { follows: "READ_POWER" };
  return { tried: ATTENTION_KINDS[kind].actions, power: detail === "ON" || detail === "OFF" ? detail : null };
}
