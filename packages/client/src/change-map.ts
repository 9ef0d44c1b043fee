/**
 * The objects of one stream of changes (`nodeChanges`, `operationChanges`, `runChanges`, `clusterChanges`), kept from
 * its items, over any client: it knows with which arguments the next subscription begins, and applies what it receives.
 *
 * Modes:
 * - empty: nothing is known. The next subscription has a snapshot, unless pages of a list lead to whole.
 * - incomplete: items of a snapshot arrive. A connection that breaks leads to empty: a snapshot cannot be resumed.
 * - whole: all matching objects are known as of `cursor`. The next subscription continues there.
 */

/** An item of a stream of changes. The document must select `__typename`, `cursor` and the fields named here. */
export interface ChangeItem<Row> {
  readonly __typename?: string | undefined;
  readonly cursor?: string | undefined;
  /** An upserted object is one of these, with its `id`. */
  readonly node?: Row | undefined;
  readonly operation?: Row | undefined;
  readonly run?: Row | undefined;
  readonly cluster?: Row | undefined;
  /** The object that left. */
  readonly id?: string | undefined;
  /** Of a bookmark. */
  readonly snapshotComplete?: boolean | undefined;
  readonly caughtUp?: boolean | undefined;
  /** Of a reset. */
  readonly code?: string | undefined;
}

export interface ChangeMap<Row extends { readonly id: string }> {
  /**
   * Objects by global ID, as of `cursor`. A map that was read never changes; during a new snapshot it keeps the old
   * objects.
   */
  readonly items: ReadonlyMap<string, Row>;
  /** Null until the first snapshot is complete, or a list was taken. */
  readonly cursor: string | null;
  /** Whether everything was received that had happened when the present subscription began, which is not lost. */
  readonly isLive: boolean;
  /** The arguments of the next subscription. Must be called for each one, also when a connection is repeated. */
  begin(): { readonly after: string | null; readonly snapshot: boolean };
  /** Must be called when the connection is lost. */
  lost(): void;
  /** Must be called with each item, in order. */
  take(item: ChangeItem<Row>): void;
  /**
   * Begins with all objects of a list in place of a snapshot. `asOf`: of its first page. The list and the stream must
   * have the same filter.
   */
  takeList(objects: Iterable<Row>, asOf: string): void;
}

export function createChangeMap<Row extends { readonly id: string }>(): ChangeMap<Row> {
  let current = new Map<string, Row>();
  /** The objects of a snapshot that is not complete; null in the mode whole. */
  let incoming: Map<string, Row> | null = new Map();
  /** The copy of `current` for readers; null after a change. */
  let shown: ReadonlyMap<string, Row> | null = null;
  let cursor: string | null = null;
  let isLive = false;

  function complete(objects: Map<string, Row>, asOf: string): void {
    current = objects;
    incoming = null;
    shown = null;
    cursor = asOf;
  }

  function change(of: (objects: Map<string, Row>) => unknown): void {
    of(incoming ?? current);
    if (!incoming) shown = null;
  }

  return {
    get items() {
      shown ??= new Map(current);
      return shown;
    },
    get cursor() {
      return cursor;
    },
    get isLive() {
      return isLive;
    },
    begin() {
      isLive = false;
      if (incoming) incoming = new Map();
      return incoming ? { after: null, snapshot: true } : { after: cursor, snapshot: false };
    },
    lost() {
      isLive = false;
    },
    take(item) {
      const { code, id } = item;
      if (code !== undefined) {
        isLive = false;
        if (code !== "SHUTTING_DOWN") incoming = new Map();
        return;
      }
      const row = item.node ?? item.operation ?? item.run ?? item.cluster;
      if (row) change((objects) => objects.set(row.id, row));
      else if (id !== undefined) change((objects) => objects.delete(id));
      if (incoming && item.snapshotComplete === true && item.cursor !== undefined) complete(incoming, item.cursor);
      else if (!incoming && item.cursor !== undefined) ({ cursor } = item as { readonly cursor: string });
      if (item.caughtUp === true) isLive = true;
    },
    takeList(objects, asOf) {
      complete(new Map([...objects].map((row) => [row.id, row])), asOf);
    },
  };
}
