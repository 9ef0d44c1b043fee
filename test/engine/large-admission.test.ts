/** A large request is admitted as a whole or not at all, whenever the process that admits it is killed. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CALLER, LARGE_REQUEST, startAdmission } from "../support/admission-process.ts";
import { engineUnderTest } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";

const ostler = await engineUnderTest({ started: false });
afterAll(() => ostler[Symbol.asyncDispose]());

/** Several statements store this many runs. */
const NODES = 9_000;
/** A process starts, and plans the request. */
const WAITS_MS = 30_000;

beforeAll(async () => {
  await ostler.test.sql.begin(async (tx) => {
    // Disables the triggers for states, which require a transition for each node.
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into nodes (id, name, project, state, stage, power_state, presence, driver, borrowed, settings, labels, transition_count, revision)
      select gen_random_uuid(), 'n' || n, 'default', 'ENROLLED', 'NONE', 'UNKNOWN', 'UNSEEN', 'fake', '{}', '{"fake":{}}', '{}', 1, 1
      from generate_series(1, ${NODES}) n`;
  });
});

async function stored() {
  const [row] = await ostler.test.sql<{ operations: number; runs: number; due: number; keys: number }[]>`
    select (select count(*)::int from operations) as operations, (select count(*)::int from runs) as runs,
      (select count(*)::int from runs where due_at is not null) as due,
      (select count(*)::int from operations where idempotency_key is not null) as keys`;
  return row;
}

/** Transactions that write operations or runs. */
async function writers(): Promise<number> {
  const rows = await ostler.test.sql`
    select from pg_locks where mode = 'RowExclusiveLock' and relation in ('operations'::regclass, 'runs'::regclass)`;
  return rows.length;
}

const NOTHING = { operations: 0, runs: 0, due: 0, keys: 0 };

/** Makes the request wait in the middle of storing it, by the lock that a transaction of the test holds. */
const STOPS = {
  "before its operation is stored": "lock table operations in share mode",
  "before its runs are stored": "lock table runs in share mode",
  "when a part of its runs is stored": `insert into runs (id, operation_id, node_id, node_name, ordinal, state, plan_hash, variables, target, moves_state)
    select gen_random_uuid(), gen_random_uuid(), id, name, 0, 'QUEUED', 'none', '{}', 'ACTIVE', true from nodes order by name desc limit 1`,
} as const;

describe("large request", () => {
  test.each(Object.keys(STOPS) as (keyof typeof STOPS)[])(
    "a large request whose process is killed %s leaves nothing [R-660]",
    async (moment) => {
      await ostler.test.sql
        .begin(async (tx) => {
          await tx`set local session_replication_role = replica`;
          await tx.unsafe(STOPS[moment]);
          await using admission = startAdmission(ostler.test.connection);
          await eventually("the request waits", async () => (await ostler.waitingForLocks()) > 0, WAITS_MS);
          await admission.kill();
          throw new Rollback();
        })
        .catch((error: unknown) => {
          if (!(error instanceof Rollback)) throw error;
        });
      await eventually("its transaction ends", async () => (await writers()) === 0, WAITS_MS);
      expect(await stored()).toEqual(NOTHING);
    },
  );

  test("a large request whose process is killed before its answer is admitted once, however often it is repeated [R-660]", async () => {
    await using admission = startAdmission(ostler.test.connection);
    await admission.ended;
    const all = { operations: 1, runs: NODES, due: NODES, keys: 1 };
    expect(await stored()).toEqual(all);
    const [first, second] = [
      await ostler.engine.submit(CALLER, LARGE_REQUEST),
      await ostler.engine.submit(CALLER, LARGE_REQUEST),
    ];
    expect([first.replayed, second.replayed]).toEqual([true, true]);
    expect(second.operationId).toBe(first.operationId);
    expect(first.results).toHaveLength(NODES);
    expect(first.results.every(({ accepted, runId }) => accepted && runId !== null)).toBe(true);
    expect(await stored()).toEqual(all);
  });

  test("runs of a large request have each a node and a place of their own, and share the rest", async () => {
    const [row] = await ostler.test.sql<{ ordinals: number; nodes: number; shared: number }[]>`
      select count(distinct ordinal)::int as ordinals, count(distinct nodes.id) filter (where nodes.name = runs.node_name)::int as nodes,
        count(distinct (operation_id, plan_hash, target, runs.state, wait_reason, leg, purpose, wave, runs.variables, position, moves_state, attempt))::int as shared
      from runs left join nodes on nodes.id = runs.node_id`;
    expect(row).toEqual({ ordinals: NODES, nodes: NODES, shared: 1 });
  });
});

class Rollback extends Error {}
