/** Changes of the runs of one operation or of one node. Runs are not deleted, so they do not leave. */
import { RUN_CHANGE_COLUMNS } from "../../store/log/change-fields.ts";
import type { RunChangeField } from "../../store/log/change-fields.ts";
import type { ChangeRow } from "../../store/log/changes.ts";
import { runVersionsAfter, runsByIds } from "../../store/runs/runs.ts";
import type { RunRow, RunsOf } from "../../store/runs/runs.ts";
import type { ObjectChange, View } from "../change-items.ts";
import type { KnownRow } from "../log/known-rows.ts";
import type { SnapshotContent } from "../log/snapshots.ts";

/** A snapshot of the runs. */
export function runSnapshot(of: RunsOf): SnapshotContent<RunRow> {
  return {
    key: `runs ${JSON.stringify(of)}`,
    versions: (reader, after, limit) => runVersionsAfter(reader, of, after, limit),
    byIds: runsByIds,
  };
}

const FIELDS = Object.keys(RUN_CHANGE_COLUMNS) as RunChangeField[];

/** The changes as changes of these runs. */
export function changesOfRuns(of: RunsOf, rows: readonly ChangeRow[]): readonly ObjectChange<RunChangeField>[] {
  return rows.flatMap((row) => {
    const { subject, subjectId, operationId, nodeId, fields } = row;
    const isOne = "operationId" in of ? operationId === of.operationId : nodeId === of.nodeId;
    return subject === "RUN" && isOne
      ? { id: subjectId, row, fields: FIELDS.filter((field) => fields.includes(field)) }
      : [];
  });
}

export const VIEW_OF_RUNS: View<KnownRow<RunRow>, RunChangeField> = {
  fields: FIELDS,
  matches: () => true,
  before: () => null,
  begins: ({ row: { event } }) => event === "CREATED",
};
