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
  /** The rows are all that match. While a filter is applied, they are those of the filter before. */
  readonly isWhole: boolean;
  /** The rows are what the service has now, as far as this page knows. */
  readonly isLive: boolean;
  /** When the rows were last known to be current. */
  readonly asOf: Date | null;
  /** Why the service refuses the stream; null while it does not. */
  readonly error: string | null;
}

const EMPTY: FleetView = { rows: [], isWhole: false, isLive: false, asOf: null, error: null };

export function createFleetStore() {
  const listeners = new Set<() => void>();
  let shown = new Map<string, Row>();
  /** While pages are read: where they go, and what the stream has sent meanwhile, which they do not replace. */
  let loading: { readonly rows: Map<string, Row>; readonly sent: Set<string> } | null = null;
  let order: Order = { by: "name", descending: false };
  let isSorted = true;
  let view = EMPTY;
  let facts: Omit<FleetView, "rows"> = EMPTY;
  let frame = 0;
  let end = () => {};

  function changed(next: Partial<Omit<FleetView, "rows">> = {}): void {
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
    view = { ...facts, rows };
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
      loading = { rows: shown.size === 0 ? shown : new Map(), sent: new Set() };
      changed({ isWhole: false });
    },
    add(page) {
      if (!loading) return;
      const { rows, sent } = loading;
      for (const row of page) if (!sent.has(row.id)) rows.set(row.id, row);
      rowsChanged(rows);
    },
    upsert(row) {
      const rows = loading?.rows ?? shown;
      loading?.sent.add(row.id);
      rows.set(row.id, row);
      rowsChanged(rows);
    },
    leave(id) {
      const rows = loading?.rows ?? shown;
      loading?.sent.add(id);
      rows.delete(id);
      rowsChanged(rows);
    },
    whole() {
      shown = loading?.rows ?? shown;
      loading = null;
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
    sort(next: Order): void {
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

export const fleet = createFleetStore();
