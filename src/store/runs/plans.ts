/** Plans by their hash. Each is stored once for all its runs. */
import { hashOf } from "../../runtime/canonical-json.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { insertInto, rowsBy } from "../postgres/table-queries.ts";
import type { Plan } from "../records.ts";
import { plans } from "../tables.ts";

const insertPlans = insertInto(plans, { skipsExisting: true });
const readPlans = rowsBy(plans, plans.hash);

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
  await insertPlans(tx, rows);
  return wanted.map((plan) => known.get(plan) ?? "");
}

/** Plans are immutable, so callers may cache them. */
export async function plansByHashes(reader: Reader, hashes: readonly string[]): Promise<Map<string, Plan>> {
  return new Map((await readPlans(reader, hashes)).map(({ hash, plan }) => [hash, plan]));
}
