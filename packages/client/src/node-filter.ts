// Printed by `npm run schema` from the schema.
import type { NodeState } from "./node-state.ts";

/** Reference to a cluster. Exactly one field. */
export type ClusterRef = { readonly id: string } | { readonly name: string };

/** Label to set or to match. */
export interface LabelInput {
  /** Key, unique per object. */
  readonly key: string;
  /** Value of the label. */
  readonly value: string;
}

/** Filter for a name, which ignores case. The given fields are combined with AND. */
export interface StringFilter {
  /** Contains this text. Slow in large fleets: it reads every name. */
  readonly contains?: string | null | undefined;
  /** Equal to this text. */
  readonly eq?: string | null | undefined;
  /** Equal to one of these texts; an empty list matches nothing. */
  readonly in?: readonly string[] | null | undefined;
  /** Starts with this text. */
  readonly startsWith?: string | null | undefined;
}

/**
 * `NodeFilter` of the schema, without the conditions that streams refuse. Given fields are combined with AND. Times are
 * texts as in RFC 3339.
 */
export interface NodeFilter {
  /** With an `updatedAt` at this time or later. */
  readonly changedSince?: string | null | undefined;
  /** Members of this cluster. */
  readonly cluster?: ClusterRef | null | undefined;
  /** True: without disks of their own. False: the others. */
  readonly diskless?: boolean | null | undefined;
  /** With this driver. */
  readonly driver?: string | null | undefined;
  /** With a `lastError` that has one of these codes; an empty list matches nothing. */
  readonly errorCodes?: readonly string[] | null | undefined;
  /** True: with a `fault`. False: without one. */
  readonly faulty?: boolean | null | undefined;
  /** With this role in their cluster. */
  readonly hostGroup?: string | null | undefined;
  /** By global ID; an empty list matches nothing. */
  readonly ids?: readonly string[] | null | undefined;
  /** True: member of a cluster. False: of none. */
  readonly inCluster?: boolean | null | undefined;
  /**
   * With a label of each of these keys, of any value; an empty list matches nothing. For nodes without a key, use
   * `not`.
   */
  readonly labelKeys?: readonly string[] | null | undefined;
  /** With all of these labels; an empty list matches nothing. */
  readonly labels?: readonly LabelInput[] | null | undefined;
  /** With this MAC address, in lower or upper case, with colons, dashes or without. */
  readonly mac?: string | null | undefined;
  /** True: in maintenance. False: not in maintenance. */
  readonly maintenance?: boolean | null | undefined;
  /** With this `model`. */
  readonly model?: string | null | undefined;
  /** With a name that matches this filter. */
  readonly name?: StringFilter | null | undefined;
  /** Not matching this filter. */
  readonly not?: NodeFilter | null | undefined;
  /** Matching at least one of these filters; an empty list matches nothing. */
  readonly or?: readonly NodeFilter[] | null | undefined;
  /** True: the power state differs from the one that Ostler last set. False: it does not. */
  readonly powerDrift?: boolean | null | undefined;
  /** With one of these power states; an empty list matches nothing. */
  readonly powerStates?: readonly string[] | null | undefined;
  /** With one of these values of presence; an empty list matches nothing. */
  readonly presences?: readonly string[] | null | undefined;
  /** True: protected. False: not protected. */
  readonly protected?: boolean | null | undefined;
  /** True: retired. False: not retired. */
  readonly retired?: boolean | null | undefined;
  /** In one of these states; an empty list matches nothing. */
  readonly states?: readonly NodeState[] | null | undefined;
  /** True: with a `lastError`. False: without one. */
  readonly withErrors?: boolean | null | undefined;
}

/** The values of fields of `NodeFilter` in the schema of this version. */
export const FILTER_VALUES = {
  errorCodes: [
    "ABORTED",
    "AGENT_UNAVAILABLE",
    "BACKEND_FAILED",
    "BUSY",
    "CAPACITY",
    "CLUSTER_LOCKED",
    "CRITICAL_NODE_FAILED",
    "DISK_AMBIGUOUS",
    "DISK_NOT_FOUND",
    "FORBIDDEN",
    "GROUP_REQUIRED",
    "IDEMPOTENCY_MISMATCH",
    "IDENTITY_CONFLICT",
    "IMAGE_TOO_LARGE",
    "IMAGE_UNFIT",
    "INTERRUPTED",
    "INVALID_INPUT",
    "INVALID_STATE",
    "IN_MAINTENANCE",
    "IN_USE",
    "LAST_OF_GROUP",
    "MAC_TAKEN",
    "NOTHING_RUNNING",
    "NOTHING_TO_RESTART",
    "NOT_FOUND",
    "NOT_INTERRUPTIBLE",
    "PROTECTED",
    "SECRET_UNREADABLE",
    "STALE_REVISION",
    "STOP_TIMEOUT",
    "TIMEOUT",
    "TOLERANCE_EXCEEDED",
    "UNSUPPORTED_BY_DRIVER",
  ],
  powerStates: ["OFF", "ON", "UNKNOWN"],
  presences: ["DISAPPEARED", "DISCOVERED", "UNSEEN"],
} as const;
