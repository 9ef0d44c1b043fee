/** Two nodes that are one machine, as clients see them. */
import { afterAll, expect, test } from "vitest";
import { serviceUnderTest, takeUntil } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

interface Seen {
  readonly name: string;
  readonly sharedController: boolean;
  readonly identityConflict: { readonly kind: string; readonly value: string; readonly nodeName: string } | null;
  readonly verbs: readonly { readonly verb: string; readonly allowed: boolean; readonly code: string | null }[];
}

const FIELDS = "name sharedController identityConflict { kind value nodeName } verbs { verb allowed code }";

async function seen(names: readonly string[], more = ""): Promise<readonly Seen[]> {
  const { nodes } = await ostler.query<{ nodes: { edges: readonly { node: Seen }[] } }>(
    `query Seen($names: [String!]) { nodes(first: 10, filter: { name: { in: $names } }) { edges { node { ${FIELDS} ${more} } } } }`,
    { names },
  );
  return nodes.edges.map(({ node }) => node);
}

const REFUSED = ["CLEAN", "COMMISSION", "DECOMMISSION", "DEPLOY", "PROVIDE", "REDEPLOY", "UNDEPLOY"];

test("registerNodes refuses a second node of one machine with the path and the other node", async () => {
  await ostler.register(["one-a"], { controller: "bmc-1", serial: "S1" });
  const { registerNodes } = await ostler.query<{ registerNodes: { errors: unknown } }>(`mutation {
    registerNodes(input: { nodes: [{ name: "one-b", driver: { fake: { controller: "BMC-1", serial: "S1" } } }] }) {
      errors { __typename code status message path ... on ConflictError { node { name } } }
    }
  }`);
  expect(registerNodes.errors).toMatchObject([
    {
      __typename: "ConflictError",
      code: "IDENTITY_CONFLICT",
      status: 409,
      message: expect.stringContaining("one-a"),
      path: ["input", "nodes", "0", "driver", "fake"],
      node: { name: "one-a" },
    },
  ]);
});

test("a conflict is in lists, verbs, plans, attention and streams of both nodes, and ends in all of them [R-741]", async () => {
  const names = await ostler.register(["twin-a", "twin-b"], { serial: "TWIN" });
  const stream = ostler.overSocket<{
    readonly nodeChanges: { readonly changed?: readonly string[]; readonly node?: Seen };
  }>(`subscription { nodeChanges { ... on NodeUpserted { changed node { ${FIELDS} } } } }`);
  /** Both nodes, once the stream has reported a change of their conflicts. */
  const bothChange = async () => {
    const left = new Set(names);
    await takeUntil(stream, ({ nodeChanges: { changed, node } }) => {
      if (node && changed?.includes("IDENTITY_CONFLICT")) left.delete(node.name);
      return left.size === 0;
    });
    return [...left];
  };
  const begun = bothChange();
  await ostler.operationEnds(await ostler.begin("manageNodes", names));
  for (const name of names) await ostler.operationEnds(await ostler.begin("inspectNodes", [name]));
  expect(await begun).toEqual([]);
  // The second selection is not written by the database.
  for (const more of ["", "currentRun { id } operations(first: 1) { totalCount }"])
    for (const node of await seen(names, more)) {
      const other = names.find((name) => name !== node.name);
      expect(node.identityConflict).toEqual({ kind: "SERIAL_NUMBER", value: "TWIN", nodeName: other });
      const codes = new Set(node.verbs.filter(({ code }) => code === "IDENTITY_CONFLICT").map(({ verb }) => verb));
      expect([...codes].toSorted()).toEqual(REFUSED);
    }
  const found = await ostler.query<{ plan: unknown; attention: unknown }>(
    `query Plan($names: [String!]) {
      plan(input: { commissionNodes: { nodes: { names: $names } } }) { errors { code } }
      attention(kinds: [IDENTITY_CONFLICT]) { groups { kind detail nodeCount remedy suggestion { mutation } } }
    }`,
    { names },
  );
  expect(found).toMatchObject({
    plan: { errors: [{ code: "IDENTITY_CONFLICT" }] },
    attention: {
      groups: [
        { kind: "IDENTITY_CONFLICT", detail: "SERIAL_NUMBER", nodeCount: 2, suggestion: { mutation: "inspectNodes" } },
      ],
    },
  });
  const ended = bothChange();
  await ostler.query(
    `mutation { updateSite(input: { sharedIdentities: ["twin"] }) { site { sharedIdentities } errors { code } } }`,
  );
  expect(await ended).toEqual([]);
  for (const node of await seen(names)) expect(node.identityConflict).toBeNull();
  await stream.return?.();
});
