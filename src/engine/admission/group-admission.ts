/**
 * Group admission: requests for a few named nodes that arrive while another one is being stored are admitted in one
 * transaction, with one statement a table and one commit.
 *
 * Modes of a request:
 *
 * ## Gathering (runtime/batches.ts)
 * Entered by `submit`. Left for a group with the requests that wait then, at most `GROUP_SIZE_MAX`.
 *
 * ## In a group
 * One transaction locks the nodes of all requests in the order of their ids, except those that another transaction has
 * locked, decides each request, and stores those that are accepted as a whole. Left with the answer after the commit;
 * with the error if the connection is lost, because the answer to the commit may be lost; otherwise for a transaction
 * of its own: if anything speaks against the request, and, for every request of the group, if its transaction fails.
 *
 * ## Alone
 * A request that is alone in its group, or could not be stored in it, is judged as if there were no groups: it waits
 * for locks, and its refusal says what is in the way now.
 */
import { Batches } from "../../runtime/batches.ts";
import { createYielding } from "../../runtime/yielding.ts";
import { isUuid } from "../../runtime/uuid.ts";
import { isDatabaseUnavailable } from "../../store/postgres/connection-errors.ts";
import { lockFreeNodes } from "../../store/nodes/nodes.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import { actorKey, keysInUse } from "../../store/operations/operations.ts";
import { readSite } from "../../store/site.ts";
import { nameKey } from "../../store/names.ts";
import { idsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import { acceptedRequest } from "../input/answers.ts";
import type { SubmitAnswer } from "../input/answers.ts";
import { namedIn } from "../input/node-selector.ts";
import type { NamedNodes } from "../input/node-selector.ts";
import { withRunbookSteps } from "../plans/step-selection.ts";
import type { Transaction } from "../transaction.ts";
import { decidePart, judgeRequest } from "./decide-request.ts";
import type { Admission, DecidedRequest, Judgement, SelectedPart } from "./decide-request.ts";
import { hasGroupRules } from "./host-group-rules.ts";
import { operationImage } from "./operation-image.ts";
import { busyByNode } from "./plan-nodes.ts";
import type { VerbRequest } from "./request-terms.ts";
import { admittedParts, storeOperations } from "./store-operation.ts";

/** Requests that share a transaction. */
const GROUP_SIZE_MAX = 32;
/** Nodes of a request that may share a transaction: a large one would delay the others. */
const NODES_MAX = 20;
/** A group that takes longer is not waited for. */
const SLOW_MS = 100;

/** The nodes of a request that may share a transaction with others; null if it may not. */
export function namedNodes({ nodes, dryRun }: VerbRequest): NamedNodes | null {
  const named = namedIn(nodes);
  return named && dryRun !== true && named.refs.length <= NODES_MAX ? named : null;
}

/** A verb on few named nodes. */
interface NamedAdmission extends Admission {
  readonly named: NamedNodes;
}

interface Entry {
  readonly admission: NamedAdmission;
  readonly alone: () => Promise<SubmitAnswer>;
  readonly resolve: (answer: SubmitAnswer | PromiseLike<SubmitAnswer>) => void;
  readonly reject: (error: unknown) => void;
}

export class GroupAdmission {
  readonly #batches: Batches<Entry>;

  constructor(context: EngineContext) {
    this.#batches = new Batches<Entry>({
      sizeMax: GROUP_SIZE_MAX,
      slowMs: SLOW_MS,
      concurrency: Number.POSITIVE_INFINITY,
      work: (group) => storeGroup(context, group),
    });
  }

  /** `alone`: judges the request in a transaction of its own. */
  submit(admission: NamedAdmission, alone: () => Promise<SubmitAnswer>): Promise<SubmitAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<SubmitAnswer>();
    this.#batches.add({ admission, alone, resolve, reject });
    return promise;
  }
}

/** Answers all entries of a group. Never rejects. */
async function storeGroup(context: EngineContext, group: readonly Entry[]): Promise<void> {
  const [first, ...others] = group;
  if (first && others.length === 0) return first.alone().then(first.resolve, first.reject);
  try {
    const admissions = group.map(({ admission }) => admission);
    const answers = await context.transact((transaction) => admitGroup(transaction, context, admissions));
    for (const [index, entry] of group.entries()) entry.resolve(answers[index] ?? entry.alone());
  } catch (error) {
    for (const entry of group) {
      if (isDatabaseUnavailable(error)) entry.reject(error);
      else entry.resolve(entry.alone());
    }
  }
}

/** A request that its group stores. */
interface Accepted {
  readonly request: DecidedRequest;
  readonly judgement: Exclude<Judgement, { readonly answer: SubmitAnswer }>;
}

/** Stores the requests that nothing speaks against; null for the others. */
async function admitGroup(
  transaction: Transaction,
  context: EngineContext,
  admissions: readonly NamedAdmission[],
): Promise<(SubmitAnswer | null)[]> {
  const accepted = await acceptedOf(transaction, context, admissions);
  const requests = [...accepted.values()].flatMap(({ request }) => admittedParts(request));
  if (requests.length === 0) return admissions.map(() => null);
  const stored = await storeOperations(transaction, context, requests);
  const answers = [...accepted].map(([admission, { judgement }], index) => {
    // A verb has one operation.
    return [admission, acceptedRequest(stored.slice(index, index + 1), judgement)] as const;
  });
  const answerOf = new Map(answers);
  return admissions.map((admission) => answerOf.get(admission) ?? null);
}

async function acceptedOf(
  transaction: Transaction,
  context: EngineContext,
  admissions: readonly NamedAdmission[],
): Promise<Map<NamedAdmission, Accepted>> {
  const { tx } = transaction;
  const prepared = await preparedParts(transaction, context, admissions);
  const nodes = await lockFreeNodes(tx, refsOfAll([...prepared.keys()]));
  const byRef = new Map(nodes.flatMap((node) => [[node.id, node] as const, [nameKey(node.name), node] as const]));
  const [busy, site] = await Promise.all([busyByNode(tx, idsOf(nodes)), readSite(tx)]);
  const taken = new Set<string>();
  const accepted = new Map<NamedAdmission, Accepted>();
  const yieldWhenDue = createYielding();
  for (const [admission, part] of prepared) {
    await yieldWhenDue();
    const selected = selectedOf(admission, byRef, taken);
    if (!selected) continue;
    const own = new Map(selected.map(({ node }) => [node.id, node]));
    const selection = { nodes: selected.map(({ ref, node }) => ({ ref, nodeId: node.id })), clusterId: null };
    const { terms } = admission;
    const decided = await decidePart(transaction, { ...part, selection, nodes: own }, { context, site, terms, busy });
    // Each would have to count the others of the group.
    if (hasGroupRules([decided])) continue;
    const request = { ...admission, policy: site.policy, parts: [decided] };
    const judgement = await judgeRequest(context.keyring, request);
    if ("answer" in judgement || judgement.answers.some(({ refusal }) => refusal !== null)) continue;
    accepted.set(admission, { request, judgement });
    for (const id of own.keys()) taken.add(id);
  }
  return accepted;
}

/** The submissions of the requests that are not repeated ones, with what they install. */
async function preparedParts(
  { tx }: Transaction,
  { keyring }: EngineContext,
  admissions: readonly NamedAdmission[],
): Promise<Map<NamedAdmission, Pick<SelectedPart, "submission" | "installed">>> {
  const keyOf = ({ caller: { actor }, terms: { idempotencyKey: key } }: Admission) =>
    key === undefined ? [] : [{ actor, key }];
  const inUse = await keysInUse(tx, admissions.flatMap(keyOf));
  const prepared = new Map<NamedAdmission, Pick<SelectedPart, "submission" | "installed">>();
  for (const admission of admissions) {
    const [submission] = admission.submissions;
    if (!submission || keyOf(admission).some(({ actor, key }) => inUse.has(actorKey(actor, key)))) continue;
    const chosen = await withRunbookSteps(tx, submission);
    const installed = await operationImage(tx, keyring, submission, { keep: true });
    if ("refusals" in chosen || "refusals" in installed) continue;
    // Two requests with one key cannot be stored together.
    for (const { actor, key } of keyOf(admission)) inUse.add(actorKey(actor, key));
    prepared.set(admission, { submission: { ...submission, options: chosen.options }, installed });
  }
  return prepared;
}

/** The nodes of a request; null if one of them was not locked, or is taken by another request of the group. */
function selectedOf(
  { named }: NamedAdmission,
  byRef: ReadonlyMap<string, NodeRow>,
  taken: ReadonlySet<string>,
): { readonly ref: string; readonly node: NodeRow }[] | null {
  const selected: { readonly ref: string; readonly node: NodeRow }[] = [];
  for (const ref of named.refs) {
    const key = named.byId ? ref : nameKey(ref);
    const node = byRef.get(key);
    if (!node || key !== (named.byId ? node.id : nameKey(node.name)) || taken.has(node.id)) return null;
    selected.push({ ref, node });
  }
  return selected.length === 0 ? null : selected;
}

function refsOfAll(admissions: readonly NamedAdmission[]) {
  const [ids = [], names = []] = [true, false].map((byId) =>
    admissions.flatMap(({ named }) => (named.byId === byId ? named.refs : [])),
  );
  return { names, ids: ids.filter(isUuid) };
}
