/**
 * Types generated from the schema by the client preset of GraphQL codegen and by gql.tada: programs that use them pass
 * `tsc --strict`, flawed ones do not, and they run against the real server.
 */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";
import { FAKE, endpointOf } from "./client.ts";
import { generateClientPreset, generateTada } from "./generate.ts";
import { clientProject } from "./project.ts";
import type { Project } from "./project.ts";

/** Functions of both programs. */
interface Program {
  register(input: unknown): Promise<{ nodes: { id: string }[]; errors: { code: string; path: string[] }[] }>;
  list(ids: readonly string[]): Promise<{ name: string; state: string }[]>;
  commission(nodes: unknown): Promise<unknown>;
  follow(variables: unknown, until: string): Promise<{ cursor: string; sequence?: number }[]>;
  close(): void;
}

interface Flaw {
  readonly flaw: string;
  readonly file: string;
  readonly before: string;
  readonly after: string;
  readonly expected: RegExp;
}

const TOKEN = "a token for the tests of types";

const KINDS = {
  codegen: {
    generate: generateClientPreset,
    flaws: [
      {
        flaw: "a missing field",
        file: "operations.graphql",
        before: "      nodeName\n",
        after: "      nodeTitle\n",
        expected: /Cannot query field \\?"nodeTitle\\?"/,
      },
      {
        flaw: "a field that was not requested",
        file: "program.ts",
        before: "({ name, state }) =>",
        after: "({ name, state, stage }) =>",
        expected: /'stage' does not exist/,
      },
      {
        flaw: "two fields of a @oneOf",
        file: "program.ts",
        before: "input: { nodes, until",
        after: "input: { nodes: { ids: [], names: [] }, until",
        expected: /not assignable/,
      },
      {
        flaw: "an unknown enum value",
        file: "program.ts",
        before: 'case "ACTIVE":',
        after: 'case "READY":',
        expected: /not comparable/,
      },
    ],
  },
  tada: {
    generate: generateTada,
    flaws: [
      {
        flaw: "a missing field",
        file: "program.ts",
        before: "    name\n    state\n",
        after: "    title\n    state\n",
        expected: /'name' does not exist/,
      },
      {
        flaw: "no field of a @oneOf",
        file: "program.ts",
        before: "input: { nodes, until",
        after: "input: { nodes: {}, until",
        expected: /not assignable/,
      },
      {
        flaw: "an unknown enum value",
        file: "program.ts",
        before: 'state === "ACTIVE"',
        after: 'state === "READY"',
        expected: /no overlap/,
      },
    ],
  },
} as const satisfies Record<string, { generate: (folder: string) => Promise<void>; flaws: readonly Flaw[] }>;

const ostler = await serviceUnderTest({ token: TOKEN });
afterAll(() => ostler[Symbol.asyncDispose]());
const endpoint = endpointOf(ostler.url, TOKEN);

describe.each(Object.entries(KINDS))("program with types of %s", (name, { generate, flaws }) => {
  const kind = name as keyof typeof KINDS;
  const names = [`${kind}-1`, `${kind}-2`] as const;
  let project: Project;
  let program: Program;
  beforeAll(async () => {
    project = await clientProject(kind, endpoint);
    await generate(project.folder);
    const { program: make } = (await import(join(project.folder, "program.ts"))) as {
      program: (endpoint: object) => Program;
    };
    program = make(endpoint);
  });
  afterAll(async () => {
    program?.close();
    await project?.[Symbol.asyncDispose]();
  });

  test("passes tsc --strict", async () => {
    expect(await project.run("tsc", "-p", ".")).toEqual({ succeeded: true, output: "" });
  });

  test.each<Flaw>(flaws)("$flaw is rejected", async ({ file, before, after, expected }) => {
    await using flawed = await clientProject(kind, endpoint);
    await flawed.change(file, before, after);
    const output = await generate(flawed.folder).then(
      async () => (await flawed.run("tsc", "-p", ".")).output,
      (error: unknown) => JSON.stringify(error, Object.getOwnPropertyNames(error)),
    );
    expect(output).toMatch(expected);
  });

  test("the program registers, gets a refusal, lists, commissions, subscribes and resumes", async () => {
    const { nodes, errors } = await program.register({ nodes: names.map((node) => ({ name: node, driver: FAKE })) });
    expect(errors).toEqual([]);
    expect((await program.register({ nodes: [{ name: names[0], driver: FAKE }] })).errors).toMatchObject([
      { path: ["input", "nodes", "0", "name"] },
    ]);
    const [id = "", other = ""] = nodes.map((node) => node.id);
    expect(await program.commission({ names: ["missing"] })).toEqual({ missing: ["missing"] });
    expect(await program.commission({ ids: [id] })).toEqual({ accepted: [true] });
    const seen = await program.follow({ filter: { ids: [id] }, after: "0" }, "MANAGEABLE");
    const rest = await program.follow({ filter: { ids: [id] }, after: seen.at(-1)?.cursor }, "ACTIVE");
    const sequences = [...seen, ...rest].flatMap(({ sequence }) => sequence ?? []);
    expect(sequences.length).toBeGreaterThan(5);
    expect(sequences).toEqual(sequences.map((_sequence, index) => index + 1));
    expect(await program.list([id, other])).toEqual([
      { name: names[0], state: "in service" },
      { name: names[1], state: "enrolled" },
    ]);
  });
});
