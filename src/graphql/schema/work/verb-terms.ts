/** Terms that all verbs share: their input fields, and what the engine takes. */
import type { InputShapeFromFields } from "@pothos/core";
import type { RequestTerms } from "../../../engine/admission/request-terms.ts";
import { given } from "../../base/builder.ts";
import type { InputFields } from "../../base/builder.ts";
import { AcceptanceEnum, FailurePolicyEnum, PowerOnFailureEnum, UnknownVariablesEnum } from "../../base/enums.ts";
import { NodeSelectorInput } from "../selectors.ts";
import { WavesInput, wavesOf } from "./waves.ts";

/** Effect of a refused node, in requests that take all nodes or none by default. */
export const acceptanceField = (t: InputFields) => ({
  acceptance: t.field({
    type: AcceptanceEnum,
    required: true,
    defaultValue: "ALL_OR_NOTHING",
    description: "Effect of a refused node on the whole request.",
  }),
});

const variableFields = (t: InputFields) => ({
  variables: t.field({
    type: "JSON",
    description:
      "Variables for the drivers, a JSON object. Merged over those of the site, the cluster, the host group and the node; null removes one.",
  }),
  unknownVariables: t.field({
    type: UnknownVariablesEnum,
    required: true,
    defaultValue: "REFUSE_SIMILAR",
    description: "Effect of a variable that no driver of a node reads.",
  }),
});

/** Fields of every verb's input, those of a restart included. */
export const termFields = (t: InputFields) => ({
  ...acceptanceField(t),
  idempotencyKey: t.string({
    description:
      "Makes the request safe to repeat: the same key with the same input by the same caller returns the same operation and starts no second one. 1–200 characters.",
  }),
  onFailure: t.field({
    type: FailurePolicyEnum,
    description:
      "Effect of a failed node on the others. Default `Site.commissionOnFailure` for a commission (CLEAN_UP_ALL unless it was changed), LEAVE for all other verbs.",
  }),
  powerOnFailure: t.field({
    type: PowerOnFailureEnum,
    description:
      "Power of a node whose cleaning or deployment fails. By default as `Site.powerOnFailure` says; a restart keeps the choice of the earlier request.",
  }),
  ...variableFields(t),
  maxParallel: t.int({
    description:
      "Maximum number of nodes worked on at the same time; the others are QUEUED in the order of the request.",
  }),
  waves: t.field({
    type: WavesInput,
    description:
      "Start the nodes in waves; by default all at once. With `maxFailures`, CLEAN_UP_FAILED takes the place of the default CLEAN_UP_ALL of a commission.",
  }),
  dryRun: t.boolean({
    required: true,
    defaultValue: false,
    description:
      "Only check and plan the request: return each node's steps or the reason for its refusal. Nothing is written.",
  }),
  planHash: t.string({
    description:
      "`planHash` of an earlier plan. The request is refused with STALE_REVISION if its plan is not the same.",
  }),
  reason: t.string({ description: "Reason for the request; stored with the transitions." }),
  force: t.boolean({
    required: true,
    defaultValue: false,
    description:
      "Include nodes that have disappeared or that have a fault. Their steps will probably fail; a decommission ends DECOMMISSIONED all the same. `setPower` also includes nodes on which a step waits.",
  }),
});

/** Fields of the input of a verb on selected nodes. */
export const workFields = (t: InputFields) => ({
  nodes: t.field({ type: NodeSelectorInput, required: true, description: "Selection of nodes." }),
  ...termFields(t),
});

/** The values of `termFields` as resolvers receive them. */
export type TermsInput = InputShapeFromFields<ReturnType<typeof termFields>>;

/** The terms of a restart that null drops, as resolvers receive them. */
export function keptTermsOf({ onFailure, waves, maxParallel }: TermsInput) {
  return { onFailure, waves: waves && wavesOf(waves), maxParallel };
}

export function termsOf(input: TermsInput): RequestTerms {
  return {
    acceptance: input.acceptance,
    idempotencyKey: given(input.idempotencyKey),
    onFailure: given(input.onFailure),
    powerOnFailure: given(input.powerOnFailure),
    variables: given(input.variables),
    // The default is left out, as in requests from before there was a choice: a repeated request compares equal.
    unknownVariables: input.unknownVariables === "REFUSE_SIMILAR" ? undefined : input.unknownVariables,
    maxParallel: given(input.maxParallel),
    waves: input.waves ? wavesOf(input.waves) : undefined,
    dryRun: input.dryRun,
    planHash: given(input.planHash),
    reason: given(input.reason),
  };
}
