import type { NodeState } from "./node-state.ts";

/** `NodeFilter` of the schema. Given fields are combined with AND; an empty list matches nothing. `serial` and
 * `inventory` are missing: streams refuse them. */
export interface NodeFilter {
  readonly ids?: readonly string[] | null | undefined;
  readonly name?:
    | {
        readonly eq?: string | null | undefined;
        readonly in?: readonly string[] | null | undefined;
        readonly startsWith?: string | null | undefined;
        readonly contains?: string | null | undefined;
      }
    | null
    | undefined;
  readonly states?: readonly NodeState[] | null | undefined;
  readonly powerStates?: readonly string[] | null | undefined;
  readonly presences?: readonly string[] | null | undefined;
  readonly maintenance?: boolean | null | undefined;
  readonly retired?: boolean | null | undefined;
  readonly protected?: boolean | null | undefined;
  readonly faulty?: boolean | null | undefined;
  readonly withErrors?: boolean | null | undefined;
  readonly powerDrift?: boolean | null | undefined;
  readonly hostGroup?: string | null | undefined;
  readonly cluster?: { readonly id: string } | { readonly name: string } | null | undefined;
  readonly inCluster?: boolean | null | undefined;
  readonly driver?: string | null | undefined;
  readonly model?: string | null | undefined;
  readonly mac?: string | null | undefined;
  readonly errorCodes?: readonly string[] | null | undefined;
  /** RFC 3339. */
  readonly changedSince?: string | null | undefined;
  readonly labelKeys?: readonly string[] | null | undefined;
  readonly labels?: readonly { readonly key: string; readonly value: string }[] | null | undefined;
  readonly or?: readonly NodeFilter[] | null | undefined;
  readonly not?: NodeFilter | null | undefined;
}

/** How a client can detect missing items of a stream with a given filter. */
export type Proof =
  /** Without a filter: positions have no gaps. */
  | "POSITIONS"
  /** Filter by IDs only: all transitions of these nodes are sent, with sequence numbers per node without gaps. */
  | "SEQUENCES"
  /** Other filters: a node may start or stop matching, so a skipped item is not necessarily missing. */
  | "NONE";

export function proofOf(filter: NodeFilter | null | undefined): Proof {
  const given = Object.entries(filter ?? {}).filter(([, value]) => value !== undefined && value !== null);
  if (given.length === 0) return "POSITIONS";
  return given.every(([field]) => field === "ids") ? "SEQUENCES" : "NONE";
}
