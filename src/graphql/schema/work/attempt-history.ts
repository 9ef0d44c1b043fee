/** The history of steps: attempts of all runs, newest first. */
import { findCluster } from "../../../engine/views.ts";
import { isUuid } from "../../../runtime/uuid.ts";
import { readCursor, toCursor } from "../../../store/postgres/pagination.ts";
import type { Reader } from "../../../store/postgres/database.ts";
import { attemptsPage, countAttempts } from "../../../store/runs/attempt-history.ts";
import type { AttemptFilter, AttemptKey } from "../../../store/runs/attempt-history.ts";
import { builder, givenMembers, needs } from "../../base/builder.ts";
import { badInput, connectionType, connectionWith, pageArgs, pageSize } from "../../base/connection.ts";
import { StepStateEnum } from "../../base/enums.ts";
import { keyOf, uuidOrNone } from "../../base/ids.ts";
import { clusterChoice, ClusterRefInput, nodeId, NodeRefInput } from "../selectors.ts";
import { AttemptRef } from "./step.ts";

const AttemptFilterInput = builder.inputType("StepAttemptFilter", {
  description: "Filter for attempts of steps. The given fields are combined with AND.",
  fields: (t) => ({
    node: t.field({ type: NodeRefInput, description: "On this node." }),
    cluster: t.field({
      type: ClusterRefInput,
      description: "On nodes that were members of this cluster when the operation was accepted.",
    }),
    hostGroup: t.string({
      description: "On nodes that had this host group when the attempt began, or join it with the run.",
    }),
    operation: t.id({ description: "Belonging to this operation (global ID or UUID)." }),
    step: t.string({ description: "Of this step, as `interface.name`." }),
    state: t.field({
      type: StepStateEnum,
      description: "In this state. A step that is PENDING, KEPT or SKIPPED has no attempt.",
    }),
    startedSince: t.field({ type: "DateTime", description: "Started at this time or later." }),
    startedBefore: t.field({ type: "DateTime", description: "Started before this time." }),
    requestedBy: t.string({ description: "Of operations that this actor requested." }),
  }),
});

async function filterOf(
  filter: typeof AttemptFilterInput.$inferInput | null | undefined,
  reader: Reader,
): Promise<AttemptFilter> {
  const { node, cluster, operation, ...plain } = givenMembers(filter ?? {});
  return {
    ...plain,
    nodeId: node && uuidOrNone(await nodeId(node, reader)),
    clusterId: cluster && ((await findCluster(reader, clusterChoice(cluster))) ?? uuidOrNone("")),
    operationId: operation === undefined ? undefined : uuidOrNone(keyOf("Operation", operation)),
  };
}

function cursorOf({ startedAt, runId, step, number }: AttemptKey): string {
  return toCursor(JSON.stringify([startedAt.toISOString(), runId, step, number]));
}

function keyIn(cursor: string | null | undefined): AttemptKey | undefined {
  if (cursor == null) return undefined;
  try {
    const [time, runId, step, number] = readCursor(cursor) as unknown[];
    const startedAt = new Date(String(time));
    const isPlace = [step, number].every((one) => Number.isInteger(one) && Math.abs(Number(one)) < 2 ** 31);
    if (startedAt.toISOString() === time && typeof runId === "string" && isUuid(runId) && isPlace)
      return { startedAt, runId, step: Number(step), number: Number(number) };
  } catch {
    // Rejected below, like every invalid cursor.
  }
  throw badInput(`${JSON.stringify(cursor)} is not a cursor of this list; use one that the list returned.`);
}

const AttemptConnection = connectionType("StepAttempt", AttemptRef);

builder.queryField("stepAttempts", (t) =>
  t.field({
    type: AttemptConnection,
    ...needs("READ"),
    description: "Attempts of steps over all runs, newest start first, the present ones included.",
    args: {
      filter: t.arg({ type: AttemptFilterInput, description: "Only matching attempts; by default all." }),
      ...pageArgs(t.arg),
    },
    resolve: async (_root, { filter, ...args }, { services }) => {
      const { reader } = services.database;
      const matching = await filterOf(filter, reader);
      const request = { ...pageSize(args), after: keyIn(args.after), before: keyIn(args.before) };
      return connectionWith(await attemptsPage(reader, matching, request), cursorOf, () =>
        countAttempts(reader, matching),
      );
    },
  }),
);
