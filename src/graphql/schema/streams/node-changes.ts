/** The subscription `nodeChanges`. */
import { nodeChanges } from "../../../feed/kinds/node-changes.ts";
import { builder, needs } from "../../base/builder.ts";
import { NodeChangeFieldEnum } from "../../base/enums.ts";
import { NodeRef } from "../../base/refs.ts";
import { beginArgs, beginning, changeKey, changeUnion } from "./change-streams.ts";
import { NodeFilterInput, streamFilter } from "../selectors.ts";

const NodeChangeRef = changeUnion({
  name: "Node",
  field: "node",
  type: NodeRef,
  changed: NodeChangeFieldEnum,
  texts: {
    upserted: "Node that matches the filter, as it is after a change, or as it was when the stream started.",
    isNew:
      "it is part of a snapshot, was registered, or has begun to match the filter (may have, if the filter has `changedSince`)",
    left: "Node that no longer matches the filter, or was deleted. Ignore it if you do not have the node: it may have matched for a moment only.",
  },
  leftMembers: ["uuid", "name", "deleted"],
});

builder.subscriptionField("nodeChanges", (t) =>
  t.field({
    type: NodeChangeRef,
    ...needs("READ", { eventKey: changeKey }),
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
  }),
);
