/**
 * Facts of nodes for filters, read once for all streams that ask about the same transitions: of 5,000 streams that are
 * told of a transition, each with a filter of its own, one asks the database and the others are given its answer.
 *
 * Facts serve a transition only if they were read after its commit: older ones would hide a node that came to match by
 * it. And they are kept for a moment only, because a node changes by other things than transitions too.
 */
import type { NodeFacts } from "../store/node-facts.ts";
import type { TransitionRow } from "../store/transitions.ts";

/** Facts of the node of each row, in their order; null for one that does not exist any more. */
export type Facts = (rows: readonly TransitionRow[], head: number) => Promise<readonly (NodeFacts | null)[]>;

interface Known {
  /** Position up to which everything was committed when they were read. */
  readonly asOf: number;
  /** By the clock that is never set. */
  readonly readAt: number;
  readonly facts: Promise<NodeFacts | null>;
}

/** As long as it takes to tell thousands of streams of one transition. */
const FRESH_MS = 250;
const NOBODY = Promise.resolve(null);

/** `read`: one statement for so many nodes. */
export function createFacts(read: (ids: readonly string[]) => Promise<readonly NodeFacts[]>): Facts {
  // In the order of their reading, oldest first.
  const known = new Map<string, Known>();

  function forgetOld(now: number): void {
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
    forgetOld(now);
    const unknown = rows.filter(({ nodeId, position }) => (known.get(nodeId)?.asOf ?? -1) < position);
    if (unknown.length > 0) readAgain([...new Set(unknown.map(({ nodeId }) => nodeId))], head, now);
    return Promise.all(rows.map(({ nodeId }) => known.get(nodeId)?.facts ?? NOBODY));
  };
}
