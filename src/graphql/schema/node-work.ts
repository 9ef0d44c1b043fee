/** Answers of verbs, and of abort, stop and restart: one result per node, and the stored operation. */
import type { NodeAnswer, SubmitAnswer } from "../../engine/input/answers.ts";
import type { AbortEffect } from "../../lifecycle/interrupts.ts";
import { builder } from "../base/builder.ts";
import { AbortEffectEnum } from "../base/enums.ts";
import { UserErrorRef } from "../base/errors.ts";
import { nodeFields, refusalFields } from "../base/payload.ts";
import { OperationRef, RunRef } from "../base/refs.ts";
import { StepRef } from "./step.ts";
import type { StepView } from "./step.ts";

export type NodeResult = NodeAnswer & { readonly effect?: AbortEffect | null; readonly afterStep?: string | null };

/** The planned steps of a node, none of them started; null for a node without a plan. */
export function plannedSteps({ plan, nodeId }: NodeResult): StepView[] | null {
  return plan?.steps.map((planned, index) => ({ index, planned, attempts: [], open: true, nodeId })) ?? null;
}

export const NodeResultRef = builder.objectRef<NodeResult>("NodeResult").implement({
  description: "Result for one node of a request.",
  fields: (t) => ({
    ...nodeFields(t, "The node; null if it does not exist or has been deleted."),
    run: t.field({
      type: RunRef,
      nullable: true,
      description: "Run on the node; null if the node was refused, and in a dry run of a verb.",
      resolve: ({ runId }, _args, { load }) => (runId === null ? null : load.run.load(runId)),
    }),
    accepted: t.exposeBoolean("accepted", {
      description:
        "Whether the node was (with `dryRun`: would be) accepted: its work starts, or the interrupt is stored.",
    }),
    error: t.field({
      type: UserErrorRef,
      nullable: true,
      description: "First reason why the node was refused; null if it was accepted.",
      resolve: ({ refusal }) => refusal,
    }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Every reason why the node was refused; empty if it was accepted.",
      resolve: ({ refusal, further = [] }) => (refusal ? [refusal, ...further] : []),
    }),
    steps: t.field({
      type: [StepRef],
      nullable: true,
      description:
        "Steps that will (with `dryRun`: would) run, in their order; null for a refused node, and for abort and stop.",
      resolve: plannedSteps,
    }),
    abortEffect: t.field({
      type: AbortEffectEnum,
      nullable: true,
      description: "Time at which an accepted abort takes effect; null for other requests.",
      resolve: ({ effect }) => effect ?? null,
    }),
    abortPendingAfterStep: t.string({
      nullable: true,
      description: "Step that must end before a pending abort takes effect; null if no abort is pending.",
      resolve: ({ afterStep }) => afterStep ?? null,
    }),
  }),
});

export const NodeWorkPayloadRef = builder.objectRef<SubmitAnswer>("NodeWorkPayload").implement({
  description: "Answer to a verb. `errors` is empty if the request was accepted.",
  fields: (t) => ({
    operation: t.field({
      type: OperationRef,
      nullable: true,
      description:
        "The stored operation; null for a refused request and for a dry run, and if a restart or an interrupt concerns several operations.",
      resolve: ({ operationId }, _args, { load }) => (operationId === null ? null : load.operation.load(operationId)),
    }),
    operations: t.field({
      type: [OperationRef],
      description:
        "All stored operations. A restart by nodes or cluster has one for each earlier request that it takes up; every other request has at most one.",
      resolve: async ({ operationId, operationIds }, _args, { load }) => {
        const ids = operationIds ?? (operationId === null ? [] : [operationId]);
        const found = await Promise.all(ids.map((id) => load.operation.load(id)));
        return found.filter((operation) => operation !== null);
      },
    }),
    results: t.field({
      type: [NodeResultRef],
      description: "One result per node, in the order of the request.",
      resolve: ({ results }) => [...results],
    }),
    ...refusalFields(
      t,
      "Reasons why the whole request was refused, one for each code; empty if it was accepted. Abort, stop, restart, releaseHolds and withdrawAbort with BEST_EFFORT also name the nodes that do not exist.",
    ),
    replayed: t.exposeBoolean("replayed", {
      description:
        "True if this is the answer to an earlier request with the same idempotency key. It has the operations of that request and the nodes that it accepted; refusals are not stored, so `errors` is empty.",
    }),
  }),
});
