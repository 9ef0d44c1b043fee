/** Which statements are prepared: the frequent ones, and a limited number. */
import { randomUUID } from "node:crypto";
import { sql } from "drizzle-orm";
import { afterAll, describe, expect, test } from "vitest";
import { openDatabase } from "../../src/store/postgres/database.ts";
import type { Tx } from "../../src/store/postgres/database.ts";
import { runPrepared } from "../../src/store/postgres/statements.ts";
import { createPreparedPolicy } from "../../src/store/postgres/workarounds/prepared-statements.ts";
import { inArrayParam } from "../../src/store/postgres/array-parameter.ts";
import { nodes } from "../../src/store/tables.ts";
import { testDatabase } from "../support/database.ts";

const times = (count: number, what: (index: number) => unknown) =>
  Array.from({ length: count }, (_, index) => what(index));

describe("prepared statement policy", () => {
  test("prepared statement policy prepares a statement at its third use", () => {
    const isPrepared = createPreparedPolicy();
    expect(times(4, () => isPrepared("a"))).toEqual([false, false, true, true]);
  });

  test("prepared statement policy ignores statements that come once or twice", () => {
    const isPrepared = createPreparedPolicy();
    times(1_000, (index) => times(2, () => isPrepared(`rare ${index}`)));
    expect(times(3, () => isPrepared("often"))).toEqual([false, false, true]);
  });

  test("prepared statement policy requires more uses the fewer slots are free", () => {
    const isPrepared = createPreparedPolicy();
    const after = (text: string) => times(100, () => isPrepared(text)).indexOf(true);
    expect(times(50, (index) => after(`text ${index}`))).toEqual(times(50, (index) => 2 + index));
  });

  test("prepared statement policy has fifty slots, which are assigned again each hour", () => {
    let now = 0;
    const isPrepared = createPreparedPolicy(() => now);
    const taken = (prefix: string) =>
      times(60, (index) => times(100, () => isPrepared(`${prefix} ${index}`)).includes(true)).filter(Boolean).length;
    expect(taken("first")).toBe(50);
    now = 3_599_999;
    expect(isPrepared("first 0")).toBe(true);
    expect(taken("second")).toBe(0);
    now = 3_600_000;
    expect(isPrepared("first 0")).toBe(false);
    expect(taken("second")).toBe(50);
  });

  test("prepared statement policy ignores long statements", () => {
    const isPrepared = createPreparedPolicy();
    expect(times(5, () => isPrepared("x".repeat(8_001)))).not.toContain(true);
  });

  test("prepared statement policy gives the slot of a rarely used statement to a later one", () => {
    const isPrepared = createPreparedPolicy();
    times(2, () => isPrepared("seldom"));
    times(200, (index) => isPrepared(`other ${index}`));
    expect(isPrepared("seldom")).toBe(false);
  });
});

describe("prepared statement", async () => {
  const own = await testDatabase();
  const database = await openDatabase({ connection: own.connection, connectionsMax: 2 });
  afterAll(async () => {
    await database[Symbol.asyncDispose]();
    await own[Symbol.asyncDispose]();
  });

  /** The statements with these names that the only connection of bounded reads has prepared. */
  const preparedFor = async (names: readonly string[], mark: string) => {
    for (let use = 0; use < 3; use += 1)
      await runPrepared(
        database.bounded,
        sql`select ${sql.raw(`'${mark}'`)} as mark, id from ${nodes} where ${inArrayParam(nodes.name, names)}`,
      );
    return database.bounded.execute(
      sql.raw(
        `select statement from pg_prepared_statements where statement like '%''${mark}''%' and statement not like '%pg_prepared%'`,
      ),
    );
  };

  test("prepared statement of a list is one for all lengths", async () => {
    expect(await preparedFor(["a", "b"], "short")).toHaveLength(1);
    expect(await preparedFor(["a", "b", "c"], "short")).toHaveLength(1);
  });

  test("prepared statement is not used for long values, whose plan depends on the value", async () => {
    expect(
      await preparedFor(
        Array.from({ length: 1_000 }, (_, index) => `n${index}`),
        "long",
      ),
    ).toHaveLength(0);
  });
});

describe("transaction", async () => {
  const own = await testDatabase();
  afterAll(() => own[Symbol.asyncDispose]());

  const ids = (count: number) => times(count, () => randomUUID()) as string[];
  /** How the plan of a statement that follows one with such a list is made, and what is prepared after four of them. */
  const after = async (list: readonly string[], prepare: "auto" | "off" = "auto") => {
    await using database = await openDatabase({ connection: own.connection, connectionsMax: 1, prepare });
    const modes = new Set<unknown>();
    const readMode = async (tx: Tx) => {
      const [row] = await tx.execute<{ mode: string; scans: string }>(
        "select current_setting('plan_cache_mode') as mode, current_setting('enable_seqscan') as scans",
      );
      return `${row?.mode}, sequential scans ${row?.scans}`;
    };
    for (let use = 0; use < 4; use += 1)
      await database.transaction(async (tx) => {
        await tx.select({ id: nodes.id }).from(nodes).where(inArrayParam(nodes.id, list));
        modes.add(await readMode(tx));
      });
    const prepared = await database.transaction((tx) =>
      tx.execute(sql.raw(`select statement from pg_prepared_statements where statement like '%"nodes"."id" = any(%'`)),
    );
    return { modes: [...modes], prepared: prepared.length, next: await database.transaction(readMode) };
  };

  test("transaction prepares its recurring statements, with plans for all values", async () => {
    expect(await after(ids(100))).toEqual({
      modes: ["force_generic_plan, sequential scans off"],
      prepared: 1,
      next: "force_generic_plan, sequential scans off",
    });
  });

  test("prepared statement whose table was empty at its first use finds rows by index when the table is large [R-712]", async () => {
    await using fresh = await testDatabase();
    await using database = await openDatabase({ connection: fresh.connection, connectionsMax: 1 });
    const find = (tx: Tx) =>
      tx
        .select({ name: nodes.name })
        .from(nodes)
        .where(inArrayParam(nodes.id, ids(2)));
    for (let use = 0; use < 4; use += 1) await database.transaction(find);
    // Not analyzed: the connection keeps its plan.
    await fresh.sql.begin(async (tx) => {
      // Bypasses the rules for states: only the lookup of rows is tested.
      await tx`set local session_replication_role = replica`;
      await tx`
        insert into nodes (id, name, project, state, driver, borrowed, settings, labels, transition_count)
        select gen_random_uuid(), 'n' || n, 'default', 'MANAGED', 'fake', '{}', '{}', '{}', 0
        from generate_series(1, 500) n`;
    });
    const scans = await database.transaction(async (tx) => {
      await find(tx);
      const [row] = await tx.execute<{ all: number; prepared: number }>(sql`
        select (select seq_scan::int from pg_stat_xact_user_tables where relname = 'nodes') as all,
               (select count(*)::int from pg_prepared_statements where statement like '%"nodes"."id" = any(%') as prepared`);
      return row;
    });
    expect(scans).toEqual({ all: 0, prepared: 1 });
  });

  test("transaction with a long list is planned for its values, and the next one is not [R-646]", async () => {
    expect(await after(ids(101))).toEqual({
      modes: ["force_custom_plan, sequential scans on"],
      prepared: 1,
      next: "force_generic_plan, sequential scans off",
    });
  });

  test("transaction prepares nothing and keeps the planner's setting where prepared statements are off", async () => {
    expect(await after(ids(101), "off")).toEqual({
      modes: ["auto, sequential scans on"],
      prepared: 0,
      next: "auto, sequential scans on",
    });
  });
});
