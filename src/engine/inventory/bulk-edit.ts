/**
 * One change of many nodes: labels, host group, settings and flags. It starts no work and stops none. Each node is
 * decided before anything is written, in one transaction that locks the nodes in the order of their ids.
 */
import type { Refusal } from "../../errors.ts";
import { isUuid } from "../../runtime/uuid.ts";
import { createYielding } from "../../runtime/yielding.ts";
import { storeNodeEdits } from "../../store/node-edits.ts";
import type { NodeEdit } from "../../store/node-edits.ts";
import { lockAllIdentities } from "../../store/node-identities.ts";
import { lockNodes, nodesByIds, secretsOfNodes } from "../../store/nodes.ts";
import type { NodeRow } from "../../store/nodes.ts";
import { busyNodes } from "../../store/runs.ts";
import type { EngineContext } from "../context.ts";
import { acceptedNode, refusedNode, summaryOf } from "../input/answers.ts";
import type { Acceptance, NodeAnswer } from "../input/answers.ts";
import { nodesText } from "../input/name-rules.ts";
import { selectNodes } from "../input/node-selector.ts";
import type { NodeSelector, Selection } from "../input/node-selector.ts";
import { unknownNodes } from "../input/unknown-nodes.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { controllerRefusals, joiningNodes, storeControllers } from "./controller-conflicts.ts";
import type { IdentityChange } from "./controller-conflicts.ts";
import { patchFlaws, patchedNode } from "./node-patch.ts";
import type { NodePatch } from "./node-patch.ts";
import { groupFlaws, staleRevision } from "./update-node.ts";

/** A node, and the revision that it must have. */
export interface NodeAtRevision {
  readonly nodeId: string;
  readonly revision: number;
}

export interface BulkEditRequest {
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

export interface BulkEdited {
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
  return [...Map.groupBy(results, ({ outcome, refusal }) => refusal?.code ?? outcome).values()]
    .flatMap((same): EditGroup[] => {
      const [first] = same;
      const [refusal = null] = summaryOf(same.map((one) => ({ ...one, further: [] })));
      return first ? [{ outcome: first.outcome, results: same, refusal }] : [];
    })
    .toSorted((a, b) => place(a) - place(b) || b.results.length - a.results.length);
}

export async function bulkEditNodes(
  context: EngineContext,
  _caller: Caller,
  request: BulkEditRequest,
): Promise<BulkEdited> {
  const flaws = [...selectionFlaws(request), ...patchFlaws(request.patch)];
  if (flaws.length > 0) return refused(flaws);
  return context.transact((transaction) => edit(transaction, context, request));
}

function refused(refusals: readonly Refusal[]): BulkEdited {
  return { isStored: false, results: [], refusals };
}

function selectionFlaws({ nodes, revisions }: BulkEditRequest): Refusal[] {
  const flaw = (message: string, path: readonly string[]): Refusal[] => [{ code: "INVALID_INPUT", message, path }];
  if ((nodes === undefined) === (revisions === undefined))
    return flaw("Select the nodes by `nodes` or by `revisions`, not by both or neither.", ["input", "nodes"]);
  const path = ["input", "revisions"];
  if (revisions?.length === 0) return flaw("The list of nodes is empty; name at least one node.", path);
  if (new Set(revisions?.map(({ nodeId }) => nodeId)).size < (revisions?.length ?? 0))
    return flaw("A node is named more than once. Name each with one revision.", path);
  return [];
}

async function edit({ tx }: Transaction, context: EngineContext, request: BulkEditRequest): Promise<BulkEdited> {
  const { revisions, dryRun, acceptance, patch } = request;
  const changesIdentity = patch.settings !== undefined || patch.sharedController !== undefined;
  if (changesIdentity && !dryRun) await lockAllIdentities(tx);
  const selection = await select(tx, request);
  if ("refusals" in selection) return refused(selection.refusals);
  const count = selection.nodes.length;
  if (request.expectedCount !== undefined && request.expectedCount !== count)
    return refused([otherCount(count, request.expectedCount)]);
  const ids = selection.nodes.map(({ nodeId }) => nodeId).filter(isUuid);
  // A dry run must not block other requests by locking the nodes.
  const rows = await (dryRun ? nodesByIds : lockNodes)(tx, ids);
  const nodes = new Map(rows.map((node) => [node.id, node]));
  const decide = await createDecision(tx, context, { request, ids });
  const wanted = new Map(revisions?.map(({ nodeId, revision }) => [nodeId, revision]));
  const results: EditAnswer[] = [];
  const edits = new Map<string, NodeEdit>();
  const changes: (IdentityChange & { readonly index: number })[] = [];
  const yieldWhenDue = createYielding();
  for (const { ref, nodeId } of selection.nodes) {
    await yieldWhenDue();
    const node = nodes.get(nodeId);
    const decided = node
      ? await decide(node, wanted.get(nodeId))
      : { refusals: [unknownNodes([ref], pathIn(request))] };
    if ("refusals" in decided) results.push(refusedEdit(ref, node?.id ?? null, decided.refusals));
    else {
      if (decided.edit) edits.set(nodeId, decided.edit);
      if (node && changesIdentity)
        changes.push({ node, ...decided, sharedController: patch.sharedController, index: results.length });
      results.push({ ...acceptedNode(ref, nodeId, null), outcome: decided.edit ? "CHANGED" : "UNCHANGED" });
    }
  }
  const conflicts = await controllerRefusals(tx, await joiningNodes(tx, changes));
  const accepted = changes.filter(({ node, index }, position) => {
    const refusals = conflicts[position] ?? [];
    if (refusals.length === 0) return true;
    results[index] = refusedEdit(results[index]?.ref ?? node.name, node.id, refusals);
    edits.delete(node.id);
    return false;
  });
  const refusedCount = results.filter(({ outcome }) => outcome === "REFUSED").length;
  if (refusedCount === count || (refusedCount > 0 && acceptance === "ALL_OR_NOTHING"))
    return { isStored: false, results, refusals: summaryOf(results) };
  if (dryRun) return { isStored: false, results, refusals: [] };
  await storeNodeEdits(tx, [...edits.values()]);
  await storeControllers(tx, accepted);
  return { isStored: true, results, refusals: [] };
}

/** The selected nodes. A node of `revisions` that does not exist is refused alone, like one that has changed. */
async function select(
  tx: Transaction["tx"],
  { nodes, revisions = [], dryRun }: BulkEditRequest,
): Promise<Pick<Selection, "nodes"> | { readonly refusals: readonly Refusal[] }> {
  if (nodes) return selectNodes(tx, nodes, { lockIn: dryRun ? undefined : tx });
  return { nodes: revisions.map(({ nodeId }) => ({ ref: nodeId, nodeId })) };
}

function pathIn({ revisions }: BulkEditRequest): readonly string[] {
  return ["input", revisions ? "revisions" : "nodes"];
}

/** Creates the decision for one node, which must have the revision if one is given. */
async function createDecision(
  tx: Transaction["tx"],
  { registry }: EngineContext,
  { request: { patch }, ids }: { readonly request: BulkEditRequest; readonly ids: readonly string[] },
) {
  const secrets = patch.settings ? await secretsOfNodes(tx, ids) : new Map<string, never>();
  const busy = patch.hostGroup === undefined ? [] : await busyNodes(tx, ids);
  const runs = new Map(busy.map((run) => [run.nodeId, run]));
  return async (node: NodeRow, revision: number | undefined) => {
    if (revision !== undefined && revision !== node.revision)
      return { refusals: [staleRevision(node, revision, ["input", "revisions"])] };
    const taken = groupFlaws(node, patch.hostGroup, runs.get(node.id));
    const patched = await patchedNode(registry, patch, { node, secrets: secrets.get(node.id) ?? {} });
    const refusals = [...taken, ...("refusals" in patched ? patched.refusals : [])];
    return refusals.length > 0 || "refusals" in patched ? { refusals } : patched;
  };
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
