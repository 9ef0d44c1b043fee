/**
 * Relay: its compiler accepts the schema, the generated files pass `tsc --strict`, and the program runs against the
 * real server.
 */
import { createRequire } from "node:module";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";
import { FAKE, endpointOf } from "./client.ts";
import { clientProject } from "./project.ts";
import type { Endpoint } from "./client.ts";
import type { Project } from "./project.ts";

/** The part of projects/relay/program.ts that the tests use. */
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
const SERVICES = await Promise.all(
  [{ access: "without a token" }, { access: "with a token", token: TOKEN }].map(async (service) => ({
    ...service,
    ostler: await serviceUnderTest(service.token === undefined ? {} : { token: service.token }),
  })),
);
const endpoints = SERVICES.map(({ ostler, token }) => endpointOf(ostler.url, token));
const project = await clientProject("relay", endpoints[0] as Endpoint);
afterAll(async () => {
  await project[Symbol.asyncDispose]();
  for (const { ostler } of SERVICES) await ostler[Symbol.asyncDispose]();
});

async function build(what: Project) {
  const compiled = await what.run("relay-compiler");
  return compiled.succeeded ? what.run("tsc", "-p", ".") : compiled;
}

test("Relay compiler accepts the schema, and the program passes tsc --strict with its artifacts", async () => {
  expect(await build(project)).toEqual({ succeeded: true, output: "" });
});

test.each([
  {
    flaw: "a missing field",
    file: "documents.ts",
    before: "      nodeName\n",
    after: "      nodeTitle\n",
    expected: /no field 'nodeTitle'|nodeTitle/,
  },
  {
    flaw: "a type without @fetchable",
    file: "schema.graphql",
    before: 'type Run @fetchable(field_name: "id") {',
    after: "type Run {",
    expected: /refetchable/,
  },
  {
    flaw: "an unknown state in the program",
    file: "program.ts",
    before: "sizes.push(seen().edges.length)",
    after:
      'sizes.push(seen().edges.map(({ node }) => look<documentsNode$data>(nodeFragment, node).state === "READY").length)',
    expected: /no overlap/,
  },
])("Relay build rejects $flaw", async ({ file, before, after, expected }) => {
  await using flawed = await clientProject("relay", endpoints[0] as Endpoint);
  await flawed.change(file, before, after);
  const { succeeded, output } = await build(flawed);
  expect(output).toMatch(expected);
  expect(succeeded).toBe(false);
});

describe.each(SERVICES.map(({ access }, service) => ({ access, service })))("Relay program $access", ({ service }) => {
  const ids: string[] = [];
  let relay: Program;
  beforeAll(() => {
    const { program } = createRequire(import.meta.url)(join(project.folder, "out/program.js")) as {
      program: (endpoint: object) => Program;
    };
    relay = program(endpoints[service] as Endpoint);
  });
  afterAll(() => relay.close());

  test("nodes are registered and read page by page into one connection", async () => {
    const names = ["relay-1", "relay-2", "relay-3", "relay-4", "relay-5"];
    const { nodes, errors } = await relay.register({ nodes: names.map((name) => ({ name, driver: FAKE })) });
    expect(errors).toEqual([]);
    ids.push(...nodes.map(({ id }) => id));
    const fleet = await relay.readAll(ids, 2);
    expect(fleet.sizes).toEqual([2, 4, 5]);
    expect(fleet.totalCount).toBe(5);
    expect(fleet.nodes().map(({ name }) => name)).toEqual(names);
  });

  test("a refusal is returned with its type", async () => {
    expect((await relay.commission({ nodes: { names: ["missing"] } })).errors).toEqual([
      expect.objectContaining({ code: "NOT_FOUND", missing: ["missing"] }),
    ]);
    expect((await relay.register({ nodes: [{ name: "relay-1", driver: FAKE }] })).errors).toEqual([
      expect.objectContaining({ path: ["input", "nodes", "0", "name"] }),
    ]);
  });

  test("a stream follows a commission and resumes, updates a list that was read before, and node and run are refetched by ID", async () => {
    const [id = ""] = ids;
    const fleet = await relay.readAll(ids, 5);
    const { runId = "", errors } = await relay.commission({ nodes: { ids: [id] } });
    expect(errors).toEqual([]);
    const seen = await relay.follow({ filter: { ids: [id] }, after: "0" }, ({ to }) => to === "MANAGEABLE");
    const rest = await relay.follow({ filter: { ids: [id] }, after: seen.at(-1)?.cursor }, ({ to }) => to === "ACTIVE");
    const sequences = [...seen, ...rest].flatMap(({ sequence }) => sequence ?? []);
    expect(sequences).toEqual(sequences.map((_sequence, index) => index + 1));
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
