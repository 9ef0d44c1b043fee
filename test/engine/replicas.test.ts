/** Several processes on one database: sharing work, passing interrupts, shutting down, losing the database. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { unsound } from "../support/soundness.ts";
import { fakeSteps } from "../support/fake-steps.ts";

let ostler: EngineUnderTest;
beforeEach(async () => {
  ostler = await engineUnderTest({ started: false });
});
afterEach(() => ostler[Symbol.asyncDispose]());

const STEPS_ENTERED = 7;

describe("two processes", () => {
  test("two processes share the work, and no step is entered twice [R-137]", async () => {
    await Promise.all([
      ostler.another({ started: true, concurrency: 5 }),
      ostler.another({ started: true, concurrency: 5 }),
    ]);
    const nodes = await ostler.aNode().with("fake", { delayMs: 2 }).times(40);
    const id = await ostler.begin("COMMISSION", nodes);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(ostler.entriesOfSteps()).toBe(nodes.length * STEPS_ENTERED);
    for (const run of await ostler.runs(id)) expect(run.fence).toBe(2);
    expect(await unsound(ostler)).toEqual([]);
  });

  test("two processes pass interrupts on: an abort that one accepts reaches the step in the other", async () => {
    const worker = await ostler.another({ started: true });
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { silent: true } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await eventually("the step is entered", () => ostler.entered(node).includes("deploy.write_image"));
    expect((await ostler.engine.abort(ALICE, { work: { operationId: id } })).results).toMatchObject([
      { effect: "NOW" },
    ]);
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    await worker[Symbol.asyncDispose]();
  });

  test("process that is alone on its database continues the work of a killed one at once, whatever its leases say [R-220]", async () => {
    const victim = await ostler.inAnotherProcess();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { delayMs: 600_000 } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await eventually("the step is entered", () => ostler.entered(node).includes("deploy.write_image"));
    await victim.kill();
    await ostler.test.sql`update runs set lease_until = now() + interval '1 day' where lease_until is not null`;
    await ostler.another({ started: true, isAlone: true });
    await eventually(
      "the step is entered again",
      () => ostler.entered(node).filter((step) => step === "deploy.write_image").length === 2,
    );
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  });

  test("two processes take over parked runs from each other [R-006]", async () => {
    const first = await ostler.another({ started: true });
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.boot_system": { waitSeconds: 60 } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await ostler.nodeBecomes(node, "DEPLOY_WAIT");
    await first[Symbol.asyncDispose]();
    await ostler.waitIsOver(node);
    await ostler.engine.start();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.story(node, id)).toEqual([
      "deploy → DEPLOYING",
      "wait → DEPLOY_WAIT",
      "resume → DEPLOYING",
      "done → ACTIVE",
    ]);
  });
});

describe("process that shuts down", () => {
  test("process that shuts down lets a running step end and hands the run on without recovery [R-138]", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { gate: gate.name } })
      .made();
    const leaving = await ostler.another({ started: true });
    const id = await ostler.begin("DEPLOY", [node]);
    await gate.arrivals();
    const left = leaving[Symbol.asyncDispose]();
    gate.open();
    await left;
    expect(await unsound(ostler)).toEqual([]);
    expect(ostler.entered(node)).toEqual(["deploy.prepare", "deploy.write_image"]);
    await ostler.engine.start();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(ostler.entered(node)).toEqual(fakeSteps("deploy"));
    expect(await ostler.story(node, id)).toEqual(["deploy → DEPLOYING", "done → ACTIVE"]);
  });

  test("process that shuts down claims no more runs while a step still runs", async () => {
    const gate = aGate();
    const resting = await ostler.another({ started: true, concurrency: 5 });
    const busy = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { gate: gate.name } })
      .made();
    const first = await ostler.begin("DEPLOY", [busy]);
    await gate.arrivals();
    resting.engine.rest();
    const idle = await ostler.aNode().in("AVAILABLE").made();
    const second = await ostler.begin("DEPLOY", [idle]);
    gate.open();
    await eventually(
      "the running step has ended and its run is released",
      async () => (await ostler.runs(first))[0]?.owner === null,
    );
    expect(ostler.entered(busy)).toEqual(["deploy.prepare", "deploy.write_image"]);
    expect(ostler.entered(idle)).toEqual([]);
    await ostler.engine.start();
    expect([(await ostler.operationEnds(first)).state, (await ostler.operationEnds(second)).state]).toEqual([
      "SUCCEEDED",
      "SUCCEEDED",
    ]);
  });

  test("process that shuts down claims no new work [R-138]", async () => {
    const leaving = await ostler.another({ started: true });
    await leaving[Symbol.asyncDispose]();
    const node = await ostler.aNode().in("AVAILABLE").made();
    await ostler.begin("DEPLOY", [node]);
    await ostler.engine.start();
    await ostler.nodeBecomes(node, "ACTIVE");
    expect(ostler.entered(node)).toHaveLength(4);
  });
});

test("process executes at most `concurrency` runs at once, and every run gets its turn", async () => {
  const gate = aGate();
  await ostler.another({ started: true, concurrency: 3 });
  const nodes = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.prepare": { gate: gate.name } })
    .times(8);
  const id = await ostler.begin("DEPLOY", nodes);
  expect(await gate.arrivals(3)).toHaveLength(3);
  const other = await ostler.aNode().in("AVAILABLE").made();
  const later = await ostler.begin("DEPLOY", [other]);
  expect((await ostler.runs(id)).filter(({ owner }) => owner !== null)).toHaveLength(3);
  expect(ostler.entered(other)).toEqual([]);
  gate.open();
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  expect((await ostler.operationEnds(later)).state).toBe("SUCCEEDED");
});

describe("time without a process", () => {
  test("time without a process does not count against a step that a crash interrupted", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [node]);
    const { id: runId } = await ostler.run(id, node);
    await ostler.test
      .sql`insert into attempts (run_id, step, number, state, started_at, deadline_at) values (${runId}, 0, 1, 'RUNNING', now() - interval '1 day', now() - interval '23 hours')`;
    await ostler.engine.start();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(
      (await ostler.steps(await ostler.run(id, node)))[0]?.attempts.map(({ state, entries }) => [state, entries]),
    ).toEqual([["SUCCEEDED", 2]]);
  });

  test.each([
    ["does not count against a step that was due before its deadline", "1 hour", "SUCCEEDED"],
    ["counts if the step was parked until its deadline", "0 hours", "FAILED"],
  ])("time without a process %s", async (_title, early, state) => {
    const first = await ostler.another({ started: true });
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.boot_system": { waitSeconds: 600 } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await ostler.nodeBecomes(node, "DEPLOY_WAIT");
    await first[Symbol.asyncDispose]();
    await ostler.test.sql`update attempts set deadline_at = now() - interval '20 hours' where finished_at is null`;
    await ostler.test
      .sql`update runs set wake_at = now() - interval '20 hours' - ${early}::interval, due_at = now() where finished_at is null`;
    await ostler.engine.start();
    expect((await ostler.operationEnds(id)).state).toBe(state);
  });
});

test("connection loss: every database connection is closed while steps run, and no operation fails", async () => {
  const gate = aGate();
  await ostler.engine.start();
  const nodes = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.write_image": { gate: gate.name } })
    .times(5);
  await ostler.begin("DEPLOY", nodes);
  await gate.arrivals(5);
  await ostler.test
    .sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`;
  gate.open();
  const ended = await eventually(
    "the operation ends",
    async () =>
      (await ostler.test.sql<{ state: string }[]>`select state from operations where finished_at is not null`)[0],
  );
  expect(ended.state).toBe("SUCCEEDED");
  for (const node of nodes) expect(ostler.entered(node)).toEqual(fakeSteps("deploy"));
  expect(await unsound(ostler)).toEqual([]);
  // postgres.js never closes a listening connection that is ended while it reconnects, so wait for the listener first.
  await eventually(
    "the notifier listens again",
    async () =>
      (await ostler.test.sql`select from pg_stat_activity where datname = current_database() and query ilike 'listen%'`)
        .length > 0,
  );
});
