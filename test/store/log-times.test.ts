/** Times and conditions in the log of transitions, compared with reading all of it. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { openDatabase } from "../../src/store/postgres/database.ts";
import { countTransitions, cursorBefore, transitionsAfter, transitionsPage } from "../../src/store/log/transitions.ts";
import type { TransitionFilter, TransitionRow } from "../../src/store/log/transitions.ts";
import { testDatabase } from "../support/database.ts";

const owned = new AsyncDisposableStack();
const { connection, sql } = owned.use(await testDatabase());
const statements: string[] = [];
const { bounded: reader } = owned.use(
  await openDatabase({ connection, connectionsMax: 2, onStatement: (text) => void statements.push(text) }),
);
afterAll(() => owned.disposeAsync());

const START = Date.parse("2026-01-31T09:30:00.000Z");
const COUNT = 41;
const DEPLOY = randomUUID();
const CLEAN = randomUUID();

/** Transitions in groups of three with equal times, a second apart. */
beforeEach(async () => {
  await sql`truncate transitions, operations cascade`;
  await sql`insert into operations (id, kind, state, project, actor, options, on_failure, variables, total_count)
    values (${DEPLOY}, 'DEPLOY', 'SUCCEEDED', 'default', 'test', '{}', 'LEAVE', '{}', 1), (${CLEAN}, 'CLEAN', 'SUCCEEDED', 'default', 'test', '{}', 'LEAVE', '{}', 1)`;
  await sql`
    insert into transitions (position, node_id, node_name, project, from_state, to_state, event, sequence, node_revision, operation_id, step, actor, reason, at)
    select n, gen_random_uuid(), 'Rack%' || n, 'default', case when n % 2 = 0 then 'ENROLLED' end, 'ENROLLED', (array['recover', 'register'])[1 + n % 2], 1, 1,
      (array[${DEPLOY}, ${CLEAN}, null]::uuid[])[1 + n % 3], case when n % 4 = 0 then 'clean.erase_disks' end, (array['ana', 'bo'])[1 + n % 2], case when n % 5 = 0 then 'a fan is loud' end,
      ${new Date(START)}::timestamptz + n / 3 * interval '1 s'
    from generate_series(1, ${COUNT}) n`;
  await sql`update feed_position set position = ${COUNT}`;
});

const all = () => transitionsAfter(reader, { after: 0, limit: 1000 });
const timeAt = (seconds: number) => new Date(START + seconds * 1000);
const positions = (rows: readonly TransitionRow[]) => rows.map(({ position }) => position);

describe("the cursor of a time", () => {
  test("after the cursor of each time come exactly the transitions at that time or later [R-529]", async () => {
    const log = await all();
    expect(log).toHaveLength(COUNT);
    for (let seconds = -1; seconds <= 15; seconds += 0.5) {
      const time = timeAt(seconds);
      statements.length = 0;
      const { cursor, isComplete } = await cursorBefore(reader, time);
      expect(statements).toHaveLength(1);
      const expected = log.filter(({ at }) => at.getTime() >= time.getTime());
      expect(positions(await transitionsAfter(reader, { after: cursor.position, limit: 1000 }))).toEqual(
        positions(expected),
      );
      const before = log[cursor.position - 1];
      expect(cursor.at, String(seconds)).toEqual(before?.at ?? null);
      expect(isComplete).toBe(true);
    }
  });

  test("a time before what is kept is incomplete, with the earliest cursor; a later one is not [R-529]", async () => {
    await sql`delete from transitions where position <= 10`;
    expect(await cursorBefore(reader, timeAt(3))).toMatchObject({
      cursor: { position: 10, at: null },
      isComplete: false,
    });
    expect(await cursorBefore(reader, timeAt(0))).toMatchObject({
      cursor: { position: 10, at: null },
      isComplete: false,
    });
    expect(await cursorBefore(reader, timeAt(3.5))).toMatchObject({
      cursor: { position: 11, at: timeAt(3) },
      isComplete: true,
    });
  });

  test("an empty log has the cursor before the first transition; if all are deleted, times are incomplete [R-529]", async () => {
    await sql`delete from transitions`;
    expect(await cursorBefore(reader, timeAt(1))).toMatchObject({
      cursor: { position: COUNT, at: null },
      isComplete: false,
    });
    await sql`update feed_position set position = 0`;
    expect(await cursorBefore(reader, timeAt(1))).toMatchObject({
      cursor: { position: 0, at: null },
      isComplete: true,
    });
  });

  test("times of a clock that was set back still end the search at a cursor of the log", async () => {
    await sql.begin(async (tx) => {
      // Disables the trigger that keeps the log as it is.
      await tx`set local session_replication_role = replica`;
      await tx`update transitions set at = at - interval '8 s' where position > 20`;
    });
    const { cursor } = await cursorBefore(reader, timeAt(2));
    const log = await all();
    expect(log[cursor.position - 1]?.at.getTime()).toBeLessThan(timeAt(2).getTime());
    expect(log[cursor.position]?.at.getTime()).toBeGreaterThanOrEqual(timeAt(2).getTime());
  });

  test("a time is found with few look-ups in a long log", async () => {
    await sql`insert into transitions (position, node_id, node_name, project, to_state, event, sequence, node_revision, actor, at)
      select n, gen_random_uuid(), 'x', 'default', 'ENROLLED', 'register', 1, 1, 'test', ${timeAt(100)}::timestamptz + n * interval '1 ms' from generate_series(${COUNT + 1}::int, 20000) n`;
    await sql`update feed_position set position = 20000`;
    await sql`analyze transitions`;
    statements.length = 0;
    const time = new Date(timeAt(100).getTime() + 15_000);
    expect((await cursorBefore(reader, time)).cursor.position).toBe(14_999);
    const [text = ""] = statements;
    const plan = await sql.unsafe(
      `explain (analyze, format json) ${text.replaceAll(/\$\d+/g, `'${time.toISOString()}'`)}`,
    );
    expect(JSON.stringify(plan)).not.toContain("Seq Scan on transitions");
    expect(rowsOfTransitions(plan)).toBeLessThan(20);
  });
});

/** Rows that the scans of the log in a plan have read. */
function rowsOfTransitions(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const inner = Object.values(value).reduce((sum: number, one) => sum + rowsOfTransitions(one), 0);
  const scan = value as Readonly<Record<string, unknown>>;
  const own = scan["Relation Name"] === "transitions" ? Number(scan["Actual Rows"]) * Number(scan["Actual Loops"]) : 0;
  return inner + own;
}

test.each<{ readonly filter: TransitionFilter; readonly matches: (row: TransitionRow) => boolean }>([
  { filter: { actors: ["ana", "ghost"] }, matches: ({ actor }) => actor === "ana" },
  { filter: { actors: [] }, matches: () => false },
  { filter: { events: ["register"] }, matches: ({ event }) => event === "register" },
  { filter: { kinds: ["DEPLOY"] }, matches: ({ operationId }) => operationId === DEPLOY },
  { filter: { kinds: ["DEPLOY", "CLEAN"] }, matches: ({ operationId }) => operationId !== null },
  { filter: { operationId: CLEAN }, matches: ({ operationId }) => operationId === CLEAN },
  { filter: { text: "LOUD" }, matches: ({ reason }) => reason !== null },
  { filter: { text: "rack%1" }, matches: ({ nodeName }) => nodeName.startsWith("Rack%1") },
  { filter: { text: "erase_disks" }, matches: ({ step }) => step !== null },
  { filter: { text: "erase%disks" }, matches: () => false },
  { filter: { since: timeAt(4) }, matches: ({ at }) => at >= timeAt(4) },
  { filter: { until: timeAt(4) }, matches: ({ at }) => at < timeAt(4) },
  {
    filter: { since: timeAt(4), until: timeAt(9), actors: ["bo"], text: "rack" },
    matches: ({ at, actor }) => at >= timeAt(4) && at < timeAt(9) && actor === "bo",
  },
  { filter: { since: timeAt(9), until: timeAt(4) }, matches: () => false },
])(
  "transitions with $filter are those of the log, from both ends, and their number [R-530]",
  async ({ filter, matches }) => {
    const expected = positions((await all()).filter(matches));
    expect(positions(await transitionsAfter(reader, { after: 0, limit: 1000, filter }))).toEqual(expected);
    const page = await transitionsPage(reader, filter, { limit: 1000, fromEnd: true });
    expect(positions(page.rows)).toEqual(expected);
    expect(await countTransitions(reader, filter)).toBe(expected.length);
  },
);
