/** Answers of verbs, and of abort, stop and restart: one result per node, and the operations. */
import type { NodeAnswer, SubmitAnswer } from "../../../engine/input/answers.ts";
import type { AbortEffect } from "../../../lifecycle/interrupts.ts";
import { existing } from "../../base/batching.ts";
import { builder } from "../../base/builder.ts";
import type { OutputFields } from "../../base/builder.ts";
import { AbortEffectEnum } from "../../base/enums.ts";
import { UserErrorRef } from "../../base/errors.ts";
import { nodeFields, payloadName, refusalFields } from "../../base/payload.ts";
import { OperationRef, RunRef } from "../../base/refs.ts";
import { operationField } from "../../base/shared-fields.ts";
import { StepRef } from "./step.ts";
import type { StepView } from "./step.ts";

export type NodeResult = NodeAnswer & { readonly effect?: AbortEffect | null; readonly afterStep?: string | null };

/** The planned steps of a node, none of them started; null for a node without a plan. */
export function plannedSteps({ plan, nodeId }: NodeResult): StepView[] | null {
  return plan?.steps.map((planned, index) => ({ index, planned, attempts: [], open: true, nodeId })) ?? null;
}

/** Why a node was refused. */
const errorFields = (t: OutputFields<NodeAnswer>) => ({
  error: t.expose("refusal", {
    type: UserErrorRef,
    nullable: true,
    description: "First reason why the node was refused; null if it was accepted.",
  }),
  errors: t.field({
    type: [UserErrorRef],
    description: "Every reason why the node was refused; empty if it was accepted.",
    resolve: ({ refusal, further = [] }) => (refusal ? [refusal, ...further] : []),
  }),
});

export const RefusedNodeRef = builder.objectRef<NodeAnswer>("RefusedNode").implement({
  description: "Node that a request was refused for.",
  fields: (t) => ({ ...nodeFields(t, "The node; null if it does not exist."), ...errorFields(t) }),
});

const NodeResultRef = builder.interfaceRef<NodeResult>("NodeResult").implement({
  description: "Result for one node of a request about work.",
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
        "Whether the node was accepted: its work starts, or the interrupt is stored. With `dryRun`: whether nothing is in the way on this node, also if the request would be refused because of others. False without an `error` if applyCluster leaves the node as it is, because it is what the cluster wants.",
    }),
    ...errorFields(t),
  }),
});

export const WorkResultRef = builder.objectRef<NodeResult>("WorkResult").implement({
  description: "Result for one node of a request that starts work, with its plan.",
  interfaces: [NodeResultRef],
  fields: (t) => ({
    steps: t.field({
      type: [StepRef],
      nullable: true,
      description:
        "Steps that will (with `dryRun`: would) run, in their order; null for a refused node, and for one that applyCluster leaves as it is.",
      resolve: plannedSteps,
    }),
    reason: t.exposeString("reason", {
      nullable: true,
      description:
        "Why applyCluster works, or would work, on the node, as in `new`, `stopped in write_image` or `variables.ntp: 10.0.0.1 → 10.0.0.2`; secrets are only `changed`. Null if the node is as the cluster wants it, and for other verbs.",
    }),
  }),
});

export const InterruptResultRef = builder.objectRef<NodeResult>("InterruptResult").implement({
  description: "Result for one node of a request about unfinished work.",
  interfaces: [NodeResultRef],
});

const AbortResultRef = builder.objectRef<NodeResult>("AbortResult").implement({
  description: "Result for one node of an abort.",
  interfaces: [NodeResultRef],
  fields: (t) => ({
    abortEffect: t.field({
      type: AbortEffectEnum,
      nullable: true,
      description: "Time at which the abort takes effect; null if the node was refused.",
      resolve: ({ effect }) => effect ?? null,
    }),
    abortPendingAfterStep: t.string({
      nullable: true,
      description: "Step that must end before the abort takes effect; null if it does not wait.",
      resolve: ({ afterStep }) => afterStep ?? null,
    }),
  }),
});

export const acceptedCount = ({ results }: SubmitAnswer) => results.filter(({ accepted }) => accepted).length;
export const refusedCount = ({ results }: SubmitAnswer) => results.filter(({ refusal }) => refusal !== null).length;
export const ACCEPTED_COUNT = "Number of nodes whose result is `accepted`.";
export const REFUSED_COUNT =
  "Number of refused nodes. One refused node is enough to refuse the whole request, unless `acceptance` is BEST_EFFORT.";

export const WorkPayloadRef = builder.interfaceRef<SubmitAnswer>("WorkPayload").implement({
  description: "Answer to a request about work. `errors` is empty if the request was accepted.",
  fields: (t) => ({
    operation: operationField(
      t,
      "The operation; null for a refused request and for the dry run of a verb, and if a restart or an interrupt concerns several operations.",
    ),
    results: t.expose("results", {
      type: [NodeResultRef],
      description: "One result per node, in the order of the request.",
    }),
    acceptedCount: t.int({ description: ACCEPTED_COUNT, resolve: acceptedCount }),
    refusedCount: t.int({ description: REFUSED_COUNT, resolve: refusedCount }),
    ...refusalFields(
      t,
      "Reasons why the whole request was refused, one for each code; empty if it was accepted. Abort, stop, restart, releaseHolds and withdrawAbort with BEST_EFFORT also name the nodes that do not exist.",
    ),
  }),
});

/** Of verbs and restarts. */
export const StartedWorkRef = builder.interfaceRef<SubmitAnswer>("StartedWorkPayload").implement({
  description: "Answer to a request that starts work.",
  interfaces: [WorkPayloadRef],
  fields: (t) => ({
    results: t.expose("results", {
      type: [WorkResultRef],
      description: "One result per node, in the order of the request.",
    }),
    replayed: t.exposeBoolean("replayed", {
      description:
        "True if this is the answer to an earlier request with the same idempotency key. It has the operations of that request and the nodes that it accepted; refusals are not stored, so `errors` is empty.",
    }),
  }),
});

/** Of requests about unfinished work. */
export const InterruptPayloadRef = builder.interfaceRef<SubmitAnswer>("InterruptPayload").implement({
  description: "Answer to a request about unfinished work.",
  interfaces: [WorkPayloadRef],
});

/** The payload of a verb. */
export function verbPayload(mutation: string) {
  return builder.objectRef<SubmitAnswer>(payloadName(mutation)).implement({
    description: `Answer to ${mutation}.`,
    interfaces: [WorkPayloadRef, StartedWorkRef],
  });
}

export const RestartPayloadRef = builder.objectRef<SubmitAnswer>("RestartPayload").implement({
  description: "Answer to restart.",
  interfaces: [WorkPayloadRef, StartedWorkRef],
  fields: (t) => allOperations(t, "All operations: one for each earlier request that the restart takes up."),
});

/** The payload of a request about unfinished work, with the type of its results. */
export function interruptPayload(mutation: string, result: typeof InterruptResultRef = InterruptResultRef) {
  return builder.objectRef<SubmitAnswer>(payloadName(mutation)).implement({
    description: `Answer to ${mutation}.`,
    interfaces: [WorkPayloadRef, InterruptPayloadRef],
    fields: (t) => ({
      ...allOperations(t, "All operations whose work is meant."),
      results: t.expose("results", {
        type: [result],
        description: "One result per node, in the order of the request.",
      }),
    }),
  });
}

const allOperations = (t: OutputFields<SubmitAnswer>, description: string) => ({
  operations: t.field({
    type: [OperationRef],
    description: `${description} Empty for a refused request.`,
    resolve: ({ operationId, operationIds }, _args, { load }) =>
      existing(load.operation, operationIds ?? (operationId === null ? [] : [operationId])),
  }),
});

export const AbortPayloadRef = interruptPayload("abort", AbortResultRef);
