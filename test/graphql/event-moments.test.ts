/** Each item of a stream, and each payload of a mutation, is of one moment. Gates hold it between two statements. */
import { afterAll, describe, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest, takeUntil } from "../support/service.ts";
import type { Items } from "../support/service.ts";

const statements: string[] = [];
const ostler = await serviceUnderTest({ onStatement: (text) => statements.push(text) });
afterAll(() => ostler[Symbol.asyncDispose]());

const begun = () => statements.filter((text) => /^begin/i.test(text)).length;

/** Whether a statement waits for a lock. */
const isHeld = async () =>
  (
    await ostler.database.reader.execute(
      "select 1 from pg_locks join pg_stat_activity using (pid) where not granted and datname = current_database()",
    )
  ).length > 0;

async function newestCursor(): Promise<string> {
  const { transitions } = await ostler.query<{ transitions: { edges: { cursor: string }[] } }>(
    "{ transitions(last: 1) { edges { cursor } } }",
  );
  return transitions.edges[0]?.cursor ?? "0";
}

const MEMBERS = "state cluster { nodes { edges { node { state currentRun { state } } } } }";

interface Seen {
  readonly state: string;
}

let made = 0;

/** A node in a cluster, held in a clean step. `end` lets the cleaning succeed. */
async function cleaningNode(): Promise<{ readonly id: string; readonly name: string; end(): Promise<void> }> {
  const gate = aGate();
  const [name = ""] = await ostler.register(1, { steps: { "clean.erase_metadata": { gate: gate.name } } });
  made += 1;
  await ostler.query(
    "mutation Make($name: String!, $nodes: NodeSelector!) { createCluster(input: { name: $name, nodes: $nodes }) { errors { message } } }",
    { name: `moments-${made}`, nodes: { names: [name] } },
  );
  await ostler.query(
    "mutation Manage($nodes: NodeSelector!) { manageNodes(input: { nodes: $nodes }) { errors { message } } }",
    { nodes: { names: [name] } },
  );
  const read = async () =>
    (
      await ostler.query<{ node: { id: string; state: string } }>(
        "query State($name: String!) { node(by: { name: $name }) { id state } }",
        { name },
      )
    ).node;
  await eventually("the node is manageable", async () => (await read()).state === "MANAGEABLE");
  const uuid = await ostler.begin("cleanNodes", [name]);
  await gate.arrivals();
  const { id } = await read();
  return {
    id,
    name,
    async end() {
      gate.open();
      expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
    },
  };
}

/** The answer of `read` if the cleaning of the node ends between two of its statements. */
async function readWhileEnding<Result>(node: { end(): Promise<void> }, read: () => Promise<Result>): Promise<Result> {
  let answer: Promise<Result> | undefined;
  // The trigger that records changes of nodes reads clusters, and would wait too.
  await ostler.database.transaction((tx) => tx.execute("alter table nodes disable trigger nodes_recorded_update"));
  await ostler.database.transaction(async (tx) => {
    await tx.execute("lock table clusters in access exclusive mode");
    answer = read();
    answer.catch(() => {});
    await eventually("the second statement waits", isHeld);
    await node.end();
  });
  if (!answer) throw new Error("Nothing was read.");
  return answer;
}

function expectOneMoment(seen: Seen): void {
  const isCleaning = seen.state.startsWith("CLEAN");
  expect(seen).toMatchObject({
    cluster: {
      nodes: { edges: [{ node: { state: seen.state, currentRun: isCleaning ? { state: "RUNNING" } : null } }] },
    },
  });
}

interface Item {
  readonly nodeTransitions: { readonly nodeName?: string; readonly caughtUp?: boolean; readonly node?: Seen };
}

describe.each(["overSocket", "overEvents"] as const)("items %s", (way) => {
  const firstItem = async (args: string, selection: string): Promise<Seen> => {
    const items = ostler[way]<Item>(`subscription { nodeTransitions(${args}) { ${selection} } }`);
    const { value } = (await items.next()) as { value: Item };
    await items.return?.();
    if (!value.nodeTransitions.node) throw new Error("The item has no node.");
    return value.nodeTransitions.node;
  };

  test("node and currentRun of one transition came from two moments: an item sees the node CLEANING with the run that ends meanwhile [R-291]", async () => {
    const node = await cleaningNode();
    const [, position = "1"] = /^(\d+)/.exec(await newestCursor()) ?? [];
    expectOneMoment(
      await readWhileEnding(node, () =>
        firstItem(
          `after: "${Number(position) - 1}", filter: { ids: ["${node.id}"] }`,
          `... on Transition { nodeName node { ${MEMBERS} } }`,
        ),
      ),
    );
  });

  test("node and currentRun of a snapshot's item are of one moment [R-291]", async () => {
    const node = await cleaningNode();
    expectOneMoment(
      await readWhileEnding(node, () =>
        firstItem(`snapshot: true, filter: { ids: ["${node.id}"] }`, `... on NodeSnapshot { node { ${MEMBERS} } }`),
      ),
    );
  });
});

test("payload of a mutation is of one moment after its work [R-292]", async () => {
  const node = await cleaningNode();
  const { updateNodes } = await readWhileEnding(node, () =>
    ostler.query<{ updateNodes: { nodes: Seen[] } }>(
      `mutation Label($input: UpdateNodesInput!) { updateNodes(input: $input) { nodes { ${MEMBERS} } } }`,
      { input: { nodes: { names: [node.name] }, labels: [{ key: "seen", value: "now" }] } },
    ),
  );
  expectOneMoment(updateNodes.nodes[0] ?? { state: "" });
});

test("payload of each root field of a mutation shows its own work [R-292]", async () => {
  const [name = ""] = await ostler.register(1);
  const change = (value: string) =>
    `updateNodes(input: { nodes: { names: ["${name}"] }, labels: [{ key: "k", value: "${value}" }] }) { nodes { labels { value } cluster { name } } query { node(by: { name: "${name}" }) { labels { value } } } }`;
  const answer = await ostler.query(`mutation { first: ${change("1")} second: ${change("2")} }`);
  const shown = (value: string) => ({ labels: [{ value }] });
  expect(answer).toMatchObject({
    first: { nodes: [shown("1")], query: { node: shown("1") } },
    second: { nodes: [shown("2")], query: { node: shown("2") } },
  });
});

describe("transactions of 20 subscribers to one transition", () => {
  const isOf =
    (name: string) =>
    ({ nodeTransitions }: Item) =>
      nodeTransitions.nodeName === name;
  const deliver = async (streams: readonly Items<Item>[]) => {
    const [name = ""] = await ostler.register(1);
    await Promise.all(streams.map((items) => takeUntil(items, isOf(name))));
  };

  test.each([
    ["without a read", "", () => 0],
    ["of the node", "node { name state labels { key } }", () => 0],
    ["of the node and its run", "node { state currentRun { state } }", () => 1],
    [
      "of the node and its run, each with a request of its own",
      "node { state currentRun { state } }",
      (index: number) => index,
    ],
  ])("%s", async (_what, selection, variant) => {
    const streams = Array.from({ length: 20 }, (_, index) =>
      ostler.overSocket<Item>(
        `subscription S${variant(index)} { nodeTransitions { ... on Transition { nodeName ${selection} } ... on StreamBookmark { caughtUp } } }`,
      ),
    );
    await Promise.all(
      streams.map((items) => takeUntil(items, ({ nodeTransitions }) => nodeTransitions.caughtUp === true)),
    );
    await deliver(streams);
    statements.length = 0;
    await deliver(streams);
    if (selection === "") expect(begun()).toBe(0);
    else expect(begun()).toBeLessThan(10);
    for (const items of streams) await items.return?.();
  });
});
