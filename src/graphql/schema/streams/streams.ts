/** The subscription `nodeTransitions`, and what streams share: bookmarks, resets, the error of an unknown object. */
import { GraphQLError } from "graphql";
import { nodeStream } from "../../../feed/kinds/node-stream.ts";
import type { NodeStreamItem } from "../../../feed/kinds/node-stream.ts";
import { builder, needs } from "../../base/builder.ts";
import { badInput, logCursorOf } from "../../base/connection.ts";
import { logCursorText } from "../../base/log-cursor.ts";
import { StreamResetReasonEnum } from "../../base/enums.ts";
import { NodeRef, TransitionRef } from "../../base/refs.ts";
import { NodeFilterInput, streamFilter } from "../selectors.ts";
import type { EventKey } from "../../execution/event-scope.ts";

type Of<Kind extends NodeStreamItem["kind"]> = Extract<NodeStreamItem, { kind: Kind }>;

const NodeSnapshotRef = builder.objectRef<Of<"snapshot">>("NodeSnapshot").implement({
  description: "Node as it was when the stream started; sent before any transition.",
  fields: (t) => ({
    cursor: t.string({
      description: "Position in the log at which the snapshot was taken.",
      resolve: ({ cursor }) => logCursorText(cursor),
    }),
    node: t.field({
      type: NodeRef,
      nullable: true,
      description:
        "The node; never null. Declared nullable so that it can be selected together with `Transition.node`. If other objects are selected below it, it is as they are, which may be newer than `cursor`.",
      resolve: ({ node }, _args, { brought }) => brought("node", node),
    }),
  }),
});

export const StreamBookmarkRef = builder.objectRef<Of<"bookmark">>("StreamBookmark").implement({
  description: "Progress of the stream: everything up to `cursor` has been delivered. Sent at least every 10 seconds.",
  fields: (t) => ({
    cursor: t.string({ description: "Position in the log.", resolve: ({ cursor }) => logCursorText(cursor) }),
    at: t.expose("at", { type: "DateTime", description: "Time of the server." }),
    snapshotComplete: t.exposeBoolean("snapshotComplete", {
      description: "True once: directly after the last snapshot.",
    }),
    caughtUp: t.exposeBoolean("caughtUp", {
      description:
        "True once: when everything that existed when the stream started has been delivered. Later items are live.",
    }),
  }),
});

export const StreamResetRef = builder.objectRef<Of<"reset">>("StreamReset").implement({
  description: "Last item of a stream that cannot continue.",
  fields: (t) => ({
    cursor: t.string({
      description:
        "Earliest cursor that is still valid; after SHUTTING_DOWN and ACCESS_CHANGED, the cursor from which to continue.",
      resolve: ({ cursor }) => logCursorText(cursor),
    }),
    // Not `reason`: `Transition.reason` is a String, and a query could not select both from the union.
    code: t.expose("reason", {
      type: StreamResetReasonEnum,
      description: "Reason. After CURSOR_EXPIRED, subscribe again with `snapshot: true`.",
    }),
  }),
});

const NodeStreamItemRef = builder.unionType("NodeStreamItem", {
  description:
    "Item of a node stream. Every item has a cursor: after a disconnect, subscribe again with `after: <last cursor>`.",
  types: [NodeSnapshotRef, TransitionRef, StreamBookmarkRef, StreamResetRef],
  // A transition in a stream is its database row, like any other transition.
  resolveType: (item) =>
    "kind" in item
      ? { snapshot: "NodeSnapshot", bookmark: "StreamBookmark", reset: "StreamReset" }[item.kind]
      : "Transition",
});

/** The error of a stream for an object that does not exist. */
export function notFound(message: string): GraphQLError {
  return new GraphQLError(message, { extensions: { code: "NOT_FOUND" } });
}

/**
 * Equal for items that look the same to all readers. Editing a node changes its revision, not its position in the log.
 */
const eventKey: EventKey<NodeStreamItem> = (item) => {
  switch (item.kind) {
    case "transition":
      return `t${logCursorText(item.cursor)}`;
    case "snapshot":
      return `s${logCursorText(item.cursor)} ${item.node.id} ${item.node.revision}`;
    case "bookmark":
      return `b${logCursorText(item.cursor)} ${item.snapshotComplete} ${item.caughtUp}`;
    case "reset":
      return null;
  }
};

builder.subscriptionField("nodeTransitions", (t) =>
  t.field({
    type: NodeStreamItemRef,
    ...needs("READ", { eventKey }),
    description:
      "Transitions of matching nodes in commit order, without gaps or repetition. With `snapshot: true`, all matching nodes come first, then their transitions. With `after`, the stream continues after a cursor. With neither, it starts now.",
    args: {
      filter: t.arg({
        type: NodeFilterInput,
        description:
          "Only nodes that match at the time of delivery; by default all. A filter with only `ids` also delivers deletions. At most 65,536 characters as JSON.",
      }),
      after: t.arg.string({
        description: "Cursor of the last item received, or `asOf` of a list. Cannot be combined with `snapshot`.",
      }),
      snapshot: t.arg.boolean({
        required: true,
        defaultValue: false,
        description: "Start with a snapshot of all matching nodes.",
      }),
    },
    subscribe: (_root, { filter, after, snapshot }, { services }) => {
      if (snapshot && after != null)
        throw badInput("Use either `after` to continue from a cursor, or `snapshot` to start again, not both.");
      return nodeStream(services, { filter: streamFilter(filter), after: logCursorOf(after), snapshot });
    },
    resolve: (item) => (item.kind === "transition" ? item.row : item),
  }),
);
