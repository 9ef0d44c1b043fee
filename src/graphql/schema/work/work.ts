/** Mutations of unfinished or ended work: abort, stop, restart, and what undoes an abort or a hold. */
import type { InputShapeFromFields } from "@pothos/core";
import { builder, given } from "../../base/builder.ts";
import { addMutation } from "../../base/mutation.ts";
import { inputName } from "../../base/payload.ts";
import type { InputFields } from "../../base/builder.ts";
import { AbortModeEnum, AcceptanceEnum, FailurePolicyEnum, RestartFromEnum } from "../../base/enums.ts";
import { AbortPayloadRef, RestartPayloadRef, interruptPayload } from "./node-work.ts";
import { WorkSelectorInput, workSelector } from "../selectors.ts";
import { keptTermsOf, termFields, termsOf } from "./verb-terms.ts";
import { WavesInput } from "./waves.ts";

/** Fields of every input about unfinished work. */
const workFields = (t: InputFields) => ({
  work: t.field({ type: WorkSelectorInput, required: true, description: "Operation or nodes whose work is meant." }),
  acceptance: t.field({
    type: AcceptanceEnum,
    required: true,
    defaultValue: "BEST_EFFORT",
    description:
      "Effect of a refused or unknown node on the others. BEST_EFFORT: the others are accepted, and `errors` names the unknown nodes.",
  }),
  reason: t.string({ description: "Reason for the request; stored with the transitions." }),
  dryRun: t.boolean({
    required: true,
    defaultValue: false,
    description:
      "Only decide the request: return each node's result and a `forecast`. Nothing is written, and nothing is locked.",
  }),
});

addMutation("abort", {
  scope: "OPERATE",
  description:
    "Give up work now; nodes end in a failed state. Each node has its own result: accepted, or refused with NOTHING_RUNNING, NOT_INTERRUPTIBLE or UNSUPPORTED_BY_DRIVER.",
  input: builder.inputType("AbortInput", {
    description: "Work to abort, and how.",
    fields: (t) => ({
      mode: t.field({
        type: AbortModeEnum,
        required: true,
        defaultValue: "NOW",
        description: "How far to go to end the step that has begun.",
      }),
      powerOff: t.boolean({
        description: "Whether to power the nodes off. By default, nodes in cleaning or deployment are powered off.",
      }),
      ...workFields(t),
    }),
  }),
  argument: "Work to abort, and how.",
  payload: AbortPayloadRef,
  run: (input, engine, caller) =>
    engine.abort(caller, {
      ...workOf(input),
      mode: input.mode,
      powerOff: given(input.powerOff),
    }),
});

addMutation("stop", {
  scope: "OPERATE",
  description:
    "Stop work gracefully: running steps end, no further step starts, and nodes with remaining work end STOPPED, from where they can be restarted. Work that was stopped already is returned as it is; if all of the work has ended otherwise, the request is refused with NOTHING_RUNNING.",
  input: builder.inputType("StopInput", {
    description: "Work to stop gracefully.",
    fields: (t) => ({
      timeoutSeconds: t.int({
        description:
          "Seconds that running steps may take to end before they fail with STOP_TIMEOUT, 1 to 86400. Default 600.",
      }),
      ...workFields(t),
      work: t.field({
        type: WorkSelectorInput,
        required: true,
        description:
          "Operation or nodes whose work to stop. For an operation, or a cluster that an operation was requested for, the whole operation stops.",
      }),
    }),
  }),
  argument: "Operation or nodes whose work is meant.",
  payload: interruptPayload("stop"),
  run: (input, engine, caller) =>
    engine.stop(caller, {
      ...workOf(input),
      timeoutSeconds: given(input.timeoutSeconds),
    }),
});

addMutation("restart", {
  scope: "OPERATE",
  description:
    "Continue stopped, failed, aborted or undone work, each node by its own earlier request and with the present settings. Nodes whose work succeeded are not touched. By default the unfinished stage of a node runs again; see `from`.",
  input: builder.inputType("RestartInput", {
    description: "Stopped, failed or aborted work to restart, and terms.",
    fields: (t) => ({
      work: t.field({
        type: WorkSelectorInput,
        required: true,
        description: "Operation or nodes whose work is meant.",
      }),
      from: t.field({
        type: RestartFromEnum,
        required: true,
        defaultValue: "STAGE",
        description: "How much completed work to keep.",
      }),
      ...termFields(t),
      acceptance: t.field({
        type: AcceptanceEnum,
        required: true,
        defaultValue: "BEST_EFFORT",
        description:
          "Effect of a refused or unknown node on the others. BEST_EFFORT: the others restart, `results` has the reason for each refused node, and `errors` names the unknown ones.",
      }),
      onFailure: t.field({
        type: FailurePolicyEnum,
        description:
          "Effect of a failed node on the others. By default that of the earlier request; null uses the default of its verb.",
      }),
      maxParallel: t.int({
        description:
          "Maximum number of nodes worked on at the same time. By default that of the earlier request; null sets no limit.",
      }),
      waves: t.field({
        type: WavesInput,
        description:
          "Start the nodes in waves. By default those of the earlier request, with `maxFailures`; null starts all nodes at once.",
      }),
      keepVariables: t.boolean({
        required: true,
        defaultValue: true,
        description:
          "Whether the variables of the earlier request apply, below those of this one. With false only the cluster's settings and this request's variables do.",
      }),
    }),
  }),
  argument: "Work to restart, how much of it to keep, and terms.",
  payload: RestartPayloadRef,
  run: (input, engine, caller) =>
    engine.restart(caller, {
      ...termsOf(input),
      ...keptTermsOf(input),
      keepVariables: input.keepVariables,
      work: workSelector(input.work),
      from: input.from,
      force: input.force,
    }),
});

/** The input of a request without fields of its own. */
function plainInput(mutation: string, description: string) {
  return builder.inputType(inputName(mutation), { description, fields: workFields });
}

addMutation("withdrawAbort", {
  scope: "OPERATE",
  description:
    "Withdraw a pending abort: the step that it waits for ends, and the work continues. Refused if the abort has already started. Also withdraws a stop that was requested before the abort or while it was pending.",
  input: plainInput("withdrawAbort", "Work whose pending abort to withdraw."),
  argument: "Work whose abort to withdraw.",
  payload: interruptPayload("withdrawAbort"),
  run: (input, engine, caller) => engine.withdrawAbort(caller, workOf(input)),
});

addMutation("releaseHolds", {
  scope: "OPERATE",
  description: "Release holds: runs that wait at the reserved step `hold` continue. Each node has its own result.",
  input: plainInput("releaseHolds", "Work whose holds to release."),
  argument: "Work whose holds to release.",
  payload: interruptPayload("releaseHolds"),
  run: (input, engine, caller) => engine.unhold(caller, workOf(input)),
});

function workOf({ work, acceptance, reason, dryRun }: InputShapeFromFields<ReturnType<typeof workFields>>) {
  return { work: workSelector(work), acceptance, reason: given(reason), dryRun };
}
