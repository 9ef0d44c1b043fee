/** Operations: the type and its queries. The mutations that make them are in verbs.ts. */
import { findCluster } from "../../engine/engine.ts";
import { UNFINISHED_RUN_STATES } from "../../lifecycle/operation-states.ts";
import type { RunState } from "../../lifecycle/operation-states.ts";
import { operationsPage } from "../../store/operations.ts";
import type { OperationRow } from "../../store/operations.ts";
import type { Failure, Waves } from "../../store/records.ts";
import { runsPages } from "../../store/runs.ts";
import { transitionsOfOperations } from "../../store/transitions.ts";
import { builder, given, needs, renamedTo } from "../base/builder.ts";
import {
  connectionOf,
  connectionType,
  connectionWith,
  EMPTY_PAGE,
  numberedRequest,
  PAGE_MAX,
  pageArgs,
  pageRequest,
  placeOf,
  TRANSITIONS_PAGE_MAX,
} from "../base/connection.ts";
import type { Context } from "../base/context.ts";
import {
  FailurePolicyEnum,
  InterruptEnum,
  OperationKindEnum,
  OperationStateEnum,
  RunStateEnum,
  WaveStateEnum,
  WishEnum,
} from "../base/enums.ts";
import { globalId, isUuid, keyOf, uuidOrNone } from "../base/ids.ts";
import { ClusterRef, FailureRef, OperationRef, ResourceRef } from "../base/refs.ts";
import { RunConnection } from "./run.ts";
import { clusterChoice, ClusterRefInput } from "./selectors.ts";
import { TransitionConnection, transitionConnection } from "./transition.ts";

const RunStateCountRef = builder
  .objectRef<{ readonly state: RunState; readonly count: number }>("RunStateCount")
  .implement({
    description: "Number of an operation's runs in one state.",
    fields: (t) => ({
      state: t.field({ type: RunStateEnum, description: "Where they stand.", resolve: ({ state }) => state }),
      count: t.exposeInt("count", { description: "How many runs." }),
    }),
  });

const RolloutRef = builder.objectRef<OperationRow & { readonly waves: Waves }>("Rollout").implement({
  description: "How an operation takes its nodes on in waves.",
  fields: (t) => ({
    state: t.field({
      type: WaveStateEnum,
      description: "Where it stands.",
      resolve: ({ waveState, finishedAt }) => (finishedAt === null ? (waveState ?? "RUNNING") : "ENDED"),
    }),
    wave: t.int({ description: "The newest wave that has begun, from 1.", resolve: ({ wave }) => wave + 1 }),
    waves: t.int({ description: "Number of waves.", resolve: ({ waves }) => waves.sizes.length }),
    sizes: t.intList({ description: "Number of nodes in each wave.", resolve: ({ waves }) => [...waves.sizes] }),
    pauseSeconds: t.float({ description: "Pause between two waves.", resolve: ({ waves }) => waves.pauseSeconds }),
    manual: t.boolean({
      description: "Whether each further wave waits for advanceWaves.",
      resolve: ({ waves }) => waves.manual,
    }),
    maxFailures: t.int({
      nullable: true,
      description: "So many nodes may fail; null: any number.",
      resolve: ({ waves }) => waves.maxFailures,
    }),
    forgivenFailures: t.int({
      description: "Failures that somebody has seen and gone on after; they no longer count.",
      resolve: ({ waves }) => waves.forgiven,
    }),
    reason: t.exposeString("waveReason", { nullable: true, description: "Why it does not go on just now." }),
    by: t.exposeString("waveBy", {
      nullable: true,
      description: "Who saw to that; `engine` for what follows by itself.",
    }),
    until: t.expose("waveUntil", { type: "DateTime", nullable: true, description: "End of the pause." }),
  }),
});

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

const isFinal = (state: RunState) => !(UNFINISHED_RUN_STATES as readonly RunState[]).includes(state);

builder.objectType(OperationRef, {
  description: "One accepted request, on one or many nodes. Stored before the mutation answers.",
  interfaces: [ResourceRef],
  isTypeOf: (value) => typeof value === "object" && value !== null && "inputHash" in value,
  fields: (t) => ({
    id: t.id({ description: "Global ID.", resolve: ({ id }) => globalId("Operation", id) }),
    uuid: t.field({ type: "UUID", description: "Raw UUID, as in messages and logs.", resolve: ({ id }) => id }),
    kind: t.field({ type: OperationKindEnum, description: "Kind of work.", resolve: ({ kind }) => kind }),
    state: t.field({ type: OperationStateEnum, description: "Where it stands.", resolve: ({ state }) => state }),
    requestedBy: t.exposeString("actor", { description: "Who asked for it." }),
    reason: t.exposeString("reason", { nullable: true, description: "Why, in their words." }),
    idempotencyKey: t.exposeString("idempotencyKey", {
      nullable: true,
      description: "Key that makes a repeated request harmless.",
    }),
    onFailure: t.field({
      type: FailurePolicyEnum,
      description: "What a failed node does to the others.",
      resolve: ({ onFailure }) => onFailure,
    }),
    maxParallel: t.exposeInt("maxParallel", {
      nullable: true,
      description: "At most so many nodes at the same time; null: no limit.",
    }),
    runbook: t.string({
      nullable: true,
      description: "Runbook that its steps were taken from when it was accepted.",
      resolve: ({ options }) => options.runbook ?? null,
    }),
    variables: t.field({
      type: "JSON",
      description: "Variables of the request, before they were laid over a cluster's settings.",
      resolve: ({ variables }) => variables,
    }),
    interrupt: t.field({
      type: InterruptEnum,
      nullable: true,
      description: "Stop or abort that was requested for the operation; null if none was.",
      resolve: ({ interrupt }) => interrupt,
    }),
    interruptBy: t.exposeString("interruptBy", {
      nullable: true,
      description: "Who requested the interrupt; `engine` if the failure policy did.",
    }),
    interruptReason: t.exposeString("interruptReason", {
      nullable: true,
      description: "Reason given for the interrupt.",
    }),
    wish: t.field({
      type: WishEnum,
      nullable: true,
      deprecationReason: renamedTo("interrupt"),
      description: "Same as `interrupt`.",
      resolve: ({ interrupt }) => interrupt,
    }),
    wishBy: t.exposeString("interruptBy", {
      nullable: true,
      deprecationReason: renamedTo("interruptBy"),
      description: "Same as `interruptBy`.",
    }),
    wishReason: t.exposeString("interruptReason", {
      nullable: true,
      deprecationReason: renamedTo("interruptReason"),
      description: "Same as `interruptReason`.",
    }),
    rollout: t.field({
      type: RolloutRef,
      nullable: true,
      description: "Its waves; null when the nodes were taken on all at once.",
      resolve: (operation) => (operation.waves ? { ...operation, waves: operation.waves } : null),
    }),
    cleanUpFailures: t.field({
      type: [FailureRef],
      description: "What failed while the failure policy cleaned up; the first cause stays in `firstFailure`.",
      resolve: ({ id }, _args, { load }) => load.cleanUpFailures.load(id) as Promise<Failure[]>,
    }),
    cluster: t.field({
      type: ClusterRef,
      nullable: true,
      description: "Cluster it was asked for, if it was asked for a cluster.",
      resolve: ({ clusterId }, _args, { load }) => (clusterId === null ? null : load.cluster.load(clusterId)),
    }),
    restartOf: t.field({
      type: OperationRef,
      nullable: true,
      description: "Operation that it takes up again.",
      resolve: ({ restartOf }, _args, { load }) => (restartOf === null ? null : load.operation.load(restartOf)),
    }),
    firstFailure: t.field({
      type: FailureRef,
      nullable: true,
      description: "The first cause: the failure that came before all others.",
      resolve: ({ firstFailure }) => firstFailure,
    }),
    totalCount: t.exposeInt("totalCount", { description: "Number of nodes; of a discovery, of addresses." }),
    finishedCount: t.int({
      description: "Number of runs in a final state; of a discovery, of addresses that were probed or skipped.",
      resolve: (operation, _args, context) => countOf(operation, context, isFinal),
    }),
    failedCount: t.int({
      description: "Number of runs that failed; of a discovery, of addresses that did.",
      resolve: (operation, _args, context) => countOf(operation, context, (state) => state === "FAILED"),
    }),
    progress: t.float({
      description: "Share of the runs (of a discovery: addresses) that have ended, 0 to 1.",
      resolve: async (operation, _args, context) => (await countOf(operation, context, isFinal)) / operation.totalCount,
    }),
    runCounts: t.field({
      type: [RunStateCountRef],
      description: "Number of runs in each state that occurs; clean-up runs are not counted.",
      resolve: async ({ id }, _args, { load }) =>
        (Object.entries(await load.runCounts.load(id)) as [RunState, number][]).map(([state, count]) => ({
          state,
          count,
        })),
    }),
    runs: t.field({
      type: RunConnection,
      description: "One run per node, in the order of the request; then the clean-up runs.",
      args: {
        states: t.arg({ type: [RunStateEnum], description: "Only runs in these states." }),
        ...pageArgs(t.arg),
      },
      resolve: async ({ id }, args, { load }) => {
        const asked = { states: given(args.states), ...numberedRequest(args, PAGE_MAX, placeOf) };
        return connectionWith(await load.below(runsPages, id, asked, EMPTY_PAGE), ({ ordinal }) => String(ordinal));
      },
    }),
    transitions: t.field({
      type: TransitionConnection,
      description: "State changes that this operation caused, oldest first.",
      args: pageArgs(t.arg, TRANSITIONS_PAGE_MAX),
      resolve: async ({ id }, args, { load }) =>
        transitionConnection(await load.below(transitionsOfOperations, id, numberedRequest(args), EMPTY_PAGE)),
    }),
    createdAt: t.expose("createdAt", { type: "DateTime", description: "When it was accepted." }),
    startedAt: t.expose("startedAt", { type: "DateTime", nullable: true, description: "When the first run began." }),
    finishedAt: t.expose("finishedAt", {
      type: "DateTime",
      nullable: true,
      description: "When it reached a final state.",
    }),
  }),
});

export const OperationConnection = connectionType("Operation", OperationRef);

const OperationFilterInput = builder.inputType("OperationFilter", {
  description: "Operation selection; given fields are combined with AND.",
  fields: (t) => ({
    kinds: t.field({ type: [OperationKindEnum], description: "One of these kinds." }),
    states: t.field({ type: [OperationStateEnum], description: "In one of these states." }),
    nodeId: t.id({ description: "Touching this node." }),
    cluster: t.field({ type: ClusterRefInput, description: "Asked for this cluster." }),
  }),
});

builder.queryField("operation", (t) =>
  t.field({
    type: OperationRef,
    nullable: true,
    ...needs("READ"),
    description: "One operation, by global ID or raw UUID; null if it does not exist.",
    args: { id: t.arg.id({ required: true, description: "Which operation." }) },
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
    description: "Operations, newest first.",
    args: {
      filter: t.arg({ type: OperationFilterInput, description: "Which operations; absent: all." }),
      ...pageArgs(t.arg),
    },
    resolve: async (_root, args, { services }) => {
      const { reader } = services.database;
      const clusterId = args.filter?.cluster
        ? ((await findCluster(reader, clusterChoice(args.filter.cluster))) ?? uuidOrNone(""))
        : undefined;
      const filter = {
        kinds: given(args.filter?.kinds),
        states: given(args.filter?.states),
        nodeId: args.filter?.nodeId == null ? undefined : uuidOrNone(keyOf("Node", args.filter.nodeId)),
        clusterId,
      };
      return connectionOf(
        await operationsPage(reader, filter, pageRequest(args, "instant")),
        ({ createdAt }) => createdAt,
      );
    },
  }),
);
