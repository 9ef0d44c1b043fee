/** Discoveries: the addresses of an operation, their results, and known nodes at an address. */
import { and, asc, count, eq, inArray, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { RunState } from "../../lifecycle/operation-states.ts";
import { inArrayParam } from "../postgres/array-parameter.ts";
import { countsByState } from "./operation-runs.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { listsBelow, numbered } from "../postgres/pagination.ts";
import { insertInto, rowsBy } from "../postgres/table-queries.ts";
import type { Failure, JsonObject } from "../records.ts";
import { discoveries, keyOfName, nodes, operations } from "../tables.ts";

export type DiscoveryRow = typeof discoveries.$inferSelect;
export type DiscoveryState = DiscoveryRow["state"];

export const DISCOVERY_STATES = {
  QUEUED: "Not probed yet, or being probed.",
  REGISTERED: "A machine answered and was registered as a node.",
  KNOWN: "A machine answered that is already registered as a node.",
  FAILED: "No machine answered, it rejected the credentials, or it could not be registered.",
  SKIPPED: "Not probed, because the discovery ended before.",
} as const satisfies Record<DiscoveryState, string>;

export type Found =
  | { readonly state: "REGISTERED" | "KNOWN"; readonly nodeId: string }
  | { readonly state: "FAILED"; readonly failure: Failure };

const insertRows = insertInto(discoveries);

export async function insertDiscoveries(tx: Tx, operationId: string, addresses: readonly string[]): Promise<void> {
  await insertRows(
    tx,
    addresses.map((address, ordinal) => ({ operationId, ordinal, address })),
  );
}

function isQueued(operationId: string): SQL | undefined {
  return and(eq(discoveries.operationId, operationId), eq(discoveries.state, "QUEUED"));
}

/** Addresses without a result, in the order of the request. The limit of a request bounds their number. */
export const queuedDiscoveries = rowsBy(discoveries, discoveries.operationId, {
  where: eq(discoveries.state, "QUEUED"),
  orderBy: [discoveries.ordinal],
});

/** Locks an address without a result; false if it has one. */
export async function lockQueuedDiscovery(tx: Tx, operationId: string, ordinal: number): Promise<boolean> {
  const rows = await tx
    .select({ ordinal: discoveries.ordinal })
    .from(discoveries)
    .where(and(isQueued(operationId), eq(discoveries.ordinal, ordinal)))
    .for("no key update");
  return rows.length > 0;
}

/** Adds a result for a further machine behind an address; the operation is locked. Returns its ordinal. */
export async function addDiscovery(tx: Tx, operationId: string, address: string): Promise<number> {
  const [operation] = await tx
    .update(operations)
    .set({ totalCount: sql`${operations.totalCount} + 1` })
    .where(eq(operations.id, operationId))
    .returning({ totalCount: operations.totalCount });
  const ordinal = (operation?.totalCount ?? 1) - 1;
  await insertRows(tx, { operationId, ordinal, address });
  return ordinal;
}

export async function endDiscovery(tx: Tx, operationId: string, ordinal: number, found: Found): Promise<void> {
  await tx
    .update(discoveries)
    .set({ ...found, finishedAt: sql`now()` })
    .where(and(eq(discoveries.operationId, operationId), eq(discoveries.ordinal, ordinal)));
}

/** Marks all addresses without a result as skipped. */
export async function skipQueuedDiscoveries(tx: Tx, operationId: string): Promise<void> {
  await tx
    .update(discoveries)
    .set({ state: "SKIPPED", finishedAt: sql`now()` })
    .where(isQueued(operationId));
}

/** The first failure. */
export async function firstFailedDiscovery(reader: Reader, operationId: string): Promise<Failure | null> {
  const [row] = await reader
    .select({ failure: discoveries.failure })
    .from(discoveries)
    .where(and(eq(discoveries.operationId, operationId), eq(discoveries.state, "FAILED")))
    .orderBy(asc(discoveries.finishedAt), asc(discoveries.ordinal))
    .limit(1);
  return row?.failure ?? null;
}

/** Number of addresses of each discovery in each state. */
export async function discoveryCounts(
  reader: Reader,
  operationIds: readonly string[],
): Promise<Map<string, Partial<Record<DiscoveryState, number>>>> {
  return countsByState(await discoveryStates(reader, operationIds));
}

const AS_RUN = {
  QUEUED: "QUEUED",
  REGISTERED: "SUCCEEDED",
  KNOWN: "SUCCEEDED",
  FAILED: "FAILED",
  SKIPPED: "STOPPED",
} as const satisfies Record<DiscoveryState, RunState>;

/** The same as counts of runs, for the progress of an operation. */
export async function addressCounts(
  reader: Reader,
  operationIds: readonly string[],
): Promise<Map<string, Partial<Record<RunState, number>>>> {
  const rows = await discoveryStates(reader, operationIds);
  return countsByState(rows.map((row) => ({ ...row, state: AS_RUN[row.state] })));
}

async function discoveryStates(reader: Reader, operationIds: readonly string[]) {
  if (operationIds.length === 0) return [];
  return reader
    .select({ operationId: discoveries.operationId, state: discoveries.state, count: count() })
    .from(discoveries)
    .where(inArrayParam(discoveries.operationId, operationIds))
    .groupBy(discoveries.operationId, discoveries.state);
}

/** Pages of each discovery's addresses, in the order of the request, and their number. */
export const { pages: discoveriesPages, counts: discoveryCountsOf } = listsBelow(
  discoveries,
  (operation, { states }: { readonly states?: readonly DiscoveryState[] | undefined }) =>
    and(sql`${discoveries.operationId} = ${operation}`, states && inArrayParam(discoveries.state, states)),
  numbered(discoveries.ordinal),
);

/** Failed and skipped addresses by discovery, in the order of the request. */
export async function addressesMissed(
  reader: Reader,
  operationIds: readonly string[],
): Promise<Map<string, readonly string[]>> {
  if (operationIds.length === 0) return new Map();
  const rows = await reader
    .select({ operationId: discoveries.operationId, address: discoveries.address })
    .from(discoveries)
    .where(and(inArrayParam(discoveries.operationId, operationIds), inArray(discoveries.state, ["FAILED", "SKIPPED"])))
    .orderBy(asc(discoveries.operationId), asc(discoveries.ordinal));
  const missed = Map.groupBy(rows, ({ operationId }) => operationId);
  return new Map([...missed].map(([operationId, found]) => [operationId, found.map(({ address }) => address)]));
}

// ---- known nodes

/** The driver provides the power interface of the node, so it can discover it. */
const isGivenPowerBy = (driver: string) => sql`coalesce(${nodes.borrowed} ->> 'power', ${nodes.driver}) = ${driver}`;

/**
 * The node that this driver reaches with exactly these settings apart from secrets, for drivers that report no
 * controller.
 */
export async function nodeWithSettings(reader: Reader, driver: string, settings: JsonObject): Promise<string | null> {
  const [row] = await reader
    .select({ id: nodes.id })
    .from(nodes)
    .where(and(isGivenPowerBy(driver), sql`${nodes.settings} -> ${driver} = ${JSON.stringify(settings)}::text::jsonb`))
    .orderBy(asc(keyOfName(nodes.name)))
    .limit(1);
  return row?.id ?? null;
}
