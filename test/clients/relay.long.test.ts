/** Relay: its compiler takes our schema, what it makes of a program's documents passes `tsc --strict`, and the program works against the real server. */
import { createRequire } from "node:module";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";
import { FAKE, reachedAt } from "./client.ts";
import { clientProject } from "./project.ts";
import type { Reached } from "./client.ts";
import type { Project } from "./project.ts";

/** What projects/relay/program.ts offers, as far as the tests look at it. */
interface Program {
  register(input: unknown): Promise<{ nodes: { id: string; name: string; state: string }[]; errors: unknown[] }>;
  commission(input: unknown): Promise<{ runId?: string; error: unknown; errors: unknown[] }>;
  readAll(
    ids: readonly string[],
    count: number,
  ): Promise<{ sizes: number[]; totalCount: number; nodes(): { name: string; state: string }[] }>;
  nodeAgain(id: string): Promise<{ name: string; state: string } | null>;
  runAgain(id: string): Promise<{ nodeName: string } | null>;
  follow(variables: unknown, fits: (item: Item) => boolean): Promise<Item[]>;
  close(): void;
}

interface Item {
  readonly __typename: string;
  readonly cursor: string;
  readonly to?: string;
  readonly sequence?: number;
  readonly caughtUp?: boolean;
}

const TOKEN = "a token for the tests of Relay";
const WAYS = await Promise.all(
  [{ access: "without a token" }, { access: "with a token", token: TOKEN }].map(async (way) => ({
    ...way,
    ostler: await serviceUnderTest(way.token === undefined ? {} : { token: way.token }),
  })),
);
const reached = WAYS.map(({ ostler, token }) => reachedAt(ostler.url, token));
const project = await clientProject("relay", reached[0] as Reached);
afterAll(async () => {
  await project[Symbol.asyncDispose]();
  for (const { ostler } of WAYS) await ostler[Symbol.asyncDispose]();
});

async function built(what: Project) {
  const compiled = await what.run("relay-compiler");
  return compiled.succeeded ? what.run("tsc", "-p", ".") : compiled;
}

test("the compiler takes our schema, and its artefacts pass tsc --strict with the program", async () => {
  expect(await built(project)).toEqual({ succeeded: true, said: "" });
});

test.each([
  {
    flaw: "a field that there is not",
    file: "documents.ts",
    before: "      nodeName\n",
    after: "      nodeTitle\n",
    told: /no field 'nodeTitle'|nodeTitle/,
  },
  {
    flaw: "a type that cannot be fetched again",
    file: "schema.graphql",
    before: 'type Run implements Resource @fetchable(field_name: "id") {',
    after: "type Run implements Resource {",
    told: /refetchable/,
  },
  {
    flaw: "a word that is no state in the program",
    file: "program.ts",
    before: "sizes.push(seen().edges.length)",
    after:
      'sizes.push(seen().edges.map(({ node }) => look<documentsNode$data>(nodeFragment, node).state === "READY").length)',
    told: /no overlap/,
  },
])("$flaw is found", async ({ file, before, after, told }) => {
  await using flawed = await clientProject("relay", reached[0] as Reached);
  await flawed.change(file, before, after);
  const { succeeded, said } = await built(flawed);
  expect(said).toMatch(told);
  expect(succeeded).toBe(false);
});

describe.each(WAYS.map(({ access }, way) => ({ access, way })))("$access", ({ way }) => {
  const ids: string[] = [];
  let relay: Program;
  beforeAll(() => {
    const { program } = createRequire(import.meta.url)(join(project.folder, "out/program.js")) as {
      program: (reached: object) => Program;
    };
    relay = program(reached[way] as Reached);
  });
  afterAll(() => relay.close());

  test("nodes are registered, and read page by page into one connection", async () => {
    const names = ["relay-1", "relay-2", "relay-3", "relay-4", "relay-5"];
    const { nodes, errors } = await relay.register({ nodes: names.map((name) => ({ name, driver: FAKE })) });
    expect(errors).toEqual([]);
    ids.push(...nodes.map(({ id }) => id));
    const fleet = await relay.readAll(ids, 2);
    expect(fleet.sizes).toEqual([2, 4, 5]);
    expect(fleet.totalCount).toBe(5);
    expect(fleet.nodes().map(({ name }) => name)).toEqual(names);
  });

  test("a refusal comes in its type", async () => {
    expect((await relay.commission({ nodes: { names: ["nobody"] } })).errors).toEqual([
      expect.objectContaining({ code: "NOT_FOUND", missing: ["nobody"] }),
    ]);
    expect((await relay.register({ nodes: [{ name: "relay-1", driver: FAKE }] })).errors).toEqual([
      expect.objectContaining({ path: ["input", "nodes", "0", "name"] }),
    ]);
  });

  test("a commission is followed and resumed; what the stream tells shows in the list that was read before; node and run are fetched again by ID", async () => {
    const [id = ""] = ids;
    const fleet = await relay.readAll(ids, 5);
    const { runId = "", errors } = await relay.commission({ nodes: { ids: [id] } });
    expect(errors).toEqual([]);
    const seen = await relay.follow({ filter: { ids: [id] }, after: "0" }, ({ to }) => to === "MANAGEABLE");
    const rest = await relay.follow({ filter: { ids: [id] }, after: seen.at(-1)?.cursor }, ({ to }) => to === "ACTIVE");
    const told = [...seen, ...rest].flatMap(({ sequence }) => sequence ?? []);
    expect(told).toEqual(told.map((_sequence, index) => index + 1));
    expect(fleet.nodes().map(({ state }) => state)).toEqual(["ACTIVE", "ENROLLED", "ENROLLED", "ENROLLED", "ENROLLED"]);
    expect(await relay.nodeAgain(id)).toMatchObject({ name: "relay-1", state: "ACTIVE" });
    expect(await relay.runAgain(runId)).toMatchObject({ nodeName: "relay-1" });
    expect(await relay.nodeAgain(runId)).toBeNull();
    expect((await relay.commission({ nodes: { ids: [id] } })).error).toMatchObject({
      __typename: "ConflictError",
      code: "INVALID_STATE",
    });
  });
});
