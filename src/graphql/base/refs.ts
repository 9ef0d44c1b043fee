/** Names of the object types and the rows behind them, apart from their fields, so that types can refer to each other. */
import type { AnyDriver } from "../../drivers/registry.ts";
import type { ClusterRow } from "../../store/clusters.ts";
import type { NodeRow } from "../../store/nodes.ts";
import type { OperationRow } from "../../store/operations.ts";
import type { Failure } from "../../store/records.ts";
import type { RunRow } from "../../store/runs.ts";
import type { TransitionRow } from "../../store/transitions.ts";
import { builder } from "./builder.ts";
import { FAILURE_FIELDS } from "../../store/node-fields.ts";
import { ErrorCodeEnum } from "./enums.ts";

export const NodeRef = builder.objectRef<NodeRow>("Node");
export const ClusterRef = builder.objectRef<ClusterRow>("Cluster");
export const OperationRef = builder.objectRef<OperationRow>("Operation");
export const RunRef = builder.objectRef<RunRow>("Run");
export const DriverRef = builder.objectRef<AnyDriver>("Driver");
export const TransitionRef = builder.objectRef<TransitionRow>("Transition");

/** Anything with a global ID. */
export const ResourceRef = builder.interfaceRef<object>("Resource").implement({
  description:
    "Anything with a globally unique, opaque, stable ID: Relay's `Node`, a word that is taken by the machine.",
  fields: (t) => ({
    id: t.id({ description: "Opaque global ID: store it, compare it, never parse it.", resolve: () => "" }),
  }),
});

export const FailureRef = builder.objectRef<Failure>("Failure").implement({
  description: "Why a step, a run or an operation failed. Secrets are masked.",
  fields: (t) => ({
    code: t.field({ type: ErrorCodeEnum, description: "Machine-readable reason.", resolve: FAILURE_FIELDS.code.value }),
    message: t.string({
      description: "What happened, to which node, and what to do; for people.",
      resolve: FAILURE_FIELDS.message.value,
    }),
    step: t.string({
      nullable: true,
      description: "Step that failed, null if it was before the first.",
      resolve: FAILURE_FIELDS.step.value,
    }),
    nodeName: t.string({ nullable: true, description: "Node it failed on.", resolve: FAILURE_FIELDS.nodeName.value }),
    at: t.field({ type: "DateTime", description: "When.", resolve: FAILURE_FIELDS.at.value }),
    retryable: t.boolean({
      description: "Whether a restart can help without a change.",
      resolve: FAILURE_FIELDS.retryable.value,
    }),
  }),
});
