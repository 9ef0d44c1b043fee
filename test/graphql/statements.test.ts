/**
 * No N+1: what is asked of the items of a list takes as many statements for twenty items as for two. The fields are
 * found in the schema: every type that a list of ours leads to, and each of its fields, once.
 */
import {
  buildSchema,
  getNamedType,
  isInterfaceType,
  isLeafType,
  isObjectType,
  isRequiredArgument,
  isUnionType,
} from "graphql";
import type { GraphQLField, GraphQLNamedType, GraphQLObjectType, GraphQLSchema } from "graphql";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";

let statements = 0;
const ostler = await serviceUnderTest({ onStatement: () => (statements += 1) });
const schema: GraphQLSchema = buildSchema(await (await fetch(`${ostler.url}/schema.graphql`)).text());
afterAll(() => ostler[Symbol.asyncDispose]());

const FEW = 2;
const MANY = 20;

/**
 * Where the items of lists come from: a request with `SIZE` for the number of items and `ITEM` for what is asked of
 * each.
 */
const LISTS: Readonly<Record<string, string>> = {
  Node: "{ nodes(first: SIZE) { edges { node { ITEM } } } }",
  Cluster: "{ clusters(first: SIZE) { edges { node { ITEM } } } }",
  Operation: "{ operations(first: SIZE) { edges { node { ITEM } } } }",
  Run: '{ operation(id: "OPERATION") { runs(first: SIZE) { edges { node { ITEM } } } } }',
  Transition: "{ transitions(last: SIZE) { edges { node { ITEM } } } }",
  Discovery: '{ operation(id: "DISCOVERY") { discoveries(first: SIZE) { edges { node { ITEM } } } } }',
  WorkResult: "{ plan(input: { commissionNodes: { nodes: { names: [NAMES] } } }) { results { ITEM } } }",
};
/** Values for arguments that must be given, or whose defaults are too many. */
const ARGUMENTS: Readonly<Record<string, string>> = {
  "Node.stepCatalogue": "phase: CLEAN",
  // Within the cost of a request.
  "Operation.failures": "first: 1, nodesMax: 1",
  "PendingChanges.groups": "first: 1",
  "PendingChangeGroup.nodes": "first: 1",
};
/** Fields that take more statements the more items there are, and why. */
const EXCEPTIONS: Readonly<Record<string, string>> = {};
/** Roots of further requests, which are asked for once. */
const NOT_ENTERED = new Set(["Query", "PageInfo"]);

let operation = "";
let discovery = "";
/** Nodes that nothing is done with, so that something could be planned for them. */
const FREE = Array.from({ length: MANY }, (_, index) => `p${String(index).padStart(2, "0")}`);

beforeAll(async () => {
  const names = await ostler.register(Array.from({ length: MANY }, (_, index) => `n${String(index).padStart(2, "0")}`));
  for (const [index, name] of names.entries()) {
    await ostler.query(
      `mutation { createCluster(input: { name: "c${index}", nodes: { names: ["${name}"] } }) { errors { message } } }`,
    );
  }
  await ostler.commission(names, "AVAILABLE");
  // An operation each, so that a list of operations is one of as many.
  await Promise.all(
    names.map(async (name) => ostler.operationEnds(await ostler.begin("setPower", [name], { action: "ON" }))),
  );
  // Runs that stay: each holds in the middle of its steps.
  operation = await ostler.begin("cleanNodes", names, {
    steps: [{ name: "erase_metadata" }, { interface: "ENGINE", name: "hold", args: { reason: "look" } }],
  });
  await eventually("all runs hold", async () => {
    const { nodes } = await ostler.query<{ nodes: { totalCount: number } }>(
      "{ nodes(filter: { states: [CLEAN_HOLD] }) { totalCount } }",
    );
    return nodes.totalCount === MANY;
  });
  await ostler.register(FREE);
  const { discoverNodes } = await ostler.query<{ discoverNodes: { operation: { uuid: string } } }>(
    `mutation { discoverNodes(input: { addresses: ["10.9.0.0/27"], driver: { fake: {} }, namePrefix: "z-" }) { operation { uuid } } }`,
  );
  discovery = discoverNodes.operation.uuid;
  await ostler.operationEnds(discovery);
}, 60_000);

interface Path {
  /** `Type.field`, that which is looked at. */
  readonly field: string;
  readonly list: string;
  /** Selection of each item. */
  readonly item: string;
}

/** Every field of every type that the items of lists lead to, each on the shortest way to it. */
function paths(): Path[] {
  const found: Path[] = [];
  const seen = new Set(Object.keys(LISTS));
  const ways: { readonly type: GraphQLObjectType; readonly list: string; readonly around: (item: string) => string }[] =
    Object.keys(LISTS).map((name) => ({ type: objectType(schema.getType(name)), list: name, around: (item) => item }));
  for (const { type, list, around } of ways) {
    for (const field of Object.values(type.getFields())) {
      const inner = getNamedType(field.type);
      const name = `${type.name}.${field.name}`;
      found.push({
        field: name,
        list,
        item: around(`${call(type, field)} ${isLeafType(inner) ? "" : `{ ${leaves(inner)} }`}`),
      });
      for (const next of objectsOf(inner)) {
        if (seen.has(next.name) || NOT_ENTERED.has(next.name)) continue;
        seen.add(next.name);
        ways.push({
          type: next,
          list,
          around: (item) =>
            around(`${call(type, field)} { ${next === inner ? item : `... on ${next.name} { ${item} }`} }`),
        });
      }
    }
  }
  return found;
}

function call(type: GraphQLObjectType, field: GraphQLField<unknown, unknown>): string {
  const given = ARGUMENTS[`${type.name}.${field.name}`];
  if (field.args.some((argument) => isRequiredArgument(argument)) && given === undefined)
    throw new Error(`Say in ARGUMENTS what ${type.name}.${field.name} is to be given.`);
  const isPage = field.args.some(({ name }) => name === "first") && field.args.some(({ name }) => name === "after");
  const args = [given, isPage ? "first: 3" : undefined].filter((one) => one !== undefined);
  return args.length > 0 ? `${field.name}(${args.join(", ")})` : field.name;
}

/** Values of a type other than objects, and JSON, which costs as much as several; for a page, those of its items. */
function leaves(type: GraphQLNamedType, depth = 0): string {
  if (!isObjectType(type)) return "__typename";
  const fields = Object.values(type.getFields()).filter(
    ({ args }) => !args.some((argument) => isRequiredArgument(argument)),
  );
  const names = fields.filter(({ type: inner }) => isSmall(getNamedType(inner))).map(({ name }) => name);
  const inside =
    depth < 2
      ? fields
          .filter(({ name }) => name === "edges" || (type.name.endsWith("Edge") && name === "node"))
          .map(({ name, type: inner }) => `${name} { ${leaves(getNamedType(inner), depth + 1)} }`)
      : [];
  return ["__typename", ...names, ...inside].join(" ");
}

function isSmall(type: GraphQLNamedType): boolean {
  return isLeafType(type) && type.name !== "JSON";
}

function objectsOf(type: GraphQLNamedType): readonly GraphQLObjectType[] {
  if (isObjectType(type)) return [type];
  return isUnionType(type) || isInterfaceType(type) ? schema.getPossibleTypes(type) : [];
}

function objectType(type: GraphQLNamedType | undefined): GraphQLObjectType {
  if (!isObjectType(type)) throw new Error("A list's items are objects.");
  return type;
}

const requestOf = ({ list, item }: Path, size: number): string =>
  (LISTS[list] ?? "")
    .replace("SIZE", String(size))
    .replace("OPERATION", operation)
    .replace("DISCOVERY", discovery)
    .replace(
      "NAMES",
      FREE.slice(0, size)
        .map((name) => `"${name}"`)
        .join(" "),
    )
    .replace("ITEM", item);

async function statementsFor(path: Path, size: number): Promise<number> {
  const before = statements;
  await ostler.query(requestOf(path, size));
  return statements - before;
}

const ALL = paths();

describe("for twenty items as many statements as for two", () => {
  test("the statement count is tested for every type that lists reach", () => {
    const types = new Set(ALL.map(({ field }) => field.split(".")[0]));
    expect([...types]).toEqual(
      expect.arrayContaining([
        "Node",
        "Cluster",
        "Operation",
        "Run",
        "Step",
        "StepAttempt",
        "Transition",
        "Inventory",
        "LogLine",
        "Waiting",
        "VerbVerdict",
        "CatalogueStep",
      ]),
    );
    expect(Object.keys(EXCEPTIONS).filter((field) => !ALL.some((path) => path.field === field))).toEqual([]);
  });

  test.each(ALL.filter(({ field }) => !(field in EXCEPTIONS)))("$field", async (path) => {
    const few = await statementsFor(path, FEW);
    const many = await statementsFor(path, MANY);
    expect(few > 0 || path.list === "WorkResult", requestOf(path, FEW)).toBe(true);
    expect(many, requestOf(path, MANY)).toBeLessThanOrEqual(few);
  });

  test("the statement count test detects one read per item", async () => {
    const alone = async (size: number) => {
      const before = statements;
      await ostler.query(
        `{ ${Array.from({ length: size }, (_, index) => `n${index}: node(by: { name: "n${String(index).padStart(2, "0")}" }) { uuid }`).join(" ")} }`,
      );
      return statements - before;
    };
    expect(await alone(MANY)).toBeGreaterThan(await alone(FEW));
  });

  test("runs that wait for each capacity limit take a constant number of statements", async () => {
    const counts: number[] = [];
    for (const phases of [["INSPECT"], ["VERIFY", "INSPECT", "CLEAN", "DEPLOY", "UNDEPLOY"]]) {
      const limits = phases.map((phase) => `{ phase: ${phase}, limit: 1 }`).join(" ");
      await ostler.query(`mutation { updateSite(input: { phaseLimits: [${limits}] }) { errors { message } } }`);
      const before = statements;
      const { capacity } = await ostler.query<{ capacity: unknown[] }>("{ capacity { key next { id } } }");
      expect(capacity).toHaveLength(phases.length);
      counts.push(statements - before);
    }
    expect(counts[1]).toBe(counts[0]);
  });

  test("nested pages and their counts take a constant number of statements", async () => {
    for (const query of [
      "{ clusters(first: SIZE) { edges { node { nodes(first: 2) { totalCount edges { node { operations(first: 2) { edges { node { kind } } } } } } } } } }",
      "{ operations(first: SIZE) { edges { node { runs(first: 2) { edges { node { log(first: 2) { edges { node { text } } } } } } } } } }",
      "{ nodes(first: SIZE) { edges { node { transitions(last: 2) { edges { node { from operation { kind } } } } inventories(first: 1) { edges { node { takenAt } } } inventoryDiff { path } } } } }",
      "{ nodes(first: SIZE) { nodes { operations(first: 2) { totalCount nodes { runs { totalCount } transitions { totalCount } } } transitions { totalCount } inventories { totalCount } } } }",
      "{ operations(first: SIZE) { totalCount nodes { discoveries { totalCount } runs(first: 2) { nodes { log { totalCount } } } } } }",
    ]) {
      const counts: number[] = [];
      for (const size of [FEW, MANY]) {
        const before = statements;
        await ostler.query(query.replace("SIZE", String(size)));
        counts.push(statements - before);
      }
      expect(counts[1], query).toBe(counts[0]);
    }
  });
});
