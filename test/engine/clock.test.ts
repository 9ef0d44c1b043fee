/** A process whose clock is wrong: durations are counted, and deadlines come from the database's clock. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { stepBetween } from "../../src/engine/claims/clock-watch.ts";
import { claimDueRuns, reviveLostRuns } from "../../src/store/runs/run-claims.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const HOUR_MS = 3_600_000;
const IGNORING = aDriver("ignoring", {
  clean: stepsOf(aStep("listen", "clean", async () => new Promise(() => {}), { timeoutSeconds: 1 })),
});

let ostler: EngineUnderTest;
beforeEach(async () => {
  ostler = await engineUnderTest({ started: false, drivers: [IGNORING] });
});
afterEach(async () => {
  vi.useRealTimers();
  await ostler[Symbol.asyncDispose]();
});

const CLOCK_ERRORS = [
  ["ahead", HOUR_MS],
  ["behind", -HOUR_MS],
] as const;

// The replica's own clock used to order these in a queue that other replicas share.
test.each(CLOCK_ERRORS)(
  "clock that is an hour %s does not change waiting and interrupt times, which come from the database",
  async (_, wrongByMs) => {
    const nodes = await ostler.aNode().in("AVAILABLE").times(2);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + wrongByMs });
    const id = await ostler.begin("DEPLOY", nodes, { maxParallel: 1 });
    expect(
      (await ostler.runs(id)).map(({ waitingSince, createdAt }) => waitingSince?.getTime() === createdAt.getTime()),
    ).toEqual([true, true]);
    const { operationId } = await ostler.engine.discoverNodes(ALICE, { addresses: ["10.0.0.1"], driver: "fake" });
    await ostler.engine.stop(ALICE, { work: { operationId: operationId ?? "" } });
    const { interruptAt, finishedAt } = await ostler.operation(operationId ?? "");
    expect(interruptAt).toEqual(finishedAt);
  },
);

test.each(CLOCK_ERRORS)(
  "clock that is an hour %s ends no step before its timeout and none after it [R-140]",
  async (_, wrongByMs) => {
    const working = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { waitSeconds: 0.2 } })
      .times(3);
    const ignoring = await ostler.aNode().in("AVAILABLE").with("ignoring").made();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + wrongByMs });
    await ostler.engine.start();
    const deployed = await ostler.begin("DEPLOY", working);
    const cleaned = await ostler.begin("CLEAN", [ignoring]);
    expect((await ostler.operationEnds(deployed)).state).toBe("SUCCEEDED");
    for (const node of working)
      expect(ostler.entered(node).filter((step) => step === "deploy.write_image")).toHaveLength(2);
    expect((await ostler.operationEnds(cleaned)).state).toBe("FAILED");
    expect((await ostler.run(cleaned, ignoring)).failure).toMatchObject({ code: "TIMEOUT", step: "clean.listen" });
  },
);

const STEPS = [
  ["back by ten minutes", -600],
  ["forward by an hour", 3_600],
] as const;

/** Makes the clock of the database settable. Returns how to set it, in seconds. */
async function settableClock({
  test: { sql },
  database,
}: EngineUnderTest): Promise<(seconds: number) => Promise<unknown>> {
  await sql.unsafe(`
    create schema settable;
    create table settable.set as select interval '0' as by;
    create function settable.clock_timestamp() returns timestamptz language sql volatile as 'select pg_catalog.clock_timestamp() + (select by from settable.set)';
    create function settable.now() returns timestamptz language sql stable as 'select pg_catalog.now() + (select by from settable.set)';
    do $$ begin execute format('alter database %I set search_path = settable, pg_catalog, public', current_database()); end $$`);
  // Connections have the setting when they are opened again.
  await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`;
  await eventually("the engine is connected again", () =>
    database
      .transaction(async (tx) => tx.execute("select 1"))
      .then(
        () => true,
        () => false,
      ),
  );
  return (seconds) => sql`update settable.set set by = make_interval(secs => ${seconds})`;
}

const waiting = () =>
  ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.boot_system": { waitSeconds: 2 } })
    .times(3);

test.each(STEPS)(
  "clock of the database that is set %s delays no parked run and ends no step early [R-223]",
  async (_, seconds) => {
    const setClock = await settableClock(ostler);
    await ostler.another({ started: true });
    await ostler.another({ started: true });
    const nodes = await waiting();
    const id = await ostler.begin("DEPLOY", nodes);
    for (const node of nodes) await ostler.nodeBecomes(node, "DEPLOY_WAIT");
    await setClock(seconds);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    const corrections = () => ostler.test.sql`select steps from clock`;
    await eventually("the step is corrected", async () => (await corrections())[0]?.["steps"] !== 0);
    expect(await corrections()).toEqual([{ steps: 1 }]);
  },
);

test("clock of the database that was set back while no replica ran delays no parked run [R-223]", async () => {
  const setClock = await settableClock(ostler);
  const nodes = await waiting();
  const first = await ostler.another({ started: true });
  const id = await ostler.begin("DEPLOY", nodes);
  for (const node of nodes) await ostler.nodeBecomes(node, "DEPLOY_WAIT");
  await first[Symbol.asyncDispose]();
  await setClock(-3_600);
  await ostler.another({ started: true });
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
});

test("clock of the database that was set back to before the start of its server lets leases of dead replicas expire [R-223]", async () => {
  const setClock = await settableClock(ostler);
  const node = await ostler.aNode().in("AVAILABLE").made();
  await ostler.begin("CLEAN", [node]);
  for (const seconds of [600, -10 * 365 * 86_400]) {
    await setClock(seconds);
    await ostler.database.reader.execute(
      "update runs set owner = 'dead', due_at = null, lease_until = now() - interval '1 second'",
    );
    await reviveLostRuns(ostler.database.reader, { except: [], upSeconds: 8 });
    expect(await claimDueRuns(ostler.database.reader, { limit: 1 })).toHaveLength(1);
  }
});

test.each([
  { title: "runs evenly", now: 5_000, at: 5_000, seenAt: 4_000, step: 0 },
  { title: "was set back", now: -595_000, at: 5_000, seenAt: 4_000, step: -600_000 },
  { title: "was set forward", now: 605_000, at: 5_000, seenAt: 4_000, step: 600_000 },
  {
    title: "ran on while this replica was suspended, and another one looked",
    now: 605_000,
    at: 5_000,
    seenAt: 604_000,
    step: 0,
  },
  { title: "was corrected by another replica", now: 605_000, at: 5_000, seenAt: 604_000, steps: 1, step: 0 },
])("clock that $title: the step is $step ms", ({ step, steps = 0, ...look }) => {
  expect(stepBetween({ now: 0, at: 0, seenAt: 0, steps: 0 }, { ...look, steps })).toBe(step);
});
