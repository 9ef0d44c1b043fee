/**
 * Plans summed up: groups of nodes with equal plans, refusals by code, the steps that change machines, and the duration
 * of the whole; for the query `plan`, for dry runs of verbs, and for accepted ones.
 */
import {
  plannedChanges,
  plannedFailure,
  plannedHostGroups,
  reasonGroups,
  stateCounts,
  summarizePlans,
} from "../../../engine/views.ts";
import type {
  PlanGroup,
  PlanSummary,
  PlannedChange,
  ReasonGroup,
  RefusalGroup,
} from "../../../engine/admission/plan-summary.ts";
import type { PlannedHostGroup, SubmitAnswer } from "../../../engine/input/answers.ts";
import { ERROR_REMEDY, ERROR_STATUS } from "../../../errors.ts";
import { pointOfNoReturn, touchesOf } from "../../../lifecycle/touches.ts";
import { builder, enumValues, wholeSeconds } from "../../base/builder.ts";
import type { FieldArgs } from "../../base/builder.ts";
import { sizeWithin } from "../../base/connection.ts";
import {
  ErrorCodeEnum,
  FailurePolicyEnum,
  MachinePartEnum,
  NodeStateEnum,
  OperationKindEnum,
  PhaseEnum,
  PowerOnFailureEnum,
} from "../../base/enums.ts";
import { clusterField } from "../../base/shared-fields.ts";
import { NodeStateCountRef } from "../fleet/cluster.ts";
import { ImageRef } from "../images/image.ts";
import { RefusedNodeRef, StartedWorkRef, WorkResultRef, plannedSteps } from "../work/node-work.ts";
import { EstimateRef, PlanPayloadRef, estimateOfAll } from "./plan.ts";
import { UNKNOWN_DURATIONS, planDuration } from "./plan-duration.ts";
import type { PlanDuration, WaveDuration } from "./plan-duration.ts";
import { StepRef } from "../work/step.ts";
import { HostGroupWaitRef } from "../work/waiting.ts";

const EXAMPLES_MAX = 20;
const GROUPS_MAX = 100;
const WAVES_MAX = 1_000;

/** The first items of a list, as many as `first`. */
export function firstOf<Item>(items: readonly Item[], first: number, most: number): Item[] {
  return items.slice(0, sizeWithin(most, "first", first));
}

export const exampleArgs = (arg: FieldArgs) => ({
  first: arg.int({ required: true, defaultValue: 3, description: `Number of examples, 1 to ${EXAMPLES_MAX}.` }),
});

export function examplesOf<Item>(items: readonly Item[], first: number): Item[] {
  return firstOf(items, first, EXAMPLES_MAX);
}

// ---- refusals

export const RefusalGroupRef = builder.objectRef<RefusalGroup>("RefusalGroup").implement({
  description: "Nodes of a request that are refused with the same code.",
  fields: (t) => ({
    code: t.expose("code", { type: ErrorCodeEnum, description: "Code of the refusals." }),
    status: t.int({ description: "HTTP status equivalent to the code.", resolve: ({ code }) => ERROR_STATUS[code] }),
    nodeCount: t.int({
      description: "Number of nodes. A node that is refused for several reasons counts for each code.",
      resolve: ({ answers }) => answers.length,
    }),
    message: t.string({
      description: "Message of the first of them: what happened, to which node, and what to do.",
      resolve: ({ first }) => first.message,
    }),
    remedy: t.string({
      description: "What to do about refusals with this code, for people.",
      resolve: ({ code }) => ERROR_REMEDY[code],
    }),
    states: t.field({
      type: [NodeStateCountRef],
      description: "Their present states, most frequent first. Empty if the nodes were not read.",
      resolve: ({ answers }) => stateCounts(answers),
    }),
    examples: t.field({
      type: [RefusedNodeRef],
      description: "The first of them in the order of the request.",
      args: exampleArgs(t.arg),
      resolve: ({ answers }, { first }) => examplesOf(answers, first),
    }),
  }),
});

// ---- reasons

const ReasonGroupRef = builder.objectRef<ReasonGroup>("ReasonGroup").implement({
  description: "Nodes on which a cluster wants work for the same reason.",
  fields: (t) => ({
    reason: t.exposeString("reason", { description: "The reason, as in `WorkResult.reason`." }),
    nodeCount: t.int({
      description: "Number of nodes, refused ones included.",
      resolve: ({ answers }) => answers.length,
    }),
    examples: t.field({
      type: [WorkResultRef],
      description: "The first of the nodes in the order of the request.",
      args: exampleArgs(t.arg),
      resolve: ({ answers }, { first }) => examplesOf(answers, first),
    }),
  }),
});

// ---- groups of equal plans

const PlanGroupRef = builder.objectRef<PlanGroup>("PlanGroup").implement({
  description:
    "Nodes with equal plans: the same kind of operation, steps with arguments, drivers, route, target, image, and power after a failure. Their variables may differ.",
  fields: (t) => ({
    kind: t.expose("kind", {
      type: OperationKindEnum,
      description: "Kind of the operation; a restart has that of the earlier request.",
    }),
    nodeCount: t.int({ description: "Number of nodes.", resolve: ({ answers }) => answers.length }),
    states: t.field({
      type: [NodeStateCountRef],
      description: "Their present states, most frequent first.",
      resolve: ({ answers }) => stateCounts(answers),
    }),
    target: t.field({
      type: NodeStateEnum,
      nullable: true,
      description: "State of the nodes when their runs succeed.",
      resolve: ({ answers }) => answers[0]?.target ?? null,
    }),
    phases: t.field({
      type: [PhaseEnum],
      description: "Phases that the nodes pass through, in order, those without a step included.",
      resolve: ({ plan }) => plan.legs.map(({ phase }) => phase),
    }),
    steps: t.field({
      type: [StepRef],
      description: "Steps that will (with `dryRun`: would) run, in their order, those that a restart keeps included.",
      resolve: (group) => stepsOf(group),
    }),
    pointOfNoReturn: t.field({
      type: StepRef,
      nullable: true,
      description: "First step that changes disks or firmware; null if there is none.",
      resolve: (group) => stepsOf(group)[pointOfNoReturn(group.plan.steps) ?? -1] ?? null,
    }),
    erasesDataCount: t.int({
      description: "Number of nodes that lose data, as in `NodeResult.erasesData`.",
      resolve: ({ answers }) => answers.filter(({ erasesData }) => erasesData === true).length,
    }),
    powerOnFailure: t.field({
      type: PowerOnFailureEnum,
      nullable: true,
      description: "Power of a node whose cleaning or deployment fails; null if a failure never changes it.",
      resolve: ({ answers }) => answers[0]?.powerOnFailure ?? null,
    }),
    image: t.field({
      type: ImageRef,
      nullable: true,
      description: "Image that the plan installs; null if it installs none.",
      resolve: ({ answers }, _args, { load }) => {
        const imageId = answers[0]?.imageId ?? null;
        return imageId === null ? null : load.image.load(imageId);
      },
    }),
    estimate: t.field({
      type: EstimateRef,
      nullable: true,
      description:
        "Estimated duration of the plan on one node, with the model of the first node; null if a step has no history. `PlanSummary.duration` is that of all nodes.",
      resolve: (group, _args, context) => estimateOfAll(stepsOf(group), context),
    }),
    examples: t.field({
      type: [WorkResultRef],
      description: "The first of the nodes in the order of the request.",
      args: exampleArgs(t.arg),
      resolve: ({ answers }, { first }) => examplesOf(answers, first),
    }),
  }),
});

function stepsOf({ answers: [first] }: PlanGroup) {
  return first ? (plannedSteps(first) ?? []) : [];
}

// ---- changes of machines

const PlannedChangeRef = builder.objectRef<PlannedChange>("PlannedChange").implement({
  description: "Planned step that changes machines, with the number of nodes on which it runs.",
  fields: (t) => ({
    step: t.field({
      type: StepRef,
      description: "The step, as in the plan of the first of the nodes.",
      resolve: ({ step, groups: [first] }) => {
        const found = first && stepsOf(first).find(({ planned }) => planned === step);
        return found ?? { index: 0, planned: step, attempts: [], open: true, nodeId: null };
      },
    }),
    changes: t.expose("touches", {
      type: [MachinePartEnum],
      description: "Parts of the machines that it changes.",
    }),
    nodeCount: t.exposeInt("nodeCount", { description: "Number of nodes on which it runs." }),
    examples: t.field({
      type: [WorkResultRef],
      description: "Some of the nodes.",
      args: exampleArgs(t.arg),
      resolve: ({ groups }, { first }) =>
        examplesOf(
          groups.flatMap(({ answers }) => answers.slice(0, EXAMPLES_MAX)),
          first,
        ),
    }),
  }),
});

const ChangedPartRef = builder
  .objectRef<{ readonly part: "DISKS" | "FIRMWARE" | "NETWORK"; readonly nodeCount: number }>("ChangedPart")
  .implement({
    description: "Part of machines, and the number of nodes on which planned steps change it.",
    fields: (t) => ({
      part: t.expose("part", {
        type: MachinePartEnum,
        description: "Part that at least one step changes.",
      }),
      nodeCount: t.exposeInt("nodeCount", { description: "Number of nodes." }),
    }),
  });

function changedParts({ groups }: PlanSummary) {
  const counts = new Map<"DISKS" | "FIRMWARE" | "NETWORK", number>();
  for (const { plan, answers } of groups)
    for (const part of new Set(plan.steps.filter(({ kept }) => !kept).flatMap((step) => touchesOf(step))))
      counts.set(part, (counts.get(part) ?? 0) + answers.length);
  return [...counts].map(([part, nodeCount]) => ({ part, nodeCount }));
}

// ---- duration

const UnknownDurationEnum = builder.enumType("UnknownDuration", {
  description: "Reason why the duration of a plan is unknown. New values may be added.",
  values: enumValues(UNKNOWN_DURATIONS),
});

const seconds = (value: number | null) => (value === null ? null : wholeSeconds(value));

const WaveDurationRef = builder.objectRef<WaveDuration>("WaveDuration").implement({
  description: "Estimated duration of one wave, from the start of its first node to the end of its last one.",
  fields: (t) => ({
    number: t.exposeInt("number", { description: "Number of the wave, from 1." }),
    nodeCount: t.exposeInt("nodeCount", { description: "Number of nodes in the wave." }),
    expectedSeconds: t.int({
      nullable: true,
      description: "Expected duration, from medians; null if unknown.",
      resolve: ({ expected }) => seconds(expected),
    }),
    upperSeconds: t.int({
      nullable: true,
      description: "Duration if every step takes its 90th percentile; null if unknown.",
      resolve: ({ upper }) => seconds(upper),
    }),
  }),
});

const PlanDurationRef = builder.objectRef<PlanDuration>("PlanDuration").implement({
  description:
    "Estimated duration of a whole request, from the start of the first node to the end of the last one: the steps of each node one after the other, the nodes side by side as far as waves with their pauses, `maxParallel` and the capacity limits of the site allow. Other operations, `OSTLER_CONCURRENCY` of the replicas, retries and failures are not considered.",
  fields: (t) => ({
    expectedSeconds: t.int({
      nullable: true,
      description: "Expected duration, from medians; null if unknown: `unknownBecause` has the reasons.",
      resolve: ({ expected }) => seconds(expected),
    }),
    upperSeconds: t.int({
      nullable: true,
      description: "Duration if every step takes its 90th percentile, an upper estimate; null if unknown.",
      resolve: ({ upper }) => seconds(upper),
    }),
    leastSeconds: t.int({
      nullable: true,
      description:
        "Duration as if steps without a history, holds and waits for `advanceWaves` took no time; null if a capacity limit lets none of the nodes start.",
      resolve: ({ least }) => seconds(least),
    }),
    unknownBecause: t.expose("unknownBecause", {
      type: [UnknownDurationEnum],
      description: "Reasons why the duration is unknown; empty if it is known.",
    }),
    unknownSteps: t.exposeStringList("unknownSteps", {
      description: "Steps that have never succeeded on this site, as `interface.name`.",
    }),
    samples: t.exposeInt("samples", {
      nullable: true,
      description:
        "Number of earlier attempts behind the estimate: that of the step with the fewest, of those that have any. Null if none has.",
    }),
    limitedBy: t.exposeStringList("limitedBy", {
      description:
        "Limits for which nodes wait: `maxParallel`, `controller` (the site's limit of management controllers), or the key of a phase's limit, such as `phase:clean`.",
    }),
    waveCount: t.int({
      description: "Number of waves, 1 without waves; of several operations, that of the longest.",
      resolve: ({ waves }) => waves.length,
    }),
    waves: t.field({
      type: [WaveDurationRef],
      description: "The waves in order, without the pauses between them; one without waves.",
      args: {
        first: t.arg.int({ required: true, defaultValue: 20, description: `Number of waves, 1 to ${WAVES_MAX}.` }),
      },
      resolve: ({ waves }, { first }) => firstOf(waves, first, WAVES_MAX),
    }),
  }),
});

// ---- host groups

const PlannedHostGroupRef = builder
  .objectRef<PlannedHostGroup & { readonly nodeCount: number }>("PlannedHostGroup")
  .implement({
    description: "Host group of a cluster in which a plan deploys nodes, and what these wait for before they begin.",
    fields: (t) => ({
      cluster: clusterField(t, "The cluster; null if it was deleted meanwhile."),
      name: t.exposeString("group", { description: "Name of the group." }),
      nodeCount: t.exposeInt("nodeCount", { description: "Number of nodes of the plan in it." }),
      waitsFor: t.field({
        type: [HostGroupWaitRef],
        description:
          "Host groups of which more nodes have to be ACTIVE first; those that the plan deploys again do not count as present. Empty: its nodes begin at once.",
        resolve: ({ unmet }) => [...unmet],
      }),
    }),
  });

// ---- the summary

const PlanSummaryRef = builder.objectRef<PlanSummary>("PlanSummary").implement({
  description:
    "Plan of a request in few words, without a result for each node. It covers the nodes that are not refused themselves, also if the request as a whole is refused because of the others.",
  fields: (t) => ({
    nodeCount: t.int({
      description: "Number of nodes of the request, unknown names included.",
      resolve: ({ answers }) => answers.length,
    }),
    plannedCount: t.int({
      description: "Number of nodes that are not refused themselves.",
      resolve: ({ groups }) => groups.reduce((sum, { answers }) => sum + answers.length, 0),
    }),
    states: t.field({
      type: [NodeStateCountRef],
      description: "Present states of the nodes, most frequent first; refused nodes count if they were read.",
      resolve: ({ answers }) => stateCounts(answers),
    }),
    groups: t.field({
      type: [PlanGroupRef],
      description: "Groups of nodes with equal plans, largest first.",
      args: {
        first: t.arg.int({ required: true, defaultValue: 10, description: `Number of groups, 1 to ${GROUPS_MAX}.` }),
      },
      resolve: ({ groups }, { first }) => firstOf(groups, first, GROUPS_MAX),
    }),
    groupCount: t.int({ description: "Number of groups in all.", resolve: ({ groups }) => groups.length }),
    unchangedCount: t.int({
      description: "Number of nodes that applyCluster leaves as they are, because they are what the cluster wants.",
      resolve: ({ answers }) => answers.filter(({ plan, refusal }) => !plan && refusal === null).length,
    }),
    reasons: t.field({
      type: [ReasonGroupRef],
      description:
        "Nodes on which applyCluster works, or would work, by reason, largest group first; empty for other verbs.",
      args: {
        first: t.arg.int({ required: true, defaultValue: 20, description: `Number of groups, 1 to ${GROUPS_MAX}.` }),
      },
      resolve: ({ answers }, { first }) => firstOf(reasonGroups(answers), first, GROUPS_MAX),
    }),
    refusals: t.expose("refusals", {
      type: [RefusalGroupRef],
      description: "Refused nodes by code, largest group first; empty if no node is refused.",
    }),
    onFailure: t.field({
      type: FailurePolicyEnum,
      nullable: true,
      description:
        "Failure policy that applies: of the request, or else the default. Null if every node is refused, and for a restart of operations with different ones.",
      resolve: (summary) => plannedFailure(summary)?.onFailure ?? null,
    }),
    failureConsequence: t.string({
      nullable: true,
      description:
        "What the failure of one node means for the others, as a sentence for each operation; null if every node is refused.",
      resolve: (summary) => plannedFailure(summary)?.consequence ?? null,
    }),
    duration: t.field({
      type: PlanDurationRef,
      nullable: true,
      description: "Estimated duration of the whole; null if every node is refused.",
      resolve: (summary, _args, context) => planDuration(summary, context),
    }),
    erasesDataCount: t.int({
      description: "Number of nodes that lose data, as in `NodeResult.erasesData`.",
      resolve: ({ answers }) =>
        answers.filter(({ erasesData, refusal }) => erasesData === true && refusal === null).length,
    }),
    changedParts: t.field({
      type: [ChangedPartRef],
      description:
        "Parts of machines that steps change, with the number of nodes; parts that no step changes are left out.",
      resolve: changedParts,
    }),
    changes: t.field({
      type: [PlannedChangeRef],
      description:
        "Steps that change disks, firmware or networks, on most nodes first. Several equal steps of a plan count a node once. The first 100 of them.",
      resolve: ({ groups }) => plannedChanges(groups).slice(0, GROUPS_MAX),
    }),
  }),
});

builder.objectField(PlanSummaryRef, "hostGroups", (t) =>
  t.field({
    type: [PlannedHostGroupRef],
    description:
      "Host groups with rules in which nodes are deployed, in the order in which they begin; empty if the plan deploys none.",
    resolve: (summary) => [...plannedHostGroups(summary)],
  }),
);

const SUMMARY =
  "The plan in few words: groups of equal plans, refusals by code, duration of the whole, and changes of machines. Computed only if it is selected; without `results` the answer stays small for any number of nodes. Null if the request itself is invalid.";

/** Null for a request that was refused before its nodes were looked at, and for a replayed one. */
function summaryOf({ results, replayed }: SubmitAnswer): Promise<PlanSummary> | null {
  return replayed || results.length === 0 ? null : summarizePlans(results);
}

builder.interfaceField(StartedWorkRef, "summary", (t) =>
  t.field({
    type: PlanSummaryRef,
    nullable: true,
    description: `${SUMMARY} Also null for a repeated idempotency key.`,
    resolve: summaryOf,
  }),
);

builder.objectField(PlanPayloadRef, "summary", (t) =>
  t.field({ type: PlanSummaryRef, nullable: true, description: SUMMARY, resolve: summaryOf }),
);
