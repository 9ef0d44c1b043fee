/**
 * Facts of nodes for filters, read once for all streams: of 5,000 streams that receive a transition, each with its own
 * filter, one reads the database and the others share the result.
 *
 * Facts apply to a transition only if they were read after its commit: older ones would hide a node that matches
 * because of it. They are kept for a moment only, because nodes also change without transitions.
 */
import type { NodeFacts } from "../store/nodes/node-facts.ts";
import type { TransitionRow } from "../store/log/transitions.ts";
import { createKnownRows } from "./log/known-rows.ts";

/**
 * Facts of the node of each row, in their order; null for a deleted node. `head`: position up to which all is
 * committed.
 */
export type Facts = (rows: readonly TransitionRow[], head: number) => Promise<readonly (NodeFacts | null)[]>;

/** `read` takes one statement for all IDs. */
export function createFacts(read: (ids: readonly string[]) => Promise<readonly NodeFacts[]>): Facts {
  const nodes = createKnownRows(async (ids) => new Map((await read(ids)).map((node) => [node.id, node])));
  return async (rows, head) => {
    const wanted = rows.map(({ nodeId, position }) => ({ id: nodeId, position }));
    const known = await nodes.read(wanted, { head, since: 0 });
    return rows.map(({ nodeId }) => known.get(nodeId) ?? null);
  };
}
