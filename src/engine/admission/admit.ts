/**
 * Admission: a request becomes an operation with its runs, or is refused and leaves no trace. Everything is decided
 * before anything is written, in one transaction that locks the nodes in the order of their ids; so of two overlapping
 * requests one wins, and the other's refusal names the operation in the way. Ten thousand nodes take one or two
 * seconds; loops over nodes yield to the event loop, so that the replica answers other requests meanwhile. Requests for
 * a few nodes that arrive together share the transaction (group-admission.ts).
 */
import { lockNodes, nodesByIds } from "../../store/nodes/nodes.ts";
import { readSite } from "../../store/site.ts";
import { NO_VARIABLES } from "../../store/secrets/secrets.ts";
import { nodeIdsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import { acceptedRequest, refuseRequest } from "../input/answers.ts";
import type { SubmitAnswer } from "../input/answers.ts";
import { hostGroupFlaw } from "../input/name-rules.ts";
import { selectNodes } from "../input/node-selector.ts";
import { choiceFlaws, withRunbookSteps } from "../plans/step-selection.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { decidePart, judgeRequest } from "./decide-request.ts";
import type { Admission, DecidedPart, SelectedPart } from "./decide-request.ts";
import { namedNodes } from "./group-admission.ts";
import type { GroupAdmission } from "./group-admission.ts";
import { applyGroupRules } from "./host-group-rules.ts";
import { inputOf, replayOf } from "./idempotency.ts";
import { imageChoiceFlaws, operationImage } from "./operation-image.ts";
import { rolloutFlaws, termsFlaws } from "./request-terms.ts";
import type { VerbRequest } from "./request-terms.ts";
import { admittedParts, storeOperations } from "./store-operation.ts";
import { repeatIfTaken } from "../input/edits.ts";

interface AdmissionContext extends EngineContext {
  readonly groupAdmission: GroupAdmission;
}

/** Admits a verb on nodes. */
export async function submitVerb(
  context: AdmissionContext,
  caller: Caller,
  request: VerbRequest,
): Promise<SubmitAnswer> {
  const options = request.options ?? {};
  const { kind, onFailure, waves, maxParallel } = request;
  const admission: Admission = {
    caller,
    terms: request,
    ...(await inputOf(request, { options, restartOf: null }, context.registry.secretVariables)),
    submissions: [
      {
        kind,
        options,
        restarts: null,
        rollout: { onFailure, waves, maxParallel },
        earlier: NO_VARIABLES,
        image: request.image ?? null,
        userData: request.userData,
        select: ({ tx }) => selectNodes(tx, request.nodes, { lockIn: request.dryRun ? undefined : tx }),
        earlierOf: null,
      },
    ],
  };
  const alone = () => admitAlone(context, admission);
  const named = namedNodes(request);
  return submit(admission, named ? () => context.groupAdmission.submit({ ...admission, named }, alone) : alone);
}

/** Admits new operations that have been prepared: a restart, or what a cluster wants. */
export async function submitPrepared(context: EngineContext, admission: Admission): Promise<SubmitAnswer> {
  return submit(admission, () => admitAlone(context, admission));
}

async function submit(admission: Admission, admitNow: () => Promise<SubmitAnswer>): Promise<SubmitAnswer> {
  const { terms, submissions } = admission;
  const flaws = [
    ...termsFlaws(terms),
    ...(submissions.map(({ rollout }) => rolloutFlaws(rollout)).find((found) => found.length > 0) ?? []),
    ...submissions.flatMap(({ restarts, options }) => [
      ...hostGroupFlaw(options.hostGroup, ["input"]),
      ...(restarts === null ? choiceFlaws(options) : []),
    ]),
    ...submissions.flatMap(imageChoiceFlaws),
  ];
  if (flaws.length > 0) return refuseRequest(flaws);
  return admitNow();
}

/** Admits a request in a transaction of its own. */
async function admitAlone(context: EngineContext, admission: Admission): Promise<SubmitAnswer> {
  const admitInTransaction = () => context.transact((transaction) => admit(transaction, context, admission));
  // A request with the same key may be stored at the same moment: then this one is a replay.
  return context.knownPlans.retryWithout(() => repeatIfTaken(admitInTransaction));
}

async function admit(transaction: Transaction, context: EngineContext, admission: Admission): Promise<SubmitAnswer> {
  const { tx } = transaction;
  const { caller, terms } = admission;
  const replay = () => replayOf(tx, caller, terms, admission.isSameInput);
  const replayed = await replay();
  if (replayed) return replayed;
  const selected: SelectedPart[] = [];
  for (const given of admission.submissions) {
    const chosen = await withRunbookSteps(tx, given);
    const installed = await operationImage(tx, context.keyring, given, { keep: !terms.dryRun });
    const selection = await given.select(transaction);
    const flaws = [chosen, installed].flatMap((one) => ("refusals" in one ? one.refusals : []));
    if ("refusals" in chosen || "refusals" in installed)
      return refuseRequest([...flaws, ...("refusals" in selection ? selection.refusals : [])]);
    if ("refusals" in selection) return (await replay()) ?? refuseRequest(selection.refusals);
    selected.push({ submission: { ...given, options: chosen.options }, selection, installed });
  }
  // A dry run needs only the right to read, so it must not block other requests by locking the nodes.
  const read = terms.dryRun ? nodesByIds : lockNodes;
  const rows = await read(
    tx,
    selected.flatMap(({ selection }) => nodeIdsOf(selection.nodes)),
  );
  const nodes = new Map(rows.map((node) => [node.id, node]));
  // The request that held the locks may have been this one, sent twice. Without a second look it would be refused as
  // BUSY.
  const replayedMeanwhile = await replay();
  if (replayedMeanwhile) return replayedMeanwhile;
  const site = await readSite(tx);
  const parts: DecidedPart[] = [];
  for (const part of selected) parts.push(await decidePart(transaction, { ...part, nodes }, { context, site, terms }));
  const request = { ...admission, policy: site.policy, parts: await applyGroupRules(tx, parts, terms) };
  const judged = await judgeRequest(context.keyring, request);
  if ("answer" in judged) return judged.answer;
  return acceptedRequest(await storeOperations(transaction, context, admittedParts(request)), judged);
}
