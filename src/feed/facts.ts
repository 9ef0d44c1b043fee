/**
 * Facts of nodes for filters, read once for all streams: of 5,000 streams that receive a transition, each with its own
 * filter, one reads the database and the others share the result.
 *
 * Facts apply to a transition only if they were read after its commit: older ones would hide a node that matches
 * because of it. They are kept for a moment only, because nodes also change without transitions.
 */
import { FreshMap } from "../runtime/fresh-map.ts";
import type { NodeFacts } from "../store/nodes/node-facts.ts";
import type { TransitionRow } from "../store/log/transitions.ts";

/**
 * Facts of the node of each row, in their order; null for a deleted node. `head`: position up to which all is
 * committed.
 */
export type Facts = (rows: readonly TransitionRow[], head: number) => Promise<readonly (NodeFacts | null)[]>;

interface Known {
  /** Position up to which everything was committed when they were read. */
  readonly asOf: number;
  readonly facts: Promise<NodeFacts | null>;
}

/** Long enough to send one transition to thousands of streams. */
const FRESH_MS = 250;
const NONE = Promise.resolve(null);
const NOTHING: ReadonlyMap<string, Known> = new Map();

/** `read` takes one statement for all IDs. */
export function createFacts(read: (ids: readonly string[]) => Promise<readonly NodeFacts[]>): Facts {
  const known = new FreshMap<Known>(FRESH_MS);

  /** Returns the facts by node. */
  function readAgain(ids: readonly string[], asOf: number): ReadonlyMap<string, Known> {
    const reading = read(ids).then((found) => new Map(found.map((node) => [node.id, node])));
    return new Map(
      ids.map((id) => {
        const entry: Known = { asOf, facts: reading.then((found) => found.get(id) ?? null) };
        known.set(id, entry);
        entry.facts.catch(() => known.drop(id, entry));
        return [id, entry];
      }),
    );
  }

  return (rows, head) => {
    const taken = rows.map(({ nodeId, position }) => {
      const entry = known.get(nodeId);
      return { nodeId, entry: entry && entry.asOf >= position ? entry : undefined };
    });
    const unknown = new Set(taken.flatMap(({ nodeId, entry }) => (entry ? [] : [nodeId])));
    const again = unknown.size > 0 ? readAgain([...unknown], head) : NOTHING;
    return Promise.all(taken.map(({ nodeId, entry = again.get(nodeId) }) => entry?.facts ?? NONE));
  };
}
