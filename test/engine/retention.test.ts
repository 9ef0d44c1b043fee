/** Old transitions are forgotten, the oldest first and without a hole, while everything else goes on. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startRetention } from "../../src/engine/inventory/retention.ts";
import { createLog } from "../../src/log.ts";
import { deleteOldTransitions } from "../../src/store/transitions.ts";
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

/** Makes transitions older, as if they had been written so many days ago. */
async function age(from: number, until: number, days: number): Promise<void> {
  await ostler.test.sql`alter table transitions disable trigger transitions_append_only`;
  await ostler.test
    .sql`update transitions set at = at - make_interval(days => ${days}) where position between ${from} and ${until}`;
  await ostler.test.sql`alter table transitions enable trigger transitions_append_only`;
}

const forget = (days: number, limit: number) =>
  ostler.database.transaction((tx) => deleteOldTransitions(tx, days, limit));

describe("transitions that are older than is wanted", () => {
  test("go in batches, the oldest first [R-122]", async () => {
    await ostler.aNode().times(20);
    await age(1, 15, 8);
    expect(await forget(7, 6)).toBe(6);
    expect(await positions()).toEqual(range(7, 20));
    expect(await forget(7, 6)).toBe(6);
    expect(await forget(7, 6)).toBe(3);
    expect(await forget(7, 6)).toBe(0);
    expect(await positions()).toEqual(range(16, 20));
  });

  test("leave no hole, though the clock went back while they were written [R-122]", async () => {
    await ostler.aNode().times(10);
    await age(1, 3, 8);
    await age(6, 8, 8);
    expect(await forget(7, 100)).toBe(3);
    expect(await positions()).toEqual(range(4, 10));
  });

  test("may be all there are, and the next one goes on counting", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const before = await positions();
    await age(1, before.length, 8);
    expect(await forget(7, 100)).toBe(before.length);
    expect(await positions()).toEqual([]);
    await ostler.aNode().made();
    expect(await positions()).toEqual([before.length + 1]);
    await ostler.engine.deleteNodes({ actor: "alice", project: "default" }, { ids: [node.id] });
    const [last] = await ostler.transitions(node);
    expect(last).toMatchObject({ event: "delete", sequence: before.length + 1, position: before.length + 2 });
  });
});

describe("the sweep", () => {
  test("forgets at the start, all of them, and can be ended", async () => {
    await ostler.aNode().times(12);
    await age(1, 9, 3);
    const retention = startRetention({ database: ostler.database, log: createLog("silent"), days: 2 });
    await eventually("the old ones are gone", async () => (await positions()).length === 3);
    await retention.close();
    expect(await positions()).toEqual(range(10, 12));
  });
});
