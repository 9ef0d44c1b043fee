/** Counts of nodes by fields and labels: `nodeCounts`, its live form `nodeCountChanges`, and `labelKeys`. */
import { keyOfAnswer } from "../../../feed/log/shared-answers.ts";
import { labelKeysInUse, labelValuesInUse, nodeGroups } from "../../../store/nodes/node-counts.ts";
import type { CountKey, LabelKeyUse, LabelValueUse, NodeGroup, NodeGroups } from "../../../store/nodes/node-counts.ts";
import type { NodeFilter } from "../../../store/nodes/node-filter.ts";
import { builder, needs } from "../../base/builder.ts";
import type { FieldArgs } from "../../base/builder.ts";
import { badInput, sizeWithin } from "../../base/connection.ts";
import { logCursorText } from "../../base/log-cursor.ts";
import { CountedFieldEnum } from "../../base/enums.ts";
import { clusterField } from "../../base/shared-fields.ts";
import { NodeFilterInput, nodeFilter, streamFilter } from "../selectors.ts";

/** Fields and labels of one `by`: the number of groups is the product of their values. */
const KEYS_MAX = 4;
const GROUPS_MAX = 1_000;
const LABEL_KEYS_MAX = 200;
const LABEL_VALUES_MAX = 100;

const NodeCountKeyInput = builder.inputType("NodeCountKeyInput", {
  description: "What nodes are counted by. Exactly one field.",
  isOneOf: true,
  fields: (t) => ({
    field: t.field({ type: CountedFieldEnum, description: "By a field of the node." }),
    label: t.string({ description: "By the value of the label with this key; null for nodes without it." }),
  }),
});

interface CountValue {
  readonly key: CountKey;
  readonly value: string | null;
}

const NodeCountValueRef = builder.objectRef<CountValue>("NodeCountValue").implement({
  description: "Value that the nodes of a group have in common.",
  fields: (t) => ({
    field: t.field({
      type: CountedFieldEnum,
      nullable: true,
      description: "Field that has the value; null if it is a label.",
      resolve: ({ key }) => ("field" in key ? key.field : null),
    }),
    label: t.string({
      nullable: true,
      description: "Key of the label that has the value; null if it is a field.",
      resolve: ({ key }) => ("label" in key ? key.label : null),
    }),
    value: t.exposeString("value", {
      nullable: true,
      description: "Name of an enum value, a cluster or a driver, or a text; null if the nodes have no value.",
    }),
  }),
});

interface CountGroup extends NodeGroup {
  readonly by: readonly CountKey[];
}

const NodeCountGroupRef = builder.objectRef<CountGroup>("NodeCountGroup").implement({
  description: "Number of nodes with equal values.",
  fields: (t) => ({
    values: t.field({
      type: [NodeCountValueRef],
      description: "The values, in the order of `by`.",
      resolve: ({ values, by }) => by.map((key, index) => ({ key, value: values[index] ?? null })),
    }),
    nodeCount: t.exposeInt("nodeCount", { description: "Number of nodes with these values." }),
    cluster: clusterField(t, "The cluster of the nodes; null if they are in none, and if `by` does not name CLUSTER."),
  }),
});

function nodesIn(groups: readonly NodeGroup[]): number {
  return groups.reduce((sum, { nodeCount }) => sum + nodeCount, 0);
}

const NodeCountsRef = builder.objectRef<NodeGroups & { readonly by: readonly CountKey[] }>("NodeCounts").implement({
  description:
    "Numbers of nodes by their values, all as of one moment. The groups that `first` leaves out are counted in `otherGroupCount` and `otherNodeCount`.",
  fields: (t) => ({
    cursor: t.string({
      description:
        "Position in the log as of which the nodes were counted. Pass it as `after` to continue with their transitions.",
      resolve: ({ cursor }) => logCursorText(cursor),
    }),
    groups: t.field({
      type: [NodeCountGroupRef],
      description:
        "The largest groups; groups of the same size by their values in the order of `by`, compared by code points, null last.",
      resolve: ({ groups, by }) => groups.map((group) => ({ ...group, by })),
    }),
    groupCount: t.exposeInt("groupCount", { description: "Number of all groups, in `groups` or left out." }),
    totalCount: t.exposeInt("totalCount", { description: "Number of all matching nodes, in `groups` or left out." }),
    otherGroupCount: t.int({
      description: "Number of groups that are left out; 0 if `groups` has all.",
      resolve: ({ groups, groupCount }) => groupCount - groups.length,
    }),
    otherNodeCount: t.int({
      description: "Number of nodes in the groups that are left out.",
      resolve: ({ groups, totalCount }) => totalCount - nodesIn(groups),
    }),
  }),
});

/** The keys of a request. Throws if there are none, too many, or one twice. */
function countKeys(by: readonly (typeof NodeCountKeyInput.$inferInput)[]): CountKey[] {
  if (by.length === 0) throw badInput("`by` is empty. Name at least one field or label to count by.");
  if (by.length > KEYS_MAX)
    throw badInput(`\`by\` has ${by.length} entries; use up to ${KEYS_MAX}, or several counts in one request.`);
  const keys = by.map(({ field, label }): CountKey => (field == null ? { label: label ?? "" } : { field }));
  const names = keys.map((key) => ("field" in key ? `field ${key.field}` : `label ${JSON.stringify(key.label)}`));
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  if (repeated !== undefined) throw badInput(`\`by\` names ${repeated} more than once. Name it once.`);
  return keys;
}

/** The arguments of a count, but for its filter. */
function countArgs(arg: FieldArgs) {
  return {
    by: arg({
      type: [NodeCountKeyInput],
      required: true,
      description: `1 to ${KEYS_MAX} fields and labels, none of them twice. With several, each combination of values is a group.`,
    }),
    first: arg.int({
      required: true,
      defaultValue: 100,
      description: `Number of groups in the answer, 1 to ${GROUPS_MAX}.`,
    }),
  };
}

builder.queryField("nodeCounts", (t) =>
  t.field({
    type: NodeCountsRef,
    ...needs("READ"),
    description: "Numbers of nodes by state, cluster, label and more. For several independent counts, use aliases.",
    args: {
      filter: t.arg({ type: NodeFilterInput, description: "Only matching nodes; by default all." }),
      ...countArgs(t.arg),
    },
    resolve: async (_root, args, { services }) => {
      const by = countKeys(args.by);
      const request = { filter: nodeFilter(args.filter), by, first: sizeWithin(GROUPS_MAX, "first", args.first) };
      return { ...(await nodeGroups(services.database.reader, request)), by };
    },
  }),
);

builder.subscriptionField("nodeCountChanges", (t) =>
  t.field({
    type: NodeCountsRef,
    ...needs("READ", { eventKey: keyOfAnswer }),
    description:
      "The counts of `nodeCounts`: the present ones first, then again whenever they have changed, at most once a second. In large fleets, and with many different counts at a time, less often. After a disconnect, subscribe again: the first item has the present counts, so no cursor is needed.",
    args: {
      filter: t.arg({
        type: NodeFilterInput,
        description: "Only matching nodes; by default all. At most 65,536 characters as JSON.",
      }),
      ...countArgs(t.arg),
    },
    subscribe: (_root, args, { services }) => {
      const by = countKeys(args.by);
      const first = sizeWithin(GROUPS_MAX, "first", args.first);
      const request = { filter: streamFilter(args.filter), by, first };
      return services.tail.answers.stream({
        key: JSON.stringify(["nodeCounts", request]),
        read: async (reader) => ({ ...(await nodeGroups(reader, request)), by }),
      });
    },
    resolve: (update) => update,
  }),
);

// ---- labels

const LabelValueUseRef = builder.objectRef<LabelValueUse>("LabelValueUse").implement({
  description: "Value of a label, and how many nodes have it.",
  fields: (t) => ({
    value: t.exposeString("value", { description: "Value of the label." }),
    nodeCount: t.exposeInt("nodeCount", { description: "Number of nodes that have the label with this value." }),
  }),
});

interface LabelKeyRow extends LabelKeyUse {
  readonly filter: NodeFilter | undefined;
}

const LabelKeyUseRef = builder.objectRef<LabelKeyRow>("LabelKeyUse").implement({
  description: "Key of labels, and how many nodes have it.",
  fields: (t) => ({
    key: t.exposeString("key", { description: "Key of the label." }),
    nodeCount: t.exposeInt("nodeCount", { description: "Number of nodes that have a label with this key." }),
    valueCount: t.exposeInt("valueCount", { description: "Number of different values." }),
    values: t.field({
      type: [LabelValueUseRef],
      description: "Values of most nodes first; those of as many nodes by code points.",
      args: {
        first: t.arg.int({
          required: true,
          defaultValue: 20,
          description: `Number of values, 1 to ${LABEL_VALUES_MAX}. To read more, count nodes by the label.`,
        }),
      },
      resolve: async ({ key, filter }, { first }, { load }) => [
        ...(await load.below(
          labelValuesInUse,
          key,
          { filter, first: sizeWithin(LABEL_VALUES_MAX, "first", first) },
          [],
        )),
      ],
    }),
  }),
});

const LabelKeysRef = builder
  .objectRef<{ readonly keys: readonly LabelKeyRow[]; readonly keyCount: number }>("LabelKeys")
  .implement({
    description: "Keys of the labels in use. The keys that `first` leaves out are counted in `otherKeyCount`.",
    fields: (t) => ({
      keys: t.expose("keys", {
        type: [LabelKeyUseRef],
        description: "Keys of most nodes first; those of as many nodes by code points.",
      }),
      keyCount: t.exposeInt("keyCount", { description: "Number of all keys, in `keys` or left out." }),
      otherKeyCount: t.int({
        description: "Number of keys that are left out; 0 if `keys` has all.",
        resolve: ({ keys, keyCount }) => keyCount - keys.length,
      }),
    }),
  });

builder.queryField("labelKeys", (t) =>
  t.field({
    type: LabelKeysRef,
    ...needs("READ"),
    description: "Keys of the labels that nodes have, with their values and the number of nodes with each.",
    args: {
      filter: t.arg({ type: NodeFilterInput, description: "Only labels of matching nodes; by default of all." }),
      first: t.arg.int({
        required: true,
        defaultValue: 50,
        description: `Number of keys in the answer, 1 to ${LABEL_KEYS_MAX}.`,
      }),
    },
    resolve: async (_root, args, { services }) => {
      const filter = nodeFilter(args.filter);
      const first = sizeWithin(LABEL_KEYS_MAX, "first", args.first);
      const { keys, keyCount } = await labelKeysInUse(services.database.reader, { filter, first });
      return { keys: keys.map((key) => ({ ...key, filter })), keyCount };
    },
  }),
);
