/**
 * Objects as streams of changes emit them, read once for all streams: of 1,000 streams that receive a change, one reads
 * the database and the others share the row. A row serves a change only if it was read after the change was numbered,
 * and a stream only if it was read after the stream began, so that no stream goes back in time. Old rows are dropped
 * at the next reading.
 */

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
  // In the order they were read, oldest first.
  const known = new Map<string, Reading<Found>>();

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
        const ids = missing.map(({ id }) => id);
        const one: Reading<Found> = { asOf: head, readAt: now, rows: find(ids) };
        const drop = () => ids.filter((id) => known.get(id) === one).forEach((id) => known.delete(id));
        one.rows.catch(drop);
        for (const id of ids) {
          known.delete(id);
          known.set(id, one);
        }
      }
      const taken = wanted.map(({ id }) => ({ id, reading: known.get(id) }));
      return new Map(
        await Promise.all(taken.map(async ({ id, reading }) => [id, (await reading?.rows)?.get(id) ?? null] as const)),
      );
    },
  };
}
