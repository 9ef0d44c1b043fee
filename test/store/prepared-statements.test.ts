/** Which statements are prepared: those that come often, few at a time. */
import { sql } from "drizzle-orm";
import { afterAll, describe, expect, test } from "vitest";
import { openDatabase, runPrepared } from "../../src/store/postgres/database.ts";
import { createPreparedPolicy } from "../../src/store/postgres/workarounds/prepared-statements.ts";
import { inArrayParam } from "../../src/store/postgres/array-parameter.ts";
import { nodes } from "../../src/store/tables.ts";
import { testDatabase } from "../support/database.ts";

const times = (count: number, what: (index: number) => unknown) =>
  Array.from({ length: count }, (_, index) => what(index));

describe("a place", () => {
  test("is had from the third use on", () => {
    const isPrepared = createPreparedPolicy();
    expect(times(4, () => isPrepared("a"))).toEqual([false, false, true, true]);
  });

  test("is not had by what comes once or twice, and is left to what comes often", () => {
    const isPrepared = createPreparedPolicy();
    times(1_000, (index) => times(2, () => isPrepared(`rare ${index}`)));
    expect(times(3, () => isPrepared("often"))).toEqual([false, false, true]);
  });

  test("takes more uses the more are taken", () => {
    const isPrepared = createPreparedPolicy();
    const after = (text: string) => times(100, () => isPrepared(text)).indexOf(true);
    expect(times(50, (index) => after(`text ${index}`))).toEqual(times(50, (index) => 2 + index));
  });

  test("is one of fifty, given anew each hour", () => {
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

  test("is not for a long statement", () => {
    const isPrepared = createPreparedPolicy();
    expect(times(5, () => isPrepared("x".repeat(8_001)))).not.toContain(true);
  });

  test("is lost to what comes later by one that is seldom used", () => {
    const isPrepared = createPreparedPolicy();
    times(2, () => isPrepared("seldom"));
    times(200, (index) => isPrepared(`other ${index}`));
    expect(isPrepared("seldom")).toBe(false);
  });
});

describe("a statement", async () => {
  const own = await testDatabase();
  const database = await openDatabase({ connection: own.connection, connectionsMax: 2 });
  afterAll(async () => {
    await database[Symbol.asyncDispose]();
    await own[Symbol.asyncDispose]();
  });

  /** What the one connection of bounded reads has prepared of a statement of these names. */
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

  test("of a list is prepared, one for all lengths", async () => {
    expect(await preparedFor(["a", "b"], "short")).toHaveLength(1);
    expect(await preparedFor(["a", "b", "c"], "short")).toHaveLength(1);
  });

  test("is not prepared for long values, whose plan is made for them", async () => {
    expect(
      await preparedFor(
        Array.from({ length: 1_000 }, (_, index) => `n${index}`),
        "long",
      ),
    ).toHaveLength(0);
  });
});
