/**
 * Every supported client, set up as its users do, against the real server: reads, writes and streams, with and without
 * a token.
 */
import { gql } from "@apollo/client";
import { afterAll, describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest, takeUntil } from "../support/service.ts";
import { apollo, apolloClient } from "./apollo.ts";
import { FAKE, endpointOf, textOf } from "./client.ts";
import type { ClientUnderTest, Endpoint } from "./client.ts";
import { overEvents, overSocket, request } from "./plain.ts";
import { urql } from "./urql.ts";

const CLIENTS: readonly { readonly name: string; readonly made: (endpoint: Endpoint) => ClientUnderTest }[] = [
  {
    name: "Apollo over HTTP, streams over WebSocket",
    made: (endpoint) => apollo(endpoint, { everythingOverSocket: false }),
  },
  { name: "Apollo over WebSocket", made: (endpoint) => apollo(endpoint, { everythingOverSocket: true }) },
  { name: "urql, streams over WebSocket", made: (endpoint) => urql(endpoint, { stream: "WebSocket" }) },
  { name: "urql, streams as server-sent events", made: (endpoint) => urql(endpoint, { stream: "fetch" }) },
  { name: "graphql-request", made: request },
  { name: "graphql-ws", made: overSocket },
  { name: "graphql-sse", made: overEvents },
];

const TOKEN = "a token for the tests of clients";
/** A listed origin of a web page. */
const CONSOLE = "http://localhost:5173";

interface ApiError {
  readonly __typename: string;
  readonly code: string;
  readonly status: number;
  readonly message: string;
  readonly path: readonly string[] | null;
  readonly allowedStates?: readonly string[];
  readonly node?: { readonly name: string };
  readonly missing?: readonly string[];
}

interface Core {
  readonly id: string;
  readonly name: string;
  readonly state: string;
}

interface Page {
  readonly nodes: {
    readonly edges: readonly { readonly node: Core }[];
    readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string | null };
    readonly totalCount: number;
  };
}

interface Registered {
  readonly registerNodes: { readonly nodes: readonly Core[]; readonly errors: readonly ApiError[] };
}

interface Commissioned {
  readonly commissionNodes: {
    readonly operation: { readonly id: string } | null;
    readonly results: readonly { readonly accepted: boolean; readonly error: ApiError | null }[];
    readonly errors: readonly ApiError[];
  };
}

interface Item {
  readonly __typename: "NodeSnapshot" | "Transition" | "StreamBookmark" | "StreamReset";
  readonly cursor: string;
  readonly node?: Core;
  readonly nodeName?: string;
  readonly to?: string;
  readonly sequence?: number;
  readonly caughtUp?: boolean;
  readonly snapshotComplete?: boolean;
}

const SERVICES = await Promise.all(
  [
    { access: "without a token", token: undefined },
    { access: "with a token", token: TOKEN },
  ].map(async ({ access, token }) => ({
    access,
    token,
    ostler: await serviceUnderTest({ origins: [CONSOLE], ...(token !== undefined && { token }) }),
  })),
);
const clients = new Set<ClientUnderTest>();
afterAll(async () => {
  for (const client of clients) await client.close();
  for (const { ostler } of SERVICES) await ostler[Symbol.asyncDispose]();
});

test.each([
  { name: "Apollo", made: (endpoint: Endpoint) => apollo(endpoint, { everythingOverSocket: false }) },
  { name: "urql", made: (endpoint: Endpoint) => urql(endpoint, { stream: "fetch" }) },
  { name: "graphql-request", made: request },
])("$name reports an invalid token", async ({ made }) => {
  const client = made(endpointOf(SERVICES[1]?.ostler.url ?? "", "another token than that"));
  clients.add(client);
  await expect(client.query("NodesPage", { first: 1 })).rejects.toThrow(/Invalid token|401/);
});

describe.each(SERVICES)("client $access", ({ token, ostler }) => {
  const endpoint = endpointOf(ostler.url, token);

  describe.each(CLIENTS.map((client, index) => ({ ...client, prefix: `c${index}` })))("$name", ({ made, prefix }) => {
    const client = made(endpoint);
    clients.add(client);
    const register = async (names: readonly string[]): Promise<readonly Core[]> => {
      const { registerNodes } = await client.mutate<Registered>("Register", {
        input: { nodes: names.map((name) => ({ name, driver: FAKE })) },
      });
      expect(registerNodes.errors).toEqual([]);
      return registerNodes.nodes;
    };

    test("nodes are registered and read page by page, and one by its ID", async () => {
      const names = [1, 2, 3, 4, 5].map((number) => `${prefix}-page-${number}`);
      const registered = await register(names);
      expect(registered.map(({ name, state }) => ({ name, state }))).toEqual(
        names.map((name) => ({ name, state: "ENROLLED" })),
      );
      const read: string[] = [];
      for (let after: string | null = null; ;) {
        const { nodes }: Page = await client.query<Page>("NodesPage", {
          first: 2,
          after,
          filter: { ids: registered.map(({ id }) => id) },
        });
        expect(nodes.totalCount).toBe(5);
        read.push(...nodes.edges.map(({ node }) => node.name));
        if (!nodes.pageInfo.hasNextPage) break;
        after = nodes.pageInfo.endCursor;
      }
      expect(read).toEqual(names);
      const id = registered[0]?.id;
      expect(await client.query("Again", { node: id, operation: id })).toEqual({
        fetch__Node: { __typename: "Node", id, name: names[0], state: "ENROLLED" },
        fetch__Operation: null,
      });
    });

    test("a refused request returns every error with its type", async () => {
      await register([`${prefix}-taken`]);
      const { registerNodes } = await client.mutate<Registered>("Register", {
        input: {
          nodes: [
            { name: `${prefix}-taken`, driver: FAKE },
            { name: "not a name", driver: FAKE },
          ],
        },
      });
      expect(registerNodes.nodes).toEqual([]);
      expect(registerNodes.errors.map(({ __typename: type, path }) => ({ type, path }))).toEqual(
        expect.arrayContaining([{ type: expect.any(String), path: ["input", "nodes", "1", "name"] }]),
      );
      const { commissionNodes } = await client.mutate<Commissioned>("Commission", {
        input: { nodes: { names: [`${prefix}-missing`] } },
      });
      expect(commissionNodes.operation).toBeNull();
      expect(commissionNodes.errors).toEqual([
        expect.objectContaining({
          __typename: "NotFoundError",
          code: "NOT_FOUND",
          status: 404,
          count: 1,
          refs: [],
          missing: [`${prefix}-missing`],
        }),
      ]);
    });

    test("an accepted commission runs, and one of an ACTIVE node is refused", async () => {
      const [node] = await register([`${prefix}-work`]);
      const { commissionNodes } = await client.mutate<Commissioned>("Commission", {
        input: { nodes: { ids: [node?.id] } },
      });
      expect(commissionNodes.errors).toEqual([]);
      expect(commissionNodes.results.map(({ accepted }) => accepted)).toEqual([true]);
      expect(await client.query("Again", { node: node?.id, operation: commissionNodes.operation?.id })).toMatchObject({
        fetch__Node: { id: node?.id },
        fetch__Operation: { __typename: "Operation", kind: "COMMISSION" },
      });
      expect(
        await ostler.operationEnds(
          (
            await ostler.query<{ operation: { uuid: string } }>(
              "query Uuid($id: ID!) { operation(id: $id) { uuid } }",
              { id: commissionNodes.operation?.id },
            )
          ).operation.uuid,
        ),
      ).toBe("SUCCEEDED");
      const again = await client.mutate<Commissioned>("Commission", {
        input: { nodes: { names: [`${prefix}-work`] } },
      });
      expect(again.commissionNodes.results[0]?.error).toMatchObject({
        __typename: "ConflictError",
        code: "INVALID_STATE",
        status: 409,
        allowedStates: expect.arrayContaining(["ENROLLED"]) as unknown,
        node: { name: `${prefix}-work` },
      });
    });

    const { follow } = client;
    if (!follow) return;
    test("a subscription follows a commission from a snapshot, disconnects, and resumes where it ended", async () => {
      const itemsOf = (variables: Record<string, unknown>): AsyncIterator<Item> => {
        const answers = follow<{ nodeTransitions: Item }>("Follow", variables);
        return {
          async next() {
            const { done, value } = await answers.next();
            return done ? { done, value: undefined } : { done: false, value: value.nodeTransitions };
          },
          return: async () => (await answers.return?.()) as never,
        };
      };
      const [node] = await register([`${prefix}-followed`]);
      const filter = { ids: [node?.id] };
      const first = itemsOf({ filter, snapshot: true });
      const snapshot = await takeUntil(
        first,
        (item) => item.__typename === "StreamBookmark" && item.snapshotComplete === true,
      );
      expect(snapshot[0]).toMatchObject({
        __typename: "NodeSnapshot",
        node: { name: `${prefix}-followed`, state: "ENROLLED" },
      });
      const { commissionNodes } = await client.mutate<Commissioned>("Commission", {
        input: { nodes: { ids: [node?.id] } },
      });
      expect(commissionNodes.errors).toEqual([]);
      const seen = await takeUntil(first, ({ to }) => to === "MANAGEABLE");
      await first.return?.();
      const second = itemsOf({ filter, after: seen.at(-1)?.cursor });
      const rest = await takeUntil(second, ({ to }) => to === "ACTIVE");
      await second.return?.();
      const sequences = [...seen, ...rest]
        .filter((item) => item.__typename === "Transition")
        .map(({ sequence }) => sequence);
      // Its first transition is the registration, which the snapshot replaces.
      expect(sequences).toEqual(sequences.map((_sequence, index) => index + 2));
      const { node: now } = await ostler.query<{ node: { transitionCount: number } }>(
        "query Count($by: NodeRef!) { node(by: $by) { transitionCount } }",
        { by: { id: node?.id } },
      );
      expect(sequences.at(-1)).toBe(now.transitionCount);
    });
  });

  test("urql reads with GET, its default, and writes with POST", async () => {
    const methods: (string | undefined)[] = [];
    const client = urql(endpoint, {
      stream: "WebSocket",
      fetch: (...parameters) => {
        methods.push(parameters[1]?.method);
        return fetch(...parameters);
      },
    });
    clients.add(client);
    const { nodes } = await client.query<Page>("NodesPage", { first: 1 });
    expect(nodes.totalCount).toBeGreaterThan(0);
    await client.mutate("Commission", { input: { nodes: { names: ["missing"] } } });
    expect(methods).toEqual(["GET", "POST"]);
  });

  test("urql reads from a page of a listed origin without a CORS preflight", async () => {
    const asIn =
      (origin: string): typeof fetch =>
      (input, init) =>
        fetch(input, {
          ...init,
          headers: { ...(init?.headers as Record<string, string>), origin, "sec-fetch-site": "same-site" },
        });
    const listed = urql(endpoint, { stream: "fetch", fetch: asIn(CONSOLE) });
    expect((await listed.query<Page>("NodesPage", { first: 1 })).nodes.edges).toHaveLength(1);
    const other = urql({ ...endpoint, headers: {} }, { stream: "fetch", fetch: asIn("http://localhost:6174") });
    await expect(other.query("NodesPage", { first: 1 })).rejects.toThrow(
      token === undefined ? /causes a CORS preflight/ : /Send the token/,
    );
  });

  test("Apollo updates a list that was read before with the items of a stream", async () => {
    const { client, socket } = apolloClient(endpoint, { everythingOverSocket: false });
    const [name = ""] = await ostler.register(1);
    const filter = { name: { eq: name } };
    const states: (string | undefined)[] = [];
    const watching = client
      .watchQuery<Page>({ query: gql(textOf("NodesPage")), variables: { first: 10, filter } })
      .subscribe(({ data }) => states.push((data as Page | undefined)?.nodes.edges[0]?.node.state));
    const following = client
      .subscribe({ query: gql(textOf("Follow")), variables: { filter, after: "0" } })
      .subscribe(() => {});
    await ostler.commission([name]);
    await eventually("the list shows the node as ACTIVE", () => states.at(-1) === "ACTIVE");
    watching.unsubscribe();
    following.unsubscribe();
    client.stop();
    await socket.dispose();
    expect(states).toContain("ENROLLED");
  });
});
