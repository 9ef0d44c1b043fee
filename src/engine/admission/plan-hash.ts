/**
 * The plan hash: the same as long as the verb, the failure policy, the nodes, their states, plans, targets, variables,
 * host groups, image, root disk, user data and power after a failure are.
 */
import { createHash } from "node:crypto";
import { createYielding } from "../../runtime/yielding.ts";
import { hashOf } from "../../runtime/canonical-json.ts";
import type { Plan } from "../../store/records.ts";
import type { FailurePolicy } from "../../lifecycle/operation-states.ts";
import type { AdmittedNode } from "./plan-nodes.ts";
import type { OperationImage } from "./operation-image.ts";
import type { Submission } from "./submission.ts";

/** A submission with what it installs, its failure policy and its admitted nodes. */
interface PlannedPart {
  readonly submission: Submission;
  readonly installed: OperationImage;
  readonly onFailure: FailurePolicy;
  readonly admitted: readonly AdmittedNode[];
}

/** Hash of the operations that a request would store. */
export async function planHashOf(parts: readonly PlannedPart[]): Promise<string> {
  // Nodes with the same drivers share one plan object, which is hashed once.
  const hashes = new Map<Plan, string>();
  const hash = createHash("sha256");
  const yieldWhenDue = createYielding();
  for (const { submission, installed, onFailure, admitted } of parts) {
    const { kind, options } = submission;
    hash.update(JSON.stringify([kind, onFailure, options.hostGroup ?? null]));
    const { image, userData } = installed;
    if (image || userData !== null) hash.update(JSON.stringify([image?.id ?? null, image?.checksum, userData]));
    for (const { node, plan, target, variables, powerOnFailure, rootDisk } of admitted) {
      const planHash = hashes.get(plan) ?? hashOf(plan);
      hashes.set(plan, planHash);
      hash.update(JSON.stringify([node.id, node.state, planHash, target, variables.hash, powerOnFailure, rootDisk]));
      await yieldWhenDue();
    }
  }
  return hash.digest("hex");
}
