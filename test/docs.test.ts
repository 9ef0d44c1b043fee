/** Checks the documentation: its requests are accepted, its links resolve, its diagrams parse, its codes exist. */
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { LoneAnonymousOperationRule, parse, specifiedRules, validate } from "graphql";
import { afterAll, describe, expect, test } from "vitest";
import { REQUESTS } from "../docs/examples/requests.ts";
import { printedPages } from "../docs/print/pages.ts";
import { VERB_ENTRIES } from "../docs/print/verb-data.ts";
import { ERROR_STATUS } from "../src/errors.ts";
import { describeDrivers } from "../src/drivers/load.ts";
import { beyond } from "../src/graphql/base/request-limits.ts";
import { buildSchema } from "../src/graphql/schema/schema.ts";
import { aGate } from "./support/builders.ts";
import { eventually } from "./support/eventually.ts";
import { serviceUnderTest } from "./support/service.ts";
import type { Variables } from "./support/service.ts";
import { VERB_MUTATIONS } from "./support/verbs.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const PAGES = globSync(["README.md", "CHANGELOG.md", "docs/**/*.md", "bench/README.md", "test/chaos/README.md"], {
  cwd: ROOT,
  exclude: ["docs/templates/**"],
})
  .toSorted()
  .map((file) => ({ file, text: readFileSync(join(ROOT, file), "utf8") }));
const schema = buildSchema(await describeDrivers());
const mutations = Object.keys(schema.getMutationType()?.getFields() ?? {}).toSorted();

const blocks = (language: string) =>
  PAGES.flatMap(({ file, text }) =>
    [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, "gm"))].map(([, block = ""], index) => ({
      file,
      number: index + 1,
      block,
    })),
  );

test("every printed page is what the code prints [R-010]", () => {
  const stale = printedPages().filter(
    ({ file, text }) => PAGES.find((page) => page.file === `docs/${file}`)?.text !== text,
  );
  expect(stale.map(({ file }) => file)).toEqual([]);
});

test("no printed page is left of a section or a mutation that is gone", () => {
  const printed = new Set(printedPages().map(({ file }) => `docs/${file}`));
  const pages = PAGES.filter(({ text }) => text.startsWith("<!-- Printed by"));
  expect(pages.map(({ file }) => file).filter((file) => !printed.has(file))).toEqual([]);
});

test("every mutation has a page with an example and an entry in the index", () => {
  expect(VERB_ENTRIES.map(({ mutation }) => mutation).toSorted()).toEqual(mutations);
  expect([...new Set(REQUESTS.map(({ mutation }) => mutation))].toSorted()).toEqual(mutations);
  const index = PAGES.find(({ file }) => file === "docs/verbs.md")?.text ?? "";
  expect(mutations.filter((name) => !index.includes(`](verbs/${name}.md)`))).toEqual([]);
  expect(mutations.filter((name) => !existsSync(join(ROOT, `docs/verbs/${name}.md`)))).toEqual([]);
});

test("every error code is documented for a mutation, except those of failed runs and of GraphQL errors", () => {
  const given = new Set(
    VERB_ENTRIES.flatMap(({ whole, single = [] }) => [...whole, ...single].map(([code]) => code as string)),
  );
  // FORBIDDEN is a GraphQL error; the others are failures of runs and operations.
  expect(Object.keys(ERROR_STATUS).filter((code) => !given.has(code))).toEqual([
    "FORBIDDEN",
    "TOLERANCE_EXCEEDED",
    "CRITICAL_NODE_FAILED",
    "INTERRUPTED",
    "ABORTED",
    "STOP_TIMEOUT",
  ]);
});

test.each(blocks("graphql"))("GraphQL request $number in $file is valid", ({ block }) => {
  expect(
    validate(
      schema,
      parse(block),
      specifiedRules.filter((rule) => rule !== LoneAnonymousOperationRule),
    ).map(({ message }) => message),
  ).toEqual([]);
});

describe("documentation links", () => {
  /** Anchors in the text, and as GitHub derives them from headings. */
  const anchors = (text: string) => [
    ...[...text.matchAll(/<a id="([^"]+)">/g)].map(([, id]) => id),
    ...[...text.replace(/^```[\s\S]*?^```$/gm, "").matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  ];

  test.each(PAGES)("all links in $file lead to an existing file and anchor", ({ file, text }) => {
    const links = [...text.replace(/^```[\s\S]*?^```$/gm, "").matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, link = ""]) =>
      /^[a-z]+:/.test(link) ? [] : [link],
    );
    const broken = links.filter((link) => {
      const [path = "", anchor] = link.split("#");
      const target = path === "" ? file : join(dirname(file), path);
      if (!existsSync(join(ROOT, target))) return true;
      return anchor !== undefined && !anchors(readFileSync(join(ROOT, target), "utf8")).includes(anchor);
    });
    expect(broken).toEqual([]);
  });
});

test("every file that a page names exists", () => {
  const missing = PAGES.filter(({ file }) => !/CHANGELOG|decisions|releases/.test(file)).flatMap(({ file, text }) =>
    [...text.matchAll(/`((?:src|test|bench|docs|packages)\/[\w./-]+)`/g)]
      // A build makes the folders `dist`; an installation with `--ignore-scripts` has none.
      .filter(([, path = ""]) => !/^packages\/[\w-]+\/dist\b/.test(path) && !existsSync(join(ROOT, path)))
      .map(([path]) => `${file}: ${path}`),
  );
  expect(missing).toEqual([]);
});

test("docs/limits.md shows an excessive request's error as the service returns it", () => {
  const page = PAGES.find(({ file }) => file === "docs/limits.md")?.text ?? "";
  expect(page).toContain(JSON.stringify(beyond("cost", { requested: 10_300 }).message));
});

test("docs/fake-driver.md shows the log line with a callback path as the driver writes it", () => {
  const page = PAGES.find(({ file }) => file === "docs/fake-driver.md")?.text ?? "";
  const line = /^```text\n(.*)\/callback\/…\n```$/m.exec(page)?.[1] ?? "none";
  expect(readFileSync(join(ROOT, "plugins/fake/script.ts"), "utf8")).toContain(`call.log(\`${line}\${`);
});

test("docs/README.md lists every page of docs", () => {
  const index = PAGES.find(({ file }) => file === "docs/README.md")?.text ?? "";
  const pages = PAGES.flatMap(({ file }) => /^docs\/([\w-]+\.md)$/.exec(file)?.[1] ?? []);
  expect(pages.filter((page) => page !== "README.md" && !index.includes(`](${page})`))).toEqual([]);
});

test("every log line that docs/operations.md quotes is logged somewhere", () => {
  const page = PAGES.find(({ file }) => file === "docs/operations.md")?.text ?? "";
  const section = page.slice(page.indexOf("## The log"), page.indexOf("## Traces"));
  const code = globSync("src/**/*.ts", { cwd: ROOT }).map((file) => readFileSync(join(ROOT, file), "utf8"));
  const quoted = [...section.matchAll(/`([a-z][a-z']* [^`]+)`/g)].map(([, line = ""]) => line.split("; …")[0] ?? "");
  expect(quoted.length).toBeGreaterThan(15);
  expect(quoted.filter((line) => !code.some((text) => text.includes(line)))).toEqual([]);
});

describe("documentation diagrams", () => {
  const NAME = "(?:\\[\\*\\]|[A-Za-z_]+[0-9]*)";
  const GRAMMARS: Readonly<Record<string, RegExp>> = {
    "stateDiagram-v2": new RegExp(
      `^ +(?:${NAME} --> ${NAME}(?: : [A-Za-z, _]+)?|direction LR|state ${NAME} \\{|\\}|${NAME})$`,
    ),
  };

  test.each(blocks("mermaid"))("diagram $number in $file uses only known mermaid syntax", ({ block }) => {
    const [kind = "", ...lines] = block.trimEnd().split("\n");
    const grammar = GRAMMARS[kind];
    expect(lines.filter((line) => !grammar?.test(line))).toEqual([]);
    expect(lines.filter((line) => line.endsWith("{")).length).toBe(lines.filter((line) => line.trim() === "}").length);
  });
});

describe("documentation examples", async () => {
  const ostler = await serviceUnderTest();
  afterAll(() => ostler[Symbol.asyncDispose]());

  const gate = aGate();
  const AT_GATE = { steps: { "clean.erase_metadata": { gate: gate.name } } };

  /** A cluster and its nodes, named as in the examples plus a number. */
  interface Place {
    readonly cluster: string;
    readonly nodes: readonly [string, string];
  }

  async function prepare(place: Place, settings?: Variables): Promise<void> {
    await ostler.register(place.nodes, settings);
    const { createCluster } = await ostler.query<{ createCluster: { errors: unknown[] } }>(
      "mutation Found($input: CreateClusterInput!) { createCluster(input: $input) { errors { message } } }",
      { input: { name: place.cluster, nodes: { names: place.nodes } } },
    );
    expect(createCluster.errors).toEqual([]);
  }

  const ends = async (operation: string) => void (await ostler.operationEnds(operation));
  const manageable = async (place: Place) => ends(await ostler.begin("manageNodes", place.nodes));
  const available = (place: Place) => ostler.commission(place.nodes, "AVAILABLE");
  const active = (place: Place) => ostler.commission(place.nodes);

  /** Nodes whose cleaning waits in a step that cannot be interrupted. */
  async function whileCleaning(place: Place): Promise<string> {
    const operation = await ostler.begin("commissionNodes", place.nodes);
    await eventually(
      "both nodes are in the step",
      async () =>
        (
          await ostler.query<{ nodes: { totalCount: number } }>(
            "query At($names: [String!]!) { nodes(filter: { name: { in: $names }, states: [CLEANING] }) { totalCount } }",
            { names: place.nodes },
          )
        ).nodes.totalCount === 2,
    );
    await gate.arrivals();
    return operation;
  }

  const ask = async (mutation: string, input: string, place: Place) =>
    expect(
      (
        await ostler.query<Record<string, { errors: unknown[] }>>(
          `mutation { ${mutation}(input: ${input}) { errors { message } } }`,
        )
      )[mutation]?.errors,
      place.cluster,
    ).toEqual([]);
  const theirWork = (place: Place) => `{ work: { cluster: { name: "${place.cluster}" } } }`;

  async function inWaves(place: Place): Promise<Variables> {
    const operation = await ostler.begin("manageNodes", place.nodes, {
      waves: { sizes: [{ count: 1 }], manual: true },
    });
    const rollout = async () =>
      (
        await ostler.query<{ operation: { rollout: { state: string } } }>(
          "query Where($id: ID!) { operation(id: $id) { rollout { state } } }",
          { id: operation },
        )
      ).operation.rollout.state;
    await eventually("the first wave has ended", async () => (await rollout()) === "AWAITING");
    return { operation };
  }

  const IN_STATE = { ENROLLED: null, MANAGEABLE: manageable, AVAILABLE: available, ACTIVE: active };
  const stateFor = (mutation: string) => IN_STATE[VERB_MUTATIONS.get(mutation)?.from ?? "ENROLLED"];

  /** Prepares what an example of other mutations than verbs needs; returns the variables of the example. */
  const GIVEN: Readonly<Record<string, (place: Place) => Promise<Variables | void>>> = {
    abort: (place) => whileCleaning(place).then(() => {}),
    stop: (place) => whileCleaning(place).then(() => {}),
    async withdrawAbort(place) {
      await whileCleaning(place);
      await ask("abort", theirWork(place), place);
    },
    async restart(place) {
      const operation = await ostler.begin("commissionNodes", place.nodes, { maxParallel: 1 });
      await ask("stop", theirWork(place), place);
      await ends(operation);
    },
    async releaseHolds(place) {
      await available(place);
      const operation = await ostler.begin("cleanNodes", place.nodes.slice(0, 1), {
        steps: [{ interface: "ENGINE", name: "hold" }],
      });
      await eventually("it holds", async () =>
        (
          await ostler.query<{ operation: { runCounts: { state: string }[] } }>(
            "query Holds($id: ID!) { operation(id: $id) { runCounts { state } } }",
            { id: operation },
          )
        ).operation.runCounts.some(({ state }) => state === "HOLDING"),
      );
    },
    advanceWaves: inWaves,
    haltWaves: inWaves,
    async resumeWaves(place) {
      const { operation } = await inWaves(place);
      await ask("haltWaves", `{ operationId: "${String(operation)}" }`, place);
      return { operation };
    },
    async updateNodes({ nodes }) {
      return { node: nodes[0] };
    },
  };
  const NEEDS_A_GATE = new Set(["abort", "stop", "withdrawAbort"]);

  /** Examples of verbs have to succeed on all nodes; the others only have to be accepted. */
  const WORK = new Set(
    VERB_ENTRIES.flatMap(({ mutation, kind }) => (kind || mutation === "discoverNodes" ? [mutation] : [])),
  );

  test.each(REQUESTS.map((request, index) => ({ ...request, number: index + 1 })))(
    "the example of $mutation is accepted",
    async ({ mutation, query, number }) => {
      const place: Place = { cluster: `berlin${number}`, nodes: [`berlin${number}-01`, `berlin${number}-02`] };
      await prepare(place, NEEDS_A_GATE.has(mutation) ? AT_GATE : undefined);
      const variables = (await (GIVEN[mutation] ?? stateFor(mutation))?.(place)) ?? {};
      const answer = await ostler.ask<
        Record<
          string,
          { errors: unknown[]; results?: { accepted?: boolean; error: unknown }[]; operation?: { uuid: string } | null }
        >
      >(query.replaceAll("berlin", place.cluster), variables);
      expect(answer.errors).toEqual([]);
      const { errors, results = [], operation } = answer.data?.[mutation] ?? { errors: ["no answer"] };
      expect(errors).toEqual([]);
      expect(
        results.filter(({ accepted, error }) => accepted === false || (error !== undefined && error !== null)),
      ).toEqual([]);
      if (WORK.has(mutation)) expect(await ostler.operationEnds(operation?.uuid ?? "")).toBe("SUCCEEDED");
    },
  );
});
