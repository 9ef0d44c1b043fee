/** Subscriptions: the streams of src/feed with types on them. */
import { GraphQLError } from "graphql";
import { nodeStream } from "../../feed/node-stream.ts";
import type { NodeStreamItem } from "../../feed/node-stream.ts";
import { operationStream } from "../../feed/operation-stream.ts";
import type { OperationUpdate } from "../../feed/operation-stream.ts";
import { builder, needs } from "../base/builder.ts";
import { badInput, positionOf } from "../base/connection.ts";
import { StreamResetReasonEnum } from "../base/enums.ts";
import { keyOf, uuidOrNone } from "../base/ids.ts";
import { NodeRef, OperationRef, RunRef, TransitionRef } from "../base/refs.ts";
import { NodeFilterInput, streamFilter } from "./selectors.ts";
import type { EventKey } from "../execution/shared-events.ts";

type Of<Kind extends NodeStreamItem["kind"]> = Extract<NodeStreamItem, { kind: Kind }>;

const NodeSnapshotRef = builder.objectRef<Of<"snapshot">>("NodeSnapshot").implement({
  description: "A node as it was when the stream began, before any transition.",
  fields: (t) => ({
    cursor: t.string({
      description: "Position the snapshot was taken at.",
      resolve: ({ position }) => String(position),
    }),
    node: t.field({
      type: NodeRef,
      nullable: true,
      description: "The node; nullable only because `Transition.node` is, so that both can be selected in one query.",
      resolve: ({ node }) => node,
    }),
  }),
});

const StreamBookmarkRef = builder.objectRef<Of<"bookmark">>("StreamBookmark").implement({
  description: "Progress mark: everything up to `cursor` has been delivered. One comes at least every 10 seconds.",
  fields: (t) => ({
    cursor: t.string({ description: "Position.", resolve: ({ position }) => String(position) }),
    at: t.expose("at", { type: "DateTime", description: "Server time." }),
    snapshotComplete: t.exposeBoolean("snapshotComplete", { description: "True once, right after the last snapshot." }),
    caughtUp: t.exposeBoolean("caughtUp", {
      description:
        "True once, when everything that was there when the stream began has been delivered: from here on it is live.",
    }),
  }),
});

export const StreamResetRef = builder.objectRef<Of<"reset">>("StreamReset").implement({
  description: "The stream cannot go on. It is the last item.",
  fields: (t) => ({
    cursor: t.string({
      description: "Earliest cursor that is still good; after SHUTTING_DOWN the one to go on from.",
      resolve: ({ position }) => String(position),
    }),
    // Not `reason`: `Transition.reason` is a text, and a query that selects both from the union would be invalid.
    code: t.field({
      type: StreamResetReasonEnum,
      description: "Why. After CURSOR_EXPIRED subscribe again with `snapshot: true`.",
      resolve: ({ reason }) => reason,
    }),
  }),
});

const NodeStreamItemRef = builder.unionType("NodeStreamItem", {
  description:
    "Item of a node stream. Every item has a cursor; after a break subscribe again with `after: <last cursor>`.",
  types: [NodeSnapshotRef, TransitionRef, StreamBookmarkRef, StreamResetRef],
  // A transition in a stream is its row itself, so that it has the fields of any other transition.
  resolveType: (item) =>
    "kind" in item
      ? { snapshot: "NodeSnapshot", bookmark: "StreamBookmark", reset: "StreamReset" }[item.kind]
      : "Transition",
});

/** What a stream of something that does not exist is answered with. */
export function notFound(message: string): GraphQLError {
  return new GraphQLError(message, { extensions: { code: "NOT_FOUND" } });
}

/** Whoever reads the log meets the same transitions, snapshots, and marks. A position does not move when a node is edited: its revision does. */
const eventKey: EventKey<NodeStreamItem> = (item) => {
  switch (item.kind) {
    case "transition":
      return `t${item.position}`;
    case "snapshot":
      return `s${item.position} ${item.node.id} ${item.node.revision}`;
    case "bookmark":
      return `b${item.position} ${item.snapshotComplete} ${item.caughtUp}`;
    case "reset":
      return null;
  }
};

builder.subscriptionField("nodeTransitions", (t) =>
  t.field({
    type: NodeStreamItemRef,
    ...needs("READ"),
    description:
      "State changes of matching nodes, in commit order, without gap or repetition. With `snapshot` every matching node comes first, then changes; with `after` the stream goes on from a cursor; with neither it begins now.",
    args: {
      filter: t.arg({
        type: NodeFilterInput,
        description:
          "Of nodes that match at the time of delivery; absent: of all. A filter by `ids` alone also tells deletions. At most 65,536 characters as JSON.",
      }),
      after: t.arg.string({ description: "Cursor of the last item seen. Not together with `snapshot`." }),
      snapshot: t.arg.boolean({ required: true, defaultValue: false, description: "Begin with every matching node." }),
    },
    subscribe: (_root, { filter, after, snapshot }, { services }) => {
      if (snapshot && after != null)
        throw badInput("Give `after` to go on from a cursor, or `snapshot` to begin anew, not both.");
      return nodeStream(services, { filter: streamFilter(filter), after: positionOf(after), snapshot });
    },
    resolve: (item) => (item.kind === "transition" ? item.row : item),
    extensions: { ...needs("READ").extensions, eventKey },
  }),
);

const OperationUpdateRef = builder.objectRef<OperationUpdate>("OperationUpdate").implement({
  description: "Item of an operation stream.",
  fields: (t) => ({
    cursor: t.string({ description: "Position in the log at that time.", resolve: ({ position }) => String(position) }),
    operation: t.field({
      type: OperationRef,
      description: "The operation as of this position.",
      resolve: ({ operation }) => operation,
    }),
    run: t.field({
      type: RunRef,
      nullable: true,
      description: "Run that changed; null when the operation itself did, as in the first and the last item.",
      resolve: ({ run }) => run,
    }),
  }),
});

builder.subscriptionField("operationUpdates", (t) =>
  t.field({
    type: OperationUpdateRef,
    ...needs("READ"),
    description:
      "One operation until it is final; then the stream completes. The first item is the present state, so a client that comes back has missed nothing that still matters. An unknown operation is the error NOT_FOUND. It also completes when the process goes down: if the operation was not final in the last item, subscribe again.",
    args: { id: t.arg.id({ required: true, description: "Global ID or raw UUID of the operation." }) },
    subscribe: async (_root, { id }, { services, load }) => {
      const operation = await load.operation.load(uuidOrNone(keyOf("Operation", id)));
      if (!operation) throw notFound(`There is no operation ${JSON.stringify(id)}.`);
      return operationStream(services, operation.id);
    },
    resolve: (update) => update,
  }),
);
