/**
 * The fleet as a table shows it, outside of React: one record for each node, the rows in order, and a view that never
 * changes. A view is made at most once per frame, whatever the number of changes. A hidden page makes none.
 */
import type { NodeFilter, RowFragment } from "../api/generated/graphql.ts";
import { followFleet } from "./follow.ts";
import type { FleetReader } from "./follow.ts";
import { comparing } from "./order.ts";
import type { Order } from "./order.ts";

export type Row = RowFragment;

export interface FleetView {
  readonly rows: readonly Row[];
  /** Ids of the operations that work on the rows, in the order of the rows. */
  readonly operations: readonly string[];
  /** The rows are all that match. While a filter is applied, they are those of the filter before. */
  readonly isWhole: boolean;
  /** The rows are what the service has now, as far as this page knows. */
  readonly isLive: boolean;
  /** When the rows were last known to be current. */
  readonly asOf: Date | null;
  /** Why the service refuses the stream; null while it does not. */
  readonly error: string | null;
}

type Facts = Omit<FleetView, "rows" | "operations">;

const EMPTY: FleetView = { rows: [], operations: [], isWhole: false, isLive: false, asOf: null, error: null };

function createFleetStore() {
  const listeners = new Set<() => void>();
  let shown = new Map<string, Row>();
  /** Nodes of a snapshot that is being read behind those that are shown; null if there is none. */
  let incoming: Map<string, Row> | null = null;
  let order: Order = { by: "name", descending: false };
  let isSorted = true;
  let view = EMPTY;
  let facts: Facts = EMPTY;
  let frame = 0;
  let end = () => {};

  function changed(next: Partial<Facts> = {}): void {
    facts = { ...facts, ...next };
    frame ||= requestAnimationFrame(publish);
  }

  function publish(): void {
    frame = 0;
    let { rows } = view;
    if (!isSorted) {
      rows = [...shown.values()].toSorted(comparing(order));
      isSorted = true;
    }
    view = { ...facts, rows, operations: operationsOf(rows, view.operations) };
    for (const listener of listeners) listener();
  }

  function rowsChanged(rows: Map<string, Row>): void {
    if (rows !== shown) return;
    isSorted = false;
    changed({ error: null });
  }

  const reader: FleetReader = {
    begin() {
      // The first rows are shown as they come; later ones replace what is shown when all are there.
      incoming = shown.size === 0 ? shown : new Map();
      changed({ isWhole: false, isLive: false });
    },
    upsert(row) {
      const rows = incoming ?? shown;
      rows.set(row.id, row);
      rowsChanged(rows);
    },
    leave(id) {
      const rows = incoming ?? shown;
      if (rows.delete(id)) rowsChanged(rows);
    },
    whole() {
      shown = incoming ?? shown;
      incoming = null;
      isSorted = false;
      changed({ isWhole: true, error: null });
    },
    live: () => changed({ isLive: true, asOf: new Date() }),
    failed: (error) => changed({ error }),
  };

  return {
    getSnapshot: () => view,
    subscribe(listener: () => void): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    /** Shows the nodes that match, and follows them until the returned function is called. */
    follow(filter: NodeFilter | null): () => void {
      end();
      end = followFleet(filter, reader);
      return end;
    },
    orderBy(next: Order): void {
      order = next;
      isSorted = false;
      changed();
    },
    /** The connection is broken: the rows stay, and are as old as this. */
    broken(): void {
      if (facts.isLive) changed({ isLive: false, asOf: new Date() });
    },
  };
}

/** The same list while its content is the same. */
function operationsOf(rows: readonly Row[], before: readonly string[]): readonly string[] {
  const ids = new Set<string>();
  for (const { currentRun } of rows) if (currentRun) ids.add(currentRun.operation.id);
  return ids.size === before.length && before.every((id) => ids.has(id)) ? before : [...ids];
}

export const fleet = createFleetStore();
