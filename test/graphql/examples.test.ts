/** The tabs of GraphiQL: each is valid, and one after another they do the main job on the demonstration fleet. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { compileFunction } from "node:vm";
import { parse, validate } from "graphql";
import type { OperationDefinitionNode } from "graphql";
import { afterAll, describe, expect, test } from "vitest";
import { registerDemonstrationFleet } from "../../src/startup/demonstration-fleet.ts";
import { EXAMPLES } from "../../src/graphql/tools/examples.ts";
import { describeDrivers } from "../../src/drivers/load.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";
import { createLog } from "../../src/log.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest, takeUntil } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const schema = buildSchema(await describeDrivers());
const streamOf = (parts: readonly string[]) =>
  new ReadableStream<string>({
    start(output) {
      for (const part of parts) output.enqueue(part);
      output.close();
    },
  });
const titleOf = (query: string) => query.split("\n")[0]?.replace(/^# /, "") ?? "";
const definitionsOf = (query: string) =>
  parse(query).definitions.filter(
    (definition): definition is OperationDefinitionNode => definition.kind === "OperationDefinition",
  );

describe("an example", () => {
  test.each(EXAMPLES.map(({ query }) => ({ title: titleOf(query), query })))(
    "is valid, and is one operation with a name: $title",
    ({ query }) => {
      expect(validate(schema, parse(query))).toEqual([]);
      const definitions = definitionsOf(query);
      expect(definitions).toHaveLength(1);
      expect(definitions[0]?.name?.value).toMatch(/^[A-Z]/);
    },
  );

  test("GraphiQL examples have unique names, begin with a comment, and fit beside the answer on a small screen", () => {
    expect(new Set(EXAMPLES.map(({ query }) => definitionsOf(query)[0]?.name?.value)).size).toBe(EXAMPLES.length);
    for (const { query } of EXAMPLES) {
      expect(query).toMatch(/^# /);
      for (const line of query.split("\n")) expect(line.length, line).toBeLessThanOrEqual(62);
    }
  });
});

describe("the examples, one after another, on the demonstration fleet", () => {
  /** The same machines, a hundred times quicker. */
  async function hurry(): Promise<void> {
    const { nodes } = await ostler.query<{ nodes: { edges: { node: { id: string } }[] } }>(
      "{ nodes(first: 100) { edges { node { id } } } }",
    );
    expect(nodes.edges).toHaveLength(20);
    for (const { node } of nodes.edges) {
      const { updateNodes } = await ostler.query<{ updateNodes: { errors: unknown[] } }>(
        "mutation Hurry($id: ID!) { updateNodes(input: { nodes: { ids: [$id] }, driver: { fake: { delayMs: 25, waitSeconds: 0.2 } } }) { errors { message } } }",
        { id: node.id },
      );
      expect(updateNodes.errors).toEqual([]);
    }
  }

  /** Everything in an answer that says that something was refused. */
  const refusalsIn = (answer: unknown): unknown[] => {
    if (typeof answer !== "object" || answer === null) return [];
    return Object.entries(answer).flatMap(([name, value]) => [
      ...(name === "errors" ? (value as unknown[]) : []),
      ...refusalsIn(value),
    ]);
  };

  /** The states of own-01 and own-02 that the request of a tab leads to, and the next tab needs. */
  const OWN_REACH: Readonly<Record<string, readonly string[]>> = {
    ManageOwn: ["MANAGEABLE", "MANAGEABLE"],
    ProvideOwn: ["AVAILABLE", "AVAILABLE"],
    BootFromNetwork: ["AVAILABLE", "AVAILABLE"],
    DeployAnyFree: ["ACTIVE", "AVAILABLE"],
    CleanWithHold: ["ACTIVE", "CLEAN_HOLD"],
    ReleaseHolds: ["ACTIVE", "AVAILABLE"],
  };

  /** The states of these nodes; a node with work has no state, unless it is on hold. */
  const own = async () => {
    const { nodes } = await ostler.query<{ nodes: { nodes: { state: string; currentRun: object | null }[] } }>(
      `{ nodes(filter: { name: { startsWith: "own-" } }) { nodes { state currentRun { id } } } }`,
    );
    return nodes.nodes.map(({ state, currentRun }) => (currentRun && state !== "CLEAN_HOLD" ? "" : state)).join();
  };

  const berlin = async () =>
    (await ostler.query<{ cluster: { state: string } }>(`{ cluster(by: { name: "berlin" }) { state } }`)).cluster.state;

  test("the GraphiQL examples run in order without errors, up to an operational cluster", async () => {
    await registerDemonstrationFleet(ostler.engine, ostler.database.reader, createLog("silent"));
    await registerDemonstrationFleet(ostler.engine, ostler.database.reader, createLog("silent"));
    await hurry();
    const ran: string[] = [];
    const watched: unknown[] = [];
    for (const { query } of EXAMPLES) {
      const [definition] = definitionsOf(query);
      const name = definition?.name?.value ?? "";
      if (definition?.operation === "subscription") {
        const stream = ostler.overEvents<Record<string, unknown>>(query);
        watched.push(...(await takeUntil(stream, (item) => JSON.stringify(item).includes('"caughtUp":true'))));
        void (async () => {
          for await (const item of stream) watched.push(item);
        })().catch(() => {});
      } else {
        const answer = await ostler.ask(query);
        expect(answer.errors, name).toEqual([]);
        expect(refusalsIn(answer.data), name).toEqual([]);
      }
      ran.push(name);
      if (name === "Commission")
        await eventually(
          "some nodes are busy",
          async () =>
            (
              await ostler.query<{ nodes: { totalCount: number } }>(
                "{ nodes(filter: { states: [DEPLOYING] }) { totalCount } }",
              )
            ).nodes.totalCount > 0,
        );
      const states = OWN_REACH[name];
      if (states)
        await eventually(`own nodes are ${states.join(" and ")}`, async () => (await own()) === states.join());
      if (name === "Stop")
        await eventually("the cluster has stopped", async () => !["STOPPING", "DEPLOYING"].includes(await berlin()));
      if (name === "Restart")
        await eventually("the cluster is operational", async () => (await berlin()) === "OPERATIONAL");
    }
    expect(ran).toEqual(
      expect.arrayContaining([
        "LookAround",
        "Watch",
        "PlanCommission",
        "Commission",
        "Stop",
        "ChangeSettings",
        "Restart",
        "Register",
        "ProvideOwn",
        "BootFromNetwork",
        "DeployAnyFree",
        "ReleaseHolds",
        "Discover",
        "CommissionOslo",
        "Waiting",
        "AbortOslo",
        "Log",
      ]),
    );
    expect(watched.length).toBeGreaterThan(12 * 8);
    await eventually(
      "all work has ended",
      async () =>
        (
          await ostler.query<{ operations: { edges: unknown[] } }>(
            "{ operations(filter: { states: [QUEUED, RUNNING, STOPPING, ABORTING] }) { edges { cursor } } }",
          )
        ).operations.edges.length === 0,
      30_000,
    );
  }, 60_000);
});

/** Prints the modules that the service has loaded after its start, and those after the page was made. */
const LOADING = `
import { registerHooks } from "node:module";
const loaded = [];
registerHooks({ load(url, context, next) { loaded.push(url); return next(url, context); } });
await import("./src/app.ts");
const atStart = [...loaded];
const { renderPage } = await import("./src/graphql/tools/graphiql.ts");
await renderPage({ title: "Ostler" });
console.log(JSON.stringify([atStart, loaded]));
`;

describe("the page", () => {
  const page = async (path = "/graphql") => {
    const response = await fetch(ostler.url + path, { headers: { accept: "text/html,application/xhtml+xml" } });
    return { response, text: await response.text() };
  };

  test("the GraphiQL page is loaded when it is first opened, not by a start of the service [R-698]", () => {
    const root = fileURLToPath(new URL("../..", import.meta.url));
    const printed = execFileSync(process.execPath, ["--input-type=module", "--eval", LOADING], {
      encoding: "utf8",
      cwd: root,
    });
    const [atStart = [], afterwards = []] = JSON.parse(printed) as readonly (readonly string[])[];
    expect(atStart.some((url) => url.endsWith("/src/http/graphql/graphql.ts"))).toBe(true);
    expect(atStart.filter((url) => url.includes("/render-graphiql/"))).toEqual([]);
    expect(afterwards.filter((url) => url.includes("/render-graphiql/")).length).toBeGreaterThan(0);
  });

  test("the GraphiQL page has every example tab", async () => {
    const { response, text } = await page();
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toContain("text/html");
    for (const { query } of EXAMPLES)
      expect(text.includes(JSON.stringify(query).slice(1, -1)), titleOf(query)).toBe(true);
  });

  test("the GraphiQL page may load and call only this service, and may not be framed", async () => {
    const policy: Record<string, string[]> = Object.fromEntries(
      ((await page()).response.headers.get("content-security-policy") ?? "")
        .split("; ")
        .map((rule) => [rule.split(" ")[0] ?? "", rule.split(" ").slice(1)]),
    );
    expect(policy["default-src"]).toEqual(["'none'"]);
    expect(policy["connect-src"]).toEqual(["'self'"]);
    expect(policy["frame-ancestors"]).toEqual(["'none'"]);
    expect(
      Object.values(policy)
        .flat()
        .filter((source) => /https?:|\*|\/\//.test(source)),
    ).toEqual([]);
  });

  test("the GraphiQL page has no resource of another host", async () => {
    const { text } = await page();
    const markup = text
      .replace(/<script\b[^>]*>[\s\S]*?<\/script>/g, (script) => script.slice(0, script.indexOf(">") + 1))
      .replace(/<style\b[^>]*>[\s\S]*?<\/style>/g, (style) => style.replaceAll(/url\(data:[^)]*\)/g, ""));
    expect(
      [...markup.matchAll(/\b(?:src|href|action|data)\s*=\s*["']?([^"'\s>]+)/g)]
        .map(([, address]) => address)
        .filter((address = "") => /^(https?:)?\/\//.test(address)),
    ).toEqual([]);
    expect([...markup.matchAll(/url\(\s*["']?((?:https?:)?\/\/[^)"']+)/g)].map(([, address]) => address)).toEqual([]);
    expect([...markup.matchAll(/@import\s+[^;]+/g)].map(([rule]) => rule)).toEqual([]);
  });

  /** `fetch` as the page replaces it: only running the script, as the page carries it, shows what it does. */
  async function fetchOfPage(send: (headers: Headers) => Response, cost = { textContent: "" }) {
    const { text } = await page();
    const script = /<head>.*?<script>([\s\S]*?)<\/script>/s.exec(text)?.[1] ?? "";
    const window = {
      fetch: (_address: string, { headers }: { headers: Headers }) => send(headers),
      addEventListener: () => {},
    };
    compileFunction(script, ["window", "document"])(window, { querySelector: () => cost });
    return window.fetch as unknown as (
      address: string,
      request?: { headers?: Record<string, string>; body?: string },
    ) => Promise<Response>;
  }

  test("the GraphiQL page numbers its tabs, and does not move them", async () => {
    const { text } = await page();
    expect(text).toMatch(/^\s*<!doctype html>\s*<html[^>]*>\s*<head><style>/);
    expect(text).toContain(".graphiql-tab { transform: none !important; counter-increment: tab; }");
  });

  test("the GraphiQL page sends a token of one tab with every later request", async () => {
    const sent: (string | null)[] = [];
    const ask = await fetchOfPage((headers) => {
      sent.push(headers.get("authorization"));
      return Response.json({});
    });
    await ask("/graphql");
    await ask("/graphql", { headers: { Authorization: "Bearer one" } });
    await ask("/graphql", { headers: { accept: "text/event-stream" } });
    await ask("/graphql", { headers: { authorization: "Bearer two" } });
    await ask("/graphql");
    expect(sent).toEqual([null, "Bearer one", "Bearer one", "Bearer two", "Bearer two"]);
  });

  test("the GraphiQL page loads again when a request finds that its session has ended", async () => {
    const { text } = await page();
    const script = /<head>.*?<script>([\s\S]*?)<\/script>/s.exec(text)?.[1] ?? "";
    let session: object | null = { subject: "user:corp:ada", displayName: "Ada" };
    let hasLoaded: () => unknown = () => {};
    const reloaded = Promise.withResolvers<string>();
    const window = {
      fetch: (address: string) =>
        Promise.resolve(
          address === "/auth/session"
            ? Response.json({ session })
            : new Response("{}", { status: session ? 200 : 401 }),
        ),
      addEventListener: (_name: string, listener: () => unknown) => void (hasLoaded = listener),
      location: { reload: () => reloaded.resolve("reloaded") },
    };
    const user = { textContent: "", hidden: true };
    compileFunction(script, ["window", "document"])(window, { querySelector: () => user });
    await hasLoaded();
    expect(user).toEqual({ textContent: "Ada", hidden: false });
    session = null;
    await window.fetch("/graphql");
    expect(await reloaded.promise).toBe("reloaded");
  });

  test("the GraphiQL page shows the newest twenty items of a subscription, and one bookmark", async () => {
    const items = [
      ...Array.from({ length: 25 }, (_, index) => ({ __typename: "Transition", cursor: String(index) })),
      { __typename: "StreamBookmark", cursor: "25" },
      { __typename: "StreamBookmark", cursor: "26" },
    ];
    const events = items.map((item) => `event: next\ndata: ${JSON.stringify({ data: { watch: item } })}\n\n`).join("");
    const halves = [events.slice(0, 1_000), `${events.slice(1_000)}event: complete\ndata\n\n`];
    const ask = await fetchOfPage(
      () =>
        new Response(streamOf(halves).pipeThrough(new TextEncoderStream()), {
          headers: { "content-type": "text/event-stream" },
        }),
    );
    const text = await (await ask("/graphql")).text();
    const shown = text.split("\n").flatMap((line) => (line.startsWith("data: ") ? [JSON.parse(line.slice(6))] : []));
    expect(shown).toHaveLength(items.length);
    expect(shown[1].data.watch).toEqual([items[1], items[0]]);
    expect(shown.at(-1).data.watch).toEqual([items[26], ...items.slice(6, 25).toReversed()]);
    expect(text.endsWith("event: complete\ndata\n\n")).toBe(true);
  });

  test("the GraphiQL page shows the cost of the last request beside the answer, not in it", async () => {
    const { text } = await page();
    expect(text).toMatch(/<body[^>]*><output id="cost"/);
    const asked: (string | null)[] = [];
    const answers = [
      Response.json({ data: { a: 1 }, extensions: { cost: { requested: 1234, max: 5000 }, other: 1 } }),
      Response.json({ data: { __schema: {} } }),
      Response.json({ errors: [{ message: "x", extensions: { cost: { requested: 10300, max: 5000 } } }] }),
      new Response("<html>", { status: 502 }),
    ];
    const cost = { textContent: "" };
    const ask = await fetchOfPage((headers) => {
      asked.push(headers.get("x-ostler-cost"));
      return answers.shift() ?? Response.error();
    }, cost);
    const query = { body: JSON.stringify({ query: "{ a }" }) };
    const first = await ask("/graphql", query);
    expect(await first.json()).toEqual({ data: { a: 1 }, extensions: { other: 1 } });
    expect(cost.textContent).toBe("Cost 1,234 of 5,000");
    await ask("/graphql", { body: JSON.stringify({ query: "{ __schema }", operationName: "IntrospectionQuery" }) });
    expect(cost.textContent).toBe("Cost 1,234 of 5,000");
    await ask("/graphql", query);
    expect(cost.textContent).toBe("Cost 10,300 of 5,000");
    const foreign = await ask("/graphql", query);
    expect({ status: foreign.status, text: await foreign.text() }).toEqual({ status: 502, text: "<html>" });
    expect(cost.textContent).toBe("");
    expect(asked).toEqual(["1", null, "1", "1"]);
  });

  test("rows of tabs do not cover the button that executes the request", async () => {
    const { text } = await page();
    expect(text).toContain(".graphiql-session-header { height: auto !important;");
  });

  test("the GraphiQL page opens a query in its URL", async () => {
    expect((await page("/graphql?variables=%7B%7D")).response.headers.get("content-type")).toContain("text/html");
  });
});
