/** Retention: old transitions are deleted in batches, the oldest first and without a gap, during normal operation. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startRetention } from "../../src/engine/inventory/retention.ts";
import { createLog } from "../../src/log.ts";
import { CHANGE_LOG, changesAfter, numberChanges } from "../../src/store/log/changes.ts";
import { checkCursor, deleteOldRows } from "../../src/store/log/transitions.ts";
import { engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { range } from "../support/feed.ts";

let ostler: EngineUnderTest;
beforeEach(async () => {
  ostler = await engineUnderTest({ started: false });
});
afterEach(() => ostler[Symbol.asyncDispose]());

const positions = async () =>
  (await ostler.test.sql<{ position: string }[]>`select position from transitions order by position`).map(
    ({ position }) => Number(position),
  );

/** Makes transitions older by a number of days. */
async function makeOlder(from: number, until: number, days: number): Promise<void> {
  await ostler.test.sql`alter table transitions disable trigger transitions_append_only`;
  await ostler.test
    .sql`update transitions set at = at - make_interval(days => ${days}) where position between ${from} and ${until}`;
  await ostler.test.sql`alter table transitions enable trigger transitions_append_only`;
}

const deleteOlder = (days: number, limit: number) =>
  ostler.database.transaction((tx) => deleteOldRows(tx, { days, limit }));

describe("retention", () => {
  test("retention deletes transitions in batches, the oldest first [R-122]", async () => {
    await ostler.aNode().times(20);
    await makeOlder(1, 15, 8);
    expect(await deleteOlder(7, 6)).toBe(6);
    expect(await positions()).toEqual(range(7, 20));
    expect(await deleteOlder(7, 6)).toBe(6);
    expect(await deleteOlder(7, 6)).toBe(3);
    expect(await deleteOlder(7, 6)).toBe(0);
    expect(await positions()).toEqual(range(16, 20));
  });

  test("retention leaves no gap, though the clock went back while the transitions were written [R-122]", async () => {
    await ostler.aNode().times(10);
    await makeOlder(1, 3, 8);
    await makeOlder(6, 8, 8);
    expect(await deleteOlder(7, 100)).toBe(3);
    expect(await positions()).toEqual(range(4, 10));
  });

  test("retention may delete every transition, and the positions continue afterwards", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const before = await positions();
    await makeOlder(1, before.length, 8);
    expect(await deleteOlder(7, 100)).toBe(before.length);
    expect(await positions()).toEqual([]);
    await ostler.aNode().made();
    expect(await positions()).toEqual([before.length + 1]);
    await ostler.engine.deleteNodes(
      { actor: "alice", project: "default", scope: "ADMIN" as const },
      { ids: [node.id] },
    );
    const [last] = await ostler.transitions(node);
    expect(last).toMatchObject({ event: "delete", sequence: before.length + 1, position: before.length + 2 });
  });
});

describe("retention task", () => {
  test("retention task deletes every expired transition at its start, and can be closed", async () => {
    await ostler.aNode().times(12);
    await makeOlder(1, 9, 3);
    const retention = startRetention({ database: ostler.database, log: createLog("silent"), days: 2, auditDays: 0 });
    await eventually("the old transitions are deleted", async () => (await positions()).length === 3);
    await retention.close();
    expect(await positions()).toEqual(range(10, 12));
  });

  test("retention task deletes changes after a week, also if transitions are kept indefinitely [R-541]", async () => {
    await ostler.aNode().times(12);
    await numberChanges(ostler.database.reader, 1_000);
    await ostler.test.sql`update changes set at = at - interval '8 days' where position <= 9`;
    const retention = startRetention({ database: ostler.database, log: createLog("silent"), days: 0, auditDays: 0 });
    const changes = () => changesAfter(ostler.database.reader, { after: 0, limit: 1 });
    await eventually("the old changes are deleted", async () => (await changes())[0]?.position === 10);
    await retention.close();
    expect((await positions()).length).toBeGreaterThan(11);
    expect(await checkCursor(ostler.database.reader, { position: 8, at: null }, CHANGE_LOG)).toMatchObject({
      isValid: false,
    });
    expect(await checkCursor(ostler.database.reader, { position: 9, at: null }, CHANGE_LOG)).toMatchObject({
      isValid: true,
    });
  });
});
