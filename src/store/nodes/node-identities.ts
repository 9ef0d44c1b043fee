/**
 * The identities of the machines of nodes, and the conflicts that follow: two nodes with an equal value. A conflict is
 * stored with both nodes, so that reads and verbs need no look at other nodes. `refreshConflicts` alone writes it.
 *
 * A transaction that writes identities locks their values first (`lockValues`), or all of them (`lockAllIdentities`) if
 * it locks nodes before it knows the values. So of two transactions with an equal value the second sees the first.
 */
import { and, eq, inArray, isNull, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { IDENTITY_KINDS } from "../../lifecycle/identity.ts";
import type { IdentityKind } from "../../lifecycle/identity.ts";
import { inArrayParam, textArray } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { insertInto } from "../postgres/table-queries.ts";
import { macOwners } from "./node-macs.ts";
import { lockNodes } from "./nodes.ts";
import { nodeIdentities, nodeMacs, nodes } from "../tables.ts";

/** A value that identifies a machine. `system`: of a controller, the system behind it. */
export interface Identity {
  readonly kind: IdentityKind;
  /** In the form in which equal values are compared. */
  readonly value: string;
  readonly system: string;
  /** As it was found. */
  readonly text: string;
  /** For a controller: other nodes may have it. */
  readonly isShared?: boolean | undefined;
}

type Key = Pick<Identity, "kind" | "value">;

/**
 * Any numbers that other advisory locks with two keys do not use. Controllers have their own, so that a registration of
 * many nodes does not hold up inspections.
 */
const CLASSES = { CONTROLLERS: sql.raw("1768191348"), FOUND: sql.raw("1768191349") } as const;
const BUCKETS = sql.raw("4096");
/** Each bucket is a lock in the memory of the server, which has thousands for all sessions. */
const KEYS_MAX = 200;

/** Locks the values against other writers until the transaction ends. */
export async function lockValues(tx: Tx, keys: readonly Key[]): Promise<void> {
  for (const [locks, own] of byClass(keys)) {
    if (own.length > KEYS_MAX) {
      await lockClass(tx, locks);
      continue;
    }
    await tx.execute(sql`select pg_advisory_xact_lock_shared(${locks}, 0)`);
    await tx.execute(sql`select pg_advisory_xact_lock(${locks}, bucket) from (${bucketsOf(own)}) buckets`);
  }
}

/** The same without waiting. Returns false if another transaction has one of the locks. */
export async function tryLockValues(tx: Tx, keys: readonly Key[]): Promise<boolean> {
  for (const [locks, own] of byClass(keys)) {
    const [row] = await tx.execute<{ locked: boolean }>(
      sql`select pg_try_advisory_xact_lock_shared(${locks}, 0) and (select bool_and(pg_try_advisory_xact_lock(${locks}, bucket)) from (${bucketsOf(own)}) buckets) as locked`,
    );
    if (row?.locked !== true) return false;
  }
  return true;
}

/** In one order, like the buckets, so that two transactions do not wait for each other. Without empty classes. */
function byClass(keys: readonly Key[]): (readonly [SQL, readonly Key[]])[] {
  const classOf = ({ kind }: Key) => (kind === "CONTROLLER" ? CLASSES.CONTROLLERS : CLASSES.FOUND);
  const all = Object.values(CLASSES).map((locks) => [locks, keys.filter((key) => classOf(key) === locks)] as const);
  return all.filter(([, own]) => own.length > 0);
}

function bucketsOf(keys: readonly Key[]): SQL {
  const texts = textArray(keys.map(({ kind, value }) => `${kind} ${value}`));
  return sql`select distinct 1 + (hashtext(key) & (${BUCKETS} - 1)) as bucket from unnest(${texts}::text[]) key order by bucket`;
}

/** Locks all values. A transaction takes this lock before it locks nodes. */
export async function lockAllIdentities(tx: Tx): Promise<void> {
  for (const locks of Object.values(CLASSES)) await lockClass(tx, locks);
}

async function lockClass(tx: Tx, locks: SQL): Promise<void> {
  await tx.execute(sql`select pg_advisory_xact_lock(${locks}, 0)`);
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

export const insertIdentities = insertInto(nodeIdentities, { skipsExisting: true });

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
interface Holder extends Key {
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
  const owners = await macOwners(reader, macs);
  return owners.some((owner) => owner.nodeId !== nodeId) || (await holdersOf(reader, keys, [nodeId])).length > 0;
}

/** All values of nodes that no other node may have. */
const VALUES = sql`(select node_id, kind, value, system, text from ${nodeIdentities} where not is_shared union all select node_id, 'MAC'::text, mac, ''::text, mac from ${nodeMacs})`;
const KINDS = sql.raw(`'{${Object.keys(IDENTITY_KINDS).join()}}'::text[]`);

/** Other nodes with one value that are looked at. More of them have been marked before. */
const OTHERS_MAX = sql.raw("100");

/** The values of nodes that others have too, if they mean that both are one machine. */
function pairs(nodeIds: SQL, shared: readonly string[]): SQL {
  const without = textArray(shared);
  return sql`(
      select mine.node_id, mine.kind, mine.value, mine.system, mine.text, theirs.node_id as other_id, theirs.system as other_system
      from ${nodeIds} given(id) join ${VALUES} mine on mine.node_id = given.id cross join lateral (
        select node_id, system from ${VALUES} other where other.kind = mine.kind and other.value = mine.value and other.node_id <> mine.node_id limit ${OTHERS_MAX}
      ) theirs where mine.kind = 'CONTROLLER' or mine.value <> all(${without}::text[])
    ) pair where kind <> 'CONTROLLER' or system = other_system or '' in (system, other_system)`;
}

/**
 * Finds the conflicts of nodes again, after a change of what identifies them, and those of the nodes that they concern.
 * `shared`: values that identify no machine at this site.
 */
export async function refreshConflicts(tx: Tx, nodeIds: readonly string[], shared: readonly string[]): Promise<void> {
  if (nodeIds.length === 0) return;
  const given = sql`unnest(${textArray(nodeIds)}::uuid[])`;
  const found = await tx.execute<{ id: string; other: string | null }>(sql`
    select node_id as id, other_id as other from ${pairs(given, shared)}
    union all select id, null from ${given} given(id) join ${nodes} using (id) where identity_conflict is not null
    union all select ${nodes.id}, null from ${given} given(id) join ${nodes} on identity_conflict ->> 'nodeId' = given.id::text and identity_conflict is not null`);
  const otherIds = found.flatMap(({ other }) => other ?? []);
  const others = await tx
    .select({ id: nodes.id })
    .from(nodes)
    .where(and(inArrayParam(nodes.id, otherIds), isNull(nodes.identityConflict)));
  const concernedIds = [...new Set([...found, ...others].map(({ id }) => id))];
  if (concernedIds.length === 0) return;
  await lockNodes(tx, concernedIds);
  await tx.execute(sql`
    update ${nodes} set identity_conflict = found.conflict || jsonb_build_object('since', now()), revision = revision + 1, updated_at = now()
    from (
      select node.id, (
        select jsonb_build_object('kind', found.kind, 'value', found.text, 'nodeId', other.id, 'nodeName', other.name)
        from (select kind, text, other_id from ${pairs(sql`(select node.id)`, shared)}) found join nodes other on other.id = found.other_id
        order by array_position(${KINDS}, found.kind), other.name limit 1
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
