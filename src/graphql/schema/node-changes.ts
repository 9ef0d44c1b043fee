/** The subscription `nodeChanges`: the types of its items, and its arguments. */
import { nodeChanges } from "../../feed/change-stream.ts";
import type { NodeChangeStreamItem } from "../../feed/change-stream.ts";
import { builder, needs } from "../base/builder.ts";
import type { FieldArgs } from "../base/builder.ts";
import { badInput, changeCursorOf, logCursorText } from "../base/connection.ts";
import { NodeChangeFieldEnum } from "../base/enums.ts";
import { globalId } from "../base/ids.ts";
import { NodeRef } from "../base/refs.ts";
import type { EventKey } from "../execution/event-scope.ts";
import { NodeFilterInput, streamFilter } from "./selectors.ts";
import { StreamBookmarkRef, StreamResetRef } from "./streams.ts";

type Of<Kind extends NodeChangeStreamItem["kind"]> = Extract<NodeChangeStreamItem, { kind: Kind }>;

const NodeUpsertedRef = builder.objectRef<Of<"upserted">>("NodeUpserted").implement({
  description: "Node that matches the filter, as it is after a change, or as it was when the stream started.",
  fields: (t) => ({
    cursor: t.string({
      description: "Position in the log of changes: everything up to it has been delivered.",
      resolve: ({ cursor }) => logCursorText(cursor),
    }),
    at: t.expose("at", {
      type: "DateTime",
      description: "Time of the newest of the changes; in a snapshot, time of sending.",
    }),
    node: t.field({
      type: NodeRef,
      description:
        "The node as it is when the item is made, which may be newer than `cursor`, and is never older than in an earlier item of the stream.",
      resolve: ({ node }, _args, { brought }) => brought.node(node),
    }),
    changed: t.field({
      type: [NodeChangeFieldEnum],
      nullable: true,
      description:
        "What has changed, of one or of several changes; empty if only `revision` has. Null if the node is new to the reader: it is part of a snapshot, was registered, or has begun to match the filter.",
      resolve: ({ changed }) => (changed === null ? null : [...changed]),
    }),
  }),
});

const NodeLeftRef = builder.objectRef<Of<"left">>("NodeLeft").implement({
  description:
    "Node that no longer matches the filter, or was deleted. Ignore it if you do not have the node: it may have matched for a moment only.",
  fields: (t) => ({
    cursor: t.string({
      description: "Position in the log of changes: everything up to it has been delivered.",
      resolve: ({ cursor }) => logCursorText(cursor),
    }),
    at: t.expose("at", { type: "DateTime", description: "Time of the change." }),
    id: t.id({ description: "Global ID of the node.", resolve: ({ nodeId }) => globalId("Node", nodeId) }),
    uuid: t.expose("nodeId", { type: "UUID", description: "UUID of the node." }),
    name: t.exposeString("name", { description: "Name of the node." }),
    deleted: t.exposeBoolean("deleted", { description: "Whether the node was deleted." }),
  }),
});

const NodeChangeRef = builder.unionType("NodeChange", {
  description:
    "Item of the stream `nodeChanges`. Every item has a cursor: after a disconnect, subscribe again with `after: <last cursor>`.",
  types: [NodeUpsertedRef, NodeLeftRef, StreamBookmarkRef, StreamResetRef],
  resolveType: ({ kind }) =>
    ({ upserted: "NodeUpserted", left: "NodeLeft", bookmark: "StreamBookmark", reset: "StreamReset" })[kind],
});

/** Equal for items that look the same to all readers. */
const eventKey: EventKey<NodeChangeStreamItem> = (item) => {
  const at = logCursorText(item.cursor);
  switch (item.kind) {
    case "upserted":
      return `u${at} ${item.node.id} ${item.node.revision} ${item.reading} ${item.changed?.join(",") ?? "new"}`;
    case "left":
      return `l${at} ${item.nodeId} ${item.deleted}`;
    case "bookmark":
      return `b${at} ${item.snapshotComplete} ${item.caughtUp}`;
    case "reset":
      return null;
  }
};

/** The arguments with which a stream of changes begins. */
export function beginArgs(arg: FieldArgs, of: string) {
  return {
    after: arg.string({
      description:
        "Cursor of the last item received from any stream of changes, or of a list. Cannot be combined with `snapshot`.",
    }),
    snapshot: arg.boolean({
      required: true,
      defaultValue: false,
      description: `Start with ${of}.`,
    }),
  };
}

/** Where a stream of changes begins. */
export function beginning({ after, snapshot }: { after?: string | null | undefined; snapshot: boolean }) {
  if (snapshot && after != null)
    throw badInput("Use either `after` to continue from a cursor, or `snapshot` to start again, not both.");
  return { after: changeCursorOf(after), snapshot };
}

builder.subscriptionField("nodeChanges", (t) =>
  t.field({
    type: NodeChangeRef,
    ...needs("READ"),
    description:
      "Every visible change of matching nodes, in commit order and without gaps: state, power, presence, labels, settings, current run and all other fields. With `snapshot: true`, all matching nodes come first. With `after`, the stream continues after a cursor. With neither, it starts now. Several changes of a node may be one item.",
    args: {
      filter: t.arg({
        type: NodeFilterInput,
        description:
          "Only nodes that match; by default all. A node that stops matching is sent once as `NodeLeft`. At most 65,536 characters as JSON.",
      }),
      ...beginArgs(t.arg, "a snapshot of all matching nodes"),
    },
    subscribe: (_root, { filter, ...begin }, { services }) =>
      nodeChanges(services, { filter: streamFilter(filter), ...beginning(begin) }),
    resolve: (item) => item,
    extensions: { ...needs("READ").extensions, eventKey },
  }),
);
