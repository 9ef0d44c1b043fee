/**
 * Step logs as clients read them: the tail of a step, the pages of a run's log, and the stream over both transports.
 */
import { afterAll, describe, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { range } from "../support/feed.ts";
import { serviceUnderTest, takeAll, takeUntil } from "../support/service.ts";
import type { Items, ServiceUnderTest } from "../support/service.ts";

let tries = 0;
const statements: string[] = [];

const ostler = await serviceUnderTest({
  onStatement: (text) => statements.push(text),
  drivers: [
    aDriver("speaking", {
      secret: true,
      clean: stepsOf(
        aStep(
          "first",
          "clean",
          async ({ log, settings }) => {
            log(`logging in with ${String(settings["password"])}`);
            tries += 1;
            return tries % 2 === 1 ? { kind: "failed", reason: "not yet", retryable: true } : { kind: "done" };
          },
          { priority: 20, retries: { times: 1, backoffSeconds: 0 } },
        ),
        aStep("second", "clean", async ({ log }) => {
          for (let line = 1; line <= 250; line += 1) log(`line ${line}`);
          return { kind: "done" };
        }),
        aStep("third", "clean", async () => ({ kind: "done" }), { priority: 1 }),
      ),
    }),
  ],
});
afterAll(() => ostler[Symbol.asyncDispose]());

interface Line {
  readonly type?: string;
  readonly cursor: string;
  readonly at: string;
  readonly step: string;
  readonly attempt: number;
  readonly text: string;
}

const RUN_LOG = `subscription Read($runId: ID!, $after: String) {
  runLog(id: $runId, after: $after) { type: __typename ... on LogLine { cursor at step attempt text } ... on StreamReset { cursor code } }
}`;

let registered = 0;

async function registerSpeaking(): Promise<string> {
  const name = `speaking-${(registered += 1)}`;
  const { registerNodes } = await ostler.query<{ registerNodes: { errors: unknown[] } }>(
    "mutation Register($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { message } } }",
    {
      input: {
        nodes: [
          {
            name,
            driver: { speaking: { password: "correct horse" } },
            interfaces: [{ kinds: ["INSPECT"], driver: { fake: {} } }],
          },
        ],
      },
    },
  );
  expect(registerNodes.errors).toEqual([]);
  return name;
}

async function cleaned() {
  const name = await registerSpeaking();
  const uuid = await ostler.begin("commissionNodes", [name], { until: "AVAILABLE" });
  expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
  return { name, uuid, runId: await runOf(uuid) };
}

async function runOf(uuid: string): Promise<string> {
  const { operation } = await ostler.query<{ operation: { runs: { edges: { node: { id: string } }[] } } }>(
    "query Run($uuid: ID!) { operation(id: $uuid) { runs { edges { node { id } } } } }",
    { uuid },
  );
  return operation.runs.edges[0]?.node.id ?? "";
}

async function steps(uuid: string, selection: string) {
  const { operation } = await ostler.query<{
    operation: { runs: { edges: { node: { steps: { name: string; log: Line[] }[] } }[] } };
  }>(`query Steps($uuid: ID!) { operation(id: $uuid) { runs { edges { node { steps { name ${selection} } } } } } }`, {
    uuid,
  });
  return new Map(operation.runs.edges[0]?.node.steps.map((step) => [step.name, step.log]));
}

/** The items of the stream. */
function stream(
  way: "overSocket" | "overEvents",
  variables: Record<string, unknown>,
  from: ServiceUnderTest = ostler,
): Items<Line> {
  const answers = from[way]<{ runLog: Line }>(RUN_LOG, variables);
  return {
    async next() {
      const { done, value } = await answers.next();
      return done ? { done, value: undefined } : { done: false, value: value.runLog };
    },
    return: async () => (await answers.return?.()) as never,
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

const cursors = (lines: readonly Line[]) => lines.map(({ cursor }) => Number(cursor));

describe("Step.log", () => {
  test("Step.log has the newest lines of all attempts, oldest first, with secrets masked [R-070]", async () => {
    const { uuid } = await cleaned();
    const logs = await steps(uuid, "log(tail: 3) { cursor at step attempt text }");
    expect(logs.get("first")).toMatchObject([
      { cursor: "1", step: "clean.first", attempt: 1, text: "logging in with ***" },
      { cursor: "2", step: "clean.first", attempt: 2, text: "logging in with ***" },
    ]);
    expect(logs.get("second")).toMatchObject(
      [250, 251, 252].map((cursor) => ({
        cursor: String(cursor),
        step: "clean.second",
        attempt: 1,
        text: `line ${cursor - 2}`,
      })),
    );
    expect(logs.get("third")).toEqual([]);
    expect(Math.abs(Date.now() - Date.parse(logs.get("first")?.[0]?.at ?? ""))).toBeLessThan(60_000);
  });

  test("Step.log returns 100 lines by default", async () => {
    const { uuid } = await cleaned();
    expect(cursors((await steps(uuid, "log { cursor }")).get("second") ?? [])).toEqual(range(153, 252));
  });

  test("Step.log of all steps of all runs takes one statement", async () => {
    const names = await Promise.all(Array.from({ length: 5 }, registerSpeaking));
    const uuid = await ostler.begin("commissionNodes", names, { until: "AVAILABLE" });
    await ostler.operationEnds(uuid);
    statements.length = 0;
    await ostler.query(
      "query Steps($uuid: ID!) { operation(id: $uuid) { runs { edges { node { steps { log { text } } } } } } }",
      { uuid },
    );
    expect(statements.filter((text) => text.includes("from step_log"))).toHaveLength(1);
  });

  test.each([0, -1, 1_001])("Step.log with a tail of %j lines is refused", async (tail) => {
    const { uuid } = await cleaned();
    const answer = await ostler.ask(
      "query Steps($uuid: ID!, $tail: Int!) { operation(id: $uuid) { runs(first: 1) { edges { node { steps { log(tail: $tail) { text } } } } } } }",
      { uuid, tail },
    );
    expect(answer.errors[0]).toMatchObject({
      message: expect.stringContaining("use 1 to 1000") as string,
      extensions: { code: "BAD_USER_INPUT" },
    });
  });

  test("Step.log of a planned step is empty", async () => {
    const { name } = await cleaned();
    const { deployed } = await ostler.query<{ deployed: { results: { steps: { log: unknown[] }[] }[] } }>(
      "mutation Plan($name: String!) { deployed: cleanNodes(input: { nodes: { names: [$name] }, dryRun: true }) { results { steps { log { text } } } } }",
      { name },
    );
    expect(deployed.results[0]?.steps.map(({ log }) => log)).toEqual([[], [], []]);
  });
});

describe("Run.log", () => {
  interface Page {
    readonly edges: readonly { readonly cursor: string; readonly node: Line }[];
    readonly pageInfo: {
      readonly hasNextPage: boolean;
      readonly hasPreviousPage: boolean;
      readonly endCursor: string | null;
    };
  }
  const page = async (uuid: string, args: string) => {
    const { operation } = await ostler.query<{ operation: { runs: { edges: { node: { log: Page } }[] } } }>(
      `query Log($uuid: ID!) { operation(id: $uuid) { runs { edges { node { log(${args}) { edges { cursor node { cursor step text } } pageInfo { hasNextPage hasPreviousPage endCursor } } } } } } }`,
      { uuid },
    );
    const [run] = operation.runs.edges;
    if (!run) throw new Error("The operation has no run.");
    return run.node.log;
  };

  test("Run.log is read page by page in both directions, with the cursors of the stream", async () => {
    const { uuid } = await cleaned();
    const forward: number[] = [];
    for (let args = "first: 100"; args !== "";) {
      const { edges, pageInfo } = await page(uuid, args);
      expect(edges.map(({ cursor }) => cursor)).toEqual(edges.map(({ node }) => node.cursor));
      forward.push(...edges.map(({ cursor }) => Number(cursor)));
      args = pageInfo.hasNextPage ? `first: 100, after: "${pageInfo.endCursor}"` : "";
    }
    expect(forward).toEqual(range(1, 252));
    const last = await page(uuid, 'last: 2, before: "252"');
    expect(last.edges.map(({ node }) => `${node.cursor} ${node.step} ${node.text}`)).toEqual([
      "250 clean.second line 248",
      "251 clean.second line 249",
    ]);
    expect(last.pageInfo).toMatchObject({ hasNextPage: true, hasPreviousPage: true });
  });

  test.each(["first: 501", "first: 0", 'after: "x"', "first: 1, last: 1"])("Run.log refuses %s", async (args) => {
    const { uuid } = await cleaned();
    const answer = await ostler.ask(
      `query Log($uuid: ID!) { operation(id: $uuid) { runs { edges { node { log(${args}) { edges { cursor } } } } } } }`,
      { uuid },
    );
    expect(answer.errors[0]?.extensions).toMatchObject({ code: "BAD_USER_INPUT" });
  });
});

const WAYS = [
  { way: "overSocket", over: "a WebSocket" },
  { way: "overEvents", over: "server-sent events" },
] as const;

describe.each(WAYS)("runLog over $over", ({ way }) => {
  test("runLog sends lines during the run and completes with it", async () => {
    const gate = aGate();
    const [name = ""] = await ostler.register(1, {
      steps: {
        "clean.erase_metadata": { says: ["one", "two"], gate: gate.name },
        "clean.erase_disks": { says: ["three"] },
      },
    });
    const uuid = await ostler.begin("commissionNodes", [name], { until: "AVAILABLE" });
    const items = stream(way, { runId: await runOf(uuid) });
    const first = await takeUntil(items, ({ cursor }) => cursor === "2");
    expect(first).toMatchObject([
      { type: "LogLine", cursor: "1", step: "clean.erase_metadata", attempt: 1, text: "one" },
      { type: "LogLine", cursor: "2", step: "clean.erase_metadata", attempt: 1, text: "two" },
    ]);
    gate.open();
    expect(await takeAll(items)).toMatchObject([{ cursor: "3", step: "clean.erase_disks", text: "three" }]);
  });

  test("runLog continues after the last cursor", async () => {
    const { runId } = await cleaned();
    const begun = stream(way, { runId });
    const before = await takeUntil(begun, ({ cursor }) => cursor === "120");
    await begun.return?.();
    const after = await takeAll(stream(way, { runId, after: "120" }));
    expect(cursors([...before, ...after])).toEqual(range(1, 252));
  });

  test.each(["abc", "-1", "1.5", ""])("runLog refuses the cursor %j", async (after) => {
    const { runId } = await cleaned();
    await expect(takeAll(stream(way, { runId, after }))).rejects.toThrow(
      /BAD_USER_INPUT: .*is not a cursor of a stream/,
    );
  });

  test("runLog with a cursor of another log ends with CURSOR_EXPIRED", async () => {
    const { runId } = await cleaned();
    expect(await takeAll(stream(way, { runId, after: "999" }))).toEqual([
      { type: "StreamReset", cursor: "0", code: "CURSOR_EXPIRED" },
    ]);
  });

  test.each(["00000000-0000-0000-0000-000000000000", "no-such-run", "T3BlcmF0aW9uOng"])(
    "runLog refuses the unknown run %j [R-125]",
    async (runId) => {
      await expect(takeAll(stream(way, { runId }))).rejects.toThrow(
        `NOT_FOUND: Run ${JSON.stringify(runId)} does not exist.`,
      );
    },
  );

  test("runLog releases its resources when the client disconnects", async () => {
    const gate = aGate();
    const [name = ""] = await ostler.register(1, {
      steps: { "clean.erase_metadata": { says: ["one"], gate: gate.name } },
    });
    const uuid = await ostler.begin("commissionNodes", [name], { until: "AVAILABLE" });
    await eventually("earlier streams are closed", () => ostler.listeners() === 0);
    const items = stream(way, { runId: await runOf(uuid) });
    await items.next();
    expect(ostler.listeners()).toBe(1);
    await items.return?.();
    await eventually("no stream is subscribed", () => ostler.listeners() === 0);
    gate.open();
    await ostler.operationEnds(uuid);
  });
});

describe("Run.log and runLog", () => {
  test("runLog ends with SHUTTING_DOWN and the cursor to continue from at shutdown", async () => {
    await using leaving = await serviceUnderTest();
    const gate = aGate();
    const [name = ""] = await leaving.register(1, {
      steps: { "clean.erase_metadata": { says: ["one"], gate: gate.name } },
    });
    const uuid = await leaving.begin("commissionNodes", [name], { until: "AVAILABLE" });
    const { operation } = await leaving.query<{ operation: { runs: { edges: { node: { id: string } }[] } } }>(
      "query Run($uuid: ID!) { operation(id: $uuid) { runs { edges { node { id } } } } }",
      { uuid },
    );
    const items = stream("overSocket", { runId: operation.runs.edges[0]?.node.id }, leaving);
    await items.next();
    const rest = takeUntil(items, ({ type }) => type === "StreamReset");
    await leaving.close();
    expect(await rest).toEqual([{ type: "StreamReset", cursor: "1", code: "SHUTTING_DOWN" }]);
    gate.open();
  });
});
