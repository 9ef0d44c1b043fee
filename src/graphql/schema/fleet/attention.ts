/** The query `attention`: what needs a person, in groups with the same cause. */
import { attentionGroups } from "../../../store/nodes/attention.ts";
import type { Attention } from "../../../store/nodes/attention.ts";
import { builder, given, needs } from "../../base/builder.ts";
import { logCursorText } from "../../base/log-cursor.ts";
import { AttentionGroupRef, AttentionKindEnum, groupArgs, groupLimits } from "./attention-groups.ts";
import { NodeFilterInput, nodeFilter } from "../selectors.ts";
import type { NodeFilterShape } from "../selectors.ts";

const AttentionRef = builder
  .objectRef<Attention & { readonly chosen: NodeFilterShape | undefined }>("Attention")
  .implement({
    description: "What needs a person. A node can be in several groups.",
    fields: (t) => ({
      groups: t.field({
        type: [AttentionGroupRef],
        description: "The groups of most nodes.",
        resolve: ({ groups, chosen }) => groups.map((group) => ({ ...group, chosen })),
      }),
      cursor: t.string({
        description:
          "Position of the log as of which the nodes were read. Pass it as `after` to `nodeTransitions`, to know when to ask again.",
        resolve: ({ cursor }) => logCursorText(cursor),
      }),
      groupCount: t.exposeInt("groupCount", { description: "Number of all groups." }),
      otherGroupCount: t.int({
        description: "Number of groups that `first` leaves out.",
        resolve: ({ groups, groupCount }) => groupCount - groups.length,
      }),
      nodeCount: t.exposeInt("nodeCount", { description: "Number of different nodes in all groups." }),
      maintenanceCount: t.exposeInt("maintenanceCount", {
        description: "Number of matching nodes in maintenance, also for less than seven days.",
      }),
    }),
  });

builder.queryField("attention", (t) =>
  t.field({
    type: AttentionRef,
    ...needs("READ"),
    description:
      "What needs a person, in groups with the same cause. Nodes in maintenance are in groups of the kind MAINTENANCE only.",
    args: {
      filter: t.arg({ type: NodeFilterInput, description: "Only matching nodes; by default all." }),
      kinds: t.arg({ type: [AttentionKindEnum], description: "Only these kinds; by default all." }),
      ...groupArgs(t.arg),
    },
    resolve: async (_root, { filter, kinds, ...limits }, { services }) => ({
      ...(await attentionGroups(services.database.reader, {
        filter: nodeFilter(filter),
        kinds: given(kinds),
        ...groupLimits(limits),
      })),
      chosen: given(filter),
    }),
  }),
);
