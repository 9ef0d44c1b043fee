/**
 * The filter of nodes, each condition written once: its SQL beside its test in memory. Lists take the SQL. Streams take
 * the test, so that thousands of them, each with its own filter, are decided from one read (node-facts.ts). The
 * tests `test/graphql/node-lists.test.ts` (SQL) and `test/store/node-filter.test.ts` (memory) have the same cases.
 */
import { and, eq, gte, isNotNull, isNull, or, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";
import type { NodeState } from "../../lifecycle/node-states.ts";
import { macOf } from "../../runtime/mac-address.ts";
import { inArrayParam, textArray } from "../postgres/array-parameter.ts";
import { isNamed, nameCondition, nameKey, nameTest } from "../names.ts";
import type { StringTest } from "../names.ts";
import type { NodeBefore, NodeFacts } from "./node-facts.ts";
import { FILTERED_COLUMNS, HAS_POWER_DRIFT, declared, hasPowerDrift } from "./node-fields.ts";
import type { FilteredColumn, NodeRow } from "./node-fields.ts";
import { clusters, inventories, nodeMacs, nodes, runs } from "../tables.ts";

/** A test of the newest inventory of a node. */
interface InventoryTest {
  /** Names of members, and indexes in lists, from the outside in. */
  readonly path: readonly string[];
  /** The value at the path; a number or a boolean as its JSON text. */
  readonly eq: string;
}

/** Conditions that only the database can decide: streams decide by the row of a node, without inventory and runs. */
export const DATABASE_CONDITIONS = [
  "serial",
  "inventory",
  "operationId",
] as const satisfies readonly (keyof NodeFilter)[];

type DeclaredConditions = { readonly [Name in FilteredColumn]?: NonNullable<NodeRow[Name]> | undefined };

/** Given fields are combined with AND; an absent one matches all nodes, an empty list none. */
export interface NodeFilter extends DeclaredConditions {
  readonly ids?: readonly string[] | undefined;
  readonly name?: StringTest | undefined;
  readonly states?: readonly NodeState[] | undefined;
  readonly powerStates?: readonly NodeRow["powerState"][] | undefined;
  readonly presence?: readonly NodeRow["presence"][] | undefined;
  readonly maintenance?: boolean | undefined;
  readonly retired?: boolean | undefined;
  readonly protected?: boolean | undefined;
  readonly faulty?: boolean | undefined;
  /** Whether the last operation on the node failed. */
  readonly withErrors?: boolean | undefined;
  /** Whether the power is known and differs from what the last change through Ostler left. */
  readonly powerDrift?: boolean | undefined;
  readonly clusterId?: string | undefined;
  readonly clusterName?: string | undefined;
  /** Whether the node is a member of any cluster. */
  readonly inCluster?: boolean | undefined;
  readonly driver?: string | undefined;
  /** With this MAC address, in any usual form. */
  readonly mac?: string | undefined;
  /** A text `serial` in the newest inventory. */
  readonly serial?: string | undefined;
  readonly inventory?: InventoryTest | undefined;
  /** In unfinished work of this operation. */
  readonly operationId?: string | undefined;
  /** Codes of the last error. */
  readonly errorCodes?: readonly string[] | undefined;
  /** Changed at this time or later. */
  readonly changedSince?: Date | undefined;
  /** With a label of each key, whatever its value; without any key, no node. */
  readonly labelKeys?: readonly string[] | undefined;
  /** All of them; without any, no node. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly or?: readonly NodeFilter[] | undefined;
  readonly not?: NodeFilter | undefined;
}

const CLUSTER_CONDITIONS = ["clusterId", "clusterName", "inCluster"] as const satisfies readonly (keyof NodeFilter)[];

/** The filter, and those within it. */
export function allFilters(filter: NodeFilter): readonly NodeFilter[] {
  const inner = [...(filter.or ?? []), ...(filter.not ? [filter.not] : [])];
  return [filter, ...inner.flatMap(allFilters)];
}

/** Whether the filter, or one within it, has a condition on the cluster of a node. */
export function hasClusterCondition(filter: NodeFilter): boolean {
  return allFilters(filter).some((one) => CLUSTER_CONDITIONS.some((field) => one[field] !== undefined));
}

/** The times of `changedSince` in the filter and in those within it. */
export function changeTimes(filter: NodeFilter): readonly Date[] {
  return allFilters(filter).flatMap(({ changedSince }) => changedSince ?? []);
}

export type NodeTest = (node: NodeFacts) => boolean;

/** Of the values that a change records (`NodeBefore`). Labels are looked at one by one. */
export type Fact = Exclude<keyof NodeBefore, "labels">;

/**
 * A condition. `sql`: undefined if the value matches all nodes. `facts`: what it looks at; none of a condition within
 * which others are, and of one that only the present decides.
 */
interface Condition<Value> {
  readonly sql: (value: Value) => SQL | undefined;
  readonly test: (value: Value) => NodeTest;
  readonly facts: readonly Fact[];
}

/** Facts that are a column, whose value is a text. */
type TextFact = { [Name in Fact & keyof NodeRow]: NodeRow[Name] extends string | null ? Name : never }[Fact &
  keyof NodeRow];

function isOneOf(name: "id" | "errorCode" | TextFact, column: PgColumn | SQL): Condition<readonly string[]> {
  return {
    sql: (values) => inArrayParam(column, values),
    test: (values) => {
      const wanted = new Set<string | null>(values);
      return (node) => wanted.has(node[name]);
    },
    facts: name === "id" ? [] : [name],
  };
}

function equals(name: TextFact | "isProtected"): Condition<string | boolean> {
  return { sql: (value) => eq(nodes[name], value), test: (value) => (node) => node[name] === value, facts: [name] };
}

/** Nodes with the value of a declared field. */
function declaredIs(name: FilteredColumn): Condition<string | boolean | number> {
  const { otherwise } = declared(name);
  return {
    sql: (value) =>
      otherwise === undefined
        ? sql`${nodes[name]} = ${value}`
        : sql`coalesce(${nodes[name]}, ${sql.raw(`'${otherwise}'`)}) = ${value}`,
    // Changes from before the column existed do not have it.
    test: (value) => (node) => (node[name] ?? otherwise) === value,
    facts: [name],
  };
}

function isSet(
  name: "maintenanceSince" | "retiredReason" | "clusterId" | "faultKind" | "errorCode",
  column: PgColumn,
  fact: Fact,
): Condition<boolean> {
  return {
    sql: (wanted) => (wanted ? isNotNull(column) : isNull(column)),
    // Undefined in a change that was recorded before the column existed.
    test: (wanted) => (node) => ((node[name] ?? null) !== null) === wanted,
    facts: [fact],
  };
}

/** A condition that only the database can decide. */
function inDatabase<Value>(sqlOf: Condition<Value>["sql"]): Condition<Value> {
  return {
    sql: sqlOf,
    test: () => {
      throw new Error("Inventories and runs are not among the facts of a node: decide this condition in SQL.");
    },
    facts: [],
  };
}

function inventoryIs({ path, eq: value }: InventoryTest): SQL {
  return sql`(select ${inventories.data} #>> ${textArray(path)}::text[] from ${inventories} where ${inventories.nodeId} = ${nodes.id} order by ${inventories.takenAt} desc limit 1) = ${value}`;
}

const NAME: Condition<StringTest> = {
  sql: (test) => nameCondition(nodes.name, test),
  test: (test) => {
    const hasName = nameTest(test);
    return ({ name }) => hasName(name);
  },
  facts: ["name"],
};

type FilterValues = { readonly [Field in keyof NodeFilter]-?: NonNullable<NodeFilter[Field]> };

const CONDITIONS: { readonly [Field in keyof FilterValues]: Condition<FilterValues[Field]> } = {
  ...(Object.fromEntries(FILTERED_COLUMNS.map((name) => [name, declaredIs(name)])) as unknown as {
    readonly [Name in FilteredColumn]: Condition<FilterValues[Name]>;
  }),
  ids: isOneOf("id", nodes.id),
  name: NAME,
  states: isOneOf("state", nodes.state),
  powerStates: isOneOf("powerState", nodes.powerState),
  presence: isOneOf("presence", nodes.presence),
  maintenance: isSet("maintenanceSince", nodes.maintenanceSince, "maintenance"),
  retired: isSet("retiredReason", nodes.retiredReason, "retired"),
  faulty: isSet("faultKind", nodes.faultKind, "faultKind"),
  withErrors: isSet("errorCode", nodes.lastError, "errorCode"),
  errorCodes: isOneOf("errorCode", sql`${nodes.lastError} ->> 'code'`),
  changedSince: {
    sql: (time) => gte(nodes.updatedAt, time),
    test: (time) => (node) => node.updatedAt.getTime() >= time.getTime(),
    facts: [],
  },
  protected: equals("isProtected"),
  powerDrift: {
    sql: (wanted) => sql`${HAS_POWER_DRIFT} = ${wanted}`,
    test: (wanted) => (node) => hasPowerDrift(node) === wanted,
    facts: ["powerState", "wantedPower"],
  },
  clusterId: equals("clusterId"),
  clusterName: {
    sql: (name) =>
      sql`${nodes.clusterId} = (select ${clusters.id} from ${clusters} where ${isNamed(clusters.name, name)})`,
    test: (name) => {
      const key = nameKey(name);
      return ({ clusterName }) => clusterName !== null && nameKey(clusterName) === key;
    },
    facts: ["clusterName"],
  },
  inCluster: isSet("clusterId", nodes.clusterId, "clusterId"),
  driver: equals("driver"),
  mac: {
    sql: (given) =>
      sql`${nodes.id} = (select ${nodeMacs.nodeId} from ${nodeMacs} where ${nodeMacs.mac} = ${macOf(given) ?? given})`,
    test: (given) => {
      const mac = macOf(given) ?? given;
      return ({ macs }) => macs.includes(mac);
    },
    facts: ["macs"],
  },
  serial: inDatabase((serial) => inventoryIs({ path: ["serial"], eq: serial })),
  inventory: inDatabase(inventoryIs),
  operationId: inDatabase(
    (id) =>
      sql`exists (select from ${runs} where ${runs.nodeId} = ${nodes.id} and ${runs.finishedAt} is null and ${runs.operationId} = ${id})`,
  ),
  labelKeys: {
    sql: (keys) =>
      keys.length === 0 ? sql`false` : sql`jsonb_exists_all(${nodes.labels}, ${textArray(keys)}::text[])`,
    test: (keys) => (node) => keys.length > 0 && keys.every((key) => Object.hasOwn(node.labels, key)),
    facts: [],
  },
  labels: {
    sql: (labels) =>
      Object.keys(labels).length === 0
        ? sql`false`
        : sql`label_pairs(${nodes.labels}) @> label_pairs(${JSON.stringify(labels)}::text::jsonb)`,
    test: (labels) => {
      const wanted = Object.entries(labels);
      if (wanted.length === 0) return () => false;
      return (node) => wanted.every(([key, value]) => Object.hasOwn(node.labels, key) && node.labels[key] === value);
    },
    facts: [],
  },
  or: {
    sql: (filters) =>
      filters.length === 0 ? sql`false` : or(...filters.map((filter) => nodeCondition(filter) ?? sql`true`)),
    test: (filters) => {
      const tests = filters.map(nodeTest);
      return (node) => tests.some((test) => test(node));
    },
    facts: [],
  },
  not: {
    // A comparison with null is neither true nor false, and a node without the field must match.
    sql: (filter) => sql`(${nodeCondition(filter) ?? sql`true`}) is not true`,
    test: (filter) => {
      const test = nodeTest(filter);
      return (node) => !test(node);
    },
    facts: [],
  },
};

export const NODE_CONDITIONS = Object.keys(CONDITIONS) as (keyof FilterValues)[];

/** The facts that the conditions of a filter look at, apart from labels and from filters within it. */
export function factsOf(filter: NodeFilter): readonly Fact[] {
  return NODE_CONDITIONS.flatMap((field) => (filter[field] === undefined ? [] : CONDITIONS[field].facts));
}

/** The filter as a condition on `nodes`; undefined if it matches all. */
export function nodeCondition(filter: NodeFilter | undefined): SQL | undefined {
  return filter && and(...NODE_CONDITIONS.map((field) => conditionOf(field, filter[field])));
}

function conditionOf<Field extends keyof FilterValues>(
  field: Field,
  value: FilterValues[Field] | undefined,
): SQL | undefined {
  return value === undefined ? undefined : CONDITIONS[field].sql(value);
}

/** The filter as a test of a node's facts. */
export function nodeTest(filter: NodeFilter): NodeTest {
  const tests = NODE_CONDITIONS.flatMap((field) => testOf(field, filter[field]) ?? []);
  return (node) => tests.every((test) => test(node));
}

function testOf<Field extends keyof FilterValues>(
  field: Field,
  value: FilterValues[Field] | undefined,
): NodeTest | undefined {
  return value === undefined ? undefined : CONDITIONS[field].test(value);
}
