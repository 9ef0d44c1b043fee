/** Plans, each stored once however many runs have it: a plan's hash is its key. */
import { inArrayParam } from "./postgres/array-parameter.ts";
import { hashOf } from "../runtime/canonical-json.ts";
import type { Reader, Tx } from "./postgres/database.ts";
import type { Plan } from "./records.ts";
import { plans } from "./tables.ts";

const ROWS_A_STATEMENT = 500;

/** Stores plans that are not stored yet and answers the hash of each, in order. */
export async function storePlans(tx: Tx, wanted: readonly Plan[]): Promise<string[]> {
  const known = new Map<Plan, string>();
  for (const plan of wanted) if (!known.has(plan)) known.set(plan, hashOf(plan));
  const unique = new Map([...known].map(([plan, hash]) => [hash, plan]));
  const rows = [...unique].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([hash, plan]) => ({ hash, plan }));
  for (let from = 0; from < rows.length; from += ROWS_A_STATEMENT) {
    await tx
      .insert(plans)
      .values(rows.slice(from, from + ROWS_A_STATEMENT))
      .onConflictDoNothing();
  }
  return wanted.map((plan) => known.get(plan) ?? "");
}

/** Plans never change, so whoever reads them may keep them. */
export async function plansByHashes(reader: Reader, hashes: readonly string[]): Promise<Map<string, Plan>> {
  if (hashes.length === 0) return new Map();
  const rows = await reader.select().from(plans).where(inArrayParam(plans.hash, hashes));
  return new Map(rows.map(({ hash, plan }) => [hash, plan]));
}
