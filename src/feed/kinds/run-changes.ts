/** Changes of the runs of one operation or of one node. Runs are not deleted, so they do not leave. */
import { RUN_CHANGE_COLUMNS } from "../../store/log/change-fields.ts";
import type { RunChangeField } from "../../store/log/change-fields.ts";
import type { ChangeCursor, ChangeRow } from "../../store/log/changes.ts";
import { runVersionsAfter, runsByIds } from "../../store/runs/runs.ts";
import type { RunRow, RunsOf } from "../../store/runs/runs.ts";
import type { ObjectChange, View } from "../change-items.ts";
import { changeStream } from "../change-stream.ts";
import type { ChangeStream, FeedParts } from "../change-stream.ts";
import type { StreamRequest } from "../stream.ts";
import type { KnownRow } from "../log/known-rows.ts";

export interface RunChangesRequest extends StreamRequest<ChangeCursor> {
  readonly of: RunsOf;
}

export function runChanges(
  parts: FeedParts,
  { of, ...request }: RunChangesRequest,
): ChangeStream<RunRow, RunChangeField> {
  return changeStream(
    parts,
    {
      reads: { subjects: ["RUN"], ...of },
      merge: { by: "SUBJECT" },
      head: "paced",
      known: parts.tail.changes.known.runs,
      snapshot: {
        key: `runs ${JSON.stringify(of)}`,
        versions: (reader, after, limit) => runVersionsAfter(reader, of, after, limit),
        byIds: runsByIds,
      },
      changesOf: (rows) => changesOfRuns(of, rows),
      view: () => VIEW_OF_RUNS,
    },
    request,
  );
}

const FIELDS = Object.keys(RUN_CHANGE_COLUMNS) as RunChangeField[];

/** The changes as changes of these runs. */
function changesOfRuns(of: RunsOf, rows: readonly ChangeRow[]): readonly ObjectChange<RunChangeField>[] {
  return rows.flatMap((row) => {
    const { subject, subjectId, operationId, nodeId, fields } = row;
    const isOne = "operationId" in of ? operationId === of.operationId : nodeId === of.nodeId;
    return subject === "RUN" && isOne
      ? { id: subjectId, row, fields: FIELDS.filter((field) => fields.includes(field)) }
      : [];
  });
}

const VIEW_OF_RUNS: View<KnownRow<RunRow>, RunChangeField> = {
  fields: FIELDS,
  matches: () => true,
  before: () => null,
  begins: ({ row: { event } }) => event === "CREATED",
};
