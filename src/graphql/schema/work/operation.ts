/** Operations: the type and its queries. verbs.ts and work.ts have the mutations that start them. */
import { isUnfinished } from "../../../lifecycle/operation-states.ts";
import type { RunState } from "../../../lifecycle/operation-states.ts";
import { countOperations, operationsPage } from "../../../store/operations/operation-lists.ts";
import { restartedBy } from "../../../store/operations/operations.ts";
import type { OperationRow } from "../../../store/operations/operations.ts";
import type { Waves } from "../../../store/records.ts";
import { runCountsOf, runsPages } from "../../../store/runs/runs.ts";
import { transitionCountsOfOperations, transitionsOfOperations } from "../../../store/log/transitions.ts";
import { existing } from "../../base/batching.ts";
import { builder, given, needs } from "../../base/builder.ts";
import {
  connectionOf,
  connectionType,
  connectionWith,
  EMPTY_PAGE,
  logPositionOf,
  numberedRequest,
  PAGE_MAX,
  pageArgs,
  pageRequest,
  placeOf,
  TRANSITIONS_PAGE_MAX,
} from "../../base/connection.ts";
import type { Context } from "../../base/context.ts";
import {
  FailurePolicyEnum,
  OperationKindEnum,
  OperationStateEnum,
  RunStateEnum,
  WaveStateEnum,
} from "../../base/enums.ts";
import { globalId, keyOf } from "../../base/ids.ts";
import { isUuid } from "../../../runtime/uuid.ts";
import { FailureRef, OperationRef } from "../../base/refs.ts";
import { clusterField, variablesField } from "../../base/shared-fields.ts";
import { operationFilter, OperationFilterInput } from "./operation-filter.ts";
import { RunConnection } from "./run.ts";
import { TransitionConnection, transitionConnection } from "./transition.ts";

const RunStateCountRef = builder
  .objectRef<{ readonly state: RunState; readonly count: number }>("RunStateCount")
  .implement({
    description: "Number of runs of an operation in one state.",
    fields: (t) => ({
      state: t.expose("state", { type: RunStateEnum, description: "Where they stand." }),
      count: t.exposeInt("count", { description: "Number of runs in this state." }),
    }),
  });

const RolloutRef = builder.objectRef<OperationRow & { readonly waves: Waves }>("Rollout").implement({
  description: "Progress of an operation that starts its nodes in waves.",
  fields: (t) => ({
    state: t.field({
      type: WaveStateEnum,
      description: "Current state.",
      resolve: ({ waveState, finishedAt }) => (finishedAt === null ? (waveState ?? "RUNNING") : "ENDED"),
    }),
    wave: t.int({
      description: "Number of the newest wave that has started, from 1.",
      resolve: ({ wave }) => wave + 1,
    }),
    waves: t.int({ description: "Number of waves.", resolve: ({ waves }) => waves.sizes.length }),
    sizes: t.intList({ description: "Number of nodes in each wave.", resolve: ({ waves }) => [...waves.sizes] }),
    pauseSeconds: t.int({
      description: "Pause between two waves, in seconds.",
      resolve: ({ waves }) => Math.ceil(waves.pauseSeconds),
    }),
    manual: t.boolean({
      description: "Whether every wave after the first waits for advanceWaves.",
      resolve: ({ waves }) => waves.manual,
    }),
    maxFailures: t.int({
      nullable: true,
      description: "Number of nodes that may fail before the operation halts; null for no limit.",
      resolve: ({ waves }) => waves.maxFailures,
    }),
    forgivenFailures: t.int({
      description: "Number of failures before the last resumeWaves; they no longer count toward `maxFailures`.",
      resolve: ({ waves }) => waves.forgiven,
    }),
    reason: t.exposeString("waveReason", {
      nullable: true,
      description: "Reason why no further wave starts now; null if there is none.",
    }),
    changedBy: t.exposeString("waveBy", {
      nullable: true,
      description: "Who caused this state; `engine` if it followed automatically.",
    }),
    until: t.expose("waveUntil", {
      type: "DateTime",
      nullable: true,
      description: "End of the pause; null if there is no pause.",
    }),
  }),
});

/** Operations in `restartOf`: a restart of ten thousand nodes may have as many. */
const RESTARTED_MAX = 100;

async function countOf(
  operation: OperationRow,
  { load }: Context,
  states: (state: RunState) => boolean,
): Promise<number> {
  const counts = await (operation.kind === "DISCOVER" ? load.addressCounts : load.runCounts).load(operation.id);
  return (Object.entries(counts) as [RunState, number][])
    .filter(([state]) => states(state))
    .reduce((sum, [, count]) => sum + count, 0);
}

builder.objectType(OperationRef, {
  description: "Accepted request for work on one or more nodes. Stored before the mutation returns.",
  fields: (t) => ({
    id: t.id({ description: "Global ID: opaque and stable.", resolve: ({ id }) => globalId("Operation", id) }),
    uuid: t.expose("id", { type: "UUID", description: "UUID as used in messages and logs." }),
    kind: t.expose("kind", { type: OperationKindEnum, description: "Kind of the operation." }),
    state: t.expose("state", { type: OperationStateEnum, description: "Current state." }),
    requestedBy: t.exposeString("actor", { description: "Who requested the operation." }),
    reason: t.exposeString("reason", {
      nullable: true,
      description: "Reason given in the request; null if none was given.",
    }),
    idempotencyKey: t.exposeString("idempotencyKey", {
      nullable: true,
      description: "Idempotency key of the request; null if none was given.",
    }),
    onFailure: t.expose("onFailure", {
      type: FailurePolicyEnum,
      description: "Effect of a failed node on the others: as requested, or the default when it was accepted.",
    }),
    maxParallel: t.exposeInt("maxParallel", {
      nullable: true,
      description: "Maximum number of nodes worked on at the same time; null for no limit.",
    }),
    runbook: t.string({
      nullable: true,
      description: "Runbook whose steps were used when the operation was accepted; null if none was.",
      resolve: ({ options }) => options.runbook ?? null,
    }),
    variables: variablesField(t, "Variables of the request, before they were merged with the cluster's settings."),
    rollout: t.field({
      type: RolloutRef,
      nullable: true,
      description: "Progress of its waves; null if the operation has no waves.",
      resolve: (operation) => (operation.waves ? { ...operation, waves: operation.waves } : null),
    }),
    cluster: clusterField(
      t,
      "Cluster for which the operation was requested; null if nodes were selected in another way, also if they are members of a cluster.",
    ),
    restartOf: t.field({
      type: [OperationRef],
      description: `Operations that this one restarts, newest first: several if they made the same request. The first ${RESTARTED_MAX} of them; empty if it is not a restart.`,
      resolve: (operation, _args, { load }) => existing(load.operation, restartedBy(operation).slice(0, RESTARTED_MAX)),
    }),
    createdAt: t.expose("createdAt", { type: "DateTime", description: "Time when it was accepted." }),
    startedAt: t.expose("startedAt", {
      type: "DateTime",
      nullable: true,
      description: "Time when the first run started; null before that.",
    }),
    finishedAt: t.expose("finishedAt", {
      type: "DateTime",
      nullable: true,
      description: "Time when it reached a final state; null before that.",
    }),
  }),
});

builder.objectFields(OperationRef, (t) => ({
  firstFailure: t.expose("firstFailure", {
    type: FailureRef,
    nullable: true,
    description: "Earliest failure: usually the cause of all others. Null if nothing failed.",
  }),
  failureConsequence: t.string({
    nullable: true,
    description:
      "What the failure of one node has meant for the others, as a sentence; null if no run is UNDONE. A plan has it in advance, in `PlanSummary.failureConsequence`.",
    resolve: async ({ id, firstFailure }, _args, { load }) => {
      const { UNDONE = 0 } = await load.runCounts.load(id);
      if (UNDONE === 0) return null;
      const others = UNDONE === 1 ? "1 other node" : `${UNDONE} other nodes`;
      return `Node ${firstFailure?.nodeName ?? "unknown"} failed, so the work on ${others} was undone (onFailure: CLEAN_UP_ALL). Restart the operation to begin again.`;
    },
  }),
  cleanUpFailures: t.field({
    type: [FailureRef],
    description: "Failures during the clean-up by the failure policy. The original failure is in `firstFailure`.",
    resolve: ({ id }, _args, { load }) => load.cleanUpFailures.load(id),
  }),
  totalCount: t.exposeInt("totalCount", { description: "Number of nodes; for a discovery, number of addresses." }),
  finishedCount: t.int({
    description: "Number of runs in a final state; for a discovery, number of addresses that were probed or skipped.",
    resolve: (operation, _args, context) => countOf(operation, context, (state) => !isUnfinished(state)),
  }),
  failedCount: t.int({
    description: "Number of failed runs; for a discovery, number of addresses at which no node was found.",
    resolve: (operation, _args, context) => countOf(operation, context, (state) => state === "FAILED"),
  }),
  reachedCount: t.int({
    description:
      "Number of nodes that reached their target and were not cleaned up afterwards; for a discovery, number of addresses with a node.",
    resolve: (operation, _args, context) => countOf(operation, context, (state) => state === "SUCCEEDED"),
  }),
  runCounts: t.field({
    type: [RunStateCountRef],
    description: "Number of runs per state, without clean-up runs; states without runs are left out.",
    resolve: async ({ id }, _args, { load }) =>
      (Object.entries(await load.runCounts.load(id)) as [RunState, number][]).map(([state, count]) => ({
        state,
        count,
      })),
  }),
  runs: t.field({
    type: RunConnection,
    description: "Runs of the operation: one per node in the order of the request, then the clean-up runs.",
    args: {
      states: t.arg({ type: [RunStateEnum], description: "Only runs in these states; an empty list matches nothing." }),
      ...pageArgs(t.arg),
    },
    resolve: async ({ id }, args, { load }) => {
      const asked = { states: given(args.states), ...numberedRequest(args, PAGE_MAX, placeOf) };
      return connectionWith(
        await load.below(runsPages, id, asked, EMPTY_PAGE),
        ({ ordinal }) => String(ordinal),
        () => load.below(runCountsOf, id, { states: asked.states }, 0),
      );
    },
  }),
  transitions: t.field({
    type: TransitionConnection,
    description: "Transitions that this operation caused, oldest first.",
    args: pageArgs(t.arg, TRANSITIONS_PAGE_MAX),
    resolve: async ({ id }, args, { load }) =>
      transitionConnection(
        await load.below(
          transitionsOfOperations,
          id,
          numberedRequest(args, TRANSITIONS_PAGE_MAX, logPositionOf),
          EMPTY_PAGE,
        ),
        () => load.below(transitionCountsOfOperations, id, null, 0),
      ),
  }),
}));

export const OperationConnection = connectionType("Operation", OperationRef, true);

builder.queryField("operation", (t) =>
  t.field({
    type: OperationRef,
    nullable: true,
    ...needs("READ"),
    description: "One operation by global ID or UUID; null if it does not exist.",
    args: { id: t.arg.id({ required: true, description: "Global ID or UUID of the operation." }) },
    resolve: (_root, { id }, { load }) => {
      const key = keyOf("Operation", id);
      return isUuid(key) ? load.operation.load(key) : null;
    },
  }),
);

builder.queryField("operations", (t) =>
  t.field({
    type: OperationConnection,
    ...needs("READ"),
    description: "Operations that match a filter, newest first.",
    args: {
      filter: t.arg({ type: OperationFilterInput, description: "Only matching operations; by default all." }),
      ...pageArgs(t.arg),
    },
    resolve: async (_root, args, { services }) => {
      const { reader } = services.database;
      const filter = await operationFilter(args.filter, reader);
      return connectionOf(
        await operationsPage(reader, filter, pageRequest(args, "instant")),
        ({ createdAt }) => createdAt,
        () => countOperations(reader, filter),
      );
    },
  }),
);
