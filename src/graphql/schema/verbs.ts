/** The mutations that are work: each verb over many nodes, and abort, stop and restart. */
import type { AbortEffect } from "../../lifecycle/interrupts.ts";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import type { Share, WaveOptions } from "../../lifecycle/waves.ts";
import type { NodeAnswer, SubmitAnswer, RequestTerms } from "../../engine/admission/admit.ts";
import type { WavesAnswer } from "../../engine/scheduling/waves.ts";
import type { FailurePolicy } from "../../lifecycle/operation-states.ts";
import type { VerbOptions } from "../../store/records.ts";
import { QueryRef, builder, given, needs } from "../base/builder.ts";
import type { InputFields } from "../base/builder.ts";
import { callerOf } from "../base/context.ts";
import type { Context } from "../base/context.ts";
import {
  AbortEffectEnum,
  AbortModeEnum,
  AcceptanceEnum,
  FailurePolicyEnum,
  PowerActionEnum,
  RestartFromEnum,
  UntilEnum,
} from "../base/enums.ts";
import { UserErrorRef } from "../base/errors.ts";
import { keyOf } from "../base/ids.ts";
import { NodeRef, OperationRef, RunRef } from "../base/refs.ts";
import { StepRef } from "./run.ts";
import type { StepView } from "./run.ts";
import { StepInput, stepChoices } from "./runbook.ts";
import { NodeSelectorInput, WorkSelectorInput, nodeSelector, workSelector } from "./selectors.ts";
import type { NodeSelectorShape } from "./selectors.ts";

const ShareInput = builder.inputType("ShareInput", {
  description: "Number of nodes, absolute or relative to the nodes of the operation. Exactly one field.",
  isOneOf: true,
  fields: (t) => ({
    count: t.int({ description: "Number of nodes." }),
    percent: t.float({ description: "Percentage of the operation's nodes." }),
  }),
});

export const WavesInput = builder.inputType("WavesInput", {
  description: "Start the nodes in waves, in the order of the request: a wave starts when the previous one has ended.",
  fields: (t) => ({
    sizes: t.field({
      type: [ShareInput],
      required: true,
      description:
        "Size of each wave, 1 to 1000 entries. The last size is repeated until every node has a wave. Percentages are rounded up.",
    }),
    pauseSeconds: t.float({ description: "Pause between two waves in seconds, 0 to 2592000. Default 0." }),
    manual: t.boolean({
      required: true,
      defaultValue: false,
      description: "Whether every wave after the first waits for advanceWaves.",
    }),
    maxFailures: t.field({
      type: ShareInput,
      description:
        "Number of nodes that may fail. With one more failure, no further node starts until resumeWaves. Percentages are rounded down. No limit by default.",
    }),
  }),
});

/** The terms that every verb takes. */
const termFields = (t: InputFields) => ({
  acceptance: t.field({
    type: AcceptanceEnum,
    required: true,
    defaultValue: "ALL_OR_NOTHING",
    description: "Effect of a refused node on the whole request.",
  }),
  idempotencyKey: t.string({
    description:
      "Makes the request safe to repeat: the same key with the same input by the same caller returns the same operation and starts no second one. 1–200 characters.",
  }),
  onFailure: t.field({
    type: FailurePolicyEnum,
    description:
      "Effect of a failed node on the others. Default CLEAN_UP_ALL for a commission, LEAVE for all other verbs.",
  }),
  variables: t.field({
    type: "JSON",
    description: "Variables for the drivers, a JSON object. Merged into the cluster's settings; null removes a key.",
  }),
  maxParallel: t.int({
    description:
      "Maximum number of nodes worked on at the same time; the others are QUEUED in the order of the request.",
  }),
  waves: t.field({
    type: WavesInput,
    description:
      "Start the nodes in waves; by default all at once. With `maxFailures`, the default `onFailure` of a commission is CLEAN_UP_FAILED.",
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
});

const workFields = (t: InputFields) => ({
  nodes: t.field({ type: NodeSelectorInput, required: true, description: "Selection of nodes." }),
  ...termFields(t),
});

const NodeWorkInput = builder.inputType("NodeWorkInput", {
  description: "Nodes and terms of a verb.",
  fields: (t) => workFields(t),
});

const CommissionNodesInput = builder.inputType("CommissionNodesInput", {
  description: "Nodes and terms of a commission.",
  fields: (t) => ({
    ...workFields(t),
    until: t.field({
      type: UntilEnum,
      required: true,
      defaultValue: "ACTIVE",
      description: "State in which the commission ends.",
    }),
  }),
});

const CleanNodesInput = builder.inputType("CleanNodesInput", {
  description: "Nodes, steps and terms of a cleaning.",
  fields: (t) => ({
    ...workFields(t),
    steps: t.field({
      type: [StepInput],
      description: "Clean steps and reserved steps to run in this order instead of the automatic ones; 1 to 100.",
    }),
    runbook: t.string({
      description:
        "Name of a runbook to use instead of `steps`. The operation runs the steps that the runbook has now.",
    }),
  }),
});

const DeployNodesInput = builder.inputType("DeployNodesInput", {
  description: "Nodes, steps and terms of a deployment.",
  fields: (t) => ({
    ...workFields(t),
    steps: t.field({
      type: [StepInput],
      description: "Deploy steps and reserved steps to run in this order instead of the automatic ones; 1 to 100.",
    }),
  }),
});

const DecommissionNodesInput = builder.inputType("DecommissionNodesInput", {
  description: "Nodes and terms of a decommissioning.",
  fields: (t) => ({
    ...workFields(t),
    force: t.boolean({
      required: true,
      defaultValue: false,
      description: "Include nodes that have disappeared. Their steps will fail, but they end DECOMMISSIONED.",
    }),
  }),
});

const UpdateNodesInput = builder.inputType("UpdateNodesInput", {
  description: "Nodes and terms of an update.",
  fields: (t) => ({
    ...workFields(t),
    hostGroup: t.string({
      description:
        "Host group to deploy the nodes for. Drivers receive it as the variable `host_group`. By default the nodes keep their host group.",
    }),
  }),
});

const SetPowerInput = builder.inputType("SetPowerInput", {
  description: "Nodes, action and terms of a power change.",
  fields: (t) => ({
    ...workFields(t),
    action: t.field({ type: PowerActionEnum, required: true, description: "Power action." }),
    timeoutSeconds: t.float({
      description:
        "For SOFT_OFF: seconds that the system may take to shut down before it is powered off, 1 to 86400. Default 600.",
    }),
  }),
});

const AbortInput = builder.inputType("AbortInput", {
  description: "Work to abort, and how.",
  fields: (t) => ({
    work: t.field({ type: WorkSelectorInput, required: true, description: "Operation or nodes whose work is meant." }),
    mode: t.field({
      type: AbortModeEnum,
      required: true,
      defaultValue: "NOW",
      description: "What to do on nodes where the running step must not be interrupted.",
    }),
    powerOff: t.boolean({
      description: "Whether to power the nodes off. By default, nodes in cleaning or deployment are powered off.",
    }),
    reason: t.string({ description: "Reason for the request; stored with the transitions." }),
  }),
});

const StopInput = builder.inputType("StopInput", {
  description: "Work to stop gracefully.",
  fields: (t) => ({
    work: t.field({
      type: WorkSelectorInput,
      required: true,
      description:
        "Operation or nodes whose work to stop. For an operation, or a cluster that an operation was requested for, the whole operation stops.",
    }),
    timeoutSeconds: t.float({
      description:
        "Seconds that running steps may take to end before they fail with STOP_TIMEOUT, 1 to 86400. Default 600.",
    }),
    reason: t.string({ description: "Reason for the request; stored with the transitions." }),
  }),
});

const WorkInput = builder.inputType("WorkInput", {
  description: "Unfinished work.",
  fields: (t) => ({
    work: t.field({ type: WorkSelectorInput, required: true, description: "Operation or nodes whose work is meant." }),
    reason: t.string({ description: "Reason for the request; stored with the transitions." }),
  }),
});

const RestartInput = builder.inputType("RestartInput", {
  description: "Stopped, failed or aborted work to restart, and terms.",
  fields: (t) => ({
    work: t.field({ type: WorkSelectorInput, required: true, description: "Operation or nodes whose work is meant." }),
    from: t.field({
      type: RestartFromEnum,
      required: true,
      defaultValue: "STAGE",
      description: "How much completed work to keep.",
    }),
    ...termFields(t),
  }),
});

export type ResultShape = NodeAnswer & { readonly effect?: AbortEffect | null; readonly afterStep?: string | null };

/** Steps of what was planned for a node, none of them begun; null where nothing was. */
export function plannedSteps({ plan, nodeId }: ResultShape): StepView[] | null {
  return plan?.steps.map((planned, index) => ({ index, planned, attempts: [], open: true, nodeId })) ?? null;
}

export const NodeResultRef = builder.objectRef<ResultShape>("NodeResult").implement({
  description: "Result for one node of a request.",
  fields: (t) => ({
    ref: t.exposeString("ref", { description: "Name or UUID of the node as the request gave it." }),
    node: t.field({
      type: NodeRef,
      nullable: true,
      description: "The node; null if it does not exist or has been deleted.",
      resolve: ({ nodeId }, _args, { load }) => (nodeId === null ? null : load.node.load(nodeId)),
    }),
    run: t.field({
      type: RunRef,
      nullable: true,
      description: "Run on the node; null if the node was refused, and in a dry run.",
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
      description: "The stored operation; null for a refused request and for a dry run.",
      resolve: ({ operationId }, _args, { load }) => (operationId === null ? null : load.operation.load(operationId)),
    }),
    results: t.field({
      type: [NodeResultRef],
      description: "One result per node, in the order of the request.",
      resolve: ({ results }) => [...results],
    }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Reasons why the whole request was refused; empty if it was accepted.",
      resolve: ({ refusals }) => [...refusals],
    }),
    replayed: t.exposeBoolean("replayed", {
      description: "True if this is the answer to an earlier request with the same idempotency key.",
    }),
    query: t.field({
      type: QueryRef,
      description: "Root query, to read more in the same request.",
      resolve: () => ({}),
    }),
  }),
});

interface TermsInput {
  acceptance: "ALL_OR_NOTHING" | "BEST_EFFORT";
  idempotencyKey?: string | null | undefined;
  onFailure?: FailurePolicy | null | undefined;
  variables?: unknown;
  maxParallel?: number | null | undefined;
  waves?: WavesShape | null | undefined;
  dryRun: boolean;
  planHash?: string | null | undefined;
  reason?: string | null | undefined;
}

type ShareShape = { readonly count?: number | null | undefined; readonly percent?: number | null | undefined };

interface WavesShape {
  readonly sizes: readonly ShareShape[];
  readonly pauseSeconds?: number | null | undefined;
  readonly manual: boolean;
  readonly maxFailures?: ShareShape | null | undefined;
}

export function wavesOf({ sizes, pauseSeconds, manual, maxFailures }: WavesShape): WaveOptions {
  return {
    sizes: sizes.map(shareOf),
    pauseSeconds: given(pauseSeconds),
    manual,
    maxFailures: maxFailures ? shareOf(maxFailures) : undefined,
  };
}

function shareOf({ count, percent }: ShareShape): Share {
  return count == null ? { percent: percent ?? 0 } : { count };
}

function termsOf(input: TermsInput): RequestTerms {
  return {
    acceptance: input.acceptance,
    idempotencyKey: given(input.idempotencyKey),
    onFailure: given(input.onFailure),
    variables: given(input.variables),
    maxParallel: given(input.maxParallel),
    waves: input.waves ? wavesOf(input.waves) : undefined,
    dryRun: input.dryRun,
    planHash: given(input.planHash),
    reason: given(input.reason),
  };
}

function submit(
  context: Context,
  kind: OperationKind,
  input: TermsInput & { nodes: NodeSelectorShape },
  options: VerbOptions = {},
): Promise<SubmitAnswer> {
  return context.services.engine.submit(callerOf(context), {
    ...termsOf(input),
    kind,
    nodes: nodeSelector(input.nodes),
    options,
  });
}

function choiceOf(
  { steps }: { readonly steps?: Parameters<typeof stepChoices>[0] },
  usual: "clean" | "deploy",
): VerbOptions {
  const chosen = stepChoices(steps, usual);
  return chosen ? { steps: chosen } : {};
}

const SIMPLE_VERBS = [
  [
    "manageNodes",
    "MANAGE",
    "Verify power and credentials; nodes end MANAGEABLE. Allowed from ENROLLED, STOPPED, AVAILABLE, DECOMMISSIONED, INSPECT_FAILED and CLEAN_FAILED.",
  ],
  [
    "inspectNodes",
    "INSPECT",
    "Collect the inventory. Allowed from MANAGEABLE and INSPECT_FAILED; also from AVAILABLE and ACTIVE, without a state change, if the driver inspects without a reboot.",
  ],
  [
    "undeployNodes",
    "UNDEPLOY",
    "Remove the workload, then clean; nodes end AVAILABLE. Allowed from ACTIVE, STOPPED, DEPLOY_FAILED and UNDEPLOY_FAILED.",
  ],
] as const;

for (const [name, kind, description] of SIMPLE_VERBS) {
  builder.mutationField(name, (t) =>
    t.field({
      type: NodeWorkPayloadRef,
      nullable: true,
      ...needs("OPERATE"),
      description,
      args: { input: t.arg({ type: NodeWorkInput, required: true, description: "Nodes and terms." }) },
      resolve: (_root, { input }, context) => submit(context, kind, input),
    }),
  );
}

builder.mutationField("commissionNodes", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Run the missing phases of verify, inspect, clean and deploy. Allowed from every stable or failed state except ACTIVE. By default, a failure cleans up all nodes of the operation; see `onFailure`.",
    args: {
      input: t.arg({
        type: CommissionNodesInput,
        required: true,
        description: "Nodes, final state and terms.",
      }),
    },
    resolve: (_root, { input }, context) => submit(context, "COMMISSION", input, { until: input.until }),
  }),
);

builder.mutationField("cleanNodes", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Run clean steps: the automatic ones, the given ones, or those of a runbook. A node ends in the state in which it started.",
    args: {
      input: t.arg({ type: CleanNodesInput, required: true, description: "Nodes, steps and terms." }),
    },
    resolve: (_root, { input }, context) =>
      submit(context, "CLEAN", input, {
        ...choiceOf(input, "clean"),
        ...(input.runbook != null && { runbook: input.runbook }),
      }),
  }),
);

builder.mutationField("deployNodes", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description: "Install the system; nodes end ACTIVE. Allowed from AVAILABLE, DEPLOY_FAILED, and again from ACTIVE.",
    args: {
      input: t.arg({
        type: DeployNodesInput,
        required: true,
        description: "Nodes, steps and terms.",
      }),
    },
    resolve: (_root, { input }, context) => submit(context, "DEPLOY", input, choiceOf(input, "deploy")),
  }),
);

builder.mutationField("decommissionNodes", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Take nodes out of service: tear-down and cleaning, best effort. Nodes end DECOMMISSIONED even if steps fail; failures are recorded in `Run.errors`.",
    args: {
      input: t.arg({ type: DecommissionNodesInput, required: true, description: "Nodes and terms." }),
    },
    resolve: (_root, { input }, context) => submit(context, "DECOMMISSION", input, { force: input.force }),
  }),
);

builder.mutationField("updateNodes", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Redeploy nodes: remove the workload, clean, and deploy with the present settings, optionally in another host group. Allowed from ACTIVE. A failed tear-down or cleaning ends the run.",
    args: { input: t.arg({ type: UpdateNodesInput, required: true, description: "Nodes and terms." }) },
    resolve: (_root, { input }, context) =>
      submit(context, "UPDATE", input, input.hostGroup == null ? {} : { hostGroup: input.hostGroup }),
  }),
);

builder.mutationField("setPower", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Change the power state of nodes. A node that already has the requested state succeeds without a call to its BMC. Refused with BUSY while a node has an unfinished run of any kind. A protected node accepts only ON.",
    args: { input: t.arg({ type: SetPowerInput, required: true, description: "Nodes, action and terms." }) },
    resolve: (_root, { input }, context) =>
      submit(context, "POWER", input, {
        powerAction: input.action,
        ...(input.timeoutSeconds != null && { softTimeoutSeconds: input.timeoutSeconds }),
      }),
  }),
);

builder.mutationField("abort", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Give up work now; nodes end in a failed state. Each node has its own result: accepted, or refused with NOTHING_RUNNING, NOT_INTERRUPTIBLE or UNSUPPORTED_BY_DRIVER.",
    args: { input: t.arg({ type: AbortInput, required: true, description: "Work to abort, and how." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.abort(callerOf(context), {
        work: workSelector(input.work),
        mode: input.mode,
        powerOff: given(input.powerOff),
        reason: given(input.reason),
      }),
  }),
);

builder.mutationField("stop", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Stop work gracefully: running steps end, no further step starts, and nodes with remaining work end STOPPED, from where they can be restarted. Stopping work that has ended returns it as it ended.",
    args: { input: t.arg({ type: StopInput, required: true, description: "Operation or nodes whose work is meant." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.stop(callerOf(context), {
        work: workSelector(input.work),
        timeoutSeconds: given(input.timeoutSeconds),
        reason: given(input.reason),
      }),
  }),
);

builder.mutationField("restart", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Continue stopped, failed or aborted work in a new operation, with the present settings. Nodes whose work succeeded are not touched.",
    args: {
      input: t.arg({
        type: RestartInput,
        required: true,
        description: "Work to restart, how much of it to keep, and terms.",
      }),
    },
    resolve: (_root, { input }, context) =>
      context.services.engine.restart(callerOf(context), {
        ...termsOf(input),
        work: workSelector(input.work),
        from: input.from,
      }),
  }),
);

builder.mutationField("withdrawAbort", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Withdraw a pending abort: the step that it waits for ends, and the work continues. Refused if the abort has already started. Also withdraws a stop that was requested before the abort.",
    args: { input: t.arg({ type: WorkInput, required: true, description: "Work whose abort to withdraw." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.withdrawAbort(callerOf(context), {
        work: workSelector(input.work),
        reason: given(input.reason),
      }),
  }),
);

builder.mutationField("unhold", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description: "Release holds: runs that wait at the reserved step `hold` continue. Each node has its own result.",
    args: { input: t.arg({ type: WorkInput, required: true, description: "Work whose holds to release." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.unhold(callerOf(context), {
        work: workSelector(input.work),
        reason: given(input.reason),
      }),
  }),
);

const WavesStepInput = builder.inputType("SteerWavesInput", {
  description: "Operation whose waves to control.",
  fields: (t) => ({
    operationId: t.id({ required: true, description: "Global ID or raw UUID of the operation." }),
    reason: t.string({ description: "Reason; shown with the operation while it is halted." }),
  }),
});

const OperationPayloadRef = builder.objectRef<WavesAnswer>("OperationPayload").implement({
  description: "Answer to a mutation of an operation.",
  fields: (t) => ({
    operation: t.field({
      type: OperationRef,
      nullable: true,
      description: "The operation after the change; null if the request was refused.",
      resolve: ({ operationId }, _args, { load }) => (operationId === null ? null : load.operation.load(operationId)),
    }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Reasons why the request was refused; empty if it succeeded.",
      resolve: ({ refusals }) => [...refusals],
    }),
    query: t.field({
      type: QueryRef,
      description: "Root query, to read more in the same request.",
      resolve: () => ({}),
    }),
  }),
});

const WAVE_MUTATIONS = [
  ["advanceWaves", "ADVANCE", "Start the next wave now, even if the previous one has not ended; also after a halt."],
  [
    "haltWaves",
    "HALT",
    "Start no further node of the operation; active runs continue. `Rollout.reason` has the reason.",
  ],
  ["resumeWaves", "RESUME", "Continue after a halt. Failures so far no longer count toward `maxFailures`."],
] as const;

for (const [name, action, description] of WAVE_MUTATIONS) {
  builder.mutationField(name, (t) =>
    t.field({
      type: OperationPayloadRef,
      nullable: true,
      ...needs("OPERATE"),
      description,
      args: { input: t.arg({ type: WavesStepInput, required: true, description: "The operation." }) },
      resolve: (_root, { input }, context) =>
        context.services.engine.steerWaves(callerOf(context), {
          operationId: keyOf("Operation", input.operationId),
          action,
          reason: given(input.reason),
        }),
    }),
  );
}
