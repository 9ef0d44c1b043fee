/** The reason why a run waits: as data for programs and as a sentence for people. */
import { budgetOf, budgetText, neighbour, rulesIn, spareFor, stepUnderWay, unmetFor } from "../../../engine/views.ts";
import { NO_NODES, unmetText } from "../../../lifecycle/host-groups.ts";
import type { GroupCounts, Unmet } from "../../../lifecycle/host-groups.ts";
import { cancels } from "../../../lifecycle/interrupts.ts";
import { waitingOf } from "../../../lifecycle/waiting.ts";
import type { Waiting, WaitingFacts } from "../../../lifecycle/waiting.ts";
import { groupOfKey, isInService } from "../../../store/nodes/host-groups.ts";
import type { OperationGroups } from "../../../store/records.ts";
import type { NodeRow } from "../../../store/nodes/nodes.ts";
import type { RunRow } from "../../../store/runs/runs.ts";
import { existing } from "../../base/batching.ts";
import { builder } from "../../base/builder.ts";
import type { Context } from "../../base/context.ts";
import { WaitReasonEnum } from "../../base/enums.ts";
import { RunRef } from "../../base/refs.ts";
import { AttemptRef, stepName, stepsOf } from "./step.ts";

type GroupWait = Pick<Unmet, "group" | "needed" | "active">;

/** Also what a plan waits for (plans/plan-summary.ts). */
export const HostGroupWaitRef = builder.objectRef<GroupWait>("HostGroupWait").implement({
  description: "Nodes of a host group that have to be there before others begin.",
  fields: (t) => ({
    group: t.exposeString("group", { description: "Name of the host group." }),
    needed: t.exposeInt("needed", { description: "Number of its nodes that are needed." }),
    present: t.int({
      description: "Number of its nodes that are ACTIVE, or for `BUDGET` in service.",
      resolve: ({ active }) => active,
    }),
  }),
});

interface WaitingRun extends Waiting {
  readonly run: RunRow;
  readonly hostGroups: readonly GroupWait[];
}

const WaitingRef = builder.objectRef<WaitingRun>("Waiting").implement({
  description: "Reason why an unfinished run waits.",
  fields: (t) => ({
    reason: t.expose("reason", { type: WaitReasonEnum, description: "Reason as a code." }),
    description: t.exposeString("description", {
      description: "Reason as a sentence for people, with what to do about it if anything can be done.",
    }),
    since: t.field({
      type: "DateTime",
      description: "Start of the wait.",
      resolve: ({ run, reason }) => (reason === "ABORTING" ? run.interruptAt : run.waitingSince) ?? run.updatedAt,
    }),
    until: t.expose("until", {
      type: "DateTime",
      nullable: true,
      description:
        "Latest end of the wait: the next attempt, the callback timeout, the end of a pause, or of the wait for a node that has disappeared. Null if an operator or another run ends it.",
    }),
    waitFor: t.string({
      nullable: true,
      description:
        "Capacity limit that the run waits for, such as `phase:clean` or `controller:10.0.0.7`; null for other reasons.",
      resolve: ({ run }) => run.waitFor,
    }),
    hostGroups: t.expose("hostGroups", {
      type: [HostGroupWaitRef],
      description:
        "The numbers of a wait for `GROUP` or `BUDGET`: nodes that are needed and nodes that are there, for each host group that lacks some; empty for other reasons.",
    }),
    position: t.int({
      nullable: true,
      description:
        "Position in the queue of runs that wait for the same slot or for their start in the operation, from 1. Null if there is no queue.",
      resolve: ({ run }, _args, { load }) => load.waitingPosition.load(run.id),
    }),
    lastAttempts: t.field({
      type: [AttemptRef],
      description:
        "Attempts so far of the step in which the run waits, oldest first; empty if it waits between two steps.",
      resolve: async ({ run }, _args, context) => [...((await stepsOf(run, context))[run.position]?.attempts ?? [])],
    }),
  }),
});

async function waiting(run: RunRow, context: Context): Promise<WaitingRun | null> {
  // Most runs are running or ended; skip the reads for them.
  const isEnding = run.interrupt === "ABORT" || run.interruptFailure !== null;
  if (run.finishedAt !== null || (run.state === "RUNNING" && !isEnding)) return null;
  const { load } = context;
  const [operation, plan, node] = await Promise.all([
    load.operation.load(run.operationId),
    load.plan.load(run.planHash),
    load.node.load(run.nodeId),
  ]);
  if (!operation) return null;
  const step = plan?.steps[run.position];
  const holdReason = step?.args["reason"];
  const hold =
    operation.groups !== null && run.state === "QUEUED" ? await heldBy(run, operation.groups, context) : null;
  const found = waitingOf({
    ...run,
    operation,
    heldBy: hold,
    isAborting: isEnding && (await isAborting(run, context)),
    step: step ? stepName(step) : null,
    holdReason: typeof holdReason === "string" ? holdReason : null,
    inMaintenance: node != null && node.maintenanceSince !== null && plan?.inMaintenance !== true,
    hasDisappeared: node?.presence === "DISAPPEARED",
    disappearedUntil: node ? await disappearedUntil(run, node, context) : null,
  });
  return found && { ...found, run, hostGroups: hold?.reason === found.reason ? hold.hostGroups : [] };
}

/** When the wait for a node that has disappeared ends by the policy of the site, as due-operations.ts finds it. */
async function disappearedUntil(
  { createdAt }: RunRow,
  { disappearedAt }: NodeRow,
  { load }: Context,
): Promise<Date | null> {
  if (disappearedAt === null) return null;
  const { disappearedTimeoutSeconds: seconds } = (await load.site.load("policy")).policy;
  if (seconds === undefined) return null;
  return new Date(Math.max(disappearedAt.getTime(), createdAt.getTime()) + seconds * 1_000);
}

/** Why the host groups of a QUEUED run hold it, with the numbers; null if they do not. */
async function heldBy(
  { groupKey, budgetKey, nodeId }: RunRow,
  { budgeted }: OperationGroups,
  { load }: Context,
): Promise<(NonNullable<WaitingFacts["heldBy"]> & Pick<WaitingRun, "hostGroups">) | null> {
  const keys = [groupKey, budgetKey].flatMap((key) => key ?? []);
  const clusters = await existing(
    load.cluster,
    keys.map((key) => groupOfKey(key).clusterId),
  );
  const rulesOf = rulesIn(clusters);
  const awaited =
    groupKey === null ? [] : (rulesOf(groupKey).after ?? []).map(({ group }) => neighbour(groupKey, group));
  const loaded = [...awaited, ...keys].map(async (key) => [key, await load.hostGroup.load(key)] as const);
  const counts = new Map<string, GroupCounts>(await Promise.all(loaded));
  const standing = { rulesOf, countsOf: (key: string) => counts.get(key) ?? NO_NODES };
  const unmet = groupKey === null ? [] : unmetFor(standing, groupKey);
  if (unmet.length > 0)
    return {
      reason: "GROUP",
      description: `The run starts when these are ACTIVE: ${unmetText(unmet)}.`,
      hostGroups: unmet,
    };
  const node = await load.node.load(nodeId);
  const isBound = budgetKey !== null && budgeted.includes(budgetKey) && node !== null && isInService(node);
  if (!isBound || spareFor(standing, budgetKey) > 0) return null;
  const description = `The node cannot be taken out of service now: ${budgetText(standing, budgetKey)}. The run starts when others have returned.`;
  return { reason: "BUDGET", description, hostGroups: [budgetOf(standing, budgetKey)] };
}

/** Whether the abort or the failure of a run is being carried out, and does not wait for the end of the step. */
async function isAborting(run: RunRow, context: Context): Promise<boolean> {
  if (run.interruptFailure !== null) return true;
  const step = (await stepsOf(run, context))[run.position];
  const underWay = stepUnderWay(step?.planned, step?.attempts.at(-1));
  return run.state !== "QUEUED" && (underWay === null || cancels(run.interruptMode, underWay.interruptible));
}

builder.objectField(RunRef, "waiting", (t) =>
  t.field({
    type: WaitingRef,
    nullable: true,
    description:
      "What the run waits for, such as a time, a slot, or the end of an abort (`ABORTING`); null if it is running or has ended.",
    resolve: (run, _args, context) => waiting(run, context),
  }),
);

builder.objectField(RunRef, "waitReason", (t) =>
  t.field({
    type: WaitReasonEnum,
    nullable: true,
    description: "Reason why the run waits, as a code; null if it does not. `waiting` has more detail.",
    resolve: async (run, _args, context) => (await waiting(run, context))?.reason ?? null,
  }),
);
