/**
 * Facts of nodes for filters, read once for all streams: of 5,000 streams that receive a transition, each with its own
 * filter, one reads the database and the others share the result.
 *
 * Facts apply to a transition only if they were read after its commit: older ones would hide a node that matches
 * because of it. They are kept for a moment only, because nodes also change without transitions.
 */
import type { NodeFacts } from "../store/node-facts.ts";
import type { TransitionRow } from "../store/transitions.ts";

/**
 * Facts of the node of each row, in their order; null for a deleted node. `head`: position up to which all is
 * committed.
 */
export type Facts = (rows: readonly TransitionRow[], head: number) => Promise<readonly (NodeFacts | null)[]>;

interface Known {
  /** Position up to which everything was committed when they were read. */
  readonly asOf: number;
  /** By a monotonic clock. */
  readonly readAt: number;
  readonly facts: Promise<NodeFacts | null>;
}

/** Long enough to send one transition to thousands of streams. */
const FRESH_MS = 250;
const NONE = Promise.resolve(null);

/** `read` takes one statement for all IDs. */
export function createFacts(read: (ids: readonly string[]) => Promise<readonly NodeFacts[]>): Facts {
  // In the order they were read, oldest first.
  const known = new Map<string, Known>();

  function dropOld(now: number): void {
    for (const [id, { readAt }] of known) {
      if (now - readAt <= FRESH_MS) return;
      known.delete(id);
    }
  }

  function readAgain(ids: readonly string[], asOf: number, readAt: number): void {
    const reading = read(ids).then((found) => new Map(found.map((node) => [node.id, node])));
    for (const id of ids) {
      const entry: Known = { asOf, readAt, facts: reading.then((found) => found.get(id) ?? null) };
      known.delete(id);
      known.set(id, entry);
      entry.facts.catch(() => {
        if (known.get(id) === entry) known.delete(id);
      });
    }
  }

  return (rows, head) => {
    const now = performance.now();
    dropOld(now);
    const unknown = rows.filter(({ nodeId, position }) => (known.get(nodeId)?.asOf ?? -1) < position);
    if (unknown.length > 0) readAgain([...new Set(unknown.map(({ nodeId }) => nodeId))], head, now);
    return Promise.all(rows.map(({ nodeId }) => known.get(nodeId)?.facts ?? NONE));
  };
}
