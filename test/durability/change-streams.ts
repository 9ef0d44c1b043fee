/** The subscriptions of `npm run tool -- change-cuts`, each with the list that has the same objects. */
import { NODE_FIELDS } from "../../src/store/nodes/node-fields.ts";
import { ask } from "../support/ask.ts";
import type { Followed, Left } from "./change-follower.ts";
import { CLUSTER, STEADY } from "./change-writers.ts";

interface Kind {
  /** Of the root field, such as `node`. */
  readonly name: "node" | "operation" | "cluster";
  /** Type of the filter. */
  readonly filter: string;
  readonly row: string;
  /** Fields of the item of an object that left. */
  readonly left: string;
}

const PAGE = 100;

/** Fields of a node without fields of their own; not the one whose change is not recorded. */
const SCALARS = Object.entries(NODE_FIELDS).flatMap(([name, field]) =>
  "fields" in field || name === "powerCheckedAt" ? [] : [name],
);

const NODE: Kind = {
  name: "node",
  filter: "NodeFilter",
  row: `${SCALARS.join(" ")} labels { key value } cluster { id }
    maintenance { reason since startedBy } fault { kind message } lastError { code message step }
    currentRun { id state }`,
  left: "id name deleted",
};

const OPERATION: Kind = {
  name: "operation",
  filter: "OperationFilter",
  row: `id kind state requestedBy reason totalCount finishedCount failedCount runCounts { state count } startedAt
    finishedAt interrupt interruptBy firstFailure { code message }`,
  left: "id",
};

const CLUSTER_KIND: Kind = {
  name: "cluster",
  filter: "ClusterFilter",
  row: "id name revision state nodeCounts { state count }",
  left: "id name deleted",
};

function subscriptionOf({ name, filter, row, left }: Kind): string {
  const type = `${name[0]?.toUpperCase()}${name.slice(1)}`;
  return `subscription Follow($after: String, $snapshot: Boolean!, $filter: ${filter}) {
    items: ${name}Changes(after: $after, snapshot: $snapshot, filter: $filter) {
      __typename
      ... on ${type}Upserted { cursor changed row: ${name} { ${row} } }
      ... on ${type}Left { cursor ${left} }
      ... on StreamBookmark { cursor snapshotComplete caughtUp }
      ... on StreamReset { cursor code }
    }
  }`;
}

function listOf({ name, filter, row }: Kind): string {
  return `query List($page: String, $filter: ${filter}) {
    list: ${name}s(first: ${PAGE}, after: $page, filter: $filter) {
      asOf nodes { ${row} } pageInfo { hasNextPage endCursor }
    }
  }`;
}

function followedOf(kind: Kind, title: string, rest: Pick<Followed, "variables" | "mayLeave">): Followed {
  return { title: `${kind.name}s ${title}`, subscription: subscriptionOf(kind), list: listOf(kind), ...rest };
}

const mustStay = ({ name }: Left) => `${name ?? "an object"} left, although it always matched.`;
const unlessDeleted = (left: Left) => (left.deleted === true ? null : mustStay(left));
const unlessSteady = (left: Left) => (left.name?.startsWith(STEADY) === true ? mustStay(left) : null);

/** Streams of nodes, operations and clusters, with filters and without. */
export async function allFollowed(url: string): Promise<readonly Followed[]> {
  const group = (value: string) => ({ labels: [{ key: "group", value }] });
  const nodes = (title: string, filter: object | null, mayLeave: Followed["mayLeave"]) =>
    followedOf(NODE, title, { variables: { filter }, ...(mayLeave && { mayLeave }) });
  const operations = (title: string, filter: object | null, mayLeave?: Followed["mayLeave"]) =>
    followedOf(OPERATION, title, { variables: { filter }, ...(mayLeave && { mayLeave }) });
  const { node } = await ask<{ node: { id: string } }>(url, `{ node(by: { name: "${STEADY}0" }) { id } }`);
  return [
    nodes("without a filter", null, unlessDeleted),
    nodes("with a label", group("a"), unlessSteady),
    nodes("without a label", { not: group("b") }, unlessSteady),
    nodes("in two states", { states: ["ENROLLED", "MANAGEABLE"] }, undefined),
    nodes("in maintenance or on", { or: [{ maintenance: true }, { powerStates: ["ON"] }] }, undefined),
    nodes("of a cluster", { cluster: { name: CLUSTER } }, undefined),
    nodes("that were retired or seen", { or: [{ retired: true }, { presences: ["DISCOVERED"] }] }, undefined),
    nodes("of one id", { ids: [node.id] }, mustStay),
    nodes("that never match", group("never"), mustStay),
    operations("without a filter", null, mustStay),
    operations("that run", { states: ["QUEUED", "RUNNING", "ABORTING", "STOPPING"] }),
    operations("of a node", { node: { id: node.id } }, mustStay),
    followedOf(CLUSTER_KIND, "without a filter", { variables: { filter: null }, mayLeave: mustStay }),
  ];
}
