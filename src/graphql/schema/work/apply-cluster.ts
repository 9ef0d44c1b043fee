/** `applyCluster`: the verb on a whole cluster, with its input, which `plan` takes as well. */
import type { ApplyRequest } from "../../../engine/admission/apply-cluster.ts";
import type { SubmitAnswer } from "../../../engine/input/answers.ts";
import { verbOf } from "../../../lifecycle/verbs.ts";
import { builder, needs } from "../../base/builder.ts";
import { callerOf } from "../../base/context.ts";
import { AcceptanceEnum } from "../../base/enums.ts";
import { payloadName } from "../../base/payload.ts";
import { imageFields, imageOf } from "../images/image.ts";
import { ClusterRefInput, NodeSelectorInput, clusterChoice, nodeSelector } from "../selectors.ts";
import { StartedWorkRef, WorkPayloadRef } from "./node-work.ts";
import { termFields, termsOf } from "./verb-terms.ts";

const APPLY_MUTATION = verbOf("APPLY").mutation;

export const ApplyClusterInput = builder.inputType("ApplyClusterInput", {
  description: "Cluster, nodes and terms of applyCluster.",
  fields: (t) => ({
    cluster: t.field({ type: ClusterRefInput, required: true, description: "Reference to it by ID or name." }),
    nodes: t.field({
      type: NodeSelectorInput,
      description:
        "Only these nodes of the cluster; by default all. Named nodes have to be in the cluster; of those that match a filter, the members count.",
    }),
    ...termFields(t),
    acceptance: t.field({
      type: AcceptanceEnum,
      required: true,
      defaultValue: "BEST_EFFORT",
      description:
        "Effect of a refused node on the others. BEST_EFFORT: it is reported and left alone, and the others start.",
    }),
    ...imageFields(t),
    reinstall: t.boolean({
      required: true,
      defaultValue: false,
      description:
        "Install again on ACTIVE nodes whose image, user data, or steps up to PROVISIONED differ. This erases their systems; without it they are refused, or only configured.",
    }),
  }),
});

/** The request as the engine takes it. */
export function applyRequestOf(input: typeof ApplyClusterInput.$inferInput): ApplyRequest {
  return {
    ...termsOf(input),
    ...imageOf(input),
    cluster: clusterChoice(input.cluster),
    nodes: input.nodes ? nodeSelector(input.nodes) : undefined,
    ...(input.reinstall && { reinstall: true }),
    ...(input.force && { force: true }),
  };
}

const ApplyClusterPayloadRef = builder.objectRef<SubmitAnswer>(payloadName(APPLY_MUTATION)).implement({
  description:
    "Answer to applyCluster. If all nodes are as the cluster wants them, `operation` is null and `errors` is empty.",
  interfaces: [WorkPayloadRef, StartedWorkRef],
});

builder.mutationField(APPLY_MUTATION, (t) =>
  t.field({
    type: ApplyClusterPayloadRef,
    ...needs("OPERATE"),
    description:
      "Bring the nodes of a cluster to what it wants now, with the least work: deploy those without a system, continue stopped and failed work from the stage reached, and on ACTIVE nodes whose last deployment had other inputs repeat the steps after PROVISIONED or, with `reinstall: true`, install again. Unknown inputs start nothing.",
    args: { input: t.arg({ type: ApplyClusterInput, required: true, description: "Cluster, nodes and terms." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.applyCluster(callerOf(context), applyRequestOf(input)),
  }),
);
