/**
 * A long list of equal rows, of which only the visible ones are in the document. Rows have the keys of their slots, so
 * that a scroll changes texts and moves no elements. One tab stop: arrows, `j` and `k`, Home, End and the page keys
 * move the current row, and Enter opens it. Where rows can be selected, `x` selects the current one, `X` all up to the
 * one selected last, and Ctrl and `a` all.
 */
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useRef, useState } from "react";
import type { KeyboardEvent, MouseEvent, ReactNode } from "react";
import { letterKeys } from "./keys.ts";
import { TEXT_SCALE } from "./text.tsx";

export interface Column<Row> {
  readonly name: string;
  /** A track of a grid, as `minmax(120px, 1fr)`, at the usual size of text. */
  readonly width: string;
  readonly show: (row: Row) => ReactNode;
  /** `none`: it can be sorted, and is not. */
  readonly sort?: "ascending" | "descending" | "none";
}

export interface RowSelection {
  readonly selected: ReadonlySet<string>;
  readonly toggle: (id: string) => void;
  readonly add: (ids: readonly string[]) => void;
  readonly toggleAll: (ids: readonly string[]) => void;
}

interface VirtualListProps<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly idOf: (row: Row) => string;
  readonly onOpen?: (row: Row) => void;
  readonly isBusy?: boolean;
  readonly selection?: RowSelection;
  readonly onSort?: (column: string) => void;
}

/** Pixels at the usual size of text, as in the widths of columns. */
const COLUMN_MIN = 110 * TEXT_SCALE;
const CHECKBOX = `${Math.max(40, 26 * TEXT_SCALE)}px`;
const ROW_HEIGHT = 30 * TEXT_SCALE;
const BORDERS = 4;
const OVERSCAN = 4;

export function VirtualList<Row>(props: VirtualListProps<Row>) {
  const { label, columns, rows, idOf, onOpen, isBusy = false, selection, onSort } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [current, setCurrent] = useState<{ readonly index: number; readonly id: string | null }>({
    index: 0,
    id: null,
  });
  /** As many as there were rows at a time: with fewer, a row would change its slot while it is visible. */
  const slots = useRef(1);
  /** The row that was selected last: a range begins there. */
  const anchor = useRef<string | null>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: OVERSCAN,
  });
  const last = rows.length - 1;
  const shown = Math.min(placeOf(current, rows, idOf), last);
  useEffect(() => {
    if (document.activeElement === scroller.current && shown >= 0) virtual.scrollToIndex(shown);
  }, [shown]);
  const items = virtual.getVirtualItems();
  slots.current = Math.max(slots.current, items.length);
  const widths = columns.map(({ width }) => width.replaceAll(/\d+px/g, (px) => `${parseInt(px, 10) * TEXT_SCALE}px`));
  const template = [...(selection ? [CHECKBOX] : []), ...widths].join(" ");
  const minWidth = columns.length * COLUMN_MIN;
  const setPlace = (index: number) => {
    const row = rows[index];
    setCurrent({ index, id: row === undefined ? null : idOf(row) });
  };

  /** `isRange`: all rows from the one selected last. */
  function select(index: number, isRange: boolean): void {
    const row = rows[index];
    if (!selection || row === undefined) return;
    const from = isRange ? rows.findIndex((one) => idOf(one) === anchor.current) : -1;
    if (from < 0) selection.toggle(idOf(row));
    else selection.add(rows.slice(Math.min(from, index), Math.max(from, index) + 1).map(idOf));
    anchor.current = idOf(row);
  }

  function click({ target, shiftKey }: MouseEvent): void {
    const id = target instanceof Element ? target.closest(".row")?.getAttribute("data-id") : null;
    const index = rows.findIndex((row) => idOf(row) === id);
    if (index < 0) return;
    if (target instanceof HTMLInputElement) select(index, shiftKey);
    setPlace(index);
  }

  function move(event: KeyboardEvent): void {
    if (selection && event.key === "a" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      selection.toggleAll(rows.map(idOf));
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^[a-z]$/i.test(event.key) && !letterKeys.get()) return;
    if (selection && event.key.toLowerCase() === "x") return select(shown, event.shiftKey);
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / ROW_HEIGHT) - 2);
    const to = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -last, End: last }[
      event.key
    ];
    const row = rows[shown];
    if (to !== undefined) setPlace(Math.max(0, Math.min(last, shown + to)));
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
      aria-multiselectable={selection ? true : undefined}
      aria-busy={isBusy}
      aria-activedescendant={shown >= 0 ? `${label}-${shown}` : undefined}
      tabIndex={0}
      style={{ height: `min(60vh, ${(rows.length + 1) * ROW_HEIGHT + BORDERS}px)` }}
      onKeyDown={move}
    >
      <div role="rowgroup" style={{ minWidth }}>
        <div className="row head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
          {selection && (
            <span role="columnheader">
              <input
                type="checkbox"
                tabIndex={-1}
                aria-label="Select all"
                checked={rows.length > 0 && rows.every((row) => selection.selected.has(idOf(row)))}
                onChange={() => selection.toggleAll(rows.map(idOf))}
              />
            </span>
          )}
          {columns.map(({ name, sort }) => (
            <span key={name} role="columnheader" aria-sort={sort}>
              {sort === undefined ? (
                name
              ) : (
                <button type="button" tabIndex={-1} onClick={() => onSort?.(name)}>
                  {name}
                </button>
              )}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" style={{ height: virtual.getTotalSize(), minWidth, position: "relative" }} onClick={click}>
        {items.map(({ index, start }) => {
          const row = rows[index];
          return (
            row !== undefined && (
              <ListRow
                key={index % slots.current}
                {...{ label, row, index, start, template, columns }}
                id={idOf(row)}
                isCurrent={index === shown}
                isSelected={selection?.selected.has(idOf(row))}
              />
            )
          );
        })}
      </div>
    </div>
  );
}

interface ListRowProps<Row> extends Pick<VirtualListProps<Row>, "label" | "columns"> {
  readonly row: Row;
  readonly id: string;
  readonly index: number;
  readonly start: number;
  readonly template: string;
  readonly isCurrent: boolean;
  /** Undefined: rows cannot be selected. */
  readonly isSelected: boolean | undefined;
}

/** A scroll renders only the rows that come. */
const ListRow = memo(PlainListRow) as typeof PlainListRow;

function PlainListRow<Row>(props: ListRowProps<Row>) {
  const { label, columns, row, id, index, start, template, isCurrent, isSelected } = props;
  return (
    <div
      id={`${label}-${index}`}
      className="row"
      role="row"
      aria-rowindex={index + 2}
      data-current={isCurrent}
      aria-selected={isSelected}
      data-id={id}
      style={{ gridTemplateColumns: template, transform: `translateY(${start}px)` }}
    >
      {isSelected !== undefined && (
        <span role="gridcell">
          <input type="checkbox" tabIndex={-1} aria-label="Select" checked={isSelected} onChange={() => {}} />
        </span>
      )}
      {columns.map(({ name, show }) => (
        <span key={name} role="gridcell">
          {show(row)}
        </span>
      ))}
    </div>
  );
}

/** The index of the current row, which other rows move as they come and go. */
function placeOf<Row>(
  { index, id }: { readonly index: number; readonly id: string | null },
  rows: readonly Row[],
  idOf: (row: Row) => string,
): number {
  const row = rows[index];
  if (id === null || (row !== undefined && idOf(row) === id)) return index;
  const found = rows.findIndex((one) => idOf(one) === id);
  return found < 0 ? index : found;
}
