/**
 * What would be done, and how long it would take: the query `plan`, and what steps, runs and the answers to verbs tell
 * besides. Estimates are made of the durations of the site's own attempts; where there are none, none is given.
 */
import { isHold, isReservedWait } from "../../engine/engine.ts";
import type { SubmitAnswer } from "../../engine/admission/admit.ts";
import type { Refusal } from "../../errors.ts";
import { pointOfNoReturn, touchesOf } from "../../lifecycle/touches.ts";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import type { StepHistory } from "../../store/step-durations.ts";
import type { VerbOptions } from "../../store/records.ts";
import { builder, given, needs } from "../base/builder.ts";
import { callerOf } from "../base/context.ts";
import type { Context } from "../base/context.ts";
import {
  AcceptanceEnum,
  NodeStateEnum,
  OperationKindEnum,
  PowerActionEnum,
  TouchEnum,
  UntilEnum,
} from "../base/enums.ts";
import { UserErrorRef } from "../base/errors.ts";
import { RunRef } from "../base/refs.ts";
import { StepRef, stepsOf } from "./run.ts";
import type { StepView } from "./run.ts";
import { StepInput, stepChoices } from "./runbook.ts";
import { NodeSelectorInput, nodeSelector } from "./selectors.ts";
import { NodeResultRef, NodeWorkPayloadRef, WavesInput, plannedSteps, wavesOf } from "./verbs.ts";

// ---- estimates

const EstimateRef = builder.objectRef<StepHistory>("Estimate").implement({
  description:
    "How long something takes, going by what the same steps took on this site before: by their newest 1000 attempts that succeeded.",
  fields: (t) => ({
    medianSeconds: t.float({
      description: "Half of them took no longer. Of several steps: the sum.",
      resolve: ({ medianSeconds }) => toMilliseconds(medianSeconds),
    }),
    p90Seconds: t.float({
      description: "Nine of ten took no longer. Of several steps: the sum, which is rather too long than too short.",
      resolve: ({ p90Seconds }) => toMilliseconds(p90Seconds),
    }),
    samples: t.exposeInt("samples", {
      description:
        "Attempts it is made of; of several steps: of the one with the fewest. 0 where a step says itself how long it lasts (the reserved wait).",
    }),
    model: t.exposeString("model", {
      nullable: true,
      description: "Model of the nodes that were looked at; null: all nodes of the driver.",
    }),
  }),
});

/** Times are stored to the millisecond; medians and sums of them have digits that say nothing. */
function toMilliseconds(seconds: number): number {
  return Math.round(seconds * 1000) / 1000;
}

/** Null where there is no history, and of a hold: it lasts until somebody lifts it. */
async function estimateOf({ planned, nodeId }: StepView, { load }: Context): Promise<StepHistory | null> {
  if (isHold(planned)) return null;
  if (isReservedWait(planned)) {
    const seconds = Number(planned.args["seconds"]);
    return { medianSeconds: seconds, p90Seconds: seconds, samples: 0, model: null };
  }
  const node = nodeId === null ? null : await load.node.load(nodeId);
  return load.history.load({
    driver: planned.driver,
    label: `${planned.interface}.${planned.name}`,
    model: node?.model ?? null,
  });
}

/** Of all steps that would run; null unless each of them has one. */
async function estimateOfAll(steps: readonly StepView[], context: Context): Promise<StepHistory | null> {
  const found = await Promise.all(
    steps.filter(({ planned }) => !planned.kept).map((step) => estimateOf(step, context)),
  );
  const known = found.filter((estimate) => estimate !== null);
  if (known.length === 0 || known.length < found.length) return null;
  const made = known.filter(({ samples }) => samples > 0);
  const models = new Set(made.map(({ model }) => model));
  return {
    medianSeconds: known.reduce((sum, { medianSeconds }) => sum + medianSeconds, 0),
    p90Seconds: known.reduce((sum, { p90Seconds }) => sum + p90Seconds, 0),
    samples: made.length === 0 ? 0 : Math.min(...made.map(({ samples }) => samples)),
    model: models.size === 1 ? ([...models][0] ?? null) : null,
  };
}

// ---- what steps, runs and answers tell besides

function stepOfNoReturn(steps: readonly StepView[]): StepView | null {
  const index = pointOfNoReturn(steps.map(({ planned }) => planned));
  return index === null ? null : (steps[index] ?? null);
}

builder.objectFields(StepRef, (t) => ({
  touches: t.field({
    type: [TouchEnum],
    description:
      "What it changes on the machine, as its driver declares it; of a clean, deploy or undeploy step that declares nothing: DISKS.",
    resolve: ({ planned }) => [...touchesOf(planned)],
  }),
  estimate: t.field({
    type: EstimateRef,
    nullable: true,
    description: "How long it takes, by the site's own history; null while there is none.",
    resolve: (step, _args, context) => estimateOf(step, context),
  }),
}));

builder.objectField(RunRef, "pointOfNoReturn", (t) =>
  t.field({
    type: StepRef,
    nullable: true,
    description:
      "The first of its steps that touches disks or firmware: from there on the machine is not what it was. Null when there is none.",
    resolve: async (run, _args, context) => stepOfNoReturn(await stepsOf(run, context)),
  }),
);

builder.objectFields(NodeResultRef, (t) => ({
  target: t.field({
    type: NodeStateEnum,
    nullable: true,
    description:
      "State of the node at the end of it, if all goes well; null for a refused node and for what starts no new work.",
    resolve: ({ target }) => target ?? null,
  }),
  pointOfNoReturn: t.field({
    type: StepRef,
    nullable: true,
    description:
      "The first of the steps to be run that touches disks or firmware: from there on the machine is not what it was. Null when there is none.",
    resolve: (result) => stepOfNoReturn(plannedSteps(result) ?? []),
  }),
  estimate: t.field({
    type: EstimateRef,
    nullable: true,
    description: "How long the steps to be run take together; null while one of them has no history.",
    resolve: (result, _args, context) => estimateOfAll(plannedSteps(result) ?? [], context),
  }),
}));

const PLAN_HASH =
  "Hash of what is (would be) done: the kind, and each node's state, steps and target. A later request with this `planHash` is refused unless it would do exactly that. Null when the request is refused.";

const acceptedCount = ({ results }: SubmitAnswer) => results.filter(({ accepted }) => accepted).length;
const refusedCount = ({ results }: SubmitAnswer) => results.filter(({ refusal }) => refusal !== null).length;
const ACCEPTED_COUNT = "Number of nodes that are (would be) worked on.";
const REFUSED_COUNT =
  "Number of nodes with a reason against it. One of them keeps all others out as well, unless `acceptance: BEST_EFFORT`.";

builder.objectFields(NodeWorkPayloadRef, (t) => ({
  planHash: t.string({ nullable: true, description: PLAN_HASH, resolve: ({ planHash }) => planHash ?? null }),
  acceptedCount: t.int({ description: ACCEPTED_COUNT, resolve: acceptedCount }),
  refusedCount: t.int({ description: REFUSED_COUNT, resolve: refusedCount }),
}));

// ---- the query

const PlanInput = builder.inputType("PlanInput", {
  description: "A verb, as it would be asked for.",
  fields: (t) => ({
    kind: t.field({ type: OperationKindEnum, required: true, description: "Which verb." }),
    nodes: t.field({ type: NodeSelectorInput, required: true, description: "Which nodes." }),
    acceptance: t.field({
      type: AcceptanceEnum,
      required: true,
      defaultValue: "ALL_OR_NOTHING",
      description: "What one bad node does to the request.",
    }),
    until: t.field({ type: UntilEnum, description: "COMMISSION: how far; ACTIVE if absent." }),
    steps: t.field({
      type: [StepInput],
      description: "CLEAN and DEPLOY: steps to run in this order, in place of the automatic ones.",
    }),
    runbook: t.string({ description: "CLEAN: name of a runbook whose steps are run in place of the automatic ones." }),
    action: t.field({ type: PowerActionEnum, description: "POWER: what to do." }),
    force: t.boolean({ description: "DECOMMISSION: also nodes that have disappeared." }),
    maxParallel: t.int({ description: "At most so many nodes at the same time; the others are QUEUED, in order." }),
    waves: t.field({ type: WavesInput, description: "Take the nodes on in waves; absent: all at once." }),
  }),
});

const PlanPayloadRef = builder.objectRef<SubmitAnswer>("PlanPayload").implement({
  description: "What a verb would do now. `errors` is empty when it would be accepted.",
  fields: (t) => ({
    results: t.field({
      type: [NodeResultRef],
      description: "One answer per node.",
      resolve: ({ results }) => [...results],
    }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Why the request as a whole would be refused.",
      resolve: ({ refusals }) => [...refusals],
    }),
    planHash: t.string({ nullable: true, description: PLAN_HASH, resolve: ({ planHash }) => planHash ?? null }),
    acceptedCount: t.int({ description: ACCEPTED_COUNT, resolve: acceptedCount }),
    refusedCount: t.int({ description: REFUSED_COUNT, resolve: refusedCount }),
  }),
});

type PlanRequest = typeof PlanInput.$inferInput;

/** The members that only some verbs take. */
const TAKEN_BY = {
  until: ["COMMISSION"],
  steps: ["CLEAN", "DEPLOY"],
  runbook: ["CLEAN"],
  action: ["POWER"],
  force: ["DECOMMISSION"],
} as const satisfies Record<string, readonly OperationKind[]>;

/** What no mutation could be asked, because the verb has no such member, lacks one, or is asked for no nodes. */
function flawsOf(input: PlanRequest): Refusal[] {
  const { kind } = input;
  if (kind === "DISCOVER")
    return [
      {
        code: "INVALID_INPUT",
        message: "A discovery is asked for addresses, not for nodes, and has no plan.",
        path: ["input", "kind"],
      },
    ];
  const stray = (Object.keys(TAKEN_BY) as (keyof typeof TAKEN_BY)[]).filter(
    (member) => input[member] != null && !(TAKEN_BY[member] as readonly OperationKind[]).includes(kind),
  );
  const flaws = stray.map((member): Refusal => ({
    code: "INVALID_INPUT",
    message: `${kind} takes no ${member}; ${TAKEN_BY[member].join(" and ")} ${TAKEN_BY[member].length > 1 ? "do" : "does"}.`,
    path: ["input", member],
  }));
  if (kind === "POWER" && input.action == null)
    flaws.push({
      code: "INVALID_INPUT",
      message: "POWER needs an action: what to do with the power.",
      path: ["input", "action"],
    });
  return flaws;
}

function optionsOf({ kind, until, steps, runbook, action, force }: PlanRequest): VerbOptions {
  const chosen = stepChoices(steps, kind === "DEPLOY" ? "deploy" : "clean");
  return {
    ...(until != null && { until }),
    ...(chosen && { steps: chosen }),
    ...(runbook != null && { runbook }),
    ...(action != null && { powerAction: action }),
    ...(force != null && { force }),
  };
}

builder.queryField("plan", (t) =>
  t.field({
    type: PlanPayloadRef,
    ...needs("READ"),
    description:
      "What a verb would do now, node by node: why it would be refused, or which steps it would run in which order, how long they take, and from which one on there is no way back. The same as the verb with `dryRun: true`: nothing is written, nobody is kept waiting.",
    args: { input: t.arg({ type: PlanInput, required: true, description: "Which verb, on which nodes." }) },
    resolve: (_root, { input }, context) => {
      const flaws = flawsOf(input);
      if (flaws.length > 0) return { operationId: null, results: [], refusals: flaws, replayed: false };
      const { kind, acceptance } = input;
      const terms = {
        acceptance,
        maxParallel: given(input.maxParallel),
        waves: input.waves ? wavesOf(input.waves) : undefined,
        dryRun: true,
      };
      return context.services.engine.submit(callerOf(context), {
        ...terms,
        kind,
        nodes: nodeSelector(input.nodes),
        options: optionsOf(input),
      });
    },
  }),
);
