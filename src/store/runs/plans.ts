/** Plans by their hash. Each is stored once for all its runs. */
import { inArrayParam } from "../postgres/array-parameter.ts";
import { hashOf } from "../../runtime/canonical-json.ts";
import { slicesOf } from "../postgres/bulk.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import type { Plan } from "../records.ts";
import { plans } from "../tables.ts";

const PLANS_A_STATEMENT = 500;

/** Stores new plans and returns the hashes of all, in order. `isStored`: whether a plan is known to be stored. */
export async function storePlans(
  tx: Tx,
  wanted: readonly Plan[],
  isStored: (hash: string) => boolean = () => false,
): Promise<string[]> {
  const known = new Map<Plan, string>();
  for (const plan of wanted) if (!known.has(plan)) known.set(plan, hashOf(plan));
  const unique = new Map([...known].map(([plan, hash]) => [hash, plan]));
  const rows = [...unique]
    .filter(([hash]) => !isStored(hash))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([hash, plan]) => ({ hash, plan }));
  for (const slice of slicesOf(rows, PLANS_A_STATEMENT)) await tx.insert(plans).values(slice).onConflictDoNothing();
  return wanted.map((plan) => known.get(plan) ?? "");
}

/** Plans are immutable, so callers may cache them. */
export async function plansByHashes(reader: Reader, hashes: readonly string[]): Promise<Map<string, Plan>> {
  if (hashes.length === 0) return new Map();
  const rows = await reader.select().from(plans).where(inArrayParam(plans.hash, hashes));
  return new Map(rows.map(({ hash, plan }) => [hash, plan]));
}
