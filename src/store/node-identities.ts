/**
 * What identifies the machines of nodes, and the conflicts that follow: two nodes with an equal value. A conflict is
 * stored with both nodes, so that reads and verbs need no look at other nodes. `refreshConflicts` alone writes it.
 *
 * A transaction that writes identities locks their values first (`lockValues`), or all of them (`lockAllIdentities`) if
 * it locks nodes before it knows the values. So of two transactions with an equal value the second sees the first.
 */
import { and, eq, inArray, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { IDENTITY_KINDS } from "../lifecycle/identity.ts";
import type { IdentityKind } from "../lifecycle/identity.ts";
import { inArrayParam, textArray } from "./postgres/array-parameter.ts";
import type { Reader, Tx } from "./postgres/database.ts";
import { lockNodes } from "./nodes.ts";
import { nodeIdentities, nodeMacs, nodes } from "./tables.ts";

/** A value that identifies a machine. `system`: of a controller, the system behind it. */
export interface Identity {
  readonly kind: IdentityKind;
  /** In the form in which equal values are compared. */
  readonly value: string;
  readonly system: string;
  /** As it was found. */
  readonly text: string;
}

type Key = Pick<Identity, "kind" | "value">;

/** Any number that other advisory locks with two keys do not use. */
const LOCKS = sql.raw("1768191348");
const BUCKETS = sql.raw("4096");
/** Each bucket is a lock in the memory of the server, which has thousands for all sessions. */
const KEYS_MAX = 200;

/** Locks the values against other writers until the transaction ends. */
export async function lockValues(tx: Tx, keys: readonly Key[]): Promise<void> {
  if (keys.length === 0) return;
  if (keys.length > KEYS_MAX) return lockAllIdentities(tx);
  await tx.execute(sql`select pg_advisory_xact_lock_shared(${LOCKS}, 0)`);
  await tx.execute(sql`select pg_advisory_xact_lock(${LOCKS}, bucket) from (${bucketsOf(keys)}) buckets`);
}

/** The same without waiting. Returns false if another transaction has one of the locks. */
export async function tryLockValues(tx: Tx, keys: readonly Key[]): Promise<boolean> {
  const [row] = await tx.execute<{ locked: boolean }>(
    sql`select pg_try_advisory_xact_lock_shared(${LOCKS}, 0) and coalesce((select bool_and(pg_try_advisory_xact_lock(${LOCKS}, bucket)) from (${bucketsOf(keys)}) buckets), true) as locked`,
  );
  return row?.locked === true;
}

/** In one order, so that two transactions do not wait for each other. */
function bucketsOf(keys: readonly Key[]): SQL {
  const texts = textArray(keys.map(({ kind, value }) => `${kind} ${value}`));
  return sql`select distinct 1 + (hashtext(key) & (${BUCKETS} - 1)) as bucket from unnest(${texts}::text[]) key order by bucket`;
}

/** Locks all values. A transaction takes this lock before it locks nodes. */
export async function lockAllIdentities(tx: Tx): Promise<void> {
  await tx.execute(sql`select pg_advisory_xact_lock(${LOCKS}, 0)`);
}

/** The stored identities of nodes of these kinds, by node. */
export async function identitiesOf(
  reader: Reader,
  nodeIds: readonly string[],
  kinds: readonly IdentityKind[],
): Promise<Map<string, Identity[]>> {
  if (nodeIds.length === 0) return new Map();
  const rows = await reader
    .select()
    .from(nodeIdentities)
    .where(and(inArrayParam(nodeIdentities.nodeId, nodeIds), inArray(nodeIdentities.kind, [...kinds])));
  return Map.groupBy(rows, ({ nodeId }) => nodeId);
}

const ROWS_A_STATEMENT = 1000;

export async function insertIdentities(
  tx: Tx,
  rows: readonly (Identity & { readonly nodeId: string })[],
): Promise<void> {
  for (let from = 0; from < rows.length; from += ROWS_A_STATEMENT) {
    const page = rows.slice(from, from + ROWS_A_STATEMENT);
    await tx
      .insert(nodeIdentities)
      .values(page.map(({ nodeId, kind, value, system, text }) => ({ nodeId, kind, value, system, text })))
      .onConflictDoNothing();
  }
}

/** Replaces those of these kinds. */
export async function replaceIdentities(
  tx: Tx,
  nodeId: string,
  kinds: readonly IdentityKind[],
  identities: readonly Identity[],
): Promise<void> {
  await tx
    .delete(nodeIdentities)
    .where(and(eq(nodeIdentities.nodeId, nodeId), inArray(nodeIdentities.kind, [...kinds])));
  await insertIdentities(
    tx,
    identities.map((identity) => ({ ...identity, nodeId })),
  );
}

/** A node that has a value. */
export interface Holder extends Key {
  readonly system: string;
  readonly nodeId: string;
  readonly nodeName: string;
}

/** The nodes with one of the values, one for each value and system. `without`: nodes that do not count. */
export async function holdersOf(
  reader: Reader,
  keys: readonly Key[],
  without: readonly string[] = [],
): Promise<Holder[]> {
  if (keys.length === 0) return [];
  const [kinds, values] = [keys.map(({ kind }) => kind), keys.map(({ value }) => value)].map(textArray);
  return reader.execute<{ [Name in keyof Holder]: Holder[Name] }>(sql`
    select distinct on (kind, value, system) kind, value, system, ${nodes.id} as "nodeId", ${nodes.name} as "nodeName"
    from unnest(${kinds}::text[], ${values}::text[]) key(kind, value)
    join ${nodeIdentities} using (kind, value) join ${nodes} on ${nodes.id} = node_id
    where ${nodes.id} <> all(${textArray(without)}::uuid[])
    order by kind, value, system, ${nodes.name}`);
}

/** Whether another node has one of the values. */
export async function isHeldElsewhere(reader: Reader, nodeId: string, keys: readonly Key[]): Promise<boolean> {
  const macs = keys.flatMap(({ kind, value }) => (kind === "MAC" ? [value] : []));
  const [owner] = await reader
    .select({ nodeId: nodeMacs.nodeId })
    .from(nodeMacs)
    .where(and(inArrayParam(nodeMacs.mac, macs), sql`${nodeMacs.nodeId} <> ${nodeId}`))
    .limit(1);
  return owner !== undefined || (await holdersOf(reader, keys, [nodeId])).length > 0;
}

/** All values of nodes. */
const VALUES = sql`(select node_id, kind, value, system, text from ${nodeIdentities} union all select node_id, 'MAC'::text, mac, ''::text, mac from ${nodeMacs})`;
const KINDS = sql.raw(`array[${Object.keys(IDENTITY_KINDS).map((kind) => `'${kind}'`)}]`);

/**
 * The values `mine` of nodes and the equal ones `theirs` of others, if they mean that both are one machine. A locally
 * administered MAC means nothing between machines with different serial numbers or UUIDs.
 */
function pairs(where: SQL, shared: readonly string[]): SQL {
  const isShared = (value: SQL) => sql`${value} = any(${textArray(shared)}::text[])`;
  return sql`${VALUES} mine join nodes own on own.id = mine.node_id
    join ${VALUES} theirs on theirs.kind = mine.kind and theirs.value = mine.value and theirs.node_id <> mine.node_id
    join nodes other on other.id = theirs.node_id
    where ${where} and not (mine.kind = 'CONTROLLER' and coalesce(own.shared_controller, false)) and case mine.kind
      when 'CONTROLLER' then not coalesce(other.shared_controller, false) and (mine.system = theirs.system or '' in (mine.system, theirs.system))
      when 'MAC' then not ${isShared(sql`mine.value`)} and (mine.value !~ '^.[26ae]' or not exists (
        select from node_identities one join node_identities two on two.kind = one.kind and two.value <> one.value
        where one.node_id = mine.node_id and two.node_id = theirs.node_id and one.kind in ('UUID', 'SERIAL_NUMBER')
          and not ${isShared(sql`one.value`)} and not ${isShared(sql`two.value`)}))
      else not ${isShared(sql`mine.value`)} end`;
}

/**
 * Finds the conflicts of nodes again, after a change of what identifies them, and those of the nodes that they concern.
 * `shared`: values that identify no machine at this site.
 */
export async function refreshConflicts(tx: Tx, nodeIds: readonly string[], shared: readonly string[]): Promise<void> {
  if (nodeIds.length === 0) return;
  const ids = textArray(nodeIds);
  const concerned = await tx.execute<{ id: string }>(sql`
    with found as materialized (select mine.node_id, theirs.node_id as other_id, other.identity_conflict is null as is_new from ${pairs(sql`mine.node_id = any(${ids}::uuid[])`, shared)})
    select id from ${nodes} where id = any(${ids}::uuid[]) and identity_conflict is not null
    union select id from ${nodes} where identity_conflict is not null and identity_conflict ->> 'nodeId' = any(${ids}::text[])
    union select node_id from found union select other_id from found where is_new`);
  if (concerned.length === 0) return;
  const concernedIds = concerned.map(({ id }) => id);
  await lockNodes(tx, concernedIds);
  await tx.execute(sql`
    update ${nodes} set identity_conflict = found.conflict || jsonb_build_object('since', now()), revision = revision + 1, updated_at = now()
    from (
      select node.id, (
        select jsonb_build_object('kind', mine.kind, 'value', mine.text, 'nodeId', theirs.node_id, 'nodeName', other.name)
        from ${pairs(sql`mine.node_id = node.id`, shared)}
        order by array_position(${KINDS}, mine.kind), other.name limit 1
      ) as conflict from unnest(${textArray(concernedIds)}::uuid[]) node(id)
    ) found
    where ${nodes.id} = found.id and identity_conflict - 'since' is distinct from found.conflict`);
}

/** The nodes in a conflict, and those with one of the values. */
export async function nodesConcernedBy(reader: Reader, values: readonly string[]): Promise<string[]> {
  const rows = await reader.execute<{ id: string }>(sql`
    select id from ${nodes} where identity_conflict is not null
    union select node_id from ${nodeIdentities} where value = any(${textArray(values)}::text[])`);
  return rows.map(({ id }) => id);
}
