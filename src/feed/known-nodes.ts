/**
 * Nodes as streams of changes emit them, read once for all streams: of 1,000 streams that receive a change, one reads
 * the database and the others share the row. A row serves a change only if it was read after the change was numbered,
 * and a stream only if it was read after the stream began, so that no stream goes back in time. Rows are kept for a
 * moment only.
 */
import { nodesWithClusters } from "../store/node-facts.ts";
import type { NodeFacts } from "../store/node-facts.ts";
import type { NodeRow } from "../store/nodes.ts";
import type { Reader } from "../store/postgres/database.ts";

export interface KnownNode {
  readonly row: NodeRow;
  /** The values that filters see. */
  readonly facts: NodeFacts;
  /** Equal for the same reading of the node. */
  readonly reading: number;
}

export interface Wanted {
  readonly id: string;
  /** Position of its newest change that the answer contains. */
  readonly position: number;
}

export interface KnownNodes {
  /**
   * The nodes as they are; null for a deleted one. `head`: position up to which all is committed. `since`: by the
   * monotonic clock; nothing read before it is used.
   */
  read(
    wanted: readonly Wanted[],
    moment: { readonly head: number; readonly since: number },
  ): Promise<ReadonlyMap<string, KnownNode | null>>;
}

interface Reading {
  readonly asOf: number;
  readonly readAt: number;
  readonly nodes: Promise<ReadonlyMap<string, KnownNode>>;
}

/** Long enough to send one change to thousands of streams. */
const FRESH_MS = 250;

export function createKnownNodes(reader: Reader): KnownNodes {
  // In the order they were read, oldest first.
  const known = new Map<string, Reading>();
  let readings = 0;

  async function readNow(ids: readonly string[], reading: number): Promise<ReadonlyMap<string, KnownNode>> {
    const found = await nodesWithClusters(reader, ids);
    return new Map(
      found.map(({ row, clusterName }) => {
        const facts = { ...row, clusterName, errorCode: row.lastError?.code ?? null };
        return [row.id, { row, reading, facts }];
      }),
    );
  }

  return {
    async read(wanted, { head, since }) {
      const now = performance.now();
      for (const [id, { readAt }] of known) {
        if (now - readAt <= FRESH_MS) break;
        known.delete(id);
      }
      const missing = wanted.filter(({ id, position }) => {
        const one = known.get(id);
        return !one || one.asOf < position || one.readAt < since;
      });
      if (missing.length > 0) {
        readings += 1;
        const ids = missing.map(({ id }) => id);
        const one: Reading = { asOf: head, readAt: now, nodes: readNow(ids, readings) };
        const drop = () => ids.filter((id) => known.get(id) === one).forEach((id) => known.delete(id));
        one.nodes.catch(drop);
        for (const id of ids) {
          known.delete(id);
          known.set(id, one);
        }
      }
      const taken = wanted.map(({ id }) => ({ id, reading: known.get(id) }));
      return new Map(
        await Promise.all(taken.map(async ({ id, reading }) => [id, (await reading?.nodes)?.get(id) ?? null] as const)),
      );
    },
  };
}
