/** `asOf` of lists: a stream that begins with it has everything that the list does not. */
import { afterAll, describe, expect, test } from "vitest";
import { globalId } from "../../src/graphql/base/ids.ts";
import { serviceUnderTest, takeUntil } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const CURSOR = /^\d+(-\w+)?~c\d+(-\w+)?$/;

interface Listed {
  readonly list: { readonly asOf: string; readonly nodes: readonly { readonly id: string }[] };
}
interface Changes {
  readonly items: { readonly object?: { readonly id: string } };
}

const edit = (name: string, description: string) =>
  ostler.query(`mutation Edit($input: UpdateNodesInput!) { updateNodes(input: $input) { errors { message } } }`, {
    input: { nodes: { names: [name] }, description },
  });

/** Changes an object, and returns its UUID. */
const CHANGES = {
  async nodeChanges(name: string) {
    await edit(name, "after the list");
    return idOf("nodes", name);
  },
  operationChanges: (name: string) => ostler.begin("cleanNodes", [name]),
  async clusterChanges(_node: string, cluster: string) {
    await ostler.query(
      `mutation { updateCluster(input: { cluster: { name: "${cluster}" }, variables: { a: "b" } }) { errors { message } } }`,
    );
    return idOf("clusters", cluster);
  },
} as const;

async function idOf(table: string, name: string): Promise<string> {
  const [row] = await ostler.test.sql`select id from ${ostler.test.sql(table)} where name = ${name}`;
  return String(row?.["id"]);
}

describe("asOf", () => {
  test.each([
    ["nodes", "{ list: nodes(first: 2) { asOf nodes { id name } } }", "nodeChanges", "Node"],
    [
      "nodes that the service resolves",
      "{ list: nodes(first: 2) { asOf nodes { id inventory { takenAt } } } }",
      "nodeChanges",
      "Node",
    ],
    [
      "nodes beside a plan",
      "{ list: nodes(first: 2) { asOf nodes { id } } plan(input: { manageNodes: { nodes: { all: true } } }) { __typename } }",
      "nodeChanges",
      "Node",
    ],
    ["operations", "{ list: operations { asOf nodes { id } } }", "operationChanges", "Operation"],
    ["clusters", "{ list: clusters { asOf nodes { id } } }", "clusterChanges", "Cluster"],
  ] as const)(
    "asOf of %s begins a stream that emits what changed afterwards, and nothing that was numbered before [R-632]",
    async (_what, query, stream, type) => {
      const [name = ""] = await ostler.register(1);
      const cluster = `c-${name}`;
      await ostler.engine.createCluster(
        { actor: "alice", project: "default", scope: "ADMIN" as const },
        { name: cluster },
      );
      await ostler.commission([name], "AVAILABLE");
      await ostler.test.sql`select number_changes(100000)`;
      const { list } = await ostler.query<Listed>(query);
      expect(list.asOf).toMatch(CURSOR);
      expect(list.nodes.length).toBeGreaterThan(0);
      const changed = await CHANGES[stream](name, cluster);
      const id = globalId(type, changed);
      const follow = `subscription Follow($after: String!) {
      items: ${stream}(after: $after) { ... on ${type}Upserted { object: ${type.toLowerCase()} { id } } }
    }`;
      const items = ostler.overSocket<Changes>(follow, { after: list.asOf });
      const seen = await takeUntil(items, ({ items: { object } }) => object?.id === id);
      await items.return?.();
      expect(seen.flatMap(({ items: { object } }) => object ?? [])).toEqual([{ id }]);
      if (stream === "operationChanges") await ostler.operationEnds(changed);
    },
  );

  test("asOf of transitions continues the log, by page and by stream [R-632]", async () => {
    const [name = ""] = await ostler.register(1);
    const filter = { name: { eq: name } };
    const { list } = await ostler.query<Listed>("{ list: transitions(last: 1) { asOf nodes { id } } }");
    expect(list.asOf).toMatch(CURSOR);
    await ostler.commission([name], "AVAILABLE");
    const { transitions } = await ostler.query<{ transitions: { nodes: { nodeName: string; event: string }[] } }>(
      `query($after: String!, $filter: NodeFilter!) { transitions(after: $after, filter: $filter) { nodes { nodeName event } } }`,
      { after: list.asOf, filter },
    );
    // The registration is in the list.
    expect(transitions.nodes.length).toBeGreaterThan(0);
    expect(transitions.nodes.map(({ event }) => event)).not.toContain("REGISTER");
    const stream = ostler.overSocket<{ nodeTransitions: { nodeName?: string } }>(
      `subscription($after: String!, $filter: NodeFilter!) { nodeTransitions(after: $after, filter: $filter) { ... on Transition { nodeName } } }`,
      { after: list.asOf, filter },
    );
    const { value } = (await stream.next()) as { value: { nodeTransitions: { nodeName?: string } } };
    await stream.return?.();
    expect(value.nodeTransitions).toEqual({ nodeName: name });
  });

  test("asOf of a list is no newer than the list, while nodes are written [R-633]", async () => {
    const [name = ""] = await ostler.register(1);
    let isOver = false;
    const writing = (async () => {
      for (let count = 1; !isOver; count += 1) await edit(name, String(count));
    })();
    const query = `{ list: nodes(filter: { name: { eq: "${name}" } }) { asOf nodes { id name description } } }`;
    const seen: { asOf: string; description: number }[] = [];
    const position = ({ asOf }: { asOf: string }) => Number(/~c(\d+)/.exec(asOf)?.[1]);
    while (seen.length < 40 || new Set(seen.map(position)).size < 3) {
      const { list } = await ostler.query<{ list: { asOf: string; nodes: { description: string }[] } }>(query);
      seen.push({ asOf: list.asOf, description: Number(list.nodes[0]?.description) });
    }
    isOver = true;
    await writing;
    const { test: raw } = ostler;
    for (const one of seen) {
      const [row] = await raw.sql`select count(*)::int as edits from changes
        where subject = 'NODE' and 'DESCRIPTION' = any(fields) and position <= ${position(one)}
          and subject_id = (select id from nodes where name = ${name})`;
      // Every edit up to the cursor is in the list.
      expect(Number(row?.["edits"])).toBeLessThanOrEqual(one.description || 0);
    }
  });
});
