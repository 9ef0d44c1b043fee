/** The list of nodes: filter, columns, order, a frozen selection, and the verbs on it. */
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { Link, useLocation } from "wouter";
import { serviceNow } from "../data/clock.ts";
import { fleet, followNodes, readNodes, useStore } from "../data/streams.ts";
import type { NodeRow } from "../data/streams.ts";
import { Choice } from "../parts/choice.tsx";
import { FilterField } from "../parts/filter-field.tsx";
import { Problem, UnknownParameters } from "../parts/notices.tsx";
import { orderRows } from "../parts/row-order.ts";
import { NodeState } from "../parts/state-badge.tsx";
import { Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { VirtualList } from "../parts/virtual-list.tsx";
import type { Column } from "../parts/virtual-list.tsx";
import { NODES, nodePath, useParameters } from "../routes.ts";
import { readFilter } from "../words/filters.ts";
import type { ReadFilter } from "../words/filters.ts";
import {
  NODE_COLUMN_NAMES,
  compareNodes,
  nodeColumn,
  readColumns,
  readSort,
  sortAfter,
  writeColumns,
} from "../words/node-columns.ts";
import type { NodeColumnName, Sort } from "../words/node-columns.ts";
import { numberText, plural } from "../words/numbers.ts";
import { Selected } from "../work/selected.tsx";
import { add, selection, toggle, toggleAll } from "../work/selection.ts";

const PARAMETERS = { filter: null, columns: null, sort: null } as const;
const NO_ROWS: readonly NodeRow[] = [];
const BY_NAME: Sort = { by: "name", isDescending: false };

export function NodesScreen() {
  const { values, unknown, change } = useParameters(PARAMETERS);
  const { filter = "" } = values;
  const { columns, unknown: unknownColumns } = readColumns(values.columns);
  const sort = readSort(values.sort);
  const read = useMemo(() => readFilter(filter, serviceNow()), [filter]);
  const notKnown = [
    ...unknown,
    ...unknownColumns.map((word) => `columns=${word}`.slice(0, 40)),
    ...(sort === null ? [`sort=${values.sort}`.slice(0, 40)] : []),
  ];
  return (
    <div className="screen">
      <h1>Nodes</h1>
      <UnknownParameters unknown={notKnown} path={NODES} />
      <FilterField text={filter} flaw={read.flaw} onChange={(text) => change({ filter: text })} />
      <List
        read={read}
        sort={sort ?? BY_NAME}
        columns={columns}
        onSort={(text) => change({ sort: text })}
        onColumns={(chosen) => change({ columns: writeColumns(chosen) })}
      />
    </div>
  );
}

interface ListProps {
  readonly read: ReadFilter;
  readonly sort: Sort;
  readonly columns: readonly NodeColumnName[];
  readonly onSort: (text: string | null) => void;
  readonly onColumns: (columns: readonly NodeColumnName[]) => void;
}

function List({ read, sort, columns, onSort, onColumns }: ListProps) {
  const [, navigate] = useLocation();
  const { items, isWhole, error } = useMatching(read);
  const [isHeld, setHeld] = useState(false);
  const isPointed = useRef(false);
  const [reorders, setReorders] = useState(0);
  const { rows, movedCount } = useOrder(items, sort, isHeld, reorders);
  const selected = useSyncExternalStore(selection.subscribe, selection.get);
  const shown = columns.map((name) => columnOf(name, sort));
  return (
    <section aria-label="List" className="fill">
      <div className="list-bar">
        <b role="status">
          {isWhole ? plural(rows.length, "node") : `Loading ${numberText(rows.length)}`}
          {read.filter !== null && !read.isLive && ", not live"}
        </b>
        {!read.isLive && <span className="quiet">A serial number cannot be followed: the list is as it was read.</span>}
        {movedCount > 0 && (
          <button type="button" onClick={() => setReorders(reorders + 1)}>
            {plural(movedCount, "row")} moved: reorder
          </button>
        )}
        <SortField sort={sort} onSort={onSort} />
        <Columns columns={columns} onColumns={onColumns} />
      </div>
      {error && <Problem error={error} />}
      <Selected selected={selected} items={items} where="filter" />
      <div
        onPointerEnter={() => {
          isPointed.current = true;
          setHeld(true);
        }}
        onPointerLeave={(event) => {
          isPointed.current = false;
          setHeld(event.currentTarget.contains(document.activeElement));
        }}
        onFocus={() => setHeld(true)}
        onBlur={(event) => setHeld(isPointed.current || event.currentTarget.contains(event.relatedTarget))}
      >
        <VirtualList
          label="Nodes"
          columns={shown}
          rows={rows}
          idOf={({ id }) => id}
          isBusy={!isWhole}
          selection={{ selected, toggle, add, toggleAll }}
          onOpen={({ name }) => navigate(nodePath(name))}
          onSort={(name) => {
            const column = NODE_COLUMN_NAMES.find((one) => nodeColumn(one).name === name);
            if (column) onSort(sortAfter(sort, column));
          }}
        />
      </div>
      {isWhole && rows.length === 0 && <p>{read.filter === null ? "No nodes yet." : "No node matches the filter."}</p>}
    </section>
  );
}

interface Matching {
  readonly items: ReadonlyMap<string, NodeRow>;
  readonly isWhole: boolean;
  readonly error: Error | null;
}

/** The nodes of the filter. While another list loads, and while the filter is not valid, the earlier one stays. */
function useMatching({ filter, flaw, isLive }: ReadFilter): Matching {
  const store = useMemo(
    () => (filter === null ? fleet : isLive ? followNodes(filter) : readNodes(filter)),
    [filter, isLive],
  );
  const kept = useRef(store);
  const now = useStore(flaw ? kept.current : store);
  const earlier = useRef<Matching>(now);
  const isReady = now.isWhole || now.items.size > 0 || now.error !== null;
  useEffect(() => {
    if (!flaw) kept.current = store;
    if (isReady) earlier.current = now;
  });
  return isReady ? now : { ...earlier.current, isWhole: false };
}

/** `reorders`: another number orders the rows though they are held. */
function useOrder(items: ReadonlyMap<string, NodeRow>, sort: Sort, isHeld: boolean, reorders: number) {
  const content = `${sort.by} ${sort.isDescending} ${reorders}`;
  const before = useRef({ rows: NO_ROWS, sorted: NO_ROWS, content: "" });
  const order = useMemo(
    () =>
      orderRows(
        before.current.content === content ? before.current : { ...before.current, sorted: [] },
        { items, compare: compareNodes(sort) },
        isHeld && before.current.content === content,
      ),
    [items, content, isHeld],
  );
  useEffect(() => {
    before.current = { ...order, content };
  }, [order, content]);
  return order;
}

function columnOf(name: NodeColumnName, { by, isDescending }: Sort): Column<NodeRow> {
  const { name: title, width, text } = nodeColumn(name);
  const sort = name !== by ? "none" : isDescending ? "descending" : "ascending";
  const show = (row: NodeRow) =>
    name === "name" ? (
      <Link href={nodePath(row.name)} tabIndex={-1}>
        <Text>{row.name}</Text>
      </Link>
    ) : name === "state" ? (
      <NodeState state={row.state} />
    ) : name === "updated" ? (
      <Time at={row.updatedAt} />
    ) : (
      <Text>{text(row)}</Text>
    );
  return { name: title, width, show, sort };
}

function SortField({ sort: { by, isDescending }, onSort }: Pick<ListProps, "sort" | "onSort">) {
  return (
    <Choice
      label="Sort"
      value={`${isDescending ? "-" : ""}${by}`}
      choices={NODE_COLUMN_NAMES.flatMap((name) => [
        [name, nodeColumn(name).name],
        [`-${name}`, `${nodeColumn(name).name}, last first`],
      ])}
      isInline
      onChange={(value) => onSort(value === "name" ? null : value)}
    />
  );
}

function Columns({ columns, onColumns }: Pick<ListProps, "columns" | "onColumns">) {
  return (
    <details className="columns">
      <summary>Columns</summary>
      <div>
        {NODE_COLUMN_NAMES.filter((name) => name !== "name").map((name) => (
          <label key={name} className="check">
            <input
              type="checkbox"
              checked={columns.includes(name)}
              onChange={({ target: { checked } }) =>
                onColumns(checked ? [...columns, name] : columns.filter((column) => column !== name))
              }
            />{" "}
            {nodeColumn(name).name}
          </label>
        ))}
      </div>
    </details>
  );
}
