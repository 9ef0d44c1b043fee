/**
 * One change of one node or many: name, drivers, settings, labels and flags. It starts no work and stops none. Each
 * node is decided before anything is written, in one transaction that locks the nodes in the order of their ids.
 */
import { RefusalError, invalidInput, nodeRefusal } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { groupsOf } from "../../runtime/groups.ts";
import { isUuid } from "../../runtime/uuid.ts";
import { createYielding } from "../../runtime/yielding.ts";
import { storeNodeEdits } from "../../store/nodes/node-edits.ts";
import type { NodeEdit } from "../../store/nodes/node-edits.ts";
import { lockAllIdentities } from "../../store/nodes/node-identities.ts";
import { lockNodes, nodesByIds, nodesByNames } from "../../store/nodes/nodes.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import { SecretError } from "../../store/secrets/keyring.ts";
import { SECRETS, secretsOf } from "../../store/secrets/secrets.ts";
import { busyNodes } from "../../store/runs/runs.ts";
import { nameKey } from "../../store/names.ts";
import { nodeIdsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import { acceptedNode, refusedNode, summaryOf } from "../input/answers.ts";
import type { Acceptance, NodeAnswer } from "../input/answers.ts";
import { EDITS_MAX, editOf } from "../audit/edits.ts";
import { requireNone, staleRevision } from "../input/edits.ts";
import { nodesText } from "../input/name-rules.ts";
import { selectNodes } from "../input/node-selector.ts";
import type { NodeSelector, Selection } from "../input/node-selector.ts";
import { unreadableSecret } from "../input/unreadable-secret.ts";
import { unknownNodes } from "../input/unknown-nodes.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { controllerRefusals, joiningNodes, storeControllers } from "./controller-conflicts.ts";
import type { IdentityChange } from "./controller-conflicts.ts";
import { changesDrivers, patchFlaws, patchedNode } from "./node-patch.ts";
import { takenMacs } from "./node-macs.ts";
import type { NodePatch } from "./node-patch.ts";
import { secretNames, variablesOverlay } from "./stored-variables.ts";

/** A node, and the revision that it must have. */
interface NodeAtRevision {
  readonly nodeId: string;
  readonly revision: number;
}

export interface UpdateNodesRequest {
  /** Exactly one of `nodes` and `revisions` selects the nodes. */
  readonly nodes?: NodeSelector | undefined;
  readonly revisions?: readonly NodeAtRevision[] | undefined;
  /** The number of nodes that the caller means. */
  readonly expectedCount?: number | undefined;
  readonly acceptance: Acceptance;
  readonly dryRun: boolean;
  readonly patch: NodePatch;
}

export const EDIT_OUTCOMES = {
  CHANGED: "The request changes the node.",
  UNCHANGED: "The node already is as the request wants it; its revision stays.",
  REFUSED: "The node cannot be changed; its errors say why.",
} as const;
export type EditOutcome = keyof typeof EDIT_OUTCOMES;

/** The answer for one node, in the order of the request. */
export type EditAnswer = NodeAnswer & { readonly outcome: EditOutcome };

export interface UpdatedNodes {
  /** Whether the changes are stored. */
  readonly isStored: boolean;
  readonly results: readonly EditAnswer[];
  /** Why the request as a whole was refused. */
  readonly refusals: readonly Refusal[];
}

/** Nodes with the same outcome. */
export interface EditGroup {
  readonly outcome: EditOutcome;
  readonly results: readonly EditAnswer[];
  /** Why they were refused, with the data of the first; null if they were not. */
  readonly refusal: Refusal | null;
}

const OUTCOME_ORDER = Object.keys(EDIT_OUTCOMES);

/** Changed and unchanged nodes, then refused ones by the code of their first refusal, the largest group first. */
export function editGroups(results: readonly EditAnswer[]): EditGroup[] {
  const place = ({ outcome }: EditGroup) => OUTCOME_ORDER.indexOf(outcome);
  return groupsOf(results, ({ outcome, refusal }) => refusal?.code ?? outcome)
    .map(({ first: { outcome }, all }): EditGroup => {
      const [refusal = null] = summaryOf(all.map((one) => ({ ...one, further: [] })));
      return { outcome, results: all, refusal };
    })
    .toSorted((a, b) => place(a) - place(b) || b.results.length - a.results.length);
}

export async function updateNodes(
  context: EngineContext,
  caller: Caller,
  request: UpdateNodesRequest,
): Promise<UpdatedNodes> {
  requireNone([...selectionFlaws(request), ...patchFlaws(request.patch)]);
  return context.transact((transaction) => edit(transaction, context, caller, request));
}

function selectionFlaws({ nodes, revisions }: UpdateNodesRequest): Refusal[] {
  const flaw = (message: string, path: readonly string[]) => [invalidInput(message, path)];
  if ((nodes === undefined) === (revisions === undefined))
    return flaw("Select the nodes by `nodes` or by `revisions`, not by both or neither.", ["input", "nodes"]);
  const path = ["input", "revisions"];
  if (revisions?.length === 0) return flaw("The list of nodes is empty; name at least one node.", path);
  if (new Set(nodeIdsOf(revisions ?? [])).size < (revisions?.length ?? 0))
    return flaw("A node is named more than once. Name each with one revision.", path);
  return [];
}

async function edit(
  transaction: Transaction,
  context: EngineContext,
  caller: Caller,
  request: UpdateNodesRequest,
): Promise<UpdatedNodes> {
  const { tx } = transaction;
  const { revisions, dryRun, acceptance, patch } = request;
  const { name, macs, sharedController } = patch;
  const isUnique = name !== undefined || macs != null;
  const changesIdentity = changesDrivers(patch) || isUnique || macs === null || sharedController !== undefined;
  if (changesIdentity && !dryRun) await lockAllIdentities(tx);
  const selected = await select(tx, request);
  const count = selected.length;
  if (request.expectedCount !== undefined && request.expectedCount !== count)
    throw new RefusalError([otherCount(count, request.expectedCount)]);
  if (isUnique && count > 1) throw new RefusalError([notForMany(name === undefined ? "macs" : "name", count)]);
  const ids = nodeIdsOf(selected).filter(isUuid);
  // A dry run must not block other requests by locking the nodes.
  const rows = await (dryRun ? nodesByIds : lockNodes)(tx, ids);
  const nodes = new Map(rows.map((node) => [node.id, node]));
  const decide = await createDecision(tx, context, { request, ids });
  const wanted = new Map(revisions?.map(({ nodeId, revision }) => [nodeId, revision]));
  const results: EditAnswer[] = [];
  const edits = new Map<string, NodeEdit>();
  const changes: (IdentityChange & { readonly index: number })[] = [];
  const yieldWhenDue = createYielding();
  for (const { ref, nodeId } of selected) {
    await yieldWhenDue();
    const node = nodes.get(nodeId);
    const decided = node
      ? await decide(node, wanted.get(nodeId))
      : { refusals: [unknownNodes([ref], pathIn(request))] };
    if ("refusals" in decided) results.push(refusedEdit(ref, node?.id ?? null, decided.refusals));
    else {
      if (decided.edit) edits.set(nodeId, decided.edit);
      if (node && changesIdentity) changes.push({ node, ...decided, sharedController, index: results.length });
      results.push({ ...acceptedNode(ref, nodeId, null), outcome: decided.edit ? "CHANGED" : "UNCHANGED" });
    }
  }
  const conflicts = await controllerRefusals(tx, await joiningNodes(tx, changes));
  const taken = isUnique && changes[0] ? await takenByOthers(tx, changes[0].node, patch) : [];
  const accepted = changes.filter(({ node, index }, position) => {
    const refusals = [...taken, ...(conflicts[position] ?? [])];
    if (refusals.length === 0) return true;
    results[index] = refusedEdit(results[index]?.ref ?? node.name, node.id, refusals);
    edits.delete(node.id);
    return false;
  });
  const refusedCount = results.filter(({ outcome }) => outcome === "REFUSED").length;
  if (refusedCount === count || (refusedCount > 0 && acceptance === "ALL_OR_NOTHING"))
    return { isStored: false, results, refusals: summaryOf(results) };
  if (dryRun) return { isStored: false, results, refusals: [] };
  await storeNodeEdits(tx, context.keyring, [...edits.values()]);
  await storeControllers(tx, accepted);
  noteEdits(transaction, context, caller, { nodes, edits: [...edits.values()] });
  return { isStored: true, results, refusals: [] };
}

function noteEdits(
  transaction: Transaction,
  context: EngineContext,
  caller: Caller,
  { nodes, edits }: { readonly nodes: ReadonlyMap<string, NodeRow>; readonly edits: readonly NodeEdit[] },
): void {
  const edited = edits.flatMap(({ nodeId, change, secrets }) => {
    const node = nodes.get(nodeId);
    return node ? [{ node, after: { ...node, ...change, ...(secrets && { secrets }) } }] : [];
  });
  transaction.audit(caller, {
    targets: edited.map(({ node }) => node.name),
    edits: edited.slice(0, EDITS_MAX).flatMap(({ node, after }) => {
      const secret = secretNames(context, node.variables, after.variables);
      return editOf(node.name, node, after, ["secrets", ...secret]);
    }),
  });
}

/** The selected nodes. A node of `revisions` that does not exist is refused alone, like one that has changed. */
async function select(
  tx: Transaction["tx"],
  { nodes, revisions = [], dryRun }: UpdateNodesRequest,
): Promise<Selection["nodes"]> {
  if (!nodes) return revisions.map(({ nodeId }) => ({ ref: nodeId, nodeId }));
  const found = await selectNodes(tx, nodes, { lockIn: dryRun ? undefined : tx });
  if ("refusals" in found) throw new RefusalError(found.refusals);
  return found.nodes;
}

function pathIn({ revisions }: UpdateNodesRequest): readonly string[] {
  return ["input", revisions ? "revisions" : "nodes"];
}

/** Creates the decision for one node, which must have the revision if one is given. */
async function createDecision(
  tx: Transaction["tx"],
  context: EngineContext,
  { request: { patch }, ids }: { readonly request: UpdateNodesRequest; readonly ids: readonly string[] },
) {
  const { registry } = context;
  const laidOver = await variablesOverlay(tx, context, SECRETS.nodeVariables, patch.variables);
  const secretsOfNodes = await secretsOf(tx, context.keyring, SECRETS.ofNodes, changesDrivers(patch) ? ids : []);
  const busy = patch.hostGroup === undefined ? [] : await busyNodes(tx, ids);
  const runs = new Map(busy.map((run) => [run.nodeId, run]));
  return async (node: NodeRow, revision: number | undefined) => {
    if (revision !== undefined && revision !== node.revision) {
      const at = { expected: revision, path: ["input", "revisions"] };
      return { refusals: [{ ...staleRevision(`Node ${node.name}`, node.revision, at), nodeId: node.id }] };
    }
    const taken = groupFlaws(node, patch.hostGroup, runs.get(node.id));
    const secrets = secretsOfNodes.get(node.id) ?? {};
    if (secrets instanceof SecretError) return { refusals: [unreadableSecret(`Node ${node.name}`, secrets, node.id)] };
    const patched = await patchedNode(registry, patch, { node, secrets, variables: laidOver(node.id, node.variables) });
    const refusals = [...taken, ...("refusals" in patched ? patched.refusals : [])];
    return refusals.length > 0 || "refusals" in patched ? { refusals } : patched;
  };
}

/** The refusals of a name and of MACs that other nodes have. */
async function takenByOthers(tx: Transaction["tx"], node: NodeRow, { name, macs }: NodePatch): Promise<Refusal[]> {
  const [other] = name === undefined || nameKey(name) === nameKey(node.name) ? [] : await nodesByNames(tx, [name]);
  const path = ["input", "name"];
  return [
    ...(other ? [nodeRefusal("INVALID_INPUT", other.id, `A node ${other.name} exists already.`, { path })] : []),
    ...(await takenMacs(tx, [{ nodeId: node.id, nodeName: name ?? node.name, macs, path: ["input", "macs"] }])),
  ];
}

function notForMany(member: "name" | "macs", count: number): Refusal {
  const message = `\`${member}\` belongs to one node, and the request selects ${nodesText(count)}. Select one, or leave it out.`;
  return invalidInput(message, ["input", member]);
}

function otherCount(count: number, expected: number): Refusal {
  return {
    code: "STALE_REVISION",
    message: `The request selects ${nodesText(count)}, not ${expected}. Look at them again, and repeat the change.`,
    path: ["input", "expectedCount"],
  };
}

function refusedEdit(ref: string, nodeId: string | null, [first, ...further]: readonly Refusal[]): EditAnswer {
  const refusal = first ?? unknownNodes([ref]);
  return { ...refusedNode(ref, nodeId, null, refusal), further, outcome: "REFUSED" };
}

/** A run that deploys the node for another host group would undo the change at its end. */
function groupFlaws(
  node: Pick<NodeRow, "id" | "name">,
  hostGroup: string | null | undefined,
  run: { readonly hostGroup: string | null; readonly operationId: string } | undefined,
): Refusal[] {
  if (hostGroup === undefined || run?.hostGroup == null || run.hostGroup === hostGroup) return [];
  const { operationId } = run;
  const message = `Node ${node.name} is being deployed for host group ${run.hostGroup} by operation ${operationId}. Wait for it, stop it, or abort it.`;
  return [nodeRefusal("BUSY", node.id, message, { operationId, path: ["input", "hostGroup"] })];
}
