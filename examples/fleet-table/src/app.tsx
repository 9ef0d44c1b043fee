import type { ItemsView } from "ostler-client";
import { useCallback, useDeferredValue, useMemo, useState, useSyncExternalStore } from "react";
import { connection, signIn } from "./api/connection.ts";
import { nodeFilterOf } from "./fleet/filters.ts";
import type { Filters } from "./fleet/filters.ts";
import { useFleet } from "./fleet/fleet.ts";
import type { Row } from "./fleet/fleet.ts";
import { comparing } from "./fleet/order.ts";
import type { Order } from "./fleet/order.ts";
import { VERBS } from "./fleet/verbs.ts";
import type { Verb } from "./fleet/verbs.ts";
import { FilterBar, StateCounts } from "./parts/filter-bar.tsx";
import { FleetTable } from "./parts/fleet-table.tsx";
import { OperationView, RunningOperations } from "./parts/operations.tsx";
import { useAddress } from "./parts/use-address.ts";
import { VerbDialog } from "./parts/verb-dialog.tsx";

const NONE: ReadonlySet<string> = new Set();

export function App() {
  const [{ filters, operation }, changeAddress] = useAddress();
  // Under load React finishes a scroll before it renders changes.
  const view = useDeferredValue(useFleet(nodeFilterOf(filters)));
  const [order, setOrder] = useState<Order>({ by: "name", descending: false });
  const rows = useMemo(() => [...view.items.values()].toSorted(comparing(order)), [view.items, order]);
  const [selected, setSelected] = useState(NONE);
  /** The verb that is asked for, and the nodes that were selected at that moment. */
  const [request, setRequest] = useState<{ readonly verb: Verb; readonly ids: readonly string[] } | null>(null);

  const toggle = useCallback((id: string) => setSelected((before) => toggled(before, id)), []);
  const changeFilters = useCallback((next: Filters) => changeAddress({ filters: next }), [changeAddress]);
  const open = useCallback((id: string | null) => changeAddress({ operation: id }), [changeAddress]);

  return (
    <div className="page">
      <header className="top">
        <h1>Fleet</h1>
        <RunningOperations onOpen={open} />
        <Status view={view} />
      </header>
      <FilterBar filters={filters} onChange={changeFilters} />
      <StateCounts filters={filters} onChange={changeFilters} />
      {view.error !== null && <p role="alert">{view.error.message}</p>}
      <main>
        <section className="nodes">
          <FleetTable
            rows={rows}
            isWhole={view.isWhole}
            order={order}
            selected={selected}
            onOrder={setOrder}
            onToggle={toggle}
            onSelect={setSelected}
          />
          {view.isWhole && rows.length === 0 && <p className="empty">No node matches.</p>}
          <SelectionBar
            selected={selected}
            onVerb={(verb) => setRequest({ verb, ids: [...selected] })}
            onClear={() => setSelected(NONE)}
          />
        </section>
        {operation !== null && <OperationView key={operation} id={operation} onClose={() => open(null)} />}
      </main>
      {request && (
        <VerbDialog
          {...request}
          onClose={() => setRequest(null)}
          onBegun={(id) => {
            setRequest(null);
            setSelected(NONE);
            open(id);
          }}
        />
      )}
    </div>
  );
}

function toggled(selected: ReadonlySet<string>, id: string): ReadonlySet<string> {
  const next = new Set(selected);
  if (!next.delete(id)) next.add(id);
  return next;
}

function Status({ view }: { readonly view: ItemsView<Row> }) {
  const { state, since } = useSyncExternalStore(connection.subscribe, connection.getSnapshot);
  if (state === "refused") return <SignIn />;
  return (
    <span className="status" role="status" data-live={view.isLive}>
      {statusOf(view, state === "broken" ? since : null)}
    </span>
  );
}

function statusOf({ isLive, isWhole, items }: ItemsView<Row>, brokenSince: Date | null): string {
  if (isLive) return "Live";
  if (!isWhole) return brokenSince ? "Connecting" : `Loading ${items.size.toLocaleString("en")}`;
  return brokenSince ? `Reconnecting – as of ${brokenSince.toLocaleTimeString("en-GB")}` : "Catching up";
}

function SignIn() {
  return (
    <form
      className="sign-in"
      onSubmit={(event) => {
        event.preventDefault();
        const token = new FormData(event.currentTarget).get("token");
        if (typeof token === "string") signIn(token);
      }}
    >
      <label>
        Token <input name="token" type="password" autoComplete="current-password" required />
      </label>
      <button type="submit">Sign in</button>
    </form>
  );
}

interface SelectionBarProps {
  readonly selected: ReadonlySet<string>;
  readonly onVerb: (verb: Verb) => void;
  readonly onClear: () => void;
}

function SelectionBar({ selected, onVerb, onClear }: SelectionBarProps) {
  if (selected.size === 0) return null;
  return (
    <div className="selection" role="toolbar" aria-label="Verbs">
      <b>{selected.size.toLocaleString("en")} selected</b>
      {VERBS.map((verb) => (
        <button key={verb.name} type="button" onClick={() => onVerb(verb)}>
          {verb.name}…
        </button>
      ))}
      <button type="button" onClick={onClear}>
        Clear
      </button>
    </div>
  );
}
