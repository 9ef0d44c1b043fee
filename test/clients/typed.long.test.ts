/** Types made of our schema, by the client preset of GraphQL codegen and by gql.tada: programs that use them pass `tsc --strict`, flawed ones do not, and they work against the real server. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";
import { FAKE, reachedAt } from "./client.ts";
import { generateClientPreset, generateTada } from "./generate.ts";
import { clientProject } from "./project.ts";
import type { Project } from "./project.ts";

/** What both programs offer. */
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
  readonly told: RegExp;
}

const TOKEN = "a token for the tests of types";

const KINDS = {
  codegen: {
    generate: generateClientPreset,
    flaws: [
      {
        flaw: "a field that there is not",
        file: "operations.graphql",
        before: "      nodeName\n",
        after: "      nodeTitle\n",
        told: /Cannot query field \\?"nodeTitle\\?"/,
      },
      {
        flaw: "a field that was not asked for",
        file: "program.ts",
        before: "({ name, state }) =>",
        after: "({ name, state, stage }) =>",
        told: /'stage' does not exist/,
      },
      {
        flaw: "two fields of a @oneOf",
        file: "program.ts",
        before: "input: { nodes, until",
        after: "input: { nodes: { ids: [], names: [] }, until",
        told: /not assignable/,
      },
      {
        flaw: "a word that is no value of its enum",
        file: "program.ts",
        before: 'case "ACTIVE":',
        after: 'case "READY":',
        told: /not comparable/,
      },
    ],
  },
  tada: {
    generate: generateTada,
    flaws: [
      {
        flaw: "a field that there is not",
        file: "program.ts",
        before: "    name\n    state\n",
        after: "    title\n    state\n",
        told: /'name' does not exist/,
      },
      {
        flaw: "no field of a @oneOf",
        file: "program.ts",
        before: "input: { nodes, until",
        after: "input: { nodes: {}, until",
        told: /not assignable/,
      },
      {
        flaw: "a word that is no value of its enum",
        file: "program.ts",
        before: 'state === "ACTIVE"',
        after: 'state === "READY"',
        told: /no overlap/,
      },
    ],
  },
} as const satisfies Record<string, { generate: (folder: string) => Promise<void>; flaws: readonly Flaw[] }>;

const ostler = await serviceUnderTest({ token: TOKEN });
afterAll(() => ostler[Symbol.asyncDispose]());
const reached = reachedAt(ostler.url, TOKEN);

describe.each(Object.entries(KINDS))("%s", (name, { generate, flaws }) => {
  const kind = name as keyof typeof KINDS;
  const names = [`${kind}-1`, `${kind}-2`] as const;
  let project: Project;
  let program: Program;
  beforeAll(async () => {
    project = await clientProject(kind, reached);
    await generate(project.folder);
    const { program: make } = (await import(join(project.folder, "program.ts"))) as {
      program: (reached: object) => Program;
    };
    program = make(reached);
  });
  afterAll(async () => {
    program?.close();
    await project?.[Symbol.asyncDispose]();
  });

  test("passes tsc --strict", async () => {
    expect(await project.run("tsc", "-p", ".")).toEqual({ succeeded: true, said: "" });
  });

  test.each<Flaw>(flaws)("$flaw is found", async ({ file, before, after, told }) => {
    await using flawed = await clientProject(kind, reached);
    await flawed.change(file, before, after);
    const said = await generate(flawed.folder).then(
      async () => (await flawed.run("tsc", "-p", ".")).said,
      (error: unknown) => JSON.stringify(error, Object.getOwnPropertyNames(error)),
    );
    expect(said).toMatch(told);
  });

  test("works: registers, is refused, lists, commissions, follows and resumes", async () => {
    const { nodes, errors } = await program.register({ nodes: names.map((node) => ({ name: node, driver: FAKE })) });
    expect(errors).toEqual([]);
    expect((await program.register({ nodes: [{ name: names[0], driver: FAKE }] })).errors).toMatchObject([
      { path: ["input", "nodes", "0", "name"] },
    ]);
    const [id = "", other = ""] = nodes.map((node) => node.id);
    expect(await program.commission({ names: ["nobody"] })).toEqual({ missing: ["nobody"] });
    expect(await program.commission({ ids: [id] })).toEqual({ accepted: [true] });
    const seen = await program.follow({ filter: { ids: [id] }, after: "0" }, "MANAGEABLE");
    const rest = await program.follow({ filter: { ids: [id] }, after: seen.at(-1)?.cursor }, "ACTIVE");
    const told = [...seen, ...rest].flatMap(({ sequence }) => sequence ?? []);
    expect(told.length).toBeGreaterThan(5);
    expect(told).toEqual(told.map((_sequence, index) => index + 1));
    expect(await program.list([id, other])).toEqual([
      { name: names[0], state: "in service" },
      { name: names[1], state: "enrolled" },
    ]);
  });
});
