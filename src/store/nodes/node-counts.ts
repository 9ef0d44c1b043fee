/** Counts of nodes by their fields and labels. Each question is one statement over all matching nodes. */
import { sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { textArray } from "../postgres/array-parameter.ts";
import type { Reader } from "../postgres/database.ts";
import { COUNTED_COLUMNS } from "./node-fields.ts";
import type { CountedField } from "./node-fields.ts";
import { nodeCondition } from "./node-filter.ts";
import type { NodeFilter } from "./node-filter.ts";
import { clusters, feedPosition, nodes } from "../tables.ts";
import { cursorColumns, cursorOfRow } from "../log/transitions.ts";
import type { CursorRow, LogCursor } from "../log/transitions.ts";

/** A key by which nodes are counted: a field, or the value of the label with a key. */
export type CountKey = { readonly field: CountedField } | { readonly label: string };

export interface NodeGroup {
  /** In the order of the keys; null where the nodes have no value. A cluster by its name. */
  readonly values: readonly (string | null)[];
  readonly nodeCount: number;
  /** Null for nodes of no cluster, and if the cluster is not among the keys. */
  readonly clusterId: string | null;
}

export interface NodeGroups {
  /** The largest groups, and groups of the same size by their values. */
  readonly groups: readonly NodeGroup[];
  /** Number of all groups. */
  readonly groupCount: number;
  /** Number of nodes in all groups. */
  readonly totalCount: number;
  /** The position of the log as of which the nodes were counted. */
  readonly cursor: LogCursor;
}

interface NodeGroupsRequest {
  readonly filter: NodeFilter | undefined;
  readonly by: readonly CountKey[];
  /** Maximum number of groups in the answer. */
  readonly first: number;
}

function isCluster(key: CountKey): boolean {
  return "field" in key && key.field === "CLUSTER";
}

/** Matching nodes in groups with equal values. */
export async function nodeGroups(reader: Reader, { filter, by, first }: NodeGroupsRequest): Promise<NodeGroups> {
  const keys = by.map((_key, index) => sql.raw(`key${index}`));
  const names = by.map((_key, index) => sql.raw(`name${index}`));
  const read = by.map((key, index) => {
    const value = "field" in key ? sql`${COUNTED_COLUMNS[key.field]}` : sql`${nodes.labels} ->> ${key.label}::text`;
    return sql`${value} as ${keys[index]}`;
  });
  // Names of clusters are looked up for the groups, not for the nodes.
  const named = by.map((key, index) =>
    isCluster(key)
      ? sql`(select ${clusters.name} from ${clusters} where ${clusters.id} = ${keys[index]}) as ${names[index]}`
      : sql`${keys[index]}::text as ${names[index]}`,
  );
  const cluster = keys[by.findIndex(isCluster)] ?? sql`null::uuid`;
  const order = sql`node_count desc, ${listed(names.map((name) => sql`${name} collate "C" nulls last`))}`;
  const [row] = await reader.execute<Omit<NodeGroups, "cursor"> & CursorRow & Record<string, unknown>>(sql`
    with grouped as (
      select ${listed(read)}, count(*)::int as node_count from ${nodes} where ${nodeCondition(filter) ?? sql`true`} group by ${listed(keys)}
    ), named as (
      select ${listed(named)}, node_count, ${cluster} as cluster_id from grouped
    ), largest as (
      select row_number() over (order by ${order}) as place, json_build_object('values', json_build_array(${listed(names)}), 'nodeCount', node_count, 'clusterId', cluster_id) as group_json
      from named order by place limit ${first}
    )
    select (select coalesce(json_agg(group_json order by place), '[]') from largest) as groups, (select count(*)::int from grouped) as "groupCount",
      (select coalesce(sum(node_count), 0)::int from grouped) as "totalCount",
      ${cursorColumns(feedPosition.position)}
    from ${feedPosition}`);
  if (!row) throw new Error("The position of the newest transition could not be read.");
  const { position, at, ...counts } = row;
  return { ...counts, cursor: cursorOfRow({ position, at }) };
}

function listed(parts: readonly SQL[]): SQL {
  return sql.join([...parts], sql`, `);
}

/** The labels of each node as rows. */
const WITH_LABELS = sql`${nodes} cross join lateral jsonb_each_text(${nodes.labels}) label`;

export interface LabelKeyUse {
  readonly key: string;
  /** Number of nodes that have it. */
  readonly nodeCount: number;
  /** Number of different values. */
  readonly valueCount: number;
}

/** Keys of the labels of matching nodes, those of most nodes first, up to `first` of them; and the number of all. */
export async function labelKeysInUse(
  reader: Reader,
  { filter, first }: Omit<NodeGroupsRequest, "by">,
): Promise<{ readonly keys: readonly LabelKeyUse[]; readonly keyCount: number }> {
  const rows = await reader.execute<{ key: string; nodeCount: number; valueCount: number; keyCount: number }>(sql`
    with pairs as (
      select label.key, label.value, count(*) as node_count from ${WITH_LABELS} where ${nodeCondition(filter) ?? sql`true`} group by 1, 2
    )
    select key, sum(node_count)::int as "nodeCount", count(*)::int as "valueCount", (count(*) over ())::int as "keyCount"
    from pairs group by key order by sum(node_count) desc, key collate "C" limit ${first}`);
  const found = [...rows];
  return {
    keys: found.map(({ key, nodeCount, valueCount }) => ({ key, nodeCount, valueCount })),
    keyCount: found[0]?.keyCount ?? 0,
  };
}

export interface LabelValueUse {
  readonly value: string;
  readonly nodeCount: number;
}

/** Values of each of several labels of matching nodes, those of most nodes first, up to `first` of each label. */
export async function labelValuesInUse(
  reader: Reader,
  keys: readonly string[],
  { filter, first }: Omit<NodeGroupsRequest, "by">,
): Promise<Map<string, readonly LabelValueUse[]>> {
  const rows = await reader.execute<{ key: string; value: string; nodeCount: number }>(sql`
    select key, value, node_count as "nodeCount" from (
      select label.key, label.value, count(*)::int as node_count,
        row_number() over (partition by label.key order by count(*) desc, label.value collate "C") as place
      from ${WITH_LABELS}
      where label.key = any(${textArray(keys)}::text[]) and ${nodeCondition(filter) ?? sql`true`}
      group by 1, 2
    ) ranked where place <= ${first} order by key collate "C", place`);
  return Map.groupBy(rows, ({ key }) => key);
}
