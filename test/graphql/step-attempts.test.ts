/** The history of steps through the API: its filters, its order over pages, and what an attempt shows. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { serviceUnderTest } from "../support/service.ts";

const PASSWORD = "pass-7f3a91-of-the-bmc";

const ostler = await serviceUnderTest({
  drivers: [
    aDriver("talkative", {
      secret: true,
      clean: stepsOf(
        aStep("report", "clean", async () => ({ kind: "done", output: { login: `root:${PASSWORD}`, disks: 2 } })),
      ),
    }),
  ],
});
afterAll(() => ostler[Symbol.asyncDispose]());

interface Attempt {
  readonly step: string;
  readonly number: number;
  readonly state: string;
  readonly startedAt: string;
  readonly finishedAt: string | null;
  readonly durationSeconds: number | null;
  readonly output: unknown;
  readonly failure: { readonly code: string } | null;
  readonly run: { readonly nodeName: string; readonly operation: { readonly uuid: string } };
}

interface History {
  readonly stepAttempts: {
    readonly totalCount: number;
    readonly edges: readonly { readonly cursor: string; readonly node: Attempt }[];
    readonly pageInfo: { readonly hasNextPage: boolean; readonly hasPreviousPage: boolean };
  };
}

const HISTORY = `query History($filter: StepAttemptFilter, $first: Int, $after: String, $last: Int, $before: String) {
  stepAttempts(filter: $filter, first: $first, after: $after, last: $last, before: $before) {
    totalCount
    edges { cursor node { step number state startedAt finishedAt durationSeconds output failure { code } run { nodeName operation { uuid } } } }
    pageInfo { hasNextPage hasPreviousPage }
  }
}`;

const history = async (variables: object) => (await ostler.query<History>(HISTORY, { ...variables })).stepAttempts;
const attempts = async (filter: object) => (await history({ filter, first: 100 })).edges.map(({ node }) => node);
const found = async (filter: object) =>
  [...new Set((await attempts(filter)).map(({ run }) => run.nodeName))].toSorted();

let cleaning = "";
let deployment = "";
const cluster = { name: "berlin" };

beforeAll(async () => {
  await ostler.register(["a", "b"]);
  await ostler.register(["c"], { steps: { "clean.erase_disks": { fail: "disk 2 is broken" } } });
  await ostler.query(
    `mutation Join { createCluster(input: { name: "berlin", nodes: { names: ["a", "c"] } }) { errors { message } }
      updateNodes(input: { nodes: { names: ["a"] }, hostGroup: "masters" }) { errors { message } } }`,
  );
  await ostler.commission(["a", "b"], "AVAILABLE");
  cleaning = await ostler.begin("commissionNodes", ["c"], { until: "AVAILABLE", onFailure: "LEAVE" });
  await ostler.operationEnds(cleaning);
  deployment = await ostler.begin("deployNodes", ["b"], { hostGroup: "workers" });
  await ostler.operationEnds(deployment);
});

describe("stepAttempts", () => {
  test("stepAttempts lists each attempt once, newest first, over pages of any size and in both directions [R-1200]", async () => {
    const all = await history({ first: 100 });
    expect(all.edges.length).toBe(all.totalCount);
    expect(all.edges.length).toBeGreaterThan(10);
    const started = all.edges.map(({ node }) => node.startedAt);
    expect(started).toEqual(started.toSorted().toReversed());
    const walk = async (way: "first" | "last") => {
      const cursors: string[] = [];
      for (let cursor: string | undefined; ;) {
        const page = await history({ [way]: 3, [way === "first" ? "after" : "before"]: cursor });
        const seen = page.edges.map((edge) => edge.cursor);
        if (way === "first") cursors.push(...seen);
        else cursors.unshift(...seen);
        if (!page.pageInfo[way === "first" ? "hasNextPage" : "hasPreviousPage"]) return cursors;
        cursor = way === "first" ? seen.at(-1) : seen[0];
      }
    };
    const cursors = all.edges.map(({ cursor }) => cursor);
    expect(new Set(cursors).size).toBe(cursors.length);
    expect(await walk("first")).toEqual(cursors);
    expect(await walk("last")).toEqual(cursors);
  });

  test("stepAttempts are the attempts that the runs of an operation show [R-1200]", async () => {
    const { operation } = await ostler.query<{
      operation: { runs: { nodes: { steps: { attempts: { step: string; startedAt: string }[] }[] }[] } };
    }>("query Of($id: ID!) { operation(id: $id) { runs { nodes { steps { attempts { step startedAt } } } } } }", {
      id: deployment,
    });
    const shown = operation.runs.nodes.flatMap(({ steps }) => steps.flatMap((step) => step.attempts));
    const listed = (await attempts({ operation: deployment })).map(({ step, startedAt }) => ({ step, startedAt }));
    expect(listed.length).toBeGreaterThan(2);
    expect(listed).toEqual(shown.toReversed());
  });

  test("stepAttempts shows how long an attempt took, and why it failed", async () => {
    const [failed, ...others] = await attempts({ state: "FAILED" });
    expect(others).toEqual([]);
    expect(failed).toMatchObject({
      step: "clean.erase_disks",
      number: 1,
      failure: { code: "BACKEND_FAILED" },
      run: { nodeName: "c", operation: { uuid: cleaning } },
    });
    const took = Date.parse(failed?.finishedAt ?? "") - Date.parse(failed?.startedAt ?? "");
    expect(failed?.durationSeconds).toBe(took / 1_000);
  });

  test.each<[string, object, readonly string[]]>([
    ["node", { node: { name: "B" } }, ["b"]],
    ["cluster", { cluster }, ["a", "c"]],
    ["host group", { hostGroup: "masters" }, ["a"]],
    ["host group that the node joins", { hostGroup: "workers" }, ["b"]],
    ["step", { step: "clean.erase_disks" }, ["a", "b", "c"]],
    ["caller", { requestedBy: "other" }, []],
    ["state", { state: "FAILED" }, ["c"]],
    ["state without attempts", { state: "PENDING" }, []],
    ["cluster and state", { cluster, state: "SUCCEEDED", step: "clean.erase_disks" }, ["a"]],
    ["unknown node", { node: { name: "x" } }, []],
    ["unknown cluster", { cluster: { name: "x" } }, []],
    ["operation whose id is not a UUID", { operation: "7" }, []],
    ["time before all", { startedBefore: "2020-01-01T00:00:00Z" }, []],
    ["time after all", { startedSince: "2999-01-01T00:00:00Z" }, []],
  ])("stepAttempts filters by %s [R-1201]", async (_what, filter, names) => {
    expect(await found(filter)).toEqual(names);
    expect((await history({ filter })).totalCount).toBe((await attempts(filter)).length);
  });

  test("stepAttempts filters by the caller who requested the operation [R-1201]", async () => {
    const { operation } = await ostler.query<{ operation: { requestedBy: string } }>(
      "query Of($id: ID!) { operation(id: $id) { requestedBy } }",
      { id: deployment },
    );
    expect(await found({ requestedBy: operation.requestedBy })).toEqual(["a", "b", "c"]);
  });

  test("stepAttempts includes the start and excludes the end of a time [R-1201]", async () => {
    const [newest] = await attempts({});
    const at = newest?.startedAt;
    expect((await attempts({ startedSince: at })).at(-1)?.startedAt).toBe(at);
    expect((await attempts({ startedBefore: at })).map(({ startedAt }) => startedAt)).not.toContain(at);
  });

  test("stepAttempts of a cluster are those of its members at the time, as its operations are [R-1201]", async () => {
    await ostler.query(
      'mutation { updateCluster(input: { cluster: { name: "berlin" }, add: { names: ["b"] }, remove: { names: ["a"] } }) { errors { message } } }',
    );
    expect(await found({ cluster })).toEqual(["a", "c"]);
    const power = await ostler.begin("setPower", ["b"], { action: "ON" });
    await ostler.operationEnds(power);
    expect(await found({ cluster })).toEqual(["a", "b", "c"]);
    const listed = new Set((await attempts({ cluster })).map(({ run }) => run.operation.uuid));
    const { cluster: seen } = await ostler.query<{ cluster: { operations: { nodes: { uuid: string }[] } } }>(
      'query Of { cluster(by: { name: "berlin" }) { operations { nodes { uuid } } } }',
    );
    expect([...listed].toSorted()).toEqual(seen.operations.nodes.map(({ uuid }) => uuid).toSorted());
  });

  test("stepAttempts of a deleted node are found by its UUID", async () => {
    await ostler.register(["leaving"]);
    const id = await ostler.begin("manageNodes", ["leaving"]);
    await ostler.operationEnds(id);
    const { node } = await ostler.query<{ node: { uuid: string } }>('{ node(by: { name: "leaving" }) { uuid } }');
    await ostler.query('mutation { deleteNodes(input: { nodes: { names: ["leaving"] } }) { errors { message } } }');
    expect(await found({ node: { uuid: node.uuid } })).toEqual(["leaving"]);
  });

  test("stepAttempts shows no secret in an output [R-1203]", async () => {
    await ostler.query(
      "mutation Enter($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { message } } }",
      { input: { nodes: [{ name: "talking", driver: { talkative: { password: PASSWORD } } }] } },
    );
    await ostler.operationEnds(await ostler.begin("manageNodes", ["talking"]));
    const id = await ostler.begin("cleanNodes", ["talking"]);
    await ostler.operationEnds(id);
    const { text } = await ostler.ask(HISTORY, { filter: { operation: id, step: "clean.report" } });
    expect(text).toContain('"disks":2');
    expect(text).not.toContain(PASSWORD);
  });

  test.each([
    { first: 0 },
    { first: 101 },
    { first: 1, last: 1 },
    { after: "no cursor" },
    { after: Buffer.from('["2026-01-01T00:00:00.000Z","x",0,1]').toString("base64url") },
    { after: Buffer.from('["2026-01-01","00000000-0000-4000-8000-000000000000",0,1]').toString("base64url") },
    {
      before: Buffer.from('["2026-01-01T00:00:00.000Z","00000000-0000-4000-8000-000000000000",0,1e99]').toString(
        "base64url",
      ),
    },
    { before: Buffer.from("null").toString("base64url") },
  ])("stepAttempts refuses %j", async (variables) => {
    const { errors } = await ostler.ask(HISTORY, variables);
    expect(errors[0]?.extensions?.["code"]).toBe("BAD_USER_INPUT");
  });

  test("stepAttempts finds attempts that an abort has ended [R-1201]", async () => {
    const gate = aGate();
    await ostler.register(["d"], { steps: { "deploy.prepare": { gate: gate.name } } });
    const aborted = await ostler.begin("commissionNodes", ["d"], { onFailure: "LEAVE" });
    await gate.arrivals();
    await ostler.query("mutation A($id: ID!) { abort(input: { work: { operationId: $id } }) { errors { message } } }", {
      id: aborted,
    });
    await ostler.operationEnds(aborted);
    gate.open();
    const list = await attempts({ node: { name: "d" }, state: "ABORTED" });
    expect(list).toMatchObject([{ step: "deploy.prepare", run: { operation: { uuid: aborted } } }]);
    const wrong = await ostler.test
      .sql`select run_id from attempts where (state = 'ABORTED') is distinct from coalesce(aborted, false)`;
    expect(wrong).toHaveLength(0);
  });
});
