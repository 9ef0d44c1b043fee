/** The table: only the rows in view are in the document, whatever the number of nodes. */
import { memo, useRef } from "react";
import { useVirtualizer } from "@tanstack/react-virtual";
import type { Row } from "../fleet/fleet.ts";
import type { Order, OrderKey } from "../fleet/order.ts";
import { sentenceCase } from "../fleet/states.ts";
import { StateBadge } from "./state-badge.tsx";

interface TableProps {
  readonly rows: readonly Row[];
  /** The rows are all that match. */
  readonly isWhole: boolean;
  readonly order: Order;
  readonly selected: ReadonlySet<string>;
  readonly onOrder: (order: Order) => void;
  /** The same function in every render, so that a row that has not changed is not rendered. */
  readonly onToggle: (id: string) => void;
  readonly onSelect: (ids: ReadonlySet<string>) => void;
}

const ROW_HEIGHT = 30;
const COLUMNS: readonly { readonly title: string; readonly key?: OrderKey }[] = [
  { title: "Name", key: "name" },
  { title: "State", key: "state" },
  { title: "Cluster", key: "cluster" },
  { title: "Power", key: "power" },
  { title: "Model", key: "model" },
  { title: "Notes" },
];

export function FleetTable({ rows, isWhole, order, selected, onOrder, onToggle, onSelect }: TableProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 8,
  });
  const allSelected = rows.length > 0 && rows.every(({ id }) => selected.has(id));
  return (
    <div
      className="table"
      ref={scroller}
      role="table"
      aria-label="Nodes"
      aria-rowcount={rows.length + 1}
      aria-busy={!isWhole}
      tabIndex={0}
    >
      <div className="row head" role="row" aria-rowindex={1}>
        <span role="columnheader">
          <input
            type="checkbox"
            aria-label="Select all nodes that are shown"
            checked={allSelected}
            onChange={() => onSelect(allSelected ? new Set() : new Set(rows.map(({ id }) => id)))}
          />
        </span>
        {COLUMNS.map(({ title, key }) => (
          <HeadCell key={title} title={title} by={key} order={order} onOrder={onOrder} />
        ))}
      </div>
      <div role="rowgroup" style={{ height: virtual.getTotalSize(), position: "relative" }}>
        {virtual.getVirtualItems().map(({ index, start }) => {
          const row = rows[index];
          return (
            row && (
              <NodeRow
                key={row.id}
                row={row}
                index={index}
                start={start}
                isSelected={selected.has(row.id)}
                onToggle={onToggle}
              />
            )
          );
        })}
      </div>
    </div>
  );
}

interface HeadCellProps {
  readonly title: string;
  readonly by: OrderKey | undefined;
  readonly order: Order;
  readonly onOrder: (order: Order) => void;
}

function HeadCell({ title, by, order, onOrder }: HeadCellProps) {
  if (by === undefined) return <span role="columnheader">{title}</span>;
  const isOrder = order.by === by;
  const direction = order.descending ? "descending" : "ascending";
  return (
    <span role="columnheader" aria-sort={isOrder ? direction : "none"}>
      <button type="button" onClick={() => onOrder({ by, descending: isOrder && !order.descending })}>
        {title}
        <span aria-hidden="true">{isOrder ? (order.descending ? " ▾" : " ▴") : ""}</span>
      </button>
    </span>
  );
}

interface RowProps {
  readonly row: Row;
  readonly index: number;
  readonly start: number;
  readonly isSelected: boolean;
  readonly onToggle: (id: string) => void;
}

/** A `row` is an object that never changes: `memo` compares it as it is. */
const NodeRow = memo(function NodeRow({ row, index, start, isSelected, onToggle }: RowProps) {
  return (
    <div
      className="row"
      role="row"
      aria-rowindex={index + 2}
      aria-selected={isSelected}
      data-id={row.id}
      style={{ transform: `translateY(${start}px)` }}
    >
      <span role="cell">
        <input
          type="checkbox"
          aria-label={`Select ${row.name}`}
          checked={isSelected}
          onChange={() => onToggle(row.id)}
        />
      </span>
      <span role="cell" className="name">
        {row.name}
      </span>
      <span role="cell">
        <StateBadge state={row.state} />
      </span>
      <span role="cell">{row.cluster?.name}</span>
      <span role="cell" data-drift={row.powerDrift}>
        {sentenceCase(row.powerState)}
        {row.powerDrift && <abbr title="Differs from the power that was wanted"> ≠</abbr>}
      </span>
      <span role="cell">{row.model}</span>
      <span role="cell" className="notes" title={notesOf(row).join(" · ")}>
        {notesOf(row).join(" · ")}
      </span>
    </div>
  );
});

function notesOf(row: Row): string[] {
  return [
    row.maintenance && `Maintenance: ${row.maintenance.reason}`,
    row.fault && `Fault: ${row.fault.message}`,
    row.presence === "DISAPPEARED" && "Disappeared",
    row.protected && "Protected",
    row.retired && "Retired",
    row.lastError?.message,
  ].filter((note) => typeof note === "string");
}
