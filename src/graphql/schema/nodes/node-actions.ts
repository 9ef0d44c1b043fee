/**
 * `Node.actions`: for each action, whether it would be accepted for a node now. The decisions are those of the
 * mutations; the rows that they need are read for all nodes of a list together, and only for the actions asked for.
 */
import { sharedLackOf } from "../../../access/access.ts";
import { ERROR_REMEDY } from "../../../errors.ts";
import type { Refusal } from "../../../errors.ts";
import {
  clusterLocks,
  decideAbort,
  decideStop,
  judgeRestart,
  refusalOfDeletion,
  refusalOfRelease,
  refusalOfRestart,
  refusalOfWithdrawal,
  scopeFlaws,
  stepUnderWay,
} from "../../../engine/views.ts";
import type { AbortEffect } from "../../../lifecycle/interrupts.ts";
import type { PowerChange } from "../../../lifecycle/verbs.ts";
import type { NodeRow } from "../../../store/nodes/nodes.ts";
import type { RunRow } from "../../../store/runs/runs.ts";
import { builder } from "../../base/builder.ts";
import type { Context } from "../../base/context.ts";
import { AbortEffectEnum, ErrorCodeEnum, PowerActionEnum } from "../../base/enums.ts";
import { NodeRef } from "../../base/refs.ts";
import { NODE_ACTION_NAMES, NodeActionEnum, isVerb, mutationOf, scopeOfAction } from "./actions.ts";
import type { NodeAction, OtherAction } from "./actions.ts";
import { busyWith, factsAbout, verdictsOf } from "./node-verbs.ts";

export interface ActionVerdict {
  readonly action: NodeAction;
  readonly powerAction: PowerChange | null;
  readonly refusal: Pick<Refusal, "code" | "message"> | null;
  /** Of an accepted abort. */
  readonly effect: AbortEffect | null;
  readonly afterStep: string | null;
}

const ActionVerdictRef = builder.objectRef<ActionVerdict>("ActionVerdict").implement({
  description: "Result of checking whether an action would be accepted for a node now.",
  fields: (t) => ({
    action: t.expose("action", { type: NodeActionEnum, description: "Action that was checked." }),
    powerAction: t.expose("powerAction", {
      type: PowerActionEnum,
      nullable: true,
      description: "Power action that was checked; null for actions other than POWER.",
    }),
    mutation: t.string({ description: "Mutation of the action.", resolve: ({ action }) => mutationOf(action) }),
    allowed: t.boolean({
      description: "Whether the action would be accepted.",
      resolve: ({ refusal }) => refusal === null,
    }),
    code: t.field({
      type: ErrorCodeEnum,
      nullable: true,
      description: "Reason why the action would be refused; null if it is allowed.",
      resolve: ({ refusal }) => refusal?.code ?? null,
    }),
    reason: t.string({
      nullable: true,
      description: "The reason as a sentence for people; null if the action is allowed.",
      resolve: ({ refusal }) => refusal?.message ?? null,
    }),
    remedy: t.string({
      nullable: true,
      description: "What to do about the refusal, in general; null if the action is allowed.",
      resolve: ({ refusal }) => refusal && ERROR_REMEDY[refusal.code],
    }),
    abortEffect: t.expose("effect", {
      type: AbortEffectEnum,
      nullable: true,
      description: "Time at which an abort would take effect; null for other actions, and if it would be refused.",
    }),
    abortPendingAfterStep: t.exposeString("afterStep", {
      nullable: true,
      description: "Step that must end before an abort would take effect; null if it would not wait.",
    }),
  }),
});

/** A node, with its unfinished run. */
interface Subject {
  readonly node: NodeRow;
  readonly run: RunRow | null;
}

const PLAIN = { powerAction: null, effect: null, afterStep: null } as const;

/** Verdicts in the order of `wanted`; POWER has one for each power action. */
export async function actionVerdicts(
  node: NodeRow,
  wanted: readonly NodeAction[],
  context: Context,
): Promise<ActionVerdict[]> {
  const actions = [...new Set(wanted)];
  const subject = { node, run: await context.load.currentRun.load(node.id) };
  const verbs = actions.filter(isVerb);
  const [judged, ...others] = await Promise.all([
    verbs.length === 0
      ? []
      : factsAbout(node, subject.run, context).then((facts) => verdictsOf(facts, verbs, context.actor)),
    ...actions.flatMap((action) => (isVerb(action) ? [] : [otherVerdict(subject, action, context)])),
  ]);
  const ofVerbs = judged.map(({ verb, ...verdict }): ActionVerdict => ({ ...PLAIN, ...verdict, action: verb }));
  const byAction = Map.groupBy([...ofVerbs, ...others], ({ action }) => action);
  return actions.flatMap((action) => byAction.get(action) ?? []);
}

async function otherVerdict(subject: Subject, action: OtherAction, context: Context): Promise<ActionVerdict> {
  const lack = sharedLackOf(`The action ${action}`, scopeOfAction(action), context.actor);
  if (lack !== null) return { ...PLAIN, action, refusal: { code: "FORBIDDEN", message: lack } };
  if (action !== "ABORT") return { ...PLAIN, action, refusal: await refusalOf(subject, action, context) };
  const { step, attempt } = await stepOf(subject, context);
  const { refusal, effect, afterStep } = decideAbort(targetOf(subject), stepUnderWay(step, attempt), "NOW");
  return { ...PLAIN, action, refusal, effect: effect ?? null, afterStep: afterStep ?? null };
}

async function refusalOf(
  subject: Subject,
  action: Exclude<OtherAction, "ABORT">,
  context: Context,
): Promise<Refusal | null> {
  const { node, run } = subject;
  switch (action) {
    case "STOP":
      return decideStop(targetOf({ node, run: run ?? (await context.load.newestWork.load(node.id)) })).refusal;
    case "RESTART":
      return restartRefusal(subject, context);
    case "RELEASE_HOLDS":
      return refusalOfRelease(targetOf(subject));
    case "WITHDRAW_ABORT": {
      const { step, attempt } = await stepOf(subject, context);
      return refusalOfWithdrawal(targetOf(subject), step, attempt);
    }
    case "DELETE":
      return deletionRefusal(subject, context);
    case "SET_MAINTENANCE":
    case "CLEAR_MAINTENANCE":
    case "SET_RETIRED":
    case "CLEAR_RETIRED":
    case "PROTECT":
    case "UNPROTECT":
      // Marks are accepted in every state, also if the node has them already.
      return null;
  }
}

function targetOf({ node: { id, name }, run }: Subject) {
  return { ref: name, nodeId: id, name, run: run ?? undefined };
}

/** The step that the unfinished run of a node is at. */
async function stepOf({ run }: Subject, { load }: Context) {
  if (!run) return { step: undefined, attempt: undefined };
  const [plan, attempt] = await Promise.all([load.plan.load(run.planHash), load.attemptUnderWay.load(run.id)]);
  return { step: plan?.steps[run.position], attempt: attempt ?? undefined };
}

async function restartRefusal({ node, run: current }: Subject, context: Context): Promise<Refusal | null> {
  const { load } = context;
  const run = await load.newestWork.load(node.id);
  const refusal = refusalOfRestart({ nodeId: node.id, name: node.name }, node, run ?? undefined, false);
  if (refusal !== null || run === null) return refusal;
  const [facts, plan, operation, succeeded, isCleanedUp, { policy }] = await Promise.all([
    factsAbout(node, current, context),
    load.plan.load(run.planHash),
    load.operation.load(run.operationId),
    load.succeededSteps.load(run.id),
    load.isCleanedUp.load(run.id),
    load.site.load("policy"),
  ]);
  if (!plan || !operation) return null;
  const [forbidden] = scopeFlaws(context.actor, operation.options, policy);
  return forbidden ?? judgeRestart(node, facts, { run, isCleanedUp, plan, operation, succeeded });
}

async function deletionRefusal({ node, run }: Subject, context: Context): Promise<Refusal | null> {
  const refusal = refusalOfDeletion(node, (await busyWith(run, context)) ?? undefined);
  if (refusal !== null || node.clusterId === null) return refusal;
  return context.load.below<null, Refusal | null>(clusterLocks, node.clusterId, null, null);
}

builder.objectField(NodeRef, "actions", (t) =>
  t.field({
    type: [ActionVerdictRef],
    description:
      "Actions with the result of checking whether each would be accepted now: the verbs, as in `verbs`, then requests about work and marks. Checks of other inputs, such as variables, follow with the mutation. An abort is checked with `mode: NOW`, a restart with its defaults.",
    args: {
      only: t.arg({ type: [NodeActionEnum], description: "Only these actions, in this order; by default all." }),
    },
    resolve: (node, { only }, context) => actionVerdicts(node, only ?? NODE_ACTION_NAMES, context),
  }),
);
