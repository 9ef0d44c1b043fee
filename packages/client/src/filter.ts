import type { NodeFilter } from "./node-filter.ts";

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
