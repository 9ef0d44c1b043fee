/** The query `nodesAt`: the states of the fleet at a time, and the cursor from which the log goes on. */
import { GraphQLError } from "graphql";
import { pastNodesPage, pastStateCounts, pastTime } from "../../../store/nodes/past-states.ts";
import type { PastNode, PastStates } from "../../../store/nodes/past-states.ts";
import type { LogCursor } from "../../../store/log/transitions.ts";
import { nameKey } from "../../../store/names.ts";
import { builder, given, needs } from "../../base/builder.ts";
import {
  badInput,
  connectionOf,
  connectionType,
  NODES_PAGE_MAX,
  pageArgs,
  pageRequest,
} from "../../base/connection.ts";
import { logCursorText } from "../../base/log-cursor.ts";
import { NodeStateEnum } from "../../base/enums.ts";
import { NodeRef } from "../../base/refs.ts";
import { NodeStateCountRef } from "../fleet/cluster.ts";
import { NodeFilterInput, nodeFilter } from "../selectors.ts";
import type { NodeFilterShape } from "../selectors.ts";

const PastNodeRef = builder.objectRef<PastNode>("PastNode");

builder.objectType(PastNodeRef, {
  description:
    "State of a node at a time. A type of its own without `id`, so that caches of clients do not take it for the node as it is now.",
  fields: (t) => ({
    uuid: t.expose("id", {
      type: "UUID",
      description: "UUID of the node; kept after its deletion.",
    }),
    name: t.exposeString("name", {
      description: "Name of the node now, or when it was deleted. The log has no names of earlier times.",
    }),
    state: t.expose("state", { type: NodeStateEnum, description: "State at that time." }),
    until: t.field({
      type: "DateTime",
      nullable: true,
      description: "Time of the first transition afterwards; null if the node is still in this state.",
      resolve: ({ until }) => (until === null ? null : new Date(until)),
    }),
    node: t.field({
      type: NodeRef,
      nullable: true,
      description: "Node as it is now; null if it has been deleted.",
      resolve: ({ id }, _args, { load }) => load.node.load(id),
    }),
  }),
});

const PastNodeConnection = connectionType("PastNode", PastNodeRef);

interface NodesAt extends PastStates {
  readonly time: Date;
  readonly cursor: LogCursor;
}

const NodesAtRef = builder.objectRef<NodesAt>("NodesAt").implement({
  description: "States of the fleet at a time: all transitions before it have happened, and none at it or later.",
  fields: (t) => ({
    time: t.expose("time", { type: "DateTime", description: "Time that was asked for." }),
    cursor: t.string({
      description:
        "Cursor of the log at that time, as of `cursorAt`: pass it as `after` to `transitions` or `nodeTransitions`, which then bring these states up to the present without a gap.",
      resolve: ({ cursor }) => logCursorText(cursor),
    }),
    stateCounts: t.field({
      type: [NodeStateCountRef],
      description: "Number of nodes per state; states without nodes are left out.",
      resolve: async (past, _args, { services }) => pastStateCounts(services.database.reader, past),
    }),
    nodes: t.field({
      type: PastNodeConnection,
      description: "The nodes that existed, by name.",
      args: pageArgs(t.arg, NODES_PAGE_MAX),
      resolve: async (past, args, { services: { database } }) =>
        connectionOf(
          await pastNodesPage(database.reader, past, pageRequest(args, "text", NODES_PAGE_MAX)),
          ({ name }) => nameKey(name),
          async () => (await pastStateCounts(database.reader, past)).reduce((sum, { count }) => sum + count, 0),
        ),
    }),
  }),
});

/** Only the outermost `states` can be meant of the time; one further in would be read of the present. */
function refuseNestedStates(filter: NodeFilterShape): void {
  for (const inner of [...(filter.or ?? []), ...(filter.not ? [filter.not] : [])]) {
    if (inner.states != null)
      throw badInput("`states` is that of the given time: use it at the top of the filter, not in `or` or `not`.");
    refuseNestedStates(inner);
  }
}

builder.queryField("nodesAt", (t) =>
  t.field({
    type: NodesAtRef,
    ...needs("READ"),
    description:
      "States of the nodes that existed at a time, by undoing later transitions. A time before the log that is kept is the error CURSOR_EXPIRED, with the earliest time as `extensions.earliest`; a time in the future is the error BAD_USER_INPUT, with the present one as `extensions.now`.",
    args: {
      time: t.arg({ type: "DateTime", required: true, description: "Time by the clock of the database." }),
      filter: t.arg({
        type: NodeFilterInput,
        description:
          "Only matching nodes; by default all, including those deleted since. `states` is that of the given time, and is not accepted in `or` and `not`. The other conditions are those of the nodes as they are now; nodes deleted since match none of them.",
      }),
    },
    resolve: async (_root, { time, filter }, { services }): Promise<NodesAt> => {
      refuseNestedStates(filter ?? {});
      const { cursor, isFuture, now, earliest } = await pastTime(services.database.reader, time);
      if (isFuture)
        throw new GraphQLError(`${time.toISOString()} is in the future: it is ${now.toISOString()}.`, {
          extensions: { code: "BAD_USER_INPUT", now: now.toISOString() },
        });
      if (earliest)
        throw new GraphQLError(
          `The log is no longer kept back to ${time.toISOString()}. The earliest time is ${earliest.toISOString()}.`,
          { extensions: { code: "CURSOR_EXPIRED", earliest: earliest.toISOString() } },
        );
      const rest = filter && nodeFilter({ ...filter, states: undefined });
      return { time, cursor, position: cursor.position, states: given(filter?.states), filter: rest ?? undefined };
    },
  }),
);
