/** Lists of nodes: their connection, order and arguments, and the queries `node` and `nodes`. */
import { COMPOSED_FIELDS } from "../../../store/nodes/composed-fields.ts";
import type { ComposedName } from "../../../store/nodes/composed-fields.ts";
import { LISTED_NODE_FIELDS, nodesJson } from "../../../store/nodes/node-json.ts";
import { NODE_ORDERS, countNodes, nodeCounts, nodesPage, nodesPages } from "../../../store/nodes/nodes.ts";
import type { NodeRow } from "../../../store/nodes/nodes.ts";
import { builder, needs } from "../../base/builder.ts";
import type { FieldArgs } from "../../base/builder.ts";
import {
  connectionOf,
  connectionType,
  EMPTY_PAGE,
  NODES_PAGE_MAX,
  pageArgs,
  pageRequest,
} from "../../base/connection.ts";
import type { Connection, PageArgs } from "../../base/connection.ts";
import type { Context } from "../../base/context.ts";
import { NodeOrderFieldEnum, OrderDirectionEnum } from "../../base/enums.ts";
import { isUuid } from "../../../runtime/uuid.ts";
import { listPlan } from "../../execution/json-list-rewrite.ts";
import { composeTexts } from "../../execution/json-list-composed.ts";
import { listText } from "../../execution/json-list-text.ts";
import type { ListPlan } from "../../execution/json-list-plan.ts";
import { NodeRef } from "../../base/refs.ts";
import { composersOf } from "./node-composed.ts";
import { NodeFilterInput, NodeRefInput, nodeFilter, nodeId } from "../selectors.ts";
export const NodeConnection = connectionType("Node", NodeRef, true);

const NodeOrderInput = builder.inputType("NodeOrder", {
  description: "Order of a list of nodes.",
  fields: (t) => ({
    field: t.field({ type: NodeOrderFieldEnum, required: true, defaultValue: "NAME", description: "Sort key." }),
    direction: t.field({
      type: OrderDirectionEnum,
      required: true,
      defaultValue: "ASC",
      description: "Sort direction.",
    }),
  }),
});

/** Arguments of a list of nodes. */
export function nodeListArgs(arg: FieldArgs) {
  return {
    filter: arg({ type: NodeFilterInput, description: "Only matching nodes; by default all." }),
    orderBy: arg({ type: NodeOrderInput, description: "Order; by default by name." }),
    ...pageArgs(arg, NODES_PAGE_MAX),
  };
}

interface NodeListArgs extends PageArgs {
  readonly filter?: Parameters<typeof nodeFilter>[0];
  readonly orderBy?: typeof NodeOrderInput.$inferInput | null | undefined;
}

/** Extension of a field that lists nodes: the node fields that lists can have without resolving them. */
export const NODES_AS_TEXT = { asText: LISTED_NODE_FIELDS };

/** A list of nodes; as JSON text from the database if `asked` covers the whole selection. */
export async function nodeList(
  args: NodeListArgs,
  { services, actor, load }: Context,
  asked: ListPlan | undefined,
  clusterId?: string,
): Promise<Connection<NodeRow>> {
  const { reader } = services.database;
  const matching = nodeFilter(args.filter);
  const by = args.orderBy?.field ?? "NAME";
  const order = { by, descending: args.orderBy?.direction === "DESC" };
  const request = pageRequest(args, NODE_ORDERS[by].kind, NODES_PAGE_MAX);
  if (!asked && clusterId !== undefined) {
    const page = await load.below(nodesPages, clusterId, { filter: matching, order, request }, EMPTY_PAGE);
    return connectionOf(page, NODE_ORDERS[by].key, () => load.below(nodeCounts, clusterId, { filter: matching }, 0));
  }
  const filter = clusterId === undefined ? matching : { clusterId, or: matching && [matching] };
  if (!asked)
    return connectionOf(await nodesPage(reader, filter, order, request), NODE_ORDERS[by].key, () =>
      countNodes(reader, filter),
    );
  const [page, totalCount, asOf] = await Promise.all([
    asked.page && nodesJson(reader, { filter, order, request }, asked.page),
    asked.totalCount ? countNodes(reader, filter) : 0,
    asked.asOf ? load.asOf.load("now") : "",
  ]);
  const composers = composersOf(services.registry, actor);
  const items = page && composeTexts(page.items, asked.composed, (field) => composers[composedName(field)]);
  return listText(asked, page && { ...page, items: items ?? [] }, { totalCount, asOf });
}

function composedName(field: string): ComposedName {
  if (!Object.hasOwn(COMPOSED_FIELDS, field)) throw new Error(`The field ${field} is not composed.`);
  return field as ComposedName;
}

builder.queryField("node", (t) =>
  t.field({
    type: NodeRef,
    nullable: true,
    ...needs("READ"),
    description: "One node by ID, name or UUID; null if it does not exist.",
    args: { by: t.arg({ type: NodeRefInput, required: true, description: "The node." }) },
    resolve: async (_root, { by }, { services, load }) => {
      const id = await nodeId(by, services.database.reader);
      return isUuid(id) ? load.node.load(id) : null;
    },
  }),
);

builder.queryField("nodes", (t) =>
  t.field({
    type: NodeConnection,
    ...needs("READ", NODES_AS_TEXT),
    description: "Nodes that match a filter; all nodes without one.",
    args: nodeListArgs(t.arg),
    resolve: (_root, args, context, info) => nodeList(args, context, listPlan(info)),
  }),
);
