/** updateNodes through the API: the answer by outcome, results on demand, and the limits of a request. */
import { afterAll, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const EDIT = `mutation Edit($input: UpdateNodesInput!) {
  updateNodes(input: $input) {
    stored changedCount unchangedCount refusedCount
    groups { outcome nodeCount nodes { name } error { code count } }
    refused: results(outcomes: [REFUSED]) { ref node { id } errors { code } }
    results { outcome node { name revision labels { key value } drivers { settings { fake { delayMs } } secretsSet } } }
    errors { code path count refs }
  }
}`;

interface Edited {
  readonly updateNodes: Readonly<Record<string, unknown>>;
}

async function edit(input: object): Promise<Edited["updateNodes"]> {
  return (await ostler.query<Edited>(EDIT, { input })).updateNodes;
}

async function aNode(name: string): Promise<{ readonly id: string; readonly name: string }> {
  const { registerNodes } = await ostler.query<{ registerNodes: { nodes: { id: string }[] } }>(
    `mutation Register($name: String!) { registerNodes(input: { nodes: [{ name: $name, driver: { fake: {} } }] }) { nodes { id } } }`,
    { name },
  );
  return { id: registerNodes.nodes[0]?.id ?? "", name };
}

test("updateNodes returns changed, unchanged and refused nodes in groups, and each node on demand", async () => {
  const [first, second] = [await aNode("edit-1"), await aNode("edit-2")];
  const gone = "Tm9kZTpjMGZmZWUwMC0wMDAwLTQwMDAtODAwMC0wMDAwMDAwMDAwMDA";
  const setLabels = [{ key: "rack", value: "7" }];
  await edit({ nodes: { names: [second.name] }, setLabels });
  const revisions = [
    { node: first.id, revision: 1 },
    { node: second.id, revision: 2 },
    { node: gone, revision: 1 },
  ];
  const refused = {
    ref: "c0ffee00-0000-4000-8000-000000000000",
    node: null,
    errors: [{ code: "NOT_FOUND" }],
  };
  const groups = [
    { outcome: "CHANGED", nodeCount: 1, nodes: [{ name: "edit-1" }], error: null },
    { outcome: "UNCHANGED", nodeCount: 1, nodes: [{ name: "edit-2" }], error: null },
    { outcome: "REFUSED", nodeCount: 1, nodes: [], error: { code: "NOT_FOUND", count: 1 } },
  ];
  expect(await edit({ revisions, setLabels })).toMatchObject({
    stored: false,
    changedCount: 1,
    unchangedCount: 1,
    refusedCount: 1,
    groups,
    refused: [refused],
    results: [{ node: { revision: 1, labels: [] } }, { node: { revision: 2 } }, { node: null }],
    errors: [{ code: "NOT_FOUND", path: ["input", "revisions"] }],
  });
  expect(await edit({ revisions, setLabels, acceptance: "BEST_EFFORT" })).toMatchObject({
    stored: true,
    groups,
    results: [{ node: { revision: 2, labels: setLabels } }, { node: { revision: 2 } }, { outcome: "REFUSED" }],
    errors: [],
  });
});

test("request that was written to install nodes again fails validation, or only edits them", async () => {
  const { name } = await aNode("old-request");
  await ostler.operationEnds(await ostler.begin("commissionNodes", [name]));
  const old = { nodes: { names: [name] }, hostGroup: "db" };
  const query = "mutation Old($input: UpdateNodesInput!) { updateNodes(input: $input) { operation { uuid } } }";
  expect((await ostler.ask(query, { input: old })).errors).toMatchObject([
    { message: expect.stringContaining('Cannot query field "operation"') },
  ]);
  expect((await ostler.ask(EDIT, { input: { ...old, maxParallel: 1 } })).errors).toMatchObject([
    { message: expect.stringContaining('unknown field "maxParallel"') },
  ]);
  expect(await edit(old)).toMatchObject({ stored: true, changedCount: 1 });
  expect(
    await ostler.query("query N($name: String!) { node(by: { name: $name }) { state hostGroup currentRun { id } } }", {
      name,
    }),
  ).toEqual({
    node: { state: "ACTIVE", hostGroup: "db", currentRun: null },
  });
});

test("updateNodes changes settings and returns no secrets [R-588]", async () => {
  const { name } = await aNode("edit-secret");
  const answer = await edit({ nodes: { names: [name] }, settings: [{ fake: { delayMs: 3, password: "hunter2" } }] });
  expect(answer).toMatchObject({
    stored: true,
    results: [{ node: { drivers: [{ settings: { fake: { delayMs: 3 } }, secretsSet: ["password"] }] } }],
  });
  expect(JSON.stringify(answer)).not.toContain("hunter2");
});

test("updateNodes with null removes a value, and without the field keeps it", async () => {
  const { name } = await aNode("edit-null");
  const nodes = { names: [name] };
  const read = async () =>
    (
      await ostler.query<{ node: object }>(
        `query Read($name: String!) { node(by: { name: $name }) { hostGroup description } }`,
        { name },
      )
    ).node;
  await edit({ nodes, hostGroup: "worker", description: "row 1" });
  await edit({ nodes, hostGroup: null });
  expect(await read()).toEqual({ hostGroup: null, description: "row 1" });
});
