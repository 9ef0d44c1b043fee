/**
 * Plans: the query `plan`, and the planned target, point of no return and estimates of steps, runs and results.
 * Estimates use the durations of earlier attempts on this site; without any there is no estimate.
 */
import { variablesOfNode } from "../../../engine/views.ts";
import type { VariableWarning } from "../../../engine/views.ts";
import type { EffectiveVariable } from "../../../engine/input/variables.ts";
import type { SubmitAnswer } from "../../../engine/input/answers.ts";
import { placeOf } from "../../../lifecycle/root-disk.ts";
import type { RootDisk } from "../../../lifecycle/root-disk.ts";
import { pointOfNoReturn, touchesOf } from "../../../lifecycle/touches.ts";
import type { StepHistory } from "../../../store/runs/step-durations.ts";
import { isUuid } from "../../../runtime/uuid.ts";
import { builder, needs } from "../../base/builder.ts";
import { callerOf } from "../../base/context.ts";
import { noteDenial } from "../../execution/audited.ts";
import type { Context } from "../../base/context.ts";
import { NodeStateEnum, PowerOnFailureEnum, MachinePartEnum, VariableSourceEnum } from "../../base/enums.ts";
import { stepHistory } from "./step-history.ts";
import { UserErrorRef } from "../../base/errors.ts";
import { RunRef } from "../../base/refs.ts";
import { NodeRefInput, nodeId as idOfNode } from "../selectors.ts";
import { StepRef, stepsOf } from "../work/step.ts";
import type { StepView } from "../work/step.ts";
import {
  ACCEPTED_COUNT,
  REFUSED_COUNT,
  StartedWorkRef,
  WorkResultRef,
  acceptedCount,
  plannedSteps,
  refusedCount,
} from "../work/node-work.ts";
import { ApplyClusterInput, applyRequestOf } from "../work/apply-cluster.ts";
import { VERBS, requestOf } from "../work/verbs.ts";

// ---- estimates

export const EstimateRef = builder.objectRef<StepHistory>("Estimate").implement({
  description: "Estimated duration, based on the newest 1000 successful attempts of the same steps on this site.",
  fields: (t) => ({
    medianSeconds: t.float({
      description: "Median duration in seconds. For several steps, the sum of their medians.",
      resolve: ({ medianSeconds }) => toMilliseconds(medianSeconds),
    }),
    p90Seconds: t.float({
      description:
        "90th percentile of the duration in seconds. For several steps, the sum of their percentiles, an upper estimate.",
      resolve: ({ p90Seconds }) => toMilliseconds(p90Seconds),
    }),
    samples: t.exposeInt("samples", {
      description:
        "Number of attempts behind the estimate; for several steps, the number of the step with the fewest. 0 for a step of fixed duration (the reserved wait).",
    }),
    model: t.exposeString("model", {
      nullable: true,
      description: "Model of the nodes behind the estimate; null if nodes of all models of the driver were used.",
    }),
  }),
});

/** Durations are stored in milliseconds; further digits of medians and sums have no meaning. */
function toMilliseconds(seconds: number): number {
  return Math.round(seconds * 1000) / 1000;
}

async function estimateOf({ planned, nodeId }: StepView, context: Context): Promise<StepHistory | null> {
  const node = nodeId === null ? null : await context.load.node.load(nodeId);
  return stepHistory(planned, node?.model ?? null, context);
}

/** The estimate of all steps that would run; null if one of them has none. */
export async function estimateOfAll(steps: readonly StepView[], context: Context): Promise<StepHistory | null> {
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

// ---- fields of steps, runs and results

function stepOfNoReturn(steps: readonly StepView[]): StepView | null {
  const index = pointOfNoReturn(steps.map(({ planned }) => planned));
  return index === null ? null : (steps[index] ?? null);
}

builder.objectFields(StepRef, (t) => ({
  changes: t.field({
    type: [MachinePartEnum],
    description:
      "Parts of the machine that the step changes, as its driver declares; DISKS for a clean, deploy or undeploy step without a declaration.",
    resolve: ({ planned }) => touchesOf(planned),
  }),
  estimate: t.field({
    type: EstimateRef,
    nullable: true,
    description: "Estimated duration, based on the site's history; null if there is no history.",
    resolve: (step, _args, context) => estimateOf(step, context),
  }),
}));

builder.objectField(RunRef, "pointOfNoReturn", (t) =>
  t.field({
    type: StepRef,
    nullable: true,
    description:
      "First step that changes disks or firmware: from there on, the previous state of the machine is lost. Null if there is none.",
    resolve: async (run, _args, context) => stepOfNoReturn(await stepsOf(run, context)),
  }),
);

const EffectiveVariableRef = builder.objectRef<EffectiveVariable>("EffectiveVariable").implement({
  description: "Variable that the drivers get for a node.",
  fields: (t) => ({
    name: t.exposeString("name", { description: "Name of the variable." }),
    value: t.expose("value", { type: "JSON", description: "JSON value that the drivers get; `***` if it is secret." }),
    source: t.expose("source", {
      type: VariableSourceEnum,
      description: "Level that the value comes from.",
    }),
  }),
});

builder.queryField("effectiveVariables", (t) =>
  t.field({
    type: [EffectiveVariableRef],
    ...needs("READ"),
    description:
      "Variables that drivers would get for a node if a request gave none, by name, each with the level that it comes from; empty if the node does not exist.",
    args: { node: t.arg({ type: NodeRefInput, required: true, description: "Reference to it by ID, name or UUID." }) },
    resolve: async (_root, { node: by }, { services, load }) => {
      const { reader } = services.database;
      const id = await idOfNode(by, reader);
      const node = isUuid(id) ? await load.node.load(id) : null;
      return node ? [...(await variablesOfNode(reader, services.registry, node))] : [];
    },
  }),
);

const VariableWarningRef = builder.objectRef<VariableWarning>("VariableWarning").implement({
  description: "Variable that no driver of the node declares.",
  fields: (t) => ({
    name: t.exposeString("name", { description: "Name of the variable." }),
    source: t.expose("source", {
      type: VariableSourceEnum,
      description: "Where its value comes from.",
    }),
    nearest: t.exposeString("nearest", {
      nullable: true,
      description: "Most similar variable that a driver declares; null if none is similar.",
    }),
    message: t.exposeString("message", { description: "The warning as a sentence for people." }),
  }),
});

const RootDiskRef = builder.objectRef<RootDisk>("RootDisk").implement({
  description: "Disk on which a system will be installed, as the agent has found it.",
  fields: (t) => ({
    name: t.exposeString("name", {
      nullable: true,
      description: "Path in the agent, as in `/dev/sda`; it may differ after a restart.",
    }),
    byPath: t.string({
      nullable: true,
      description: "Path that names its place, as in `/dev/disk/by-path/pci-0000:3b:00.0-nvme-1`.",
      resolve: placeOf,
    }),
    serial: t.exposeString("serial", { nullable: true, description: "Serial number." }),
    wwn: t.exposeString("wwn", { nullable: true, description: "World Wide Name." }),
    model: t.exposeString("model", { nullable: true, description: "Model as the disk reports it." }),
    sizeBytes: t.expose("sizeBytes", {
      type: "ByteCount",
      nullable: true,
      description: "Size of the whole disk in bytes.",
    }),
    why: t.exposeString("why", { description: "The reason for this disk, such as the hints that only it matches." }),
  }),
});

builder.objectFields(WorkResultRef, (t) => ({
  rootDisk: t.expose("rootDisk", {
    type: RootDiskRef,
    nullable: true,
    description:
      "Disk on which the system will be installed. Null if the plan installs none through the agent, and before the agent has inspected the node: the disk is then chosen after its inspection, before the first step that changes disks.",
  }),
  target: t.expose("target", {
    type: NodeStateEnum,
    nullable: true,
    description: "State of the node when the run succeeds; null for a refused node.",
  }),
  pointOfNoReturn: t.field({
    type: StepRef,
    nullable: true,
    description:
      "First planned step that changes disks or firmware: from there on, the previous state of the machine is lost. Null if there is none.",
    resolve: (result) => stepOfNoReturn(plannedSteps(result) ?? []),
  }),
  erasesData: t.exposeBoolean("erasesData", {
    nullable: true,
    description:
      "Whether the node loses data: a step that will run changes its disks, and the node may hold data. An AVAILABLE node counts as empty, and so does a node whose erasures a restart keeps. Null for a refused node.",
  }),
  powerOnFailure: t.expose("powerOnFailure", {
    type: PowerOnFailureEnum,
    nullable: true,
    description:
      "Power of the node if its cleaning or deployment fails, as the request or the site says. Null for a refused node, and if a failure never changes the power.",
  }),
  variables: t.field({
    type: [EffectiveVariableRef],
    description:
      "Variables that the drivers get, by name, each with the source of its value; empty for a refused node.",
    resolve: ({ variables }) => variables ?? [],
  }),
  warnings: t.field({
    type: [VariableWarningRef],
    description: "Variables that no driver of the node declares; empty for a refused node.",
    resolve: ({ warnings }) => warnings ?? [],
  }),
  estimate: t.field({
    type: EstimateRef,
    nullable: true,
    description: "Estimated total duration of the planned steps; null if one of them has no history.",
    resolve: (result, _args, context) => estimateOfAll(plannedSteps(result) ?? [], context),
  }),
}));

const PLAN_HASH =
  "Hash of the plan: the kind of operation, the failure policy, and each node's state, steps, image, root disk, user data, variables, host group, target and power after a failure. A later request with this `planHash` is refused unless its plan is the same. Null if the request was refused.";

builder.interfaceField(StartedWorkRef, "planHash", (t) =>
  t.string({ nullable: true, description: PLAN_HASH, resolve: ({ planHash }) => planHash ?? null }),
);

// ---- the query

const PlanInput = builder.inputType("PlanInput", {
  description:
    "Verb to plan, with the input of its mutation. Exactly one field. `idempotencyKey`, `reason` and `dryRun` of the input are checked, and have no other effect.",
  isOneOf: true,
  fields: (t) => ({
    ...Object.fromEntries(
      [...VERBS].map(([mutation, { input }]) => [mutation, t.field({ type: input, description: `Plan ${mutation}.` })]),
    ),
    applyCluster: t.field({ type: ApplyClusterInput, description: "Plan applyCluster." }),
  }),
});

export const PlanPayloadRef = builder.objectRef<SubmitAnswer>("PlanPayload").implement({
  description: "Plan of a verb. `errors` is empty if the verb would be accepted.",
  fields: (t) => ({
    results: t.expose("results", {
      type: [WorkResultRef],
      description: "One result per node, in the order of the request.",
    }),
    errors: t.expose("refusals", {
      type: [UserErrorRef],
      description:
        "Reasons why the whole request would be refused, one for each code; empty if it would be accepted. A `path` is that in the input of the mutation.",
    }),
    planHash: t.string({ nullable: true, description: PLAN_HASH, resolve: ({ planHash }) => planHash ?? null }),
    acceptedCount: t.int({ description: ACCEPTED_COUNT, resolve: acceptedCount }),
    refusedCount: t.int({ description: REFUSED_COUNT, resolve: refusedCount }),
  }),
});

builder.queryField("plan", (t) =>
  t.field({
    type: PlanPayloadRef,
    // Drivers are asked, so the query reads without a snapshot (query-snapshot.ts).
    ...needs("READ", { waits: true }),
    description:
      "Plan of a verb, node by node: the steps in their order with an estimate of their duration and the point of no return, or the reason for a refusal. Same as the verb with `dryRun: true`: it writes nothing and blocks no other request.",
    args: { input: t.arg({ type: PlanInput, required: true, description: "Verb, with its input." }) },
    resolve: async (_root, { input }, context) => {
      const { engine } = context.services;
      const { applyCluster, ...verb } = input;
      const answer = applyCluster
        ? await engine.applyCluster(callerOf(context), { ...applyRequestOf(applyCluster), dryRun: true })
        : await engine.submit(callerOf(context), { ...requestOf(verb), dryRun: true });
      await noteDenial(context, "plan", answer.refusals);
      return answer;
    },
  }),
);
