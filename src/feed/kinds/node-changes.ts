/** Changes of nodes: what of the log belongs to a node, and what filters saw of it before. */
import { NODE_CHANGE_COLUMNS } from "../../store/log/change-fields.ts";
import type { NodeChangeField } from "../../store/log/change-fields.ts";
import type { ChangeBefore } from "../../store/log/change-records.ts";
import type { ChangeRow } from "../../store/log/changes.ts";
import { factPaths } from "../../store/nodes/filter-facts.ts";
import type { NodeBefore, NodeFacts } from "../../store/nodes/node-facts.ts";
import { changeTimes, nodeCondition, nodeTest } from "../../store/nodes/node-filter.ts";
import type { NodeFilter, NodeTest } from "../../store/nodes/node-filter.ts";
import { nodeVersionsAfterName, nodesByIds } from "../../store/nodes/nodes.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { ObjectChange, View } from "../change-items.ts";
import { changeStream } from "../change-stream.ts";
import type { ChangeStream, ChangeStreamItem, FeedParts, FilteredRequest } from "../change-stream.ts";
import type { KnownNode } from "../log/known-rows.ts";
import type { SnapshotContent } from "../log/snapshots.ts";

/** A snapshot of matching nodes, by name. */
export function nodeSnapshot(filter: NodeFilter | undefined): SnapshotContent<NodeRow> {
  return {
    key: `nodes ${JSON.stringify(filter ?? {})}`,
    versions: (reader, after, limit) => nodeVersionsAfterName(reader, filter, after?.name ?? null, limit),
    byIds: nodesByIds,
  };
}

export type NodeChangeItem = ChangeStreamItem<NodeRow, NodeChangeField>;
export type NodeChangesRequest = FilteredRequest<NodeFilter>;

export function nodeChanges(
  parts: FeedParts,
  { filter, ...request }: NodeChangesRequest,
): ChangeStream<NodeRow, NodeChangeField> {
  const view = viewOfNodes(filter);
  return changeStream(
    parts,
    {
      reads: { subjects: ["NODE", "RUN"] },
      // The facts of the filter are visible of a node before a change, and its name; facts with a driver are of a node.
      merge: { by: "NODE", before: [["driver"], ["name"], ...factPaths(filter ?? {})] },
      head: "live",
      known: parts.tail.changes.known.nodes,
      snapshot: nodeSnapshot(filter),
      changesOf: changesOfNodes,
      view: () => view,
    },
    request,
  );
}

/** The changes as changes of nodes. */
function changesOfNodes(rows: readonly ChangeRow[]): readonly ObjectChange<NodeChangeField>[] {
  return rows.flatMap((row) => {
    const { subject, subjectId, nodeId, event, fields } = row;
    if (subject === "NODE") return { id: subjectId, row, fields: FIELDS.filter((field) => fields.includes(field)) };
    // Progress is reported once a second, and is part of the run.
    const isVisible = subject === "RUN" && (event === "CREATED" || fields.some((field) => field !== "PROGRESS"));
    return isVisible && nodeId !== null ? { id: nodeId, row, fields: ["CURRENT_RUN"] as const } : [];
  });
}

const FIELDS = Object.keys(NODE_CHANGE_COLUMNS) as NodeChangeField[];

function viewOfNodes(filter: NodeFilter | undefined): View<KnownNode, NodeChangeField> {
  const test = filter && nodeCondition(filter) ? nodeTest(filter) : () => true;
  const times = filter ? changeTimes(filter) : [];
  // Any change can end or begin a match of `changedSince`.
  const factsAt = ({ id, row: { subject, before } }: ObjectChange<NodeChangeField>, known: KnownNode | null) => {
    if (isOfNode(before)) return factsBefore(id, before);
    return times.length > 0 && subject === "NODE" ? known?.facts : undefined;
  };
  return {
    fields: FIELDS,
    matches: ({ facts }) => test(facts),
    before(change, known) {
      const facts = factsAt(change, known);
      if (!facts) return null;
      const latest = known?.facts.updatedAt ?? change.row.at;
      return { matched: matchedBefore(test, facts, earlierTimes(times, latest)), name: known?.row.name ?? facts.name };
    },
    begins: ({ row: { subject, event } }) => subject === "NODE" && event === "CREATED",
  };
}

/** The log does not record when a node had changed before: `MAYBE` if the filter depends on it. */
function matchedBefore(test: NodeTest, facts: NodeFacts, times: readonly Date[]): boolean | "MAYBE" {
  const [first = false, ...others] = times.map((updatedAt) => test({ ...facts, updatedAt }));
  return others.every((one) => one === first) ? first : "MAYBE";
}

/** A time for each way in which a filter with these times sees a node that was last changed at `latest` or before. */
function earlierTimes(times: readonly Date[], latest: Date): readonly Date[] {
  return times.length === 0 ? [latest] : [new Date(0), ...times.filter((time) => time < latest), latest];
}

function isOfNode(before: ChangeBefore | null): before is NodeBefore {
  return before !== null && "driver" in before;
}

/** The values that filters saw of a node, except the time of its last change. */
function factsBefore(id: string, { maintenance, retired, ...facts }: NodeBefore): NodeFacts {
  const unknown = new Date(0);
  return {
    ...facts,
    id,
    maintenanceSince: maintenance ? unknown : null,
    retiredReason: retired ? "" : null,
    updatedAt: unknown,
  };
}
