/** Clusters: their variables, how steps receive them, and when a cluster is locked. */
import { afterAll, describe, expect, test } from "vitest";
import { overlay } from "../../src/engine/input/variables.ts";
import type { JsonObject } from "../../src/store/records.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

let clustersMade = 0;
async function aCluster(variables: unknown = {}): Promise<string> {
  const name = `cluster-${(clustersMade += 1)}`;
  const answer = await ostler.engine.createCluster(ALICE, { name, variables });
  expect(answer.refusals).toEqual([]);
  return name;
}

describe("cluster variables", () => {
  test.each<{ what: string; cluster: Record<string, unknown>; request?: unknown; effective: Record<string, unknown> }>([
    { what: "of the cluster reach the steps", cluster: { ntp: "10.0.0.1" }, effective: { ntp: "10.0.0.1" } },
    {
      what: "of the request take precedence",
      cluster: { ntp: "10.0.0.1", dns: "10.0.0.2" },
      request: { ntp: "10.9.9.9" },
      effective: { ntp: "10.9.9.9", dns: "10.0.0.2" },
    },
    {
      what: "of the request take precedence even when empty",
      cluster: { ntp: "10.0.0.1", list: [1], map: { a: 1 } },
      request: { ntp: "", list: [], map: {} },
      effective: { ntp: "", list: [], map: {} },
    },
    {
      what: "that are null remove the key",
      cluster: { ntp: "10.0.0.1", dns: "10.0.0.2" },
      request: { ntp: null },
      effective: { dns: "10.0.0.2" },
    },
    {
      what: "are merged at the top level only",
      cluster: { net: { mtu: 9000, vlan: 7 } },
      request: { net: { vlan: 8 } },
      effective: { net: { vlan: 8 } },
    },
    {
      what: "that are absent change nothing",
      cluster: { ntp: "10.0.0.1" },
      request: {},
      effective: { ntp: "10.0.0.1" },
    },
    {
      what: "may be false or 0",
      cluster: { a: true, b: 1 },
      request: { a: false, b: 0 },
      effective: { a: false, b: 0 },
    },
  ])("cluster variables $what", async ({ cluster, request, effective }) => {
    const name = await aCluster(cluster);
    const node = await ostler.aNode().inCluster(name).in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [node], { variables: request });
    await ostler.operationEnds(id);
    const run = await ostler.run(id, node);
    expect(run.variables).toEqual(effective);
    expect((await ostler.steps(run)).at(-1)?.attempts[0]?.output).toEqual({ variables: effective });
  });

  test.each([[[1]], ["ntp"], [7], [true]])("cluster variables %j are refused", async (variables) => {
    expect((await ostler.engine.createCluster(ALICE, { name: "never", variables })).refusals).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "variables"] },
    ]);
    const name = await aCluster();
    expect((await ostler.engine.updateCluster(ALICE, { name }, { variables })).refusals).toMatchObject([
      { code: "INVALID_INPUT" },
    ]);
    const node = await ostler.aNode().in("AVAILABLE").made();
    expect((await ostler.submit("DEPLOY", [node], { variables })).refusals).toMatchObject([{ code: "INVALID_INPUT" }]);
  });

  test("cluster variables of successive edits are merged", async () => {
    const name = await aCluster({ a: 1, b: 2 });
    await ostler.engine.updateCluster(ALICE, { name }, { variables: { b: null, c: 3 } });
    await ostler.engine.updateCluster(ALICE, { name }, { variables: {} });
    await ostler.engine.updateCluster(ALICE, { name }, {});
    expect(await ostler.test.sql`select variables from clusters where name = ${name}`).toEqual([
      { variables: { a: 1, c: 3 } },
    ]);
  });

  test("cluster variables that stay equal keep the cluster's revision; a change of its members increases it", async () => {
    const name = await aCluster({ a: 1 });
    const revision = async () =>
      (await ostler.test.sql`select revision from clusters where name = ${name}`)[0]?.["revision"];
    const before = Number(await revision());
    for (const change of [{}, { name }, { variables: {} }, { variables: { a: 1, b: null } }])
      await ostler.engine.updateCluster(ALICE, { name }, change);
    expect(await revision()).toBe(before);
    const node = await ostler.aNode().made();
    await ostler.engine.updateCluster(ALICE, { name }, { add: { ids: [node.id] } });
    expect(await revision()).toBe(before + 1);
  });

  test("cluster variables of many layers are merged in order", () => {
    expect(overlay({ a: 1, b: 1, c: 1 }, undefined, { b: 2, c: null }, null, { c: 3 })).toEqual({ a: 1, b: 2, c: 3 });
  });

  test("cluster variables keep every name, even names of Object.prototype", () => {
    const named = JSON.parse('{ "__proto__": { "a": 1 }, "constructor": 2 }') as JsonObject;
    expect(JSON.stringify(overlay(named))).toBe(JSON.stringify(named));
  });
});

describe("cluster", () => {
  test("cluster is locked while an operation deploys or stops on it, and unlocked afterwards [R-107]", async () => {
    const name = await aCluster({ ntp: "old" });
    const gate = aGate();
    const node = await ostler
      .aNode()
      .inCluster(name)
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await gate.arrivals();
    const edit = () => ostler.engine.updateCluster(ALICE, { name }, { variables: { ntp: "new" } });
    expect((await edit()).refusals).toMatchObject([
      { code: "CLUSTER_LOCKED", operationId: id, message: expect.stringContaining("DEPLOYING") },
    ]);
    expect((await ostler.engine.deleteCluster(ALICE, { name }, undefined)).refusals).toMatchObject([
      { code: "CLUSTER_LOCKED" },
    ]);
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    expect((await edit()).refusals).toMatchObject([
      { code: "CLUSTER_LOCKED", message: expect.stringContaining("STOPPING") },
    ]);
    gate.open();
    await ostler.operationEnds(id);
    expect((await edit()).refusals).toEqual([]);
  });

  test("locked cluster that took members from registerNodes and lost them to deleteNodes refuses both [R-107]", async () => {
    const name = await aCluster();
    const gate = aGate();
    const busy = await ostler
      .aNode()
      .inCluster(name)
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const [idle, elsewhere] = [await ostler.aNode().inCluster(name).made(), await ostler.aNode().made()];
    const id = await ostler.begin("DEPLOY", [busy]);
    await gate.arrivals();
    const newcomers = [`${name}-1`, `${name}-2`, `${name}-3`].map((each, index) => ({
      name: each,
      driver: "fake",
      ...(index > 0 && { cluster: { name } }),
    }));
    const register = () => ostler.engine.registerNodes(ALICE, newcomers);
    const remove = () => ostler.engine.deleteNodes(ALICE, { ids: [idle.id, elsewhere.id] });
    const locked = { code: "CLUSTER_LOCKED", operationId: id };
    expect((await register()).refusals).toMatchObject([{ ...locked, path: ["input", "nodes", "1", "cluster"] }]);
    expect((await remove()).refusals).toMatchObject([{ ...locked, path: ["input", "nodes"] }]);
    gate.open();
    await ostler.operationEnds(id);
    expect([(await register()).refusals, (await remove()).refusals]).toEqual([[], []]);
  });

  test("cluster is not locked by an inspection in place", async () => {
    const name = await aCluster();
    const gate = aGate();
    const node = await ostler
      .aNode()
      .inCluster(name)
      .in("ACTIVE")
      .scripted({ "inspect.collect_inventory": { gate: gate.name } })
      .made();
    const id = await ostler.begin("INSPECT", [node]);
    await gate.arrivals();
    expect((await ostler.engine.updateCluster(ALICE, { name }, { variables: { a: 1 } })).refusals).toEqual([]);
    gate.open();
    await ostler.operationEnds(id);
  });

  test("cluster adds and removes nodes, each once", async () => {
    const [here, there] = [await aCluster(), await aCluster()];
    const node = await ostler.aNode().made();
    expect((await ostler.engine.updateCluster(ALICE, { name: here }, { add: { ids: [node.id] } })).refusals).toEqual(
      [],
    );
    expect(
      (await ostler.engine.updateCluster(ALICE, { name: there }, { add: { ids: [node.id] } })).refusals,
    ).toMatchObject([{ code: "INVALID_STATE", nodeId: node.id }]);
    expect(
      (await ostler.engine.updateCluster(ALICE, { name: there }, { remove: { ids: [node.id] } })).refusals,
    ).toMatchObject([{ code: "NOT_FOUND", missing: [node.name] }]);
    expect((await ostler.engine.updateCluster(ALICE, { name: here }, { remove: { ids: [node.id] } })).refusals).toEqual(
      [],
    );
    expect((await ostler.node(node)).clusterId).toBeNull();
  });

  test("change of members names all nodes in the way at once, those both added and removed too [R-1345]", async () => {
    const [here, there] = [await aCluster(), await aCluster()];
    const [stays, elsewhere, none] = [
      await ostler.aNode().inCluster(here).made(),
      await ostler.aNode().inCluster(there).made(),
      await ostler.aNode().made(),
    ];
    const change = (add: string[], remove: string[]) =>
      ostler.engine.updateCluster(ALICE, { name: here }, { add: { names: add }, remove: { names: remove } });
    expect((await change([stays.name.toUpperCase()], [stays.name])).refusals).toMatchObject([
      { code: "INVALID_INPUT", nodeId: stays.id, path: ["input", "add"] },
    ]);
    expect((await change([stays.name, elsewhere.name], [stays.name, none.name])).refusals).toMatchObject([
      { code: "NOT_FOUND", missing: [none.name], path: ["input", "remove"] },
      { code: "INVALID_STATE", nodeId: elsewhere.id, path: ["input", "add"] },
      { code: "INVALID_INPUT", nodeId: stays.id },
    ]);
    expect((await change(["unknown-1"], ["unknown-2"])).refusals).toMatchObject([
      { missing: ["unknown-2"] },
      { missing: ["unknown-1"] },
    ]);
    expect(await ostler.node(stays)).toMatchObject({ clusterId: expect.any(String) });
    const all = { cluster: { name: here } };
    expect(
      (await ostler.engine.updateCluster(ALICE, { name: here }, { remove: all, add: { names: [none.name] } })).refusals,
    ).toEqual([]);
    expect([await ostler.node(stays), await ostler.node(none)]).toMatchObject([
      { clusterId: null },
      { clusterId: expect.any(String) },
    ]);
  });

  test("cluster that is deleted leaves its nodes", async () => {
    const name = await aCluster();
    const node = await ostler.aNode().inCluster(name).made();
    expect((await ostler.engine.deleteCluster(ALICE, { name }, undefined)).refusals).toEqual([]);
    expect(await ostler.node(node)).toMatchObject({ clusterId: null, state: "ENROLLED" });
  });

  test("cluster with a taken or invalid name, or with a stale revision, is refused", async () => {
    const name = await aCluster();
    expect((await ostler.engine.createCluster(ALICE, { name })).refusals).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "name"] },
    ]);
    expect((await ostler.engine.createCluster(ALICE, { name: "no good" })).refusals).toMatchObject([
      { code: "INVALID_INPUT" },
    ]);
    expect(
      (await ostler.engine.updateCluster(ALICE, { name }, { ifRevision: 7, variables: {} })).refusals,
    ).toMatchObject([{ code: "STALE_REVISION" }]);
    expect((await ostler.engine.updateCluster(ALICE, { name: "ghost" }, {})).refusals).toMatchObject([
      { code: "NOT_FOUND", missing: ["ghost"] },
    ]);
  });

  test("cluster with an unknown image and unknown nodes is refused for all of them at once", async () => {
    const image = { name: "lost" };
    const codes = ({ refusals }: Awaited<ReturnType<typeof ostler.engine.createCluster>>) =>
      refusals.map(({ code, path }) => `${code} ${path?.join(".")}`);
    const created = await ostler.engine.createCluster(ALICE, { name: "flawed", image, nodes: { names: ["ghost"] } });
    expect(codes(created)).toEqual(["NOT_FOUND input.image", "NOT_FOUND input.nodes.names"]);
    const name = await aCluster();
    const change = { image, add: { names: ["ghost-1"] }, remove: { names: ["ghost-2"] } };
    const changed = await ostler.engine.updateCluster(ALICE, { name }, change);
    expect(codes(changed)).toEqual([
      "NOT_FOUND input.image",
      "NOT_FOUND input.remove.names",
      "NOT_FOUND input.add.names",
    ]);
  });

  test("cluster change with one unknown node changes nothing", async () => {
    const name = await aCluster({ a: 1 });
    const node = await ostler.aNode().made();
    expect(
      (
        await ostler.engine.updateCluster(
          ALICE,
          { name },
          { variables: { a: 2 }, add: { names: [node.name, "ghost"] } },
        )
      ).refusals,
    ).toMatchObject([{ code: "NOT_FOUND" }]);
    expect(await ostler.test.sql`select variables from clusters where name = ${name}`).toEqual([
      { variables: { a: 1 } },
    ]);
    expect((await ostler.node(node)).clusterId).toBeNull();
  });
});
