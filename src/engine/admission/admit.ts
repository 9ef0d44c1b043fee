/**
 * Admission: a request becomes an operation with its runs, or is refused and leaves no trace. Everything is decided before
 * anything is written, in one transaction that locks the nodes in the order of their ids; so of two overlapping requests
 * one wins, and the other's refusal names the operation in the way. Ten thousand nodes take one or two seconds; loops over
 * nodes yield to the event loop, so that the replica answers other requests meanwhile.
 */
import type { Refusal } from "../../errors.ts";
import { hashOf } from "../../runtime/canonical-json.ts";
import { lockNodes, nodesByIds } from "../../store/nodes.ts";
import type { NodeRow } from "../../store/nodes.ts";
import type { SitePolicy } from "../../store/records.ts";
import { readSite } from "../../store/site.ts";
import type { EngineContext } from "../context.ts";
import { refuseRequest, refusedNode } from "../input/answers.ts";
import type { NodeAnswer, SubmitAnswer } from "../input/answers.ts";
import { hostGroupFlaw } from "../input/name-rules.ts";
import { selectNodes } from "../input/node-selector.ts";
import type { Selection } from "../input/node-selector.ts";
import { sizeFlaws } from "../input/size-limits.ts";
import { overlayKeepingNulls } from "../input/variables.ts";
import { choiceFlaws, withRunbookSteps } from "../plans/step-selection.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { admitOnce, replayOf } from "./idempotency.ts";
import { planHashOf } from "./plan-hash.ts";
import { planNodes, unknownNode } from "./plan-nodes.ts";
import type { AdmittedNode, NodeDecision } from "./plan-nodes.ts";
import { termsFlaws } from "./request-terms.ts";
import type { RequestTerms, VerbRequest } from "./request-terms.ts";
import { storeOperation } from "./store-operation.ts";
import type { PreparedRestart, Submission } from "./submission.ts";

/** A submission, who makes it, and on which terms. */
interface Admission {
  readonly caller: Caller;
  readonly terms: RequestTerms;
  readonly submission: Submission;
}

/** Admits a verb on nodes. */
export async function submitVerb(context: EngineContext, caller: Caller, request: VerbRequest): Promise<SubmitAnswer> {
  const options = request.options ?? {};
  return submit(context, {
    caller,
    terms: request,
    submission: {
      kind: request.kind,
      options,
      restartOf: null,
      earlierVariables: {},
      inputHash: hashOf({ ...request, options, restartOf: null }),
      select: (transaction) => selectNodes(transaction.tx, request.nodes),
      earlierOf: null,
    },
  });
}

/** Admits a new operation for the work that an earlier one left unfinished. */
export async function submitRestart(
  context: EngineContext,
  caller: Caller,
  request: PreparedRestart,
): Promise<SubmitAnswer> {
  const { kind, options, restartOf, earlierVariables, inputHash, earlier } = request;
  return submit(context, {
    caller,
    terms: request,
    submission: {
      kind,
      options,
      restartOf,
      earlierVariables,
      inputHash,
      select: () => Promise.resolve(request.selection),
      earlierOf: (node) => earlier.get(node.id) ?? null,
    },
  });
}

async function submit(context: EngineContext, admission: Admission): Promise<SubmitAnswer> {
  const { terms, submission } = admission;
  const flaws = [
    ...termsFlaws(terms),
    ...hostGroupFlaw(submission.options.hostGroup, ["input"]),
    ...(submission.restartOf === null ? choiceFlaws(submission.options) : []),
  ];
  if (flaws.length > 0) return refuseRequest(flaws);
  return admitOnce(() => context.transact((transaction) => admit(transaction, context, admission)));
}

async function admit(
  transaction: Transaction,
  context: EngineContext,
  { caller, terms, submission: given }: Admission,
): Promise<SubmitAnswer> {
  const { tx } = transaction;
  const replay = () => replayOf(tx, caller, terms, (storedHash) => storedHash === given.inputHash);
  const replayed = await replay();
  if (replayed) return replayed;
  const chosen = await withRunbookSteps(tx, given.options);
  const selection = await given.select(transaction);
  if ("refusals" in chosen)
    return refuseRequest([...chosen.refusals, ...("refusals" in selection ? selection.refusals : [])]);
  if ("refusals" in selection) return refuseRequest(selection.refusals);
  const submission: Submission = { ...given, options: chosen.options };
  // A dry run needs only the right to read, so it must not block other requests by locking the nodes.
  const read = terms.dryRun ? nodesByIds : lockNodes;
  const rows = await read(
    tx,
    selection.nodes.map(({ nodeId }) => nodeId),
  );
  const nodes = new Map(rows.map((node) => [node.id, node]));
  // The request that held the locks may have been this one, sent twice. Without a second look it would be refused as BUSY.
  const replayedMeanwhile = await replay();
  if (replayedMeanwhile) return replayedMeanwhile;
  const { policy } = await readSite(tx);
  const decisions = await planNodes(tx, nodes, { registry: context.registry, policy, submission });
  return decideRequest(transaction, context, { caller, terms, submission, selection, nodes, policy, decisions });
}

/** A request after every node of it was decided. */
interface DecidedRequest extends Admission {
  readonly selection: Selection;
  readonly nodes: ReadonlyMap<string, NodeRow>;
  readonly policy: SitePolicy;
  readonly decisions: ReadonlyMap<string, NodeDecision>;
}

/** Decides the request as a whole, and stores it if it is admitted and not a dry run. */
async function decideRequest(
  transaction: Transaction,
  context: EngineContext,
  request: DecidedRequest,
): Promise<SubmitAnswer> {
  const { terms, submission, selection, nodes, decisions } = request;
  const answers = selection.nodes.map(({ ref, nodeId }) =>
    answerOf(ref, nodeId, decisions.get(nodeId) ?? { refusal: unknownNode(ref) }),
  );
  const refusals = answers.flatMap(({ refusal, further = [] }) => (refusal ? [refusal, ...further] : []));
  const admitted = selection.nodes.flatMap(({ nodeId }): AdmittedNode[] => {
    const node = nodes.get(nodeId);
    const decision = decisions.get(nodeId);
    return node && decision && "plan" in decision ? [{ node, ...decision }] : [];
  });
  const acceptance = terms.acceptance ?? "ALL_OR_NOTHING";
  if (admitted.length === 0 || (refusals.length > 0 && acceptance === "ALL_OR_NOTHING"))
    return {
      operationId: null,
      results: answers.map((answer) => ({ ...answer, accepted: false })),
      refusals,
      replayed: false,
    };
  const planHash = await planHashOf(submission.kind, admitted);
  if (terms.planHash !== undefined && terms.planHash !== planHash) return refuseRequest([STALE_PLAN]);
  const variables = overlayKeepingNulls(submission.earlierVariables, terms.variables);
  const tooLarge = sizeFlaws(
    "The variables together with those of the restarted operation",
    variables,
    ["input", "variables"],
    submission.earlierVariables,
  );
  if (tooLarge.length > 0) return refuseRequest(tooLarge);
  if (terms.dryRun) return { operationId: null, results: answers, refusals: [], replayed: false, planHash };
  const { operationId, runIds } = await storeOperation(transaction, context, {
    ...request,
    clusterId: selection.clusterId,
    admitted,
    variables,
  });
  const results = answers.map((answer) => ({ ...answer, runId: runIds.get(answer.nodeId ?? "") ?? null }));
  return { operationId, results, refusals: [], replayed: false, planHash };
}

const STALE_PLAN: Refusal = {
  code: "STALE_REVISION",
  message:
    "The plan has changed: a node, a driver or the site's policy was changed, or the request differs (other nodes, or another order). Read the new plan and send its planHash.",
  path: ["input", "planHash"],
};

function answerOf(ref: string, nodeId: string, decision: NodeDecision): NodeAnswer {
  if ("refusal" in decision)
    return { ...refusedNode(ref, nodeId, null, decision.refusal), further: decision.further ?? [], target: null };
  const { plan, target } = decision;
  return { ref, nodeId, runId: null, accepted: true, refusal: null, further: [], plan, target };
}
