/** Changes of operations: what of the log belongs to an operation, and whether it matched a filter before. */
import { OPERATION_CHANGE_COLUMNS } from "../../store/log/change-fields.ts";
import type { OperationChangeField } from "../../store/log/change-fields.ts";
import type { ChangeRow } from "../../store/log/changes.ts";
import { operationTest } from "../../store/operations/operation-filter.ts";
import type { OperationFilter } from "../../store/operations/operation-filter.ts";
import {
  operationVersionsAfter,
  operationsListedWith,
  relatedOperations,
} from "../../store/operations/operation-lists.ts";
import { operationsByIds } from "../../store/operations/operations.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { ObjectChange, View } from "../change-items.ts";
import { changeStream } from "../change-stream.ts";
import type { ChangeStream, ChangeStreamItem, FeedParts, FilteredRequest } from "../change-stream.ts";
import type { KnownRow } from "../log/known-rows.ts";

export type OperationChangeItem = ChangeStreamItem<OperationRow, OperationChangeField>;
export type OperationChangesRequest = FilteredRequest<OperationFilter>;

export function operationChanges(
  parts: FeedParts,
  { filter, ...request }: OperationChangesRequest,
): ChangeStream<OperationRow, OperationChangeField> {
  const { reader } = parts.database;
  return changeStream(
    parts,
    {
      reads: { subjects: ["OPERATION", "RUN", ...(filter?.clusterId === undefined ? [] : (["CLUSTER"] as const))] },
      merge: { by: "OPERATION" },
      head: "paced",
      known: parts.tail.changes.known.operations,
      snapshot: {
        key: `operations ${JSON.stringify(filter ?? {})}`,
        versions: (tx, after, limit) => operationVersionsAfter(tx, filter, after, limit),
        byIds: operationsByIds,
      },
      changesOf: (rows) => changesOfOperations(reader, filter, rows),
      view: (ids) => viewOfOperations(reader, filter, ids),
    },
    request,
  );
}

const FIELDS = Object.keys(OPERATION_CHANGE_COLUMNS) as OperationChangeField[];
/** Changes of a run that are visible in the progress of its operation. */
const OF_PROGRESS: readonly string[] = ["STATE", "STEP", "WAIT", "FAILURE"];

/** The changes as changes of operations. A deleted cluster has no operations any more. */
async function changesOfOperations(
  reader: Reader,
  filter: OperationFilter | undefined,
  rows: readonly ChangeRow[],
): Promise<readonly ObjectChange<OperationChangeField>[]> {
  const isEnd = ({ subject, subjectId, event }: ChangeRow) =>
    subject === "CLUSTER" && event === "DELETED" && subjectId === filter?.clusterId;
  const listed = rows.some(isEnd) ? await operationsListedWith(reader, filter?.clusterId ?? "") : [];
  return rows.flatMap((row): readonly ObjectChange<OperationChangeField>[] => {
    const { subject, subjectId, operationId, event, fields } = row;
    if (isEnd(row)) return listed.map((id) => ({ id, row, fields: ["OPTIONS"] }));
    if (subject === "OPERATION") return [{ id: subjectId, row, fields: FIELDS.filter((one) => fields.includes(one)) }];
    const isVisible = subject === "RUN" && (event === "CREATED" || fields.some((field) => OF_PROGRESS.includes(field)));
    return isVisible && operationId !== null ? [{ id: operationId, row, fields: ["PROGRESS"] }] : [];
  });
}

/**
 * The state before a change is recorded. The failure, in which a filter finds a text, is set once. An operation keeps
 * its nodes, and its clusters until they are deleted. Operations are not deleted.
 */
async function viewOfOperations(
  reader: Reader,
  filter: OperationFilter | undefined,
  ids: readonly string[],
): Promise<View<KnownRow<OperationRow>, OperationChangeField>> {
  const related = await relatedOperations(reader, filter, ids);
  const test = operationTest(filter);
  const matches = (row: OperationRow) => (related === null || related.has(row.id)) && test(row);
  return {
    fields: FIELDS,
    matches: ({ row }) => matches(row),
    before({ fields, row: { before } }, known) {
      if (!known) return null;
      const { row } = known;
      const state = before !== null && "state" in before && !("driver" in before) ? before.state : null;
      const isLess = fields.includes("FAILURE");
      const isElsewhere = fields.includes("OPTIONS") && filter?.clusterId !== undefined && !matches(row);
      if (isElsewhere) return { matched: "MAYBE", name: "" };
      if (state === null && !isLess) return null;
      const earlier = { ...row, state: state ?? row.state, firstFailure: isLess ? null : row.firstFailure };
      return { matched: matches(earlier), name: "" };
    },
    begins: ({ row: { subject, event } }) => subject === "OPERATION" && event === "CREATED",
  };
}
