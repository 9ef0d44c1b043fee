/** Variables that a driver declares as secret: stored encrypted, given to drivers, and masked everywhere else. */
import { afterAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { variablesProblem } from "../../src/drivers/variables.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { serviceUnderTest } from "../support/service.ts";

const SECRET = "canary-join-token";
const OTHER = "canary-of-cluster";
const SECRETS = [SECRET, OTHER];

const received: string[] = [];

function tokenIn({ join_token: token }: Readonly<Record<string, unknown>>): string {
  return typeof token === "string" ? token : "";
}

const ostler = await serviceUnderTest({
  drivers: [
    aDriver("joining", {
      variables: z.object({
        join_token: z.string().min(3).optional().meta({ writeOnly: true }),
        ntp: z.string().optional(),
      }),
      clean: stepsOf(
        aStep("join", "clean", async ({ variables, log, progress }) => {
          const token = tokenIn(variables);
          received.push(token);
          log(`joining with ${token}`);
          progress(50, `token ${token}`);
          if (variables["ntp"] === "wrong") return { kind: "failed", reason: `no ${token}`, retryable: false };
          return { kind: "done", output: { token: token } };
        }),
      ),
    }),
  ],
});
afterAll(() => ostler[Symbol.asyncDispose]());

let made = 0;

/** An AVAILABLE node, in a cluster if one is named. */
async function aNode(cluster?: string): Promise<string> {
  const name = `secretive-${(made += 1)}`;
  const { registerNodes } = await ostler.query<{ registerNodes: { errors: unknown[] } }>(
    "mutation ($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { errors { message } } }",
    { nodes: [{ name, driver: { joining: {} }, ...(cluster !== undefined && { cluster: { name: cluster } }) }] },
  );
  expect(registerNodes.errors).toEqual([]);
  await ostler.operationEnds(await ostler.begin("manageNodes", [name]));
  return name;
}

const clean = async (name: string, variables: Record<string, unknown>, more: Record<string, unknown> = {}) =>
  ostler.begin("cleanNodes", [name], { variables, ...more });

const ANSWER = `query ($id: ID!) { operation(id: $id) { variables state firstFailure { message cause }
  runs(first: 1) { nodes { variables failure { message } steps { progressMessage attempts { output failure { message } } } log(first: 50) { nodes { text } } } } } }`;

async function nowhereIn(id: string): Promise<string> {
  const { text } = await ostler.ask(ANSWER, { id });
  expect(text).toContain('"join_token":"***"');
  const everywhere = [text, await ostler.dump(), ...ostler.logLines].join("\n");
  expect(SECRETS.filter((secret) => everywhere.includes(secret))).toEqual([]);
  return text;
}

describe("a secret variable of a request", () => {
  test("reaches the driver, and is in no answer, log line, row or event in clear [R-922]", async () => {
    const name = await aNode();
    const id = await clean(name, { join_token: SECRET, ntp: "10.0.0.1" }, { idempotencyKey: "join" });
    expect(await ostler.operationEnds(id)).toBe("SUCCEEDED");
    expect(received.at(-1)).toBe(SECRET);
    expect(await nowhereIn(id)).toContain('"ntp":"10.0.0.1"');
    // A repeated request is recognized by it, without being stored.
    expect(await clean(name, { join_token: SECRET, ntp: "10.0.0.1" }, { idempotencyKey: "join" })).toBe(id);
    const { cleanNodes } = await ostler.query<{ cleanNodes: { errors: { code: string }[] } }>(
      "mutation ($input: CleanNodesInput!) { cleanNodes(input: $input) { errors { code message } } }",
      {
        input: {
          nodes: { names: [name] },
          variables: { join_token: "other", ntp: "10.0.0.1" },
          idempotencyKey: "join",
        },
      },
    );
    expect(cleanNodes.errors).toMatchObject([{ code: "IDEMPOTENCY_MISMATCH" }]);
  });

  test("is masked in a failure, and is there again at a restart [R-922]", async () => {
    const name = await aNode();
    const id = await clean(name, { join_token: SECRET, ntp: "wrong" });
    expect(await ostler.operationEnds(id)).toBe("FAILED");
    expect(await nowhereIn(id)).toContain("no ***");
    const before = received.length;
    const { restart } = await ostler.query<{ restart: { operations: { uuid: string }[]; errors: unknown[] } }>(
      'mutation ($id: ID!) { restart(input: { work: { operationId: $id }, variables: { ntp: "10.0.0.1" } }) { operations { uuid } errors { message } } }',
      { id },
    );
    expect(restart.errors).toEqual([]);
    const again = restart.operations[0]?.uuid ?? "";
    expect(await ostler.operationEnds(again)).toBe("SUCCEEDED");
    expect(received.slice(before)).toEqual([SECRET]);
    await nowhereIn(again);
  });

  test("that does not suit its driver is refused without being repeated [R-922]", async () => {
    const name = await aNode();
    const { text } = await ostler.ask(
      "mutation ($input: CleanNodesInput!) { cleanNodes(input: $input) { errors { code message } } }",
      { input: { nodes: { names: [name] }, variables: { join_token: { [SECRET]: SECRET } } } },
    );
    expect(text).toContain("INVALID_INPUT");
    expect(text).not.toContain(SECRET);
  });

  test("is masked in a plan, whose hash changes with it and is the same for the same one [R-923]", async () => {
    const name = await aNode();
    const plan = async (token: string) => {
      const answer = await ostler.ask<{ plan: { planHash: string } }>(
        "query ($input: PlanInput!) { plan(input: $input) { planHash results { variables { name value } } errors { message } } }",
        { input: { cleanNodes: { nodes: { names: [name] }, variables: { join_token: token } } } },
      );
      expect(answer.text).toContain('{"name":"join_token","value":"***"}');
      expect(answer.text).not.toContain(token);
      return answer.data?.plan.planHash;
    };
    const first = await plan(SECRET);
    expect(await plan(SECRET)).toBe(first);
    expect(await plan(OTHER)).not.toBe(first);
  });
});

describe("a secret variable of a cluster", () => {
  test("is masked, kept by other changes, given to the drivers of its nodes, and removed with null [R-924]", async () => {
    const created = await ostler.ask(
      'mutation ($variables: JSON) { createCluster(input: { name: "joined", variables: $variables }) { cluster { variables } errors { message } } }',
      { variables: { join_token: OTHER } },
    );
    expect(created.text).toContain('"variables":{"join_token":"***"}');
    const change = async (variables: unknown) =>
      (
        await ostler.query<{ updateCluster: { cluster: { variables: unknown }; errors: unknown[] } }>(
          'mutation ($variables: JSON) { updateCluster(input: { cluster: { name: "joined" }, variables: $variables }) { cluster { variables } errors { message } } }',
          { variables },
        )
      ).updateCluster.cluster.variables;
    expect(await change({ ntp: "10.0.0.2" })).toEqual({ join_token: "***", ntp: "10.0.0.2" });
    const name = await aNode("joined");
    const id = await clean(name, {});
    expect(await ostler.operationEnds(id)).toBe("SUCCEEDED");
    expect(received.at(-1)).toBe(OTHER);
    const rows = await ostler.dump();
    expect(SECRETS.filter((secret) => rows.includes(secret))).toEqual([]);
    const { text } = await ostler.ask(
      'mutation { updateCluster(input: { cluster: { name: "joined" }, variables: { join_token: "***" } }) { errors { code path } } }',
    );
    expect(text).toContain('{"code":"INVALID_INPUT","path":["input","variables","join_token"]}');
    expect(await change({ join_token: null })).toEqual({ ntp: "10.0.0.2" });
  });

  test("that was moved to another cluster fails the work on its nodes only [R-911]", async () => {
    for (const name of ["from", "to"])
      await ostler.query(
        "mutation ($name: String!, $variables: JSON) { createCluster(input: { name: $name, variables: $variables }) { errors { message } } }",
        { name, variables: { join_token: OTHER } },
      );
    const [sound, spoiled] = [await aNode("from"), await aNode("to")];
    await ostler.test
      .sql`update clusters set variables = (select variables from clusters where name = 'from') where name = 'to'`;
    const { cleanNodes } = await ostler.query<{
      cleanNodes: { operation: { uuid: string }; results: { ref: string; accepted: boolean; error: unknown }[] };
    }>(
      "mutation ($input: CleanNodesInput!) { cleanNodes(input: $input) { operation { uuid } results { ref accepted error { code message } } } }",
      { input: { nodes: { names: [sound, spoiled] }, acceptance: "BEST_EFFORT" } },
    );
    expect(cleanNodes.results).toMatchObject([
      { ref: sound, accepted: true },
      {
        ref: spoiled,
        accepted: false,
        error: { code: "SECRET_UNREADABLE", message: expect.stringContaining("clusters.join_token") as string },
      },
    ]);
    await ostler.operationEnds(cleanNodes.operation.uuid);
  });
});

test("a variable with the text of an encrypted value is refused [R-924]", async () => {
  const name = await aNode();
  const { cleanNodes } = await ostler.query<{ cleanNodes: { errors: unknown[] } }>(
    "mutation ($input: CleanNodesInput!) { cleanNodes(input: $input) { errors { code path } } }",
    { input: { nodes: { names: [name] }, variables: { ntp: `v1.0badc0de.${"A".repeat(40)}` } } },
  );
  expect(cleanNodes.errors).toEqual([{ code: "INVALID_INPUT", path: ["input", "variables", "ntp"] }]);
});

test.each([
  {
    what: "inside another",
    schema: z.object({ vpn: z.object({ key: z.string().optional().meta({ writeOnly: true }) }).optional() }),
    says: /^its variables hold the secret vpn\.key inside another setting/,
  },
  {
    what: "that is not a text",
    schema: z.object({ pin: z.number().optional().meta({ writeOnly: true }) }),
    says: /^its variables hold the secret pin, which is not a string/,
  },
])("a driver with a secret variable $what is refused: it would be stored in clear", ({ schema, says }) => {
  expect(variablesProblem(schema)).toMatch(says);
});
