/** Transitions: the type and the list, which has the same cursors as the stream. */
import { GraphQLError } from "graphql";
import type { Reader } from "../../../store/postgres/database.ts";
import { checkCursor, countTransitions, cursorBefore, transitionsPage } from "../../../store/log/transitions.ts";
import type { Page } from "../../../store/postgres/pagination.ts";
import type { LogCursor, LogTables, TransitionFilter, TransitionRow } from "../../../store/log/transitions.ts";
import { nodeCondition } from "../../../store/nodes/node-filter.ts";
import { builder, givenMembers, needs } from "../../base/builder.ts";
import {
  connectionType,
  connectionWith,
  logCursorOf,
  logPositionOf,
  numberedRequest,
  pageArgs,
  TRANSITIONS_PAGE_MAX,
} from "../../base/connection.ts";
import { logCursorText } from "../../base/log-cursor.ts";
import type { PageArgs } from "../../base/connection.ts";
import { NodeEventEnum, NodeStateEnum, OperationKindEnum } from "../../base/enums.ts";
import { globalId, keyOf, uuidOrNone } from "../../base/ids.ts";
import { RunRef, TransitionRef } from "../../base/refs.ts";
import { nodeField, operationField } from "../../base/shared-fields.ts";
import { NodeFilterInput, nodeFilter } from "../selectors.ts";

builder.objectType(TransitionRef, {
  // It cannot be fetched by ID, and its `operation` and `target` are nullable, unlike those of a run.
  description: "State change of a node. Written in the same database transaction as the change itself.",
  isTypeOf: (value) => typeof value === "object" && value !== null && "toState" in value,
  fields: (t) => ({
    id: t.id({
      description: "Global ID: the same for every delivery of the transition.",
      resolve: ({ position }) => globalId("Transition", String(position)),
    }),
    cursor: t.string({
      description:
        "Position in the log. Pass it as `after`. It begins with the position, a decimal number; the rest, after a dash, identifies the log. Positions follow the commit order without gaps, so an unfiltered stream can prove that it missed nothing.",
      resolve: logCursorText,
    }),
    node: nodeField(t, "Node as it is now; null if it has been deleted."),
    nodeUuid: t.expose("nodeId", {
      type: "UUID",
      description: "UUID of the node; kept after its deletion.",
    }),
    nodeName: t.exposeString("nodeName", { description: "Name of the node at that time." }),
    sequence: t.exposeInt("sequence", {
      description:
        "Number of the transition of its node: 1 for the registration, then increasing by one without gaps. A filtered stream can use it to prove that it missed nothing.",
    }),
    nodeRevision: t.exposeInt("nodeRevision", { description: "Revision of the node after the change." }),
    from: t.expose("fromState", {
      type: NodeStateEnum,
      nullable: true,
      description: "State before the change; null for the registration.",
    }),
    to: t.expose("toState", {
      type: NodeStateEnum,
      nullable: true,
      description: "State after the change; null for the deletion.",
    }),
    event: t.expose("event", {
      type: NodeEventEnum,
      description: "Event that caused the change.",
    }),
    target: t.expose("target", {
      type: NodeStateEnum,
      nullable: true,
      description: "State in which the run was expected to end; null if no run was active.",
    }),
    operation: operationField(t, "Operation that caused it; null if none did."),
    run: t.field({
      type: RunRef,
      nullable: true,
      description: "Run that caused it; null if none did.",
      resolve: ({ runId }, _args, { load }) => (runId === null ? null : load.run.load(runId)),
    }),
    step: t.exposeString("step", {
      nullable: true,
      description:
        "Step of the run, as `interface.name`: the running step, or the step whose end caused the change. Null if there was none.",
    }),
    actor: t.exposeString("actor", { description: "Who caused it; `engine` if it followed from the work itself." }),
    reason: t.exposeString("reason", {
      nullable: true,
      description: "Reason as a sentence for people; null if there is none.",
    }),
    at: t.expose("at", { type: "DateTime", description: "Commit time." }),
  }),
});

export const TransitionConnection = connectionType("Transition", TransitionRef, true);

/** A page of the log as a connection; its cursors are positions in the log. */
export function transitionConnection(page: Page<TransitionRow>, totalCount: () => Promise<number>) {
  return connectionWith(page, logCursorText, totalCount);
}

export async function transitionsOf(reader: Reader, filter: TransitionFilter | undefined, args: PageArgs) {
  const cursor = logCursorOf(args.after);
  const request = numberedRequest(args, TRANSITIONS_PAGE_MAX, logPositionOf);
  const page = await transitionsPage(reader, filter, request);
  // Checked after reading: rows may have been deleted in between.
  if (cursor !== undefined) await requireKept(reader, cursor);
  return transitionConnection(page, () => countTransitions(reader, filter));
}

/** Throws CURSOR_EXPIRED, like a stream, unless everything after the cursor still exists. */
export async function requireKept(reader: Reader, cursor: LogCursor, log?: LogTables): Promise<void> {
  const { isValid, earliest } = await checkCursor(reader, cursor, log);
  if (isValid) return;
  throw expired(
    `The log after cursor ${logCursorText(cursor)} is no longer kept, or the cursor is not from this log.`,
    { ...cursor, ...earliest },
  );
}

function expired(what: string, earliest: LogCursor): GraphQLError {
  const cursor = logCursorText(earliest);
  return new GraphQLError(`${what} Continue from ${cursor}, the earliest valid cursor.`, {
    extensions: { code: "CURSOR_EXPIRED", cursor },
  });
}

const TransitionFilterInput = builder.inputType("TransitionFilter", {
  description:
    "Filter for transitions by what the log says. The given fields are combined with AND; an empty list matches nothing.",
  fields: (t) => ({
    actors: t.stringList({ description: "Caused by one of these; `engine` causes what follows from the work itself." }),
    events: t.field({ type: [NodeEventEnum], description: "With one of these events." }),
    kinds: t.field({ type: [OperationKindEnum], description: "Caused by an operation of one of these kinds." }),
    operationId: t.id({ description: "Caused by this operation: global ID or UUID." }),
    text: t.string({
      description: "With this text in the name of the node, the step or the reason, ignoring case.",
    }),
    since: t.field({ type: "DateTime", description: "At this time or later." }),
    until: t.field({ type: "DateTime", description: "Before this time." }),
  }),
});

function transitionFilter(where: typeof TransitionFilterInput.$inferInput | null | undefined): TransitionFilter {
  const { operationId, ...plain } = where ?? {};
  return {
    ...givenMembers(plain),
    operationId: operationId == null ? undefined : uuidOrNone(keyOf("Operation", operationId)),
  };
}

builder.queryField("transitions", (t) =>
  t.field({
    type: TransitionConnection,
    ...needs("READ"),
    description:
      "Transitions, oldest first: the same items and cursors as the subscription `nodeTransitions`, to fill a gap or to look back. An `after` that is older than the retained log is the error CURSOR_EXPIRED.",
    args: {
      filter: t.arg({
        type: NodeFilterInput,
        description: "Only nodes that match now; by default all, including deleted nodes.",
      }),
      where: t.arg({
        type: TransitionFilterInput,
        description:
          "Only transitions that match; by default all. Without `since` or `after`, conditions read the log from its beginning.",
      }),
      ...pageArgs(t.arg, TRANSITIONS_PAGE_MAX),
    },
    resolve: (_root, args, { services }) => {
      const nodes = nodeCondition(nodeFilter(args.filter));
      return transitionsOf(services.database.reader, { nodes, ...transitionFilter(args.where) }, args);
    },
  }),
);

builder.queryField("cursorAt", (t) =>
  t.field({
    type: "String",
    ...needs("READ"),
    description:
      "Cursor of the log at a time: `after` it, `transitions` and the subscription `nodeTransitions` begin with the first transition at that time or later. For a time after the newest transition, the newest cursor. If earlier transitions have been deleted, and the kept ones do not reach back to that time, the error CURSOR_EXPIRED names the earliest cursor.",
    args: { time: t.arg({ type: "DateTime", required: true, description: "Time by the clock of the database." }) },
    resolve: async (_root, { time }, { services }) => {
      const { cursor, isComplete } = await cursorBefore(services.database.reader, time);
      if (isComplete) return logCursorText(cursor);
      throw expired(`The log is no longer kept back to ${time.toISOString()}.`, cursor);
    },
  }),
);
