/**
 * Picking nodes: a request says how many free nodes it needs, and the service chooses and locks them, so that of two
 * requests at the same moment none gets a node of the other.
 */
import { setTimeout as delay } from "node:timers/promises";
import { invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { countPickableNodes, lockPickableNodes, pickableNodes } from "../../store/nodes/pickable-nodes.ts";
import type { NodeFilter } from "../../store/nodes/node-filter.ts";
import type { Reader, Tx } from "../../store/postgres/database.ts";
import { busyNodes } from "../../store/runs/runs.ts";
import { idsOf, nodeIdsOf } from "./ids.ts";
import { nodesText } from "./name-rules.ts";

export interface NodePick {
  readonly count: number;
  readonly filter?: NodeFilter | undefined;
  /** As in `FilterSelector`. */
  readonly emptyMembers?: readonly (readonly string[])[];
}

type NodeKey = { readonly id: string; readonly name: string };

const PICK_MAX = 1_000;

/** Other requests lock nodes for milliseconds; then they have either taken them or left them. */
const TRIES = 20;
const PAUSE_MS = 25;

/** The picked nodes, by name, or the refusal because there are too few. `lockIn`: absent for a plan. */
export async function pickNodes(
  reader: Reader,
  { count, filter }: NodePick,
  { path, lockIn }: { readonly path: readonly string[]; readonly lockIn: Tx | undefined },
): Promise<readonly NodeKey[] | Refusal> {
  if (count < 1 || count > PICK_MAX) return invalidInput(`Invalid count: use 1–${PICK_MAX} nodes.`, [...path, "count"]);
  const picked = lockIn ? await lockPick(lockIn, { count, filter }) : await pickableNodes(reader, filter, count);
  if (picked.length === count) return picked;
  const available = await countPickableNodes(reader, filter);
  const found =
    available < count
      ? `only ${available} that match ${available === 1 ? "is" : "are"} free`
      : `other requests are taking ${available - picked.length} of the ${available} free ones right now`;
  return {
    code: "CAPACITY",
    message: `The request needs ${nodesText(count)}, and ${found}. A free node is AVAILABLE and not in work, in maintenance, retired, protected, disappeared or with a fault; and not in a cluster, unless the filter has a condition on clusters. Ask for fewer, or try again later.`,
    path: [...path, "count"],
    available,
  };
}

async function lockPick(tx: Tx, { count, filter }: NodePick): Promise<readonly NodeKey[]> {
  const picked: NodeKey[] = [];
  const taken = new Set<string>();
  for (let tries = 1; ;) {
    const except = [...idsOf(picked), ...taken];
    const found = await lockPickableNodes(tx, filter, { limit: count - picked.length, except });
    // Runs that were stored after the statement had begun.
    const ids = idsOf(found);
    const busy = new Set(nodeIdsOf(await busyNodes(tx, ids)));
    for (const node of found) {
      if (busy.has(node.id)) taken.add(node.id);
      else picked.push(node);
    }
    if (picked.length === count) return picked.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    if (found.length > 0) continue;
    if (tries >= TRIES || (await countPickableNodes(tx, filter)) < count) return picked;
    tries += 1;
    await delay(PAUSE_MS);
  }
}
