/**
 * Items of the stream of nodes from a page of the log of changes: one for each node. Pure.
 *
 * What the reader has is decided without remembering it. A node that matches now is sent. One that does not match now,
 * but did before one of the changes of the page, has left. This is exact for any pages: let a reader have a node, and
 * the node match for the last time before some change. The page with that change has its facts before, and the node as
 * it was read afterwards, which does not match; so the page sends that the node left, and no later one sends the node.
 */
import { NODE_CHANGE_COLUMNS } from "../store/change-fields.ts";
import type { NodeChangeField } from "../store/change-fields.ts";
import type { ChangeBefore, NodeBefore } from "../store/change-records.ts";
import { changeCursor } from "../store/changes.ts";
import type { ChangeCursor, ChangeRow } from "../store/changes.ts";
import type { NodeFacts } from "../store/node-facts.ts";
import type { NodeTest } from "../store/node-filter.ts";
import type { NodeRow } from "../store/nodes.ts";
import type { KnownNode, Wanted } from "./known-nodes.ts";

export type NodeChangeItem =
  | {
      readonly kind: "upserted";
      readonly cursor: ChangeCursor;
      readonly at: Date;
      readonly node: NodeRow;
      /** Which fields changed; null if the node is new to the reader. */
      readonly changed: readonly NodeChangeField[] | null;
      /** Equal for the same reading of the node. */
      readonly reading: number;
    }
  | {
      readonly kind: "left";
      readonly cursor: ChangeCursor;
      readonly at: Date;
      readonly nodeId: string;
      readonly name: string;
      /** The node does not exist any more. */
      readonly deleted: boolean;
    };

/** The changes of one node on a page. */
interface NodeChanges {
  readonly id: string;
  readonly first: ChangeRow;
  readonly last: ChangeRow;
  readonly rows: readonly ChangeRow[];
}

/** The node that a change belongs to; null if it is not visible in a node. */
function nodeOf({ subject, subjectId, nodeId, event, fields }: ChangeRow): string | null {
  if (subject === "NODE") return subjectId;
  // Progress is reported once a second, and is part of the run.
  return subject === "RUN" && (event === "CREATED" || fields.some((field) => field !== "PROGRESS")) ? nodeId : null;
}

/** The nodes of a page of changes, in the order of their first changes. */
export function changedNodes(page: readonly ChangeRow[]): readonly NodeChanges[] {
  const found = new Map<string, { id: string; first: ChangeRow; last: ChangeRow; rows: ChangeRow[] }>();
  for (const row of page) {
    const id = nodeOf(row);
    if (id === null) continue;
    const known = found.get(id);
    if (!known) found.set(id, { id, first: row, last: row, rows: [row] });
    else {
      known.rows.push(row);
      known.last = row;
    }
  }
  return [...found.values()];
}

export function wantedNodes(changes: readonly NodeChanges[]): readonly Wanted[] {
  return changes.map(({ id, last }) => ({ id, position: last.position }));
}

/** The items of a page. `nodes`: the nodes as they are, read after the page was numbered. */
export function nodeItems(
  page: readonly ChangeRow[],
  changes: readonly NodeChanges[],
  nodes: ReadonlyMap<string, KnownNode | null>,
  matches: NodeTest,
): readonly NodeChangeItem[] {
  const items = changes.flatMap((change) => {
    const item = itemOf(change, nodes.get(change.id) ?? null, matches);
    return item ? [{ change, item }] : [];
  });
  return items.map(({ change, item }, index) => ({
    ...item,
    cursor: cursorOf(page, change.last, items[index + 1]?.change.first),
  }));
}

/**
 * The cursor of an item: everything up to it was sent with the item. It does not depend on the filter unless nodes have
 * several changes on the page, so that readers with different filters share the item.
 */
function cursorOf(page: readonly ChangeRow[], last: ChangeRow, next: ChangeRow | undefined): ChangeCursor {
  if (!next || last.position < next.position) return changeCursor(last);
  // The item contains changes that come after the first of the next node, which was not sent yet.
  const before = page[page.indexOf(next) - 1];
  return changeCursor(before ?? last);
}

type ItemWithoutCursor = NodeChangeItem extends infer Item
  ? Item extends unknown
    ? Omit<Item, "cursor">
    : never
  : never;

function itemOf(
  { id, last: { at }, rows }: NodeChanges,
  known: KnownNode | null,
  matches: NodeTest,
): ItemWithoutCursor | null {
  const before = rows.flatMap(({ before: facts, at: then }) =>
    isOfNode(facts) ? [factsBefore(id, facts, known?.facts.updatedAt ?? then)] : [],
  );
  if (known && matches(known.facts)) {
    const isCreated = rows.some(({ subject, event }) => subject === "NODE" && event === "CREATED");
    const isNew = isCreated || before.slice(0, 1).some((facts) => !matches(facts));
    return { kind: "upserted", at, node: known.row, changed: isNew ? null : fieldsOf(rows), reading: known.reading };
  }
  const left = before.findLast(matches);
  return left ? { kind: "left", at, nodeId: id, name: known?.row.name ?? left.name, deleted: known === null } : null;
}

const FIELDS = Object.keys(NODE_CHANGE_COLUMNS) as NodeChangeField[];

function fieldsOf(rows: readonly ChangeRow[]): readonly NodeChangeField[] {
  const changed = new Set<string>(
    rows.flatMap(({ subject, fields }) => (subject === "RUN" ? ["CURRENT_RUN"] : [...fields])),
  );
  return FIELDS.filter((field) => changed.has(field));
}

function isOfNode(before: ChangeBefore | null): before is NodeBefore {
  return before !== null && "driver" in before;
}

/** The time of the last change is not recorded, because it only increases. */
function factsBefore(id: string, { maintenance, retired, ...facts }: NodeBefore, updatedAt: Date): NodeFacts {
  return {
    ...facts,
    id,
    maintenanceSince: maintenance ? updatedAt : null,
    retiredReason: retired ? "" : null,
    updatedAt,
  };
}
