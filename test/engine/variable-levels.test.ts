/** Levels of variables: which one wins, what names it, and that secrets of every level stay secret. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import type { Driver, Json } from "../../src/drivers/driver.ts";
import { variablesOfNode } from "../../src/engine/views.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const received: Record<string, Record<string, Json>> = {};

const reader: Driver<never> = aDriver("reader", {
  variables: z.object({ image: z.string().optional(), token: z.string().optional().meta({ writeOnly: true }) }),
  deploy: stepsOf(
    aStep("install", "deploy", async ({ node, variables }) => {
      received[node.name] = { ...variables };
      return { kind: "done" };
    }),
    aStep("remove", "undeploy", async () => ({ kind: "done" })),
  ),
});

const ostler = await engineUnderTest({ drivers: [reader] });
afterAll(() => ostler[Symbol.asyncDispose]());
const { engine } = ostler;

const SECRET_VARIABLES = { secretVariables: new Set(["token"]) };

interface Levels {
  readonly site?: unknown;
  readonly cluster?: unknown;
  readonly group?: unknown;
  readonly node?: unknown;
}

let made = 0;
/** An AVAILABLE node in host group `workers` of a cluster of its own. */
async function aNodeWith({ site, cluster = {}, group, node = {} }: Levels, driver = "reader"): Promise<TestNode> {
  const name = `levels-${(made += 1)}`;
  await setSite(site);
  const hostGroups = [{ name: "workers", variables: group }, { name: "masters" }];
  expect(await engine.createCluster(ALICE, { name, variables: cluster, hostGroups })).toMatchObject({ refusals: [] });
  const one = await ostler.aNode().with(driver).in("AVAILABLE").inCluster(name).made();
  await update(one, { hostGroup: "workers", variables: node });
  return one;
}

/** Only these variables are set for the site. */
async function setSite(variables: unknown): Promise<void> {
  const [row] = await ostler.test.sql<{ variables: object }[]>`select variables from site`;
  const none = Object.fromEntries(Object.keys(row?.variables ?? {}).map((name) => [name, null]));
  expect(
    await engine.updateSite(ALICE, { variables: { ...none, ...(variables as object | undefined) } }),
  ).toMatchObject({
    refusals: [],
  });
}

function update(node: TestNode, patch: object) {
  const nodes = { ids: [node.id] };
  return engine.updateNodes(ALICE, { nodes, acceptance: "ALL_OR_NOTHING", dryRun: false, patch });
}

async function plan(node: TestNode, more: object = {}) {
  const answer = await ostler.submit("DEPLOY", [node], { dryRun: true, ...more });
  return { ...answer, sources: answer.results[0]?.variables?.map(({ name, value, source }) => [name, value, source]) };
}

const ofNode = async (node: TestNode) =>
  (await variablesOfNode(ostler.database.reader, SECRET_VARIABLES, await ostler.node(node))).map(
    ({ name, value, source }) => [name, value, source],
  );

describe("variables of several levels", () => {
  test("of a later level win: site, cluster, host group, node, request; the plan and the node name the level [R-1080]", async () => {
    const all =
      (...names: string[]) =>
      (value: string) =>
        Object.fromEntries(names.map((name) => [name, value]));
    const node = await aNodeWith({
      site: all("a", "b", "c", "d", "e")("site"),
      cluster: all("b", "c", "d", "e")("cluster"),
      group: all("c", "d", "e")("group"),
      node: all("d", "e")("node"),
    });
    const expected = [
      ["a", "site", "SITE"],
      ["b", "cluster", "CLUSTER"],
      ["c", "group", "HOST_GROUP"],
      ["d", "node", "NODE"],
      ["e", "node", "NODE"],
      ["host_group", "workers", "HOST_GROUP"],
    ];
    expect(await ofNode(node)).toEqual(expected);
    const asked = await plan(node, { variables: { e: "request", d: null } });
    expect(asked.sources).toEqual([
      ...expected.slice(0, 3),
      ["e", "request", "REQUEST"],
      ["host_group", "workers", "HOST_GROUP"],
    ]);
    await setSite(undefined);
  });

  test("of a host group are those of the group that the request sets, and of no other cluster's group [R-1081]", async () => {
    const node = await aNodeWith({ group: { role: "worker" } });
    const [cluster] = await ostler.test.sql<
      { name: string }[]
    >`select name from clusters order by created_at desc limit 1`;
    const by = { name: cluster?.name ?? "" };
    const hostGroups = [{ name: "workers" }, { name: "masters", variables: { role: "master" } }];
    expect(await engine.updateCluster(ALICE, by, { hostGroups })).toMatchObject({ refusals: [] });
    const sources = async (hostGroup: string) => (await plan(node, { options: { hostGroup } })).sources;
    // The variables of a present group stay, because none are given.
    expect(await sources("workers")).toContainEqual(["role", "worker", "HOST_GROUP"]);
    expect(await sources("masters")).toContainEqual(["role", "master", "HOST_GROUP"]);
    expect(await sources("strangers")).toEqual([["host_group", "strangers", "HOST_GROUP"]]);
    const other = await aNodeWith({});
    expect((await plan(other)).sources).toEqual([["host_group", "workers", "HOST_GROUP"]]);
  });

  test("are those of the levels at the time of a restart [R-1080]", async () => {
    const node = await aNodeWith({ node: { image: "old", ntp: "10.0.0.1" } });
    await update(node, { variables: { image: "new" } });
    const id = await ostler.begin("DEPLOY", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(received[node.name]).toEqual({ image: "new", ntp: "10.0.0.1", host_group: "workers" });
  });

  test.each([
    ["site", "site"],
    ["cluster", "cluster"],
    ["group", "host group"],
    ["node", "node"],
  ])(
    "of level %s are refused if they look like a typing error, and the refusal names the %s [R-1082]",
    async (level, named) => {
      const node = await aNodeWith({ [level]: { imgae: "debian" } });
      const { refusals } = await plan(node);
      expect(refusals.map(({ message }) => message)).toEqual([
        expect.stringMatching(`Did you mean image\\?.*The variable is set for the ${named}\\.$`),
      ]);
      expect(await plan(node, { unknownVariables: "WARN" })).toMatchObject({ refusals: [] });
      await setSite(undefined);
    },
  );

  test.each(["site", "cluster", "group", "node"])(
    "of level %s that are secret are encrypted and masked, and reach the driver [R-1083]",
    async (level) => {
      const canary = `canary-${level}`;
      const node = await aNodeWith({ [level]: { token: canary } });
      const asked = await plan(node);
      expect(JSON.stringify([asked, await ofNode(node)])).not.toContain("canary");
      expect(asked.sources).toContainEqual(["token", "***", expect.any(String)]);
      const id = await ostler.begin("DEPLOY", [node]);
      expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
      expect(received[node.name]).toMatchObject({ token: canary });
      expect((await ostler.dump()).filter((row) => row.includes("canary"))).toEqual([]);
      await setSite(undefined);
    },
  );
});

describe("variables of a level are refused", () => {
  let spare: TestNode;
  beforeAll(async () => {
    spare = await ostler.aNode().made();
  });
  const change: Record<string, (variables: unknown) => Promise<{ readonly refusals: readonly object[] }>> = {
    site: (variables) => engine.updateSite(ALICE, { variables }),
    cluster: (variables) => engine.createCluster(ALICE, { name: "refused", variables }),
    group: (variables) => engine.createCluster(ALICE, { name: "refused", hostGroups: [{ name: "w", variables }] }),
    node: (variables) => update(spare, { variables }),
    "new node": (variables) =>
      engine.registerNodes(ALICE, [{ name: "refused", driver: "fake", settings: {}, variables }]),
  };
  const flawed: [string, unknown, RegExp][] = [
    ["a list", [1], /use a JSON object/],
    ["the name of the host group", { host_group: "masters" }, /is reserved for the host group of the node/],
    ["the mask of a secret", { token: "***" }, /placeholder of a secret/],
    ["more than 64 KiB", { text: "x".repeat(70_000) }, /at most 65,536 are stored/],
  ];
  test.each(Object.keys(change).flatMap((level) => flawed.map((one) => [level, ...one] as const)))(
    "of the %s: %s, with its path, and nothing is stored [R-1084]",
    async (level, _what, variables, says) => {
      const before = await ostler.dump();
      const { refusals } = (await change[level]?.(variables)) ?? { refusals: [] };
      expect(refusals).toMatchObject([{ code: "INVALID_INPUT", message: expect.stringMatching(says) }]);
      expect(JSON.stringify(refusals)).toContain("variables");
      expect(await ostler.changesSince(before)).toEqual([]);
    },
  );

  test("two host groups of one name, and more than 100, are refused", async () => {
    const create = (hostGroups: { name: string }[]) => engine.createCluster(ALICE, { name: "refused", hostGroups });
    expect((await create([{ name: "a" }, { name: "b c" }, { name: "a" }])).refusals).toMatchObject([
      { path: ["input", "hostGroups", "1", "name"] },
      { message: "The host group a is given twice.", path: ["input", "hostGroups", "2", "name"] },
    ]);
    const many = Array.from({ length: 101 }, (_, index) => ({ name: `g${index}` }));
    expect((await create(many)).refusals).toMatchObject([{ message: "At most 100 host groups are stored." }]);
  });
});

test("variables of many nodes are merged into those of each, and a node that has them already keeps its revision", async () => {
  const [first, second] = await ostler.aNode().times(2);
  if (!first || !second) throw new Error("No nodes were made.");
  await update(first, { variables: { a: 1, b: 2 } });
  const edit = (patch: object) =>
    engine.updateNodes(ALICE, {
      nodes: { ids: [first.id, second.id] },
      acceptance: "ALL_OR_NOTHING",
      dryRun: false,
      patch,
    });
  const answer = await edit({ variables: { a: 1, b: null } });
  expect(answer.results.map(({ outcome }) => outcome)).toEqual(["CHANGED", "CHANGED"]);
  expect((await ostler.node(first)).variables).toEqual({ a: 1 });
  expect((await edit({ variables: { a: 1 } })).results.map(({ outcome }) => outcome)).toEqual([
    "UNCHANGED",
    "UNCHANGED",
  ]);
});
