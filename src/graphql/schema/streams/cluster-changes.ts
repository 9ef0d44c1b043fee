/** The subscription `clusterChanges`. */
import { clusterChanges } from "../../../feed/kinds/cluster-changes.ts";
import { builder, needs } from "../../base/builder.ts";
import { ClusterChangeFieldEnum } from "../../base/enums.ts";
import { ClusterRef } from "../../base/refs.ts";
import { beginArgs, beginning, changeKey, changeUnion } from "./change-streams.ts";
import { clusterFilter, ClusterFilterInput } from "../fleet/cluster-filter.ts";
import { limitStreamFilter } from "../selectors.ts";

const ClusterChangeRef = changeUnion({
  name: "Cluster",
  field: "cluster",
  type: ClusterRef,
  changed: ClusterChangeFieldEnum,
  texts: {
    upserted: "Cluster that matches the filter, as it is after a change, or as it was when the stream started.",
    isNew: "it is part of a snapshot, was created, or may have begun to match the filter because of a new name",
    left: "Cluster that no longer matches the filter, or was deleted. Ignore it if you do not have the cluster: it may never have matched.",
  },
  leftMembers: ["name", "deleted"],
});

builder.subscriptionField("clusterChanges", (t) =>
  t.field({
    type: ClusterChangeRef,
    ...needs("READ", { eventKey: changeKey }),
    description:
      "Every visible change of matching clusters, in commit order and without gaps: name, settings, revision, and the state, counts and pending changes that follow from their nodes. With `snapshot: true`, all matching clusters come first. With `after`, the stream continues after a cursor. With neither, it starts now. Several changes of a cluster are one item, at most one a second.",
    args: {
      filter: t.arg({
        type: ClusterFilterInput,
        description:
          "Only clusters that match; by default all. One that stops matching is sent once as `ClusterLeft`. At most 65,536 characters as JSON.",
      }),
      ...beginArgs(t.arg, "a snapshot of all matching clusters"),
    },
    subscribe: (_root, { filter, ...begin }, { services }) => {
      limitStreamFilter(filter);
      return clusterChanges(services, { ...beginning(begin), filter: clusterFilter(filter) });
    },
    resolve: (item) => item,
  }),
);
