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
  description: "A number of nodes, or a share of the operation's. Exactly one field.",
  isOneOf: true,
  fields: (t) => ({
    count: t.int({ description: "So many nodes." }),
    percent: t.float({ description: "So many percent of the operation's nodes." }),
  }),
});

export const WavesInput = builder.inputType("WavesInput", {
  description:
    "Take the nodes on in waves, in the order of the request: the next one begins when the one before has ended.",
  fields: (t) => ({
    sizes: t.field({
      type: [ShareInput],
      required: true,
      description:
        "Size of each wave, 1 to 1000 of them; the last one is repeated until every node has its wave. Percent are rounded up.",
    }),
    pauseSeconds: t.float({ description: "Pause between two waves, 0 to 2592000; 0 if absent." }),
    manual: t.boolean({
      required: true,
      defaultValue: false,
      description: "Each further wave waits for advanceWaves.",
    }),
    maxFailures: t.field({
      type: ShareInput,
      description:
        "So many nodes may fail; with one more no further node begins until resumeWaves. Percent are rounded down. Absent: any number.",
    }),
  }),
});

/** The terms that every verb takes. */
const termFields = (t: InputFields) => ({
  acceptance: t.field({
    type: AcceptanceEnum,
    required: true,
    defaultValue: "ALL_OR_NOTHING",
    description: "What one bad node does to the request.",
  }),
  idempotencyKey: t.string({
    description:
      "The same key with the same input, by the same caller, answers the same operation and starts nothing twice; 1 to 200 characters.",
  }),
  onFailure: t.field({
    type: FailurePolicyEnum,
    description:
      "What a failed node does to the others; CLEAN_UP_ALL for a commission unless told otherwise, LEAVE for the rest.",
  }),
  variables: t.field({
    type: "JSON",
    description:
      "Variables handed to the drivers, laid over the cluster's settings: a JSON object; null removes a key.",
  }),
  maxParallel: t.int({ description: "At most so many nodes at the same time; the others are QUEUED, in order." }),
  waves: t.field({
    type: WavesInput,
    description:
      "Take the nodes on in waves; absent: all at once. With `maxFailures`, a commission's `onFailure` is CLEAN_UP_FAILED unless told otherwise.",
  }),
  dryRun: t.boolean({
    required: true,
    defaultValue: false,
    description: "Only judge and plan: each node's steps, or why it would be refused. Nothing is written.",
  }),
  planHash: t.string({
    description:
      "The `planHash` of a plan that was looked at: refused with STALE_REVISION when what would be done is no longer that.",
  }),
  reason: t.string({ description: "Why; goes into the transitions." }),
});

const workFields = (t: InputFields) => ({
  nodes: t.field({ type: NodeSelectorInput, required: true, description: "Which nodes." }),
  ...termFields(t),
});

const NodeWorkInput = builder.inputType("NodeWorkInput", {
  description: "Start a verb on many nodes.",
  fields: (t) => workFields(t),
});

const CommissionNodesInput = builder.inputType("CommissionNodesInput", {
  description: "Commission many nodes.",
  fields: (t) => ({
    ...workFields(t),
    until: t.field({ type: UntilEnum, required: true, defaultValue: "ACTIVE", description: "How far." }),
  }),
});

const CleanNodesInput = builder.inputType("CleanNodesInput", {
  description: "Clean many nodes.",
  fields: (t) => ({
    ...workFields(t),
    steps: t.field({
      type: [StepInput],
      description: "Clean steps and reserved steps to run in this order, in place of the automatic ones; 1 to 100.",
    }),
    runbook: t.string({ description: "Name of a runbook, in place of `steps`. Its steps are those it has now." }),
  }),
});

const DeployNodesInput = builder.inputType("DeployNodesInput", {
  description: "Deploy many nodes.",
  fields: (t) => ({
    ...workFields(t),
    steps: t.field({
      type: [StepInput],
      description: "Deploy steps and reserved steps to run in this order, in place of the automatic ones; 1 to 100.",
    }),
  }),
});

const DecommissionNodesInput = builder.inputType("DecommissionNodesInput", {
  description: "Take many nodes out of service.",
  fields: (t) => ({
    ...workFields(t),
    force: t.boolean({
      required: true,
      defaultValue: false,
      description: "Also nodes that have disappeared: their steps will fail, and they end DECOMMISSIONED all the same.",
    }),
  }),
});

const UpdateNodesInput = builder.inputType("UpdateNodesInput", {
  description: "Renew what runs on many nodes.",
  fields: (t) => ({
    ...workFields(t),
    hostGroup: t.string({
      description:
        "Host group that the nodes are deployed for, told to the drivers as the variable `host_group`; absent: the one they have.",
    }),
  }),
});

const SetPowerInput = builder.inputType("SetPowerInput", {
  description: "Change the power of many nodes.",
  fields: (t) => ({
    ...workFields(t),
    action: t.field({ type: PowerActionEnum, required: true, description: "What to do." }),
    timeoutSeconds: t.float({
      description:
        "Of SOFT_OFF: how long the system may take to shut down before its power is cut. 1 to 86400; 600 if absent.",
    }),
  }),
});

const AbortInput = builder.inputType("AbortInput", {
  description: "Abort unfinished work.",
  fields: (t) => ({
    work: t.field({ type: WorkSelectorInput, required: true, description: "Whose work." }),
    mode: t.field({
      type: AbortModeEnum,
      required: true,
      defaultValue: "NOW",
      description: "What to do where the running step must not be interrupted.",
    }),
    powerOff: t.boolean({ description: "Whether nodes are powered off; absent: those being cleaned or deployed are." }),
    reason: t.string({ description: "Why; goes into the transitions." }),
  }),
});

const StopInput = builder.inputType("StopInput", {
  description: "Stop work gracefully.",
  fields: (t) => ({
    work: t.field({
      type: WorkSelectorInput,
      required: true,
      description:
        "Whose work. A stop of an operation, or of a cluster that an operation was asked for, is of the whole operation.",
    }),
    timeoutSeconds: t.float({
      description: "How long running steps may go on; then they fail with STOP_TIMEOUT. 1 to 86400; 600 if absent.",
    }),
    reason: t.string({ description: "Why; goes into the transitions." }),
  }),
});

const WorkInput = builder.inputType("WorkInput", {
  description: "Unfinished work that something is asked of.",
  fields: (t) => ({
    work: t.field({ type: WorkSelectorInput, required: true, description: "Whose work." }),
    reason: t.string({ description: "Why; goes into the transitions." }),
  }),
});

const RestartInput = builder.inputType("RestartInput", {
  description: "Take up stopped, failed or aborted work again.",
  fields: (t) => ({
    work: t.field({ type: WorkSelectorInput, required: true, description: "Whose work." }),
    from: t.field({
      type: RestartFromEnum,
      required: true,
      defaultValue: "STAGE",
      description: "How much of what was done is kept.",
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
  description: "Answer to one node of a request, in the order asked.",
  fields: (t) => ({
    ref: t.exposeString("ref", { description: "What the request called the node: name or UUID." }),
    node: t.field({
      type: NodeRef,
      nullable: true,
      description: "The node that is answered for; null if there is none by that name, or none any more.",
      resolve: ({ nodeId }, _args, { load }) => (nodeId === null ? null : load.node.load(nodeId)),
    }),
    run: t.field({
      type: RunRef,
      nullable: true,
      description: "The run; null if refused or only planned.",
      resolve: ({ runId }, _args, { load }) => (runId === null ? null : load.run.load(runId)),
    }),
    accepted: t.exposeBoolean("accepted", {
      description: "Whether work was (with `dryRun`: would be) started, or the wish recorded.",
    }),
    error: t.field({
      type: UserErrorRef,
      nullable: true,
      description: "Why the node was refused; the first reason.",
      resolve: ({ refusal }) => refusal,
    }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Why the node was refused; every reason.",
      resolve: ({ refusal, further = [] }) => (refusal ? [refusal, ...further] : []),
    }),
    steps: t.field({
      type: [StepRef],
      nullable: true,
      description:
        "Steps that will (with `dryRun`: would) run, in order; null for a refused node and for abort and stop.",
      resolve: plannedSteps,
    }),
    abortEffect: t.field({
      type: AbortEffectEnum,
      nullable: true,
      description: "Of an accepted abort: when it takes effect.",
      resolve: ({ effect }) => effect ?? null,
    }),
    abortPendingAfterStep: t.string({
      nullable: true,
      description: "Of a pending abort: the step that must end first.",
      resolve: ({ afterStep }) => afterStep ?? null,
    }),
  }),
});

export const NodeWorkPayloadRef = builder.objectRef<SubmitAnswer>("NodeWorkPayload").implement({
  description: "Answer to a verb. `errors` is empty when the request was accepted.",
  fields: (t) => ({
    operation: t.field({
      type: OperationRef,
      nullable: true,
      description: "The stored operation; null when refused or only planned.",
      resolve: ({ operationId }, _args, { load }) => (operationId === null ? null : load.operation.load(operationId)),
    }),
    results: t.field({
      type: [NodeResultRef],
      description: "One answer per node.",
      resolve: ({ results }) => [...results],
    }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Why the request as a whole was refused.",
      resolve: ({ refusals }) => [...refusals],
    }),
    replayed: t.exposeBoolean("replayed", {
      description: "Whether an earlier request with the same key is answered again.",
    }),
    query: t.field({ type: QueryRef, description: "Root query, to read on in the same request.", resolve: () => ({}) }),
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
    "Verify power and credentials, up to MANAGEABLE. From ENROLLED, STOPPED, AVAILABLE, DECOMMISSIONED and the failed states of inspection and cleaning.",
  ],
  [
    "inspectNodes",
    "INSPECT",
    "Collect the inventory. From MANAGEABLE and INSPECT_FAILED; in place on AVAILABLE and ACTIVE where the driver inspects without a reboot.",
  ],
  [
    "undeployNodes",
    "UNDEPLOY",
    "Remove the workload, then clean, up to AVAILABLE. From ACTIVE, STOPPED, DEPLOY_FAILED and UNDEPLOY_FAILED.",
  ],
] as const;

for (const [name, kind, description] of SIMPLE_VERBS) {
  builder.mutationField(name, (t) =>
    t.field({
      type: NodeWorkPayloadRef,
      nullable: true,
      ...needs("OPERATE"),
      description,
      args: { input: t.arg({ type: NodeWorkInput, required: true, description: "Which nodes, on which terms." }) },
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
      "Whatever is missing of verify, inspect, clean and deploy. From every state at rest but ACTIVE. On a failure every node is cleaned up, unless `onFailure` says otherwise.",
    args: {
      input: t.arg({
        type: CommissionNodesInput,
        required: true,
        description: "Which nodes, how far, on which terms.",
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
      "Run clean steps: those that run by themselves, those given, or a runbook's. A node ends where it began.",
    args: {
      input: t.arg({ type: CleanNodesInput, required: true, description: "Which nodes, which steps, on which terms." }),
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
    description: "Install, up to ACTIVE. From AVAILABLE, DEPLOY_FAILED, and again from ACTIVE.",
    args: {
      input: t.arg({
        type: DeployNodesInput,
        required: true,
        description: "Which nodes, which steps, on which terms.",
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
      "Take out of service: tear-down and cleaning, best effort. A node always ends DECOMMISSIONED; what failed is recorded.",
    args: {
      input: t.arg({ type: DecommissionNodesInput, required: true, description: "Which nodes, on which terms." }),
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
      "Renew what runs on nodes: take the workload down, clean, and deploy again with the settings as they are now, optionally in another host group. From ACTIVE. A tear-down or cleaning that fails ends it there.",
    args: { input: t.arg({ type: UpdateNodesInput, required: true, description: "Which nodes, on which terms." }) },
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
      "Change power. Already there is a success without a call. Refused with BUSY while a run on the node is unfinished, whatever it is doing; a protected node takes ON alone.",
    args: { input: t.arg({ type: SetPowerInput, required: true, description: "Which nodes, and what to do." }) },
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
      "Give up now: nodes end in a failed state. Each node is answered: accepted, or NOTHING_RUNNING, NOT_INTERRUPTIBLE, UNSUPPORTED_BY_DRIVER.",
    args: { input: t.arg({ type: AbortInput, required: true, description: "Whose work, and how." }) },
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
      "Give up later: running steps end, no new one starts, and nodes with work left end STOPPED, to be restarted. A stop of what has ended answers it as it ended.",
    args: { input: t.arg({ type: StopInput, required: true, description: "Whose work." }) },
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
      "Go on: a new operation for what is stopped, failed or aborted, with the settings as they are now. Nodes whose work is done are left alone.",
    args: {
      input: t.arg({ type: RestartInput, required: true, description: "Whose work, from where, on which terms." }),
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
      "Take a pending abort back: the step that it waits for ends, and the work goes on. Refused where the abort is being carried out already. A stop asked for before that abort is taken back with it.",
    args: { input: t.arg({ type: WorkInput, required: true, description: "Whose abort." }) },
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
    description: "Lift holds: runs that reached the reserved step `hold` go on. Each node is answered.",
    args: { input: t.arg({ type: WorkInput, required: true, description: "Whose holds." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.unhold(callerOf(context), {
        work: workSelector(input.work),
        reason: given(input.reason),
      }),
  }),
);

const WavesStepInput = builder.inputType("SteerWavesInput", {
  description: "An operation whose waves are moved on or held.",
  fields: (t) => ({
    operationId: t.id({ required: true, description: "Global ID or raw UUID of the operation." }),
    reason: t.string({ description: "Why; shown with the operation while it is halted." }),
  }),
});

const OperationPayloadRef = builder.objectRef<WavesAnswer>("OperationPayload").implement({
  description: "Answer to what was asked of an operation as a whole.",
  fields: (t) => ({
    operation: t.field({
      type: OperationRef,
      nullable: true,
      description: "The operation as it is now; null when refused.",
      resolve: ({ operationId }, _args, { load }) => (operationId === null ? null : load.operation.load(operationId)),
    }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Why it was refused.",
      resolve: ({ refusals }) => [...refusals],
    }),
    query: t.field({ type: QueryRef, description: "Root query, to read on in the same request.", resolve: () => ({}) }),
  }),
});

const WAVE_MUTATIONS = [
  ["advanceWaves", "ADVANCE", "Begin the next wave now, whether the one before has ended or not; also after a halt."],
  [
    "haltWaves",
    "HALT",
    "Let no further node of the operation begin; what has begun goes on. The stream of the operation says why.",
  ],
  ["resumeWaves", "RESUME", "Go on after a halt. Failures so far are forgiven: `maxFailures` counts anew."],
] as const;

for (const [name, action, description] of WAVE_MUTATIONS) {
  builder.mutationField(name, (t) =>
    t.field({
      type: OperationPayloadRef,
      nullable: true,
      ...needs("OPERATE"),
      description,
      args: { input: t.arg({ type: WavesStepInput, required: true, description: "Which operation." }) },
      resolve: (_root, { input }, context) =>
        context.services.engine.steerWaves(callerOf(context), {
          operationId: keyOf("Operation", input.operationId),
          action,
          reason: given(input.reason),
        }),
    }),
  );
}
