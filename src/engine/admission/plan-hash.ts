/** The plan hash: the same as long as the verb, the nodes, their states, plans and targets are. */
import { createHash } from "node:crypto";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import { createYielding } from "../../runtime/yielding.ts";
import { hashOf } from "../../runtime/canonical-json.ts";
import type { Plan } from "../../store/records.ts";
import type { AdmittedNode } from "./plan-nodes.ts";

export async function planHashOf(kind: OperationKind, admitted: readonly AdmittedNode[]): Promise<string> {
  // Nodes with the same drivers share one plan object, which is hashed once.
  const hashes = new Map<Plan, string>();
  const hash = createHash("sha256").update(JSON.stringify(kind));
  const yieldWhenDue = createYielding();
  for (const { node, plan, target } of admitted) {
    const planHash = hashes.get(plan) ?? hashOf(plan);
    hashes.set(plan, planHash);
    hash.update(JSON.stringify([node.id, node.state, planHash, target]));
    await yieldWhenDue();
  }
  return hash.digest("hex");
}
