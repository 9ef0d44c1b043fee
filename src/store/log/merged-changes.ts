/**
 * A part of the log of changes for readers that are far behind: changes that are equal for a reader are one row, so
 * there are about as many rows as objects that changed. PostgreSQL merges them, so what is not read costs the service
 * nothing.
 */
import { sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { ChangeBefore } from "./change-records.ts";
import type { ChangeFilter, ChangeRow } from "./changes.ts";
import { inArrayParam, textArray } from "../postgres/array-parameter.ts";
import type { Reader } from "../postgres/database.ts";
import { changes } from "../tables.ts";

/** Which changes are equal for a reader. */
export interface ChangeMerge {
  /** The object whose changes are read together: that of the change, or the node or the operation of its run. */
  readonly by: "SUBJECT" | "NODE" | "OPERATION";
  /** Paths of the values before a change that the reader looks at; absent: all values. */
  readonly before?: readonly FactPath[];
}

/** A member of the facts before a change, or a label. */
export type FactPath = readonly [member: string] | readonly ["labels", key: string];

/** Equal changes of one object: `position` is that of the last one, `subjectId` the object that they are merged by. */
export interface MergedChange extends Omit<ChangeRow, "at"> {
  /** Position of the first change of the object, also if it is in another row. */
  readonly begin: number;
}

/** A part of the log, and what of it is read: objects whose first change there comes after `begun`. */
interface MergedRange {
  readonly after: number;
  readonly until: number;
  readonly begun: number;
}

type StoredRow = Pick<MergedChange, "subject" | "subjectId" | "nodeId" | "operationId" | "event" | "fields"> & {
  readonly before: readonly unknown[] | null;
  readonly position: number;
  readonly begin: number;
  readonly total: number;
} & Record<string, unknown>;

/** Rows of the first objects of a range, each with all its rows. */
interface MergedChanges {
  readonly rows: readonly MergedChange[];
  /** There are no other objects. */
  readonly isAll: boolean;
}

/**
 * The changes in the order of the first change of their object, and those of an object in the order of their first
 * changes. After `limit` rows no further object begins.
 */
export async function mergedChanges(
  reader: Reader,
  { after, until, begun }: MergedRange,
  { filter, merge, limit }: { readonly filter: ChangeFilter; readonly merge: ChangeMerge; readonly limit: number },
): Promise<MergedChanges> {
  const { subjects, operationId, nodeId } = filter;
  const { key, node, operation } = COLUMNS[merge.by];
  const rows = await reader.execute<StoredRow>(sql`
    with merged as (
      select ${key} as key, subject, ${node} as node_id, ${operation} as operation_id, event, fields, ${factsOf(merge)} as before,
             min(position) as first, max(position) as position
      from changes
      where position > ${after} and position <= ${until} and ${inArrayParam(changes.subject, subjects)}
        and ${operationId === undefined ? sql`true` : sql`operation_id = ${operationId}`}
        and ${nodeId === undefined ? sql`true` : sql`node_id = ${nodeId}`}
      group by 1, 2, 3, 4, 5, 6, 7),
    begun as (select *, min(first) over (partition by key) as begin from merged),
    ranked as (select *, rank() over (order by begin) as rank, count(*) over () as total from begun where begin > ${begun})
    select subject, key as "subjectId", node_id as "nodeId", operation_id as "operationId", event, fields, before,
           position::float8 as position, begin::float8 as begin, total::int as total
    from ranked where rank <= ${limit} order by ranked.begin, first`);
  return {
    rows: rows.map((row) => ({ ...row, before: row.before && beforeOf(merge, row.before) })),
    isAll: rows.length === (rows[0]?.total ?? 0),
  };
}

/** Columns of rows that are merged, without those that differ between changes of one object. */
const COLUMNS: Readonly<Record<ChangeMerge["by"], { readonly [Name in "key" | "node" | "operation"]: SQL }>> = {
  SUBJECT: { key: sql`subject_id`, node: sql`node_id`, operation: sql`operation_id` },
  NODE: { key: sql`coalesce(node_id, subject_id)`, node: sql`node_id`, operation: sql`null::uuid` },
  OPERATION: { key: sql`coalesce(operation_id, subject_id)`, node: sql`null::uuid`, operation: sql`operation_id` },
};

/** The values that the reader looks at, as a list in the order of its paths. */
function factsOf({ before: paths }: ChangeMerge): SQL {
  const values = paths?.map((path) => sql`before #> ${textArray(path)}::text[]`) ?? [sql`before`];
  return sql`case when before is not null then jsonb_build_array(${sql.join(values, sql`, `)}) end`;
}

/** The facts with the members of the paths only. A reader looks at no others. */
function beforeOf({ before: paths }: ChangeMerge, values: readonly unknown[]): ChangeBefore {
  if (!paths) return values[0] as ChangeBefore;
  const facts: Record<string, unknown> = {};
  const labels: Record<string, unknown> = {};
  for (const [index, [member, key]] of paths.entries()) {
    if (key === undefined) facts[member] = values[index];
    else if (values[index] !== null) labels[key] = values[index];
  }
  return { ...facts, labels } as unknown as ChangeBefore;
}

/** The times of the changes at these positions, of those that are kept. */
export async function changeTimes(reader: Reader, positions: readonly number[]): Promise<ReadonlyMap<number, Date>> {
  if (positions.length === 0) return new Map();
  const rows = await reader
    .select({ position: changes.position, at: changes.at })
    .from(changes)
    .where(sql`${changes.position} = any(${textArray(positions.map(String))}::bigint[])`);
  return new Map(rows.map(({ position, at }) => [position, at]));
}
