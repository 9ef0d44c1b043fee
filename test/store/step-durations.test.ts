/** Durations of steps, as estimates use them. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeEach, expect, test } from "vitest";
import { openDatabase } from "../../src/store/postgres/database.ts";
import { stepHistories } from "../../src/store/runs/step-durations.ts";
import { testDatabase } from "../support/database.ts";

const owned = new AsyncDisposableStack();
const { connection, sql } = owned.use(await testDatabase());
const { reader } = owned.use(await openDatabase({ connection, connectionsMax: 1 }));
afterAll(() => owned.disposeAsync());

beforeEach(() => sql`truncate runs, operations, plans cascade`);

interface Past {
  readonly seconds: readonly number[];
  readonly driver?: string;
  readonly label?: string;
  readonly model?: string | null;
  readonly state?: string;
  /** Hours since the end of the attempts. */
  readonly hoursAgo?: number;
}

/** Inserts attempts with these durations. */
async function past({
  seconds,
  driver = "fake",
  label = "clean.erase_disks",
  model = null,
  state = "SUCCEEDED",
  hoursAgo = 1,
}: Past): Promise<void> {
  const run = randomUUID();
  const hash = randomUUID();
  await sql`insert into plans (hash, plan) values (${hash}, '{}')`;
  await sql`insert into operations (id, kind, state, project, actor, options, on_failure, variables, total_count) values (${run}, 'CLEAN', 'SUCCEEDED', 'default', 'test', '{}', 'LEAVE', '{}', 1)`;
  await sql`insert into runs (id, operation_id, node_id, node_name, ordinal, state, plan_hash, variables, target, moves_state, finished_at) values (${run}, ${run}, ${randomUUID()}, 'n', 0, 'SUCCEEDED', ${hash}, '{}', 'AVAILABLE', true, now())`;
  await sql`
    insert into attempts (run_id, step, number, state, label, driver, model, started_at, finished_at, deadline_at)
    select ${run}, 0, n, ${state}, ${label}, ${driver}, ${model}, ended - make_interval(secs => s), ended, ended
    from unnest(${seconds}::float8[]) with ordinality as t(s, n), lateral (select now() - make_interval(hours => ${hoursAgo}) as ended) e`;
}

const historyOf = async (kind: { driver?: string; label?: string; model?: string | null } = {}) =>
  (await stepHistories(reader, [{ driver: "fake", label: "clean.erase_disks", model: null, ...kind }]))[0];

test("step durations are null without a finished attempt", async () => {
  expect(await historyOf()).toBeNull();
});

test("step durations are the median and the ninth decile of the succeeded attempts", async () => {
  await past({ seconds: [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110] });
  expect(await historyOf()).toEqual({ medianSeconds: 60, p90Seconds: 100, samples: 11, model: null });
});

test("step durations ignore failed, aborted and running attempts", async () => {
  await past({ seconds: [10] });
  for (const state of ["FAILED", "ABORTED", "RUNNING", "WAITING"]) await past({ seconds: [9999], state });
  expect(await historyOf()).toMatchObject({ medianSeconds: 10, samples: 1 });
});

test("step durations are separate for each driver and each step", async () => {
  await past({ seconds: [10], driver: "ipmi" });
  await past({ seconds: [20], label: "deploy.erase_disks" });
  expect(await historyOf()).toBeNull();
  expect(await historyOf({ driver: "ipmi" })).toMatchObject({ medianSeconds: 10 });
});

test("step durations prefer nodes of the same model, even a single one", async () => {
  await past({ seconds: [10, 10, 10], model: "R640" });
  await past({ seconds: [500], model: "R740" });
  expect(await historyOf({ model: "R740" })).toEqual({
    medianSeconds: 500,
    p90Seconds: 500,
    samples: 1,
    model: "R740",
  });
  expect(await historyOf({ model: "R640" })).toEqual({ medianSeconds: 10, p90Seconds: 10, samples: 3, model: "R640" });
});

test("step durations come from all nodes of the driver if the model is unknown or has none", async () => {
  await past({ seconds: [10], model: "R640" });
  await past({ seconds: [30] });
  const together = { medianSeconds: 20, samples: 2, model: null };
  expect(await historyOf({ model: "R999" })).toMatchObject(together);
  expect(await historyOf({ model: null })).toMatchObject(together);
});

test("step durations use the newest thousand attempts", async () => {
  await past({ seconds: Array.from({ length: 500 }, () => 9999), hoursAgo: 48 });
  await past({ seconds: Array.from({ length: 1_000 }, () => 10), hoursAgo: 1 });
  expect(await historyOf()).toEqual({ medianSeconds: 10, p90Seconds: 10, samples: 1_000, model: null });
});

test("step durations of many steps come in the order of the request, duplicates included", async () => {
  await past({ seconds: [1], label: "clean.a", model: "R640" });
  await past({ seconds: [2], label: "clean.b" });
  const kind = (label: string, model: string | null = null) => ({ driver: "fake", label, model });
  const found = await stepHistories(reader, [
    kind("clean.b"),
    kind("clean.none"),
    kind("clean.a", "R640"),
    kind("clean.a"),
    kind("clean.b"),
  ]);
  expect(found.map((history) => history && [history.medianSeconds, history.model])).toEqual([
    [2, null],
    null,
    [1, "R640"],
    [1, null],
    [2, null],
  ]);
  expect(await stepHistories(reader, [])).toEqual([]);
});
