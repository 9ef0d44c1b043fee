/**
 * What a `NodeFilter` asks of a node, as plain data, and the filter as a question to it. So many streams, each with its
 * own filter, can be decided from one read. It answers as `nodeCondition` of nodes.ts does in the database.
 */
import { eq, isNotNull, sql } from "drizzle-orm";
import { inArrayParam } from "./postgres/array-parameter.ts";
import type { Reader } from "./postgres/database.ts";
import type { NodeFilter, NodeRow, StringTest } from "./nodes.ts";
import { clusters, nodes } from "./tables.ts";

export interface NodeFacts extends Pick<
  NodeRow,
  "id" | "name" | "state" | "powerState" | "presence" | "isProtected" | "hostGroup" | "clusterId" | "driver" | "labels"
> {
  readonly clusterName: string | null;
  readonly inMaintenance: boolean;
  readonly isRetired: boolean;
  readonly hasError: boolean;
  readonly hasPowerDrift: boolean;
}

/** Facts of those of the nodes that exist. */
export async function nodeFacts(reader: Reader, ids: readonly string[]): Promise<NodeFacts[]> {
  if (ids.length === 0) return [];
  return reader
    .select({
      id: nodes.id,
      name: nodes.name,
      state: nodes.state,
      powerState: nodes.powerState,
      presence: nodes.presence,
      isProtected: nodes.isProtected,
      hostGroup: nodes.hostGroup,
      clusterId: nodes.clusterId,
      clusterName: clusters.name,
      driver: nodes.driver,
      labels: nodes.labels,
      inMaintenance: sql<boolean>`${isNotNull(nodes.maintenanceSince)}`,
      isRetired: sql<boolean>`${isNotNull(nodes.retiredReason)}`,
      hasError: sql<boolean>`${isNotNull(nodes.lastError)}`,
      hasPowerDrift: sql<boolean>`${nodes.powerState} <> 'UNKNOWN' and ${nodes.powerState} is distinct from coalesce(${nodes.wantedPower}, ${nodes.powerState})`,
    })
    .from(nodes)
    .leftJoin(clusters, eq(clusters.id, nodes.clusterId))
    .where(inArrayParam(nodes.id, ids));
}

/** The filter as a question to the facts of a node; made once, asked often. */
export function nodeTest(filter: NodeFilter): (node: NodeFacts) => boolean {
  const { name, labels, or, not } = filter;
  const tests: ((node: NodeFacts) => boolean)[] = [];
  const oneOf = <Value>(values: readonly Value[] | undefined, of: (node: NodeFacts) => Value) => {
    if (values === undefined) return;
    const wanted = new Set(values);
    tests.push((node) => wanted.has(of(node)));
  };
  const is = <Value>(value: Value | undefined, of: (node: NodeFacts) => Value | null) => {
    if (value !== undefined) tests.push((node) => of(node) === value);
  };
  oneOf(filter.ids, ({ id }) => id);
  oneOf(filter.states, ({ state }) => state);
  oneOf(filter.powerStates, ({ powerState }) => powerState);
  oneOf(filter.presence, ({ presence }) => presence);
  is(filter.maintenance, ({ inMaintenance }) => inMaintenance);
  is(filter.retired, ({ isRetired }) => isRetired);
  is(filter.withErrors, ({ hasError }) => hasError);
  is(filter.protected, ({ isProtected }) => isProtected);
  is(filter.powerDrift, ({ hasPowerDrift }) => hasPowerDrift);
  is(filter.hostGroup, ({ hostGroup }) => hostGroup);
  is(filter.clusterId, ({ clusterId }) => clusterId);
  is(filter.clusterName, ({ clusterName }) => clusterName);
  is(filter.driver, ({ driver }) => driver);
  if (name) tests.push(textTest(name));
  if (labels)
    tests.push((node) =>
      Object.entries(labels).every(([key, value]) => Object.hasOwn(node.labels, key) && node.labels[key] === value),
    );
  if (or) {
    const any = or.map(nodeTest);
    tests.push((node) => any.some((test) => test(node)));
  }
  if (not) {
    const never = nodeTest(not);
    tests.push((node) => !never(node));
  }
  return (node) => tests.every((test) => test(node));
}

function textTest({ eq: same, in: list, startsWith, contains }: StringTest): (node: NodeFacts) => boolean {
  const listed = list && new Set(list);
  const part = contains?.toLowerCase();
  return ({ name }) =>
    (same === undefined || name === same) &&
    (listed === undefined || listed.has(name)) &&
    (startsWith === undefined || name.startsWith(startsWith)) &&
    (part === undefined || name.toLowerCase().includes(part));
}
