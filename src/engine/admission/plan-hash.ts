/**
 * The plan hash: the same as long as the verb, the failure policy, the nodes, their states, plans, targets, variables,
 * host groups, image, root disk, user data and power after a failure are. It is `<covered>.<nodes>.<whole>`: a mark of
 * each thing that it covers, and of each node if there are few, so that a refusal can name what differs.
 */
import { createHash } from "node:crypto";
import type { Refusal } from "../../errors.ts";
import { FAILURE_POLICIES } from "../../lifecycle/operation-states.ts";
import { createYielding } from "../../runtime/yielding.ts";
import { hashOf } from "../../runtime/canonical-json.ts";
import type { Plan } from "../../store/records.ts";
import type { Keyring } from "../../store/secrets/keyring.ts";
import type { FailurePolicy } from "../../lifecycle/operation-states.ts";
import { countedRefs } from "../input/answers.ts";
import { listed } from "../input/name-rules.ts";
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

/** The things that a hash covers, as messages name them; those of single nodes last. */
const COVERED = {
  kind: "the verb",
  onFailure: "onFailure",
  hostGroup: "hostGroup",
  image: "the image or its userData",
  nodes: "the nodes or their order",
  state: "the state",
  steps: "the steps",
  variables: "the variables",
  powerOnFailure: "powerOnFailure",
  rootDisk: "the root disk",
} as const;
type Covered = keyof typeof COVERED;
const NAMES = Object.keys(COVERED) as Covered[];
const OF_NODES: ReadonlySet<Covered> = new Set(["state", "steps", "variables", "powerOnFailure", "rootDisk"]);

/** Characters of a mark, and the number of nodes up to which each has one. */
const MARK_LENGTH = 4;
const MARKED_MAX = 50;

/** Hash of the operations that a request would store. */
export async function planHashOf(keyring: Keyring, parts: readonly PlannedPart[]): Promise<string> {
  // Nodes with the same drivers share one plan object, which is hashed once.
  const plans = new Map<Plan, string>();
  const hashes = new Map(NAMES.map((name) => [name, createHash("sha256")]));
  const add = (facts: Partial<Record<Covered, unknown>>) => {
    for (const name of NAMES) if (name in facts) hashes.get(name)?.update(JSON.stringify([facts[name]]));
  };
  const isMarked = parts.reduce((count, { admitted }) => count + admitted.length, 0) <= MARKED_MAX;
  const marks: string[] = [];
  const yieldWhenDue = createYielding();
  for (const [index, { submission, installed, onFailure, admitted }] of parts.entries()) {
    const { kind, options } = submission;
    const { image } = installed;
    const userData = installed.userData === null ? null : keyring.digest(installed.userData);
    add({ kind, onFailure, hostGroup: options.hostGroup ?? null, image: [image?.id, image?.checksum, userData] });
    for (const { node, plan, target, variables, powerOnFailure, rootDisk } of admitted) {
      const planHash = plans.get(plan) ?? hashOf(plan);
      plans.set(plan, planHash);
      const own = { state: node.state, steps: [planHash, target], variables: variables.hash, powerOnFailure, rootDisk };
      add({ nodes: [index, node.id], ...own });
      if (isMarked) marks.push(digest(own).slice(0, MARK_LENGTH));
      await yieldWhenDue();
    }
  }
  const digests = NAMES.map((name) => hashes.get(name)?.digest("base64url"));
  return [digests.map((one) => one?.slice(0, MARK_LENGTH)).join(""), marks.join(""), digest(digests)].join(".");
}

/** The refusal of a request with the hash `sent`, whose plan has the hash `found`; null if they are the same. */
export function stalePlan(parts: readonly PlannedPart[], sent: string, found: string): Refusal | null {
  if (sent === found) return null;
  const [[was = [], wasNodes = []], [is = [], isNodes = []]] = [marksOf(sent), marksOf(found)];
  const differing = was.length === is.length ? NAMES.filter((_, index) => was[index] !== is[index]) : [];
  // With other nodes, what is known of each of them differs too.
  const hasOthers = differing.includes("nodes");
  const changed = differing.filter((name) => !hasOthers || !OF_NODES.has(name));
  const nodes = parts.flatMap(({ admitted }) => admitted.map(({ node }) => node.name));
  const changedNodes = hasOthers ? [] : nodes.filter((_, index) => wasNodes[index] !== isNodes[index]);
  const whose = changedNodes.length === 0 ? "some nodes" : listed(changedNodes);
  const texts = changed.map((name) => {
    if (name === "onFailure") return `${COVERED[name]} (${policies(parts, was[NAMES.indexOf(name)])})`;
    return OF_NODES.has(name) ? `${COVERED[name]} of ${whose}` : COVERED[name];
  });
  const what = texts.length === 0 ? "this is not its planHash" : texts.join(", ");
  return {
    code: "STALE_REVISION",
    message: `The plan has changed, or the request differs from it: ${what}. Read the new plan and send its planHash.`,
    path: ["input", "planHash"],
    ...(changedNodes.length > 0 && { nodes: countedRefs(changedNodes) }),
  };
}

function marksOf(hash: string): string[][] {
  return hash.split(".").map((marks) => marks.match(new RegExp(`.{${MARK_LENGTH}}`, "g")) ?? []);
}

/** The failure policy of the request, and that of the plan as far as its mark shows it. */
function policies(parts: readonly PlannedPart[], mark: string | undefined): string {
  const asked = [...new Set(parts.map(({ onFailure }) => onFailure))];
  const planned = Object.keys(FAILURE_POLICIES).find((policy) => digest(policy).startsWith(mark ?? " "));
  return `${planned === undefined ? "" : `the plan has ${planned}, `}the request ${asked.join(", ")}`;
}

function digest(fact: unknown): string {
  return createHash("sha256")
    .update(JSON.stringify([fact]))
    .digest("base64url");
}
