/** Object types by name and row, without their fields, so that types can refer to each other. */
import type { AnyDriver } from "../../drivers/interfaces.ts";
import type { ClusterRow } from "../../store/nodes/clusters.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import type { Failure } from "../../store/records.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import type { TransitionRow } from "../../store/log/transitions.ts";
import { builder } from "./builder.ts";
import { FAILURE_FIELDS } from "../../store/nodes/node-fields.ts";
import { ErrorCodeEnum, FailureKindEnum } from "./enums.ts";

export const NodeRef = builder.objectRef<NodeRow>("Node");
export const ClusterRef = builder.objectRef<ClusterRow>("Cluster");
export const OperationRef = builder.objectRef<OperationRow>("Operation");
export const RunRef = builder.objectRef<RunRow>("Run");
export const DriverRef = builder.objectRef<AnyDriver>("Driver");
export const TransitionRef = builder.objectRef<TransitionRow>("Transition");

export const FailureRef = builder.objectRef<Failure>("Failure").implement({
  description: "Failure of a step, run or operation. Secrets are masked.",
  fields: (t) => ({
    code: t.expose("code", { type: ErrorCodeEnum, description: "Machine-readable reason." }),
    kind: t.expose("kind", {
      type: FailureKindEnum,
      nullable: true,
      description:
        "Cause as the driver classified it, and so where to look. Null if Ostler itself found the failure, for example a step that exceeded its time.",
    }),
    message: t.exposeString("message", { description: "What happened, to which node, and what to do; for people." }),
    cause: t.string({
      description: "Why it failed, in the words of the driver or of Ostler alone, without node and step.",
      resolve: FAILURE_FIELDS.cause.value,
    }),
    step: t.exposeString("step", { nullable: true, description: "Step that failed; null if no step had started." }),
    nodeName: t.exposeString("nodeName", { nullable: true, description: "Node on which it failed." }),
    at: t.field({ type: "DateTime", description: "Time of the failure.", resolve: FAILURE_FIELDS.at.value }),
    retryable: t.exposeBoolean("retryable", { description: "Whether a restart can succeed without any change." }),
  }),
});
