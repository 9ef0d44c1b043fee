/** Metrics and log lines after real operations; neither contains a secret. */
import { randomUUID } from "node:crypto";
import { afterEach, describe, expect, test } from "vitest";
import createFake from "../../plugins/fake/index.ts";
import type { Driver } from "../../src/drivers/driver.ts";
import { newestCursor } from "../../src/store/log/transitions.ts";
import { eventually } from "../support/eventually.ts";
import { runEngine } from "../support/running-engine.ts";
import { scraped } from "../support/metrics.ts";
import { serviceUnderTest } from "../support/service.ts";
import type { ServiceUnderTest } from "../support/service.ts";

const owned: AsyncDisposable[] = [];
afterEach(async () => {
  for (const one of owned.splice(0)) await one[Symbol.asyncDispose]();
});

async function watchedService(more: Parameters<typeof serviceUnderTest>[0] = {}): Promise<ServiceUnderTest> {
  const made = await serviceUnderTest({ watched: true, ...more });
  owned.push(made);
  return made;
}

type Line = Readonly<Record<string, unknown>> & { readonly msg: string };
const linesOf = ({ logLines }: ServiceUnderTest): Line[] => logLines.map((line) => JSON.parse(line) as Line);

describe("metrics", () => {
  test("metrics after a commission count admissions, runs, steps and driver calls by outcome", async () => {
    const ostler = await watchedService();
    const names = await ostler.register(3);
    const uuid = await ostler.begin("commissionNodes", names);
    expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
    const metrics = await eventually("the commission is counted", async () => {
      const samples = await scraped(ostler.url);
      return samples.get('ostler_operations_finished_total{kind="commission",outcome="succeeded"}') === 1 && samples;
    });
    expect(metrics.get('ostler_operations_accepted_total{verb="commission"}')).toBe(1);
    expect(metrics.get('ostler_admission_nodes_total{verb="commission"}')).toBe(3);
    expect(metrics.get('ostler_runs_started_total{purpose="work"}')).toBe(3);
    expect(metrics.get('ostler_runs_finished_total{purpose="work",outcome="succeeded"}')).toBe(3);
    expect(metrics.get('ostler_run_duration_seconds_count{outcome="succeeded"}')).toBe(3);
    expect(
      metrics.get('ostler_step_duration_seconds_count{step="inspect.collect_inventory",driver="fake",outcome="done"}'),
    ).toBe(3);
    expect(
      metrics.get(
        'ostler_driver_call_duration_seconds_count{driver="fake",call="fake inspect.collect_inventory",outcome="ok"}',
      ),
    ).toBe(3);
    expect(
      metrics.get('ostler_driver_call_duration_seconds_count{driver="fake",call="power read",outcome="ok"}'),
    ).toBeGreaterThanOrEqual(3);
    expect(metrics.get("ostler_transitions_appended_total")).toBe(
      (await newestCursor(ostler.database.reader)).position,
    );
    expect(metrics.get("ostler_steps_in_progress")).toBe(0);
    expect(metrics.get('ostler_claims_in_hand{kind="run"}')).toBe(0);
    expect(metrics.get("ostler_run_takeovers_total")).toBe(0);
    expect(metrics.get("ostler_stream_lag_seconds_count")).toBeGreaterThan(0);
    expect(metrics.get("ostler_database_up")).toBe(1);
    expect(metrics.get('ostler_build_info{version="0.0.0-test"}')).toBe(1);
  });

  test("metrics of failures have their outcome and no node names", async () => {
    const ostler = await watchedService();
    const names = await ostler.register(["rack1-u7"], {
      steps: { "inspect.collect_inventory": { fail: "no answer" } },
    });
    expect(await ostler.operationEnds(await ostler.begin("commissionNodes", names))).toBe("FAILED");
    const text = await eventually("the failed run is counted", async () => {
      const response = await (await fetch(`${ostler.url}/metrics`)).text();
      return response.includes('ostler_runs_finished_total{purpose="work",outcome="failed"} 1') && response;
    });
    expect(text).toContain(
      'ostler_step_duration_seconds_count{step="inspect.collect_inventory",driver="fake",outcome="failed"} 1',
    );
    expect(text).not.toContain("rack1-u7");
  });

  test("runs that a failure policy takes back are counted again, as undone [R-785]", async () => {
    const ostler = await watchedService();
    const others = await ostler.register(2);
    const bad = await ostler.register(1, { steps: { "deploy.configure": { fail: "no answer" } } });
    expect(await ostler.operationEnds(await ostler.begin("commissionNodes", [...others, ...bad]))).toBe("FAILED");
    await eventually(
      "the undone runs are counted",
      async () => (await scraped(ostler.url)).get("ostler_runs_undone_total") === 2,
    );
  });

  test("metrics count requests by type and outcome, refusals by code, and open streams", async () => {
    const ostler = await watchedService();
    // Counters exist from the start: otherwise an alert on an increase misses the first.
    expect(
      (await scraped(ostler.url)).get('ostler_graphql_request_duration_seconds_count{type="mutation",outcome="error"}'),
    ).toBe(0);
    await ostler.query("{ nodes { totalCount } }");
    await ostler.ask("{ nope }");
    await ostler.ask("{ node(id: 7");
    await ostler.ask("query Q($n: Int!) { nodes(first: $n) { totalCount } }", { n: 5_000 });
    await ostler.ask('mutation { cleanNodes(input: { nodes: { names: ["ghost"] } }) { errors { code } } }');
    const socket = ostler.overSocket("subscription { nodeTransitions { __typename } }");
    await socket.next();
    const events = ostler.overEvents("subscription { nodeTransitions { __typename } }");
    await events.next();
    const before = await scraped(ostler.url);
    expect(before.get('ostler_graphql_request_duration_seconds_count{type="query",outcome="ok"}')).toBe(1);
    expect(before.get('ostler_graphql_request_duration_seconds_count{type="query",outcome="refused"}')).toBe(1);
    expect(before.get('ostler_graphql_request_duration_seconds_count{type="mutation",outcome="ok"}')).toBe(1);
    expect(before.get('ostler_graphql_request_duration_seconds_count{type="subscription",outcome="ok"}')).toBe(2);
    expect(before.get("ostler_graphql_requests_rejected_total")).toBe(2);
    expect(before.get('ostler_refusals_total{code="NOT_FOUND"}')).toBe(1);
    expect(before.get('ostler_streams_open{transport="websocket"}')).toBe(1);
    expect(before.get('ostler_streams_open{transport="http"}')).toBe(1);
    await socket.return?.();
    await events.return?.();
    await eventually("both streams are closed", async () => {
      const now = await scraped(ostler.url);
      return (
        now.get('ostler_streams_open{transport="websocket"}') === 0 &&
        now.get('ostler_streams_open{transport="http"}') === 0
      );
    });
  });

  test("metrics count changes of nodes, clusters and the site, and their refusals", async () => {
    const ostler = await watchedService();
    await ostler.ask(
      'mutation { setMaintenance(input: { nodes: { names: ["ghost"] }, reason: "disk" }) { errors { code } } }',
    );
    await ostler.ask('mutation { createCluster(input: { name: "paris" }) { errors { code } } }');
    await ostler.ask('mutation { deleteCluster(input: { cluster: { name: "nowhere" } }) { errors { code } } }');
    await ostler.ask("mutation { updateSite(input: { controllerLimit: 4 }) { errors { code } } }");
    const metrics = await scraped(ostler.url);
    const count = (verb: string) => metrics.get(`ostler_admission_duration_seconds_count{verb="${verb}"}`);
    expect(["set_maintenance", "create_cluster", "delete_cluster", "update_site"].map(count)).toEqual([1, 1, 1, 1]);
    expect(metrics.get('ostler_refusals_total{code="NOT_FOUND"}')).toBe(2);
  });

  test("metrics count callbacks by outcome", async () => {
    const ostler = await watchedService();
    expect((await fetch(`${ostler.url}/callback/${randomUUID()}.${"A".repeat(43)}`, { method: "POST" })).status).toBe(
      404,
    );
    expect((await scraped(ostler.url)).get('ostler_callbacks_total{verdict="UNKNOWN"}')).toBe(1);
  });

  test("metrics show waiting runs by reason", async () => {
    const ostler = await watchedService();
    const names = await ostler.register(2, { steps: { "inspect.collect_inventory": { waitSeconds: 600 } } });
    await ostler.begin("commissionNodes", names, { maxParallel: 1 });
    const metrics = await eventually("one run is parked", async () => {
      const samples = await scraped(ostler.url);
      return samples.get('ostler_runs_unfinished{state="WAITING",reason="TIME"}') === 1 && samples;
    });
    expect(metrics.get('ostler_runs_unfinished{state="QUEUED",reason=""}')).toBe(1);
    expect(metrics.get("ostler_runs_oldest_waiting_seconds")).toBeGreaterThan(0);
    expect(metrics.get("ostler_log_position")).toBe((await newestCursor(ostler.database.reader)).position);
    expect(
      [...metrics].filter(([name]) => name.startsWith("ostler_nodes{")).reduce((sum, [, count]) => sum + count, 0),
    ).toBe(2);
  });
});

test("a run taken over in the middle of a step is counted and logged as a takeover", async () => {
  const ostler = await watchedService({ started: false });
  const [name = ""] = await ostler.register(1, { steps: { "inspect.collect_inventory": { delayMs: 60_000 } } });
  const other = await runEngine(ostler.test.connection);
  const operationId = await ostler.begin("commissionNodes", [name]);
  await eventually(
    "the other replica runs the step",
    async () =>
      (
        await ostler.query<{ node: { currentRun: { currentStep: { name: string } | null } | null } }>(
          `{ node(by: { name: "${name}" }) { currentRun { currentStep { name } } } }`,
        )
      ).node.currentRun?.currentStep?.name === "collect_inventory",
  );
  await other[Symbol.asyncDispose]();
  await ostler.test.sql`update runs set lease_until = lease_until - interval '1 minute' where lease_until is not null`;
  await ostler.engine.start();
  const metrics = await eventually("the run is taken over", async () => {
    const samples = await scraped(ostler.url);
    return samples.get("ostler_run_takeovers_total") === 1 && samples;
  });
  expect(metrics.get('ostler_runs_started_total{purpose="work"}')).toBe(0);
  expect(metrics.get('ostler_claims_in_hand{kind="run"}')).toBe(1);
  expect(linesOf(ostler)).toContainEqual(
    expect.objectContaining({
      level: "warn",
      msg: "run taken over from a replica whose lease expired",
      operationId,
      node: name,
    }),
  );
});

describe("log", () => {
  test("the log has one line when an operation is accepted and one when it ends, with the request's id, and none for successful steps", async () => {
    const ostler = await watchedService();
    const [name = ""] = await ostler.register(1);
    const answer = await ostler.ask<{ commissionNodes: { operation: { uuid: string } } }>(
      `mutation { commissionNodes(input: { nodes: { names: ["${name}"] } }) { operation { uuid } } }`,
      {},
      { "x-request-id": "asked-7" },
    );
    expect(answer.headers.get("x-request-id")).toBe("asked-7");
    const operationId = answer.data?.commissionNodes.operation.uuid ?? "";
    expect(await ostler.operationEnds(operationId)).toBe("SUCCEEDED");
    const ended = await eventually("the end of the operation is logged", () =>
      linesOf(ostler).find(({ msg }) => msg === "operation ended"),
    );
    expect(ended).toMatchObject({ level: "info", operationId, kind: "COMMISSION", state: "SUCCEEDED" });
    expect(linesOf(ostler)).toContainEqual(
      expect.objectContaining({
        level: "info",
        msg: "operation accepted",
        requestId: "asked-7",
        operationId,
        verb: "commission",
        nodes: 1,
        actor: "anonymous",
      }),
    );
    const ofSteps = linesOf(ostler).filter(({ step }) => step !== undefined);
    expect(ofSteps.length).toBeGreaterThan(0);
    expect(ofSteps.filter(({ level }) => (level as number) >= 30)).toEqual([]);
  });

  test("the log line of a failed step names the step and the reason", async () => {
    const ostler = await watchedService();
    const [name = ""] = await ostler.register(1, { steps: { "inspect.collect_inventory": { fail: "no answer" } } });
    const operationId = await ostler.begin("commissionNodes", [name]);
    expect(await ostler.operationEnds(operationId)).toBe("FAILED");
    const run = expect.any(String) as unknown;
    expect(linesOf(ostler)).toContainEqual(
      expect.objectContaining({
        level: "warn",
        msg: "step failed",
        operationId,
        runId: run,
        node: name,
        step: "inspect.collect_inventory",
        driver: "fake",
        attempt: 1,
        code: "BACKEND_FAILED",
        reason: "no answer",
      }),
    );
  });
});

test("a password that a driver repeats everywhere appears in no log, metric or trace", async () => {
  const password = "correct-horse-battery";
  const ostler = await watchedService({ drivers: [driverThatLeaksItsSecret()] as never });
  await ostler.query(
    "mutation R($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { message } } }",
    { input: { nodes: [{ name: "leaky-1", driver: { leaky: { password } } }] } },
  );
  expect(await ostler.operationEnds(await ostler.begin("commissionNodes", ["leaky-1"]))).toBe("FAILED");
  const text = await (await fetch(`${ostler.url}/metrics`)).text();
  expect(text).toContain('call="login with ***"');
  expect(ostler.logLines.join("")).toContain("logged in with ***");
  expect(text + ostler.logLines.join("")).not.toContain(password);
});

/** The fake driver with an inspection that repeats its secret everywhere. */
function driverThatLeaksItsSecret(): Driver<never> {
  const fake = createFake({ log: () => {} });
  const [step] = fake.inspect?.steps ?? [];
  if (!step) throw new Error("The fake inspects nothing.");
  const leaking = {
    ...fake,
    name: "leaky",
    inspect: {
      supportsAbort: true,
      withoutReboot: true,
      steps: [
        {
          ...step,
          async run(call: Parameters<typeof step.run>[0]) {
            const { password } = call.settings;
            call.log(`logged in with ${password}`);
            return call.timed(`login with ${password}`, () => Promise.reject(new Error(`refused: ${password}`)));
          },
        },
      ],
    },
  };
  return leaking as never;
}
