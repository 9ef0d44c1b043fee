/**
 * Objects as streams of changes emit them, read once for all streams: of 1,000 streams that receive a change, one reads
 * the database and the others share the row. A row serves a change only if it was read after the change was numbered,
 * and a stream only if it was read after the stream began, so that no stream goes back in time.
 */
import { FreshMap } from "../../runtime/fresh-map.ts";
import { nodesWithClusters } from "../../store/nodes/node-facts.ts";
import type { NodeFacts } from "../../store/nodes/node-facts.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Reader } from "../../store/postgres/database.ts";

export interface Wanted {
  readonly id: string;
  /** Position of its newest change that the answer contains. */
  readonly position: number;
}

/** `head`: position up to which all is committed. `since`: by the monotonic clock; nothing read before it is used. */
export interface ReadMoment {
  readonly head: number;
  readonly since: number;
}

export interface KnownRows<Found> {
  /** The objects as they are; null for a deleted one. */
  read(wanted: readonly Wanted[], moment: ReadMoment): Promise<ReadonlyMap<string, Found | null>>;
}

interface Reading<Found> {
  readonly asOf: number;
  readonly readAt: number;
  readonly rows: Promise<ReadonlyMap<string, Found>>;
}

/** Long enough to send one change to thousands of streams. */
const FRESH_MS = 250;

/** `find` reads the objects of these ids that exist, in one statement. */
export function createKnownRows<Found>(
  find: (ids: readonly string[]) => Promise<ReadonlyMap<string, Found>>,
): KnownRows<Found> {
  const known = new FreshMap<Reading<Found>>(FRESH_MS);

  function readAgain(ids: readonly string[], head: number): Reading<Found> {
    const reading: Reading<Found> = { asOf: head, readAt: performance.now(), rows: find(ids) };
    for (const id of ids) known.set(id, reading);
    reading.rows.catch(() => ids.forEach((id) => known.drop(id, reading)));
    return reading;
  }

  return {
    async read(wanted, { head, since }) {
      const taken = wanted.map(({ id, position }) => {
        const reading = known.get(id);
        return { id, reading: reading && reading.asOf >= position && reading.readAt >= since ? reading : undefined };
      });
      const missing = new Set(taken.flatMap(({ id, reading }) => (reading ? [] : [id])));
      const again = missing.size > 0 ? readAgain([...missing], head) : undefined;
      return new Map(
        await Promise.all(
          taken.map(async ({ id, reading = again }) => [id, (await reading?.rows)?.get(id) ?? null] as const),
        ),
      );
    },
  };
}

/** An object of which a stream sees its row alone. */
export interface KnownRow<Row> {
  readonly row: Row;
}

export function createKnownRowsAlone<Row extends { readonly id: string }>(
  find: (ids: readonly string[]) => Promise<readonly Row[]>,
): KnownRows<KnownRow<Row>> {
  return createKnownRows(async (ids) => new Map((await find(ids)).map((row) => [row.id, { row }])));
}

export interface KnownNode {
  readonly row: NodeRow;
  /** The values that filters see. */
  readonly facts: NodeFacts;
}

/** The nodes of these ids that exist. */
export async function knownNodes(reader: Reader, ids: readonly string[]): Promise<ReadonlyMap<string, KnownNode>> {
  const found = await nodesWithClusters(reader, ids);
  return new Map(
    found.map(({ row, clusterName }) => {
      const facts = { ...row, clusterName, errorCode: row.lastError?.code ?? null };
      return [row.id, { row, facts }];
    }),
  );
}
