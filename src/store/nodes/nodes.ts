/** Nodes, their secrets and inventories. `state` changes only in `changeClaimedNodes`. */
import { and, asc, desc, eq, gt, or, sql } from "drizzle-orm";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { bulkInsert, bulkUpdate } from "../postgres/bulk.ts";
import { listOf, listsBelow, ordered, rowsBelow } from "../postgres/pagination.ts";
import type { Page, PageClauses, PageRequest } from "../postgres/pagination.ts";
import { deleteBy, insertInto, lockRowsBy, revised, rowVersions, rowsBy, updateBy } from "../postgres/table-queries.ts";
import type { RowChange, RowsUpdate, RowVersion } from "../postgres/table-queries.ts";
import { nodeCondition } from "./node-filter.ts";
import type { NodeFilter } from "./node-filter.ts";
import type { NodeRow } from "./node-fields.ts";
import type { StoredJson } from "../records.ts";
import { nameKey, rowsByNames } from "../names.ts";
import { inventories, keyOfName, nodeSecrets, nodes } from "../tables.ts";

export type { NodeRow };
export type InventoryRow = typeof inventories.$inferSelect;
export type Secrets = Readonly<Record<string, Readonly<Record<string, string>>>>;

export const nodesByIds = rowsBy(nodes, nodes.id);

const NAME_KEY = keyOfName(nodes.name);

export const nodesByNames = rowsByNames(nodes, nodes.name);

/** The part of nodes that a forecast needs. */
export async function nodeStatesByIds(
  reader: Reader,
  ids: readonly string[],
): Promise<Pick<NodeRow, "id" | "state" | "model" | "controller">[]> {
  if (ids.length === 0) return [];
  return reader
    .select({ id: nodes.id, state: nodes.state, model: nodes.model, controller: nodes.controller })
    .from(nodes)
    .where(inArrayParam(nodes.id, ids));
}

/** ID and name of all matching nodes, by name. */
export async function nodeKeys(reader: Reader, filter: NodeFilter): Promise<{ id: string; name: string }[]> {
  return reader
    .select({ id: nodes.id, name: nodes.name })
    .from(nodes)
    .where(nodeCondition(filter))
    .orderBy(asc(NAME_KEY));
}

/** Locks nodes in the order of their IDs. */
export const lockNodes = lockRowsBy(nodes, nodes.id);

/**
 * Locks nodes by their names or ids, in the order of their IDs, and skips those that another transaction has locked or
 * that do not exist.
 */
export async function lockFreeNodes(
  tx: Tx,
  { names, ids }: { readonly names: readonly string[]; readonly ids: readonly string[] },
): Promise<NodeRow[]> {
  const which = or(
    names.length === 0 ? undefined : inArrayParam(NAME_KEY, names.map(nameKey)),
    ids.length === 0 ? undefined : inArrayParam(nodes.id, ids),
  );
  if (!which) return [];
  return tx.select().from(nodes).where(which).orderBy(asc(nodes.id)).for("no key update", { skipLocked: true });
}

/** Orders of nodes: the key in SQL and of a row, and whether it is a time. */
export const NODE_ORDERS = {
  NAME: { sql: NAME_KEY, key: ({ name }: NodeRow) => nameKey(name), kind: "text" },
  NATURAL_NAME: {
    sql: sql`natural_key(${NAME_KEY})`,
    key: ({ name }: NodeRow) => naturalKey(nameKey(name)),
    kind: "text",
  },
  STATE: { sql: nodes.state, key: ({ state }: NodeRow) => state, kind: "text" },
  // Nodes without a cluster come last, because `n` follows all hexadecimal digits.
  CLUSTER: {
    sql: sql`coalesce(${nodes.clusterId}::text, 'none')`,
    key: ({ clusterId }: NodeRow) => clusterId ?? "none",
    kind: "text",
  },
  CREATED_AT: { sql: nodes.createdAt, key: ({ createdAt }: NodeRow) => createdAt, kind: "instant" },
  UPDATED_AT: { sql: nodes.updatedAt, key: ({ updatedAt }: NodeRow) => updatedAt, kind: "instant" },
} as const;

const DIGITS = 20;

/** The function `natural_key` of the database: numbers in a name have the same length, so that n2 precedes n10. */
export function naturalKey(name: string): string {
  return name.replaceAll(/[0-9]+/g, (number) => number.slice(-DIGITS).padStart(DIGITS, "0"));
}

export type NodeOrder = { readonly by: keyof typeof NODE_ORDERS; readonly descending: boolean };

export function nodeClauses(request: PageRequest, { by, descending }: NodeOrder): PageClauses {
  return ordered({ column: NODE_ORDERS[by].sql, id: nodes.id, descending })(request);
}

export interface NodeListRequest {
  readonly filter: NodeFilter | undefined;
  readonly order: NodeOrder;
  readonly request: PageRequest;
}

const clausesOf = ({ request, order }: Pick<NodeListRequest, "order" | "request">) => nodeClauses(request, order);

const { page, count } = listOf(nodes, nodeCondition, clausesOf);

export const countNodes = count;

export async function nodesPage(
  reader: Reader,
  filter: NodeFilter | undefined,
  order: NodeOrder,
  request: PageRequest,
): Promise<Page<NodeRow>> {
  return page(reader, filter, { order, request });
}

/** The same page of the nodes of each cluster, and the number of matching nodes in each. */
export const { pages: nodesPages, counts: nodeCounts } = listsBelow(
  nodes,
  (cluster, { filter }: Pick<NodeListRequest, "filter">) =>
    and(sql`${nodes.clusterId} = ${cluster}`, nodeCondition(filter)),
  clausesOf,
);

/** The visible version of each matching node after a name, by name, for readers of the whole fleet. */
export async function nodeVersionsAfterName(
  reader: Reader,
  filter: NodeFilter | undefined,
  name: string | null,
  limit: number,
): Promise<RowVersion[]> {
  const later = name === null ? undefined : gt(NAME_KEY, nameKey(name));
  return rowVersions(reader, nodes, and(nodeCondition(filter), later), { orderBy: [NAME_KEY], limit });
}

export const insertNodes = insertInto(nodes);

export const deleteNode = deleteBy(nodes, nodes.id);

type NodeChange = RowChange<typeof nodes, "id" | "state" | "transitionCount" | "revision">;

/** Sets the same fields of nodes, other than the state, and raises their revisions. */
export const changeNodeRows: RowsUpdate<NodeChange> = updateBy(nodes, nodes.id, revised(nodes));

/** Puts nodes into maintenance, by the database's clock. A node that is in maintenance keeps the time of its start. */
export async function beginMaintenance(
  tx: Tx,
  ids: readonly string[],
  { reason, by }: { readonly reason: string; readonly by: string },
): Promise<void> {
  const maintenanceSince = sql`coalesce(${nodes.maintenanceSince}, now())`;
  await changeNodeRows(tx, ids, { maintenanceReason: reason, maintenanceBy: by, maintenanceSince });
}

/** Changes the presence of nodes, by the database's clock. */
export async function changePresence(tx: Tx, ids: readonly string[], presence: NodeRow["presence"]): Promise<void> {
  await changeNodeRows(tx, ids, { presence, disappearedAt: presence === "DISAPPEARED" ? sql`now()` : null });
}

/** Ends the maintenance of nodes. Its time does not count for how long one of them has disappeared. */
export async function endMaintenance(tx: Tx, ids: readonly string[]): Promise<void> {
  const { disappearedAt: from, maintenanceSince } = nodes;
  const disappearedAt = sql`case when ${maintenanceSince} is null then ${from} else ${from} + (now() - greatest(${maintenanceSince}, ${from})) end`;
  await changeNodeRows(tx, ids, {
    maintenanceReason: null,
    maintenanceSince: null,
    maintenanceBy: null,
    disappearedAt,
  });
}

/** A node after a change of state, with the fields of its transition. */
export type MovedNode = Pick<NodeRow, "id" | "name" | "project" | "transitionCount" | "revision">;

const CHANGEABLE_FIELDS = [
  "state",
  "stage",
  "lastError",
  "hostGroup",
  "model",
  "macs",
  "imageId",
  "outputs",
  "powerState",
  "powerReadAt",
  "wantedPower",
  "powerProblem",
  "failedReadings",
  "faultKind",
  "faultSince",
  "faultMessage",
] as const;

/** A change by the worker that claimed the node's run; `state` only along an edge. */
export type ClaimedNodeChange = { readonly [Field in (typeof CHANGEABLE_FIELDS)[number]]?: NodeRow[Field] };

/**
 * Changes nodes, each in its own way, and counts a transition if the state changes. Only `engine/transaction.ts` calls
 * it. Returns the nodes that were in the given state. All are locked in the order of their IDs before the first is
 * changed.
 */
export const changeClaimedNodes = bulkUpdate<typeof nodes, "id" | "state", keyof ClaimedNodeChange, MovedNode>(nodes, {
  key: ["id", "state"],
  fields: CHANGEABLE_FIELDS,
  also: [
    "transition_count = nodes.transition_count + case when given.change ? 'state' then 1 else 0 end",
    "revision = nodes.revision + 1",
    "updated_at = now()",
  ],
  with: "locked as materialized (select id from nodes where id = any($2::uuid[]) order by id for no key update)",
  from: "locked",
  where: "locked.id = nodes.id",
  returning: `nodes.id, nodes.name, nodes.project, nodes.transition_count as "transitionCount", nodes.revision`,
});

const storedSecrets = rowsBy(nodeSecrets, nodeSecrets.nodeId);

/** Names of the secret fields that are set, by node and driver. Values are not returned. */
export async function secretFieldsOf(
  reader: Reader,
  nodeIds: readonly string[],
): Promise<Map<string, Record<string, string[]>>> {
  const found = await storedSecrets(reader, nodeIds);
  const namesOf = (secrets: Secrets) =>
    Object.fromEntries(Object.entries(secrets).map(([driver, fields]) => [driver, Object.keys(fields)]));
  return new Map(found.map(({ nodeId, secrets }) => [nodeId, namesOf(secrets)]));
}

export const insertInventories = bulkInsert(inventories, ["id", "nodeId", "runId", "driver", "data"]);

/** Newest inventories of a node among which each driver's is looked for. */
const INVENTORIES_COMPARED = 20;

/** Inventories of each node, newest first. */
export const { pages: inventoriesPages, counts: inventoryCounts } = listsBelow(
  inventories,
  inventories.nodeId,
  ordered({ column: inventories.takenAt, id: inventories.id, descending: true }),
);

export const inventoriesByIds = rowsBy(inventories, inventories.id);

interface InspectedDisksRow {
  /** The driver that inspected; null if it is not known. */
  readonly driver: string | null;
  readonly takenAt: Date;
  readonly disks: StoredJson;
}

/** The disks of a node in the newest inventory of each driver that reports all disks, newest first. */
export async function inspectedDisks(reader: Reader, nodeId: string): Promise<InspectedDisksRow[]> {
  const rows = await reader.execute<{ driver: string | null; taken_at: string; disks: StoredJson }>(sql`
    select * from (
      select distinct on (driver) driver, taken_at, disks from (
        select i.taken_at, i.data->'disks' as disks, i.driver
        from ${inventories} i where i.node_id = ${nodeId} and jsonb_typeof(i.data->'disks') = 'array'
          and not coalesce(i.data->'incomplete' ? 'disks', false)
        order by i.taken_at desc limit ${INVENTORIES_COMPARED}
      ) newest order by driver, taken_at desc
    ) of_drivers order by taken_at desc`);
  return rows.map(({ driver, taken_at, disks }) => ({ driver, takenAt: new Date(taken_at), disks }));
}

/** The newest inventory of each node that has one. `driver`: among those of one driver. */
export async function newestInventories(
  reader: Reader,
  nodeIds: readonly string[],
  driver?: string,
): Promise<Map<string, InventoryRow>> {
  const newest = await rowsBelow(reader, inventories, nodeIds, {
    where: (parent) =>
      and(eq(inventories.nodeId, parent), driver === undefined ? undefined : eq(inventories.driver, driver)),
    orderBy: [desc(inventories.takenAt), asc(inventories.id)],
    limit: 1,
  });
  return new Map([...newest.values()].flat().map((row) => [row.nodeId, row]));
}
