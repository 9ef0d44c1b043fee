/**
 * A long list of equal rows, of which only the visible ones are in the document. Rows have the keys of their slots, so
 * that a scroll changes texts and moves no elements. One tab stop: arrows, `j` and `k`, Home, End and the page keys
 * move the current row, and Enter opens it.
 */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import type { KeyboardEvent, ReactNode } from "react";

export interface Column<Row> {
  readonly name: string;
  /** A track of a grid, as `minmax(120px, 1fr)`. */
  readonly width: string;
  readonly show: (row: Row) => ReactNode;
}

interface VirtualListProps<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly idOf: (row: Row) => string;
  readonly onOpen?: (row: Row) => void;
  readonly isBusy?: boolean;
}

const ROW_HEIGHT = 30;
const BORDERS = 4;
const OVERSCAN = 6;

export function VirtualList<Row>({ label, columns, rows, idOf, onOpen, isBusy = false }: VirtualListProps<Row>) {
  const scroller = useRef<HTMLDivElement>(null);
  const [current, setCurrent] = useState(0);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: OVERSCAN,
  });
  const last = rows.length - 1;
  const shown = Math.min(current, last);
  useEffect(() => {
    if (document.activeElement === scroller.current && shown >= 0) virtual.scrollToIndex(shown);
  }, [shown]);
  const items = virtual.getVirtualItems();
  const template = columns.map(({ width }) => width).join(" ");

  function move(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / ROW_HEIGHT) - 2);
    const to = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -last, End: last }[
      event.key
    ];
    const row = rows[shown];
    if (to !== undefined) setCurrent(Math.max(0, Math.min(last, shown + to)));
    else if (event.key === "Enter" && row !== undefined && event.target === event.currentTarget) onOpen?.(row);
    else return;
    event.preventDefault();
  }

  return (
    <div
      className="list"
      ref={scroller}
      role="grid"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      aria-busy={isBusy}
      aria-activedescendant={shown >= 0 ? `${label}-${shown}` : undefined}
      tabIndex={0}
      style={{ height: `min(60vh, ${(rows.length + 1) * ROW_HEIGHT + BORDERS}px)` }}
      onKeyDown={move}
    >
      <div role="rowgroup">
        <div className="row head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
          {columns.map(({ name }) => (
            <span key={name} role="columnheader">
              {name}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" style={{ height: virtual.getTotalSize(), position: "relative" }}>
        {items.map(({ index, start }) => {
          const row = rows[index];
          return (
            row !== undefined && (
              <div
                key={index % (items.length + OVERSCAN)}
                id={`${label}-${index}`}
                className="row"
                role="row"
                aria-rowindex={index + 2}
                data-current={index === shown}
                data-id={idOf(row)}
                style={{ gridTemplateColumns: template, transform: `translateY(${start}px)` }}
                onClick={() => setCurrent(index)}
              >
                {columns.map(({ name, show }) => (
                  <span key={name} role="gridcell">
                    {show(row)}
                  </span>
                ))}
              </div>
            )
          );
        })}
      </div>
    </div>
  );
}
