/** The statements that claim runs: their order, their limits, and what they leave alone. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { PRIORITY, claimDueRuns, releaseClaims, renewLeases, reviveLostRuns } from "../../src/store/runs/run-claims.ts";
import { engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest } from "../support/builders.ts";

let ostler: EngineUnderTest;
let names: Map<string, string>;
/** Six runs that are due since their admission. */
beforeEach(async () => {
  ostler = await engineUnderTest({ started: false });
  const nodes = await ostler.aNode().in("AVAILABLE").named("n").times(6);
  const id = await ostler.begin("DEPLOY", nodes);
  names = new Map((await ostler.runs(id)).map((run) => [run.id, String(run.ordinal)]));
});
afterEach(() => ostler[Symbol.asyncDispose]());

const claim = (limit: number, priorityMin?: number) =>
  claimDueRuns(ostler.database.claims, { limit, ...(priorityMin !== undefined && { priorityMin }) });
const ordinals = (claims: readonly { readonly id: string }[]) =>
  claims.map(({ id }) => names.get(id)).toSorted((a, b) => Number(a) - Number(b));
const set = (ordinal: number, change: string) =>
  ostler.test.sql.unsafe(`update runs set ${change} where ordinal = ${ordinal}`);

test("claim takes the highest priority first, then what is due for the longest time, then the order of the request", async () => {
  await set(5, `priority = ${PRIORITY.ending}`);
  await set(4, `priority = ${PRIORITY.begun}, due_at = now() + interval '1 hour'`);
  await set(3, "due_at = due_at - interval '1 hour'");
  await set(2, `priority = ${PRIORITY.woken}`);
  expect(ordinals(await claim(2))).toEqual(["2", "5"]);
  expect(ordinals(await claim(1))).toEqual(["3"]);
  expect(ordinals(await claim(1))).toEqual(["0"]);
  expect(ordinals(await claim(10))).toEqual(["1"]);
  expect(await claim(10)).toEqual([]);
});

test("claim of ending runs leaves the others", async () => {
  await set(1, `priority = ${PRIORITY.ending}`);
  expect(ordinals(await claim(10, PRIORITY.ending))).toEqual(["1"]);
});

test("claim skips runs that another transaction has locked, and two claims at once share the rest", async () => {
  await ostler.test.sql.begin(async (tx) => {
    await tx`select from runs where ordinal < 2 for update`;
    const both = await Promise.all([claim(3), claim(3)]);
    expect(ordinals(both.flat())).toEqual(["2", "3", "4", "5"]);
  });
});

test("claim and renewal of its lease change no index", async () => {
  const indexes = await ostler.test.sql`
    select indexdef from pg_indexes where tablename = 'runs' and indexdef ~ '(fence|lease_until)'`;
  expect(indexes).toEqual([]);
});

test("claim whose lease is over before it was begun is taken by another, and the first one cannot renew it", async () => {
  const [first] = await claim(1);
  expect(await renewLeases(ostler.database.claims, first ? [first] : [])).toEqual([first]);
  await set(0, "lease_until = now() - interval '1 second'");
  const [second] = await claim(1);
  expect(second).toEqual({ id: first?.id, fence: (first?.fence ?? 0) + 1 });
  expect(await renewLeases(ostler.database.claims, first ? [first] : [])).toEqual([]);
});

test("lost runs are claimed before new ones and keep their owner, unless this replica executes them", async () => {
  const [taken] = await claim(1);
  await set(0, "owner = 'here', due_at = null, lease_until = now() - interval '1 second'");
  for (const ordinal of [4, 5])
    await set(ordinal, "owner = 'dead', due_at = null, lease_until = now() - interval '1 second'");
  await reviveLostRuns(ostler.database.claims, { except: [taken?.id ?? ""], upSeconds: 0 });
  expect(ordinals(await claim(2))).toEqual(["4", "5"]);
  expect(ordinals(await claim(10))).toEqual(["1", "2", "3"]);
  expect(await ostler.test.sql`select owner from runs where ordinal in (0, 4, 5) order by ordinal`).toEqual([
    { owner: "here" },
    { owner: "dead" },
    { owner: "dead" },
  ]);
});

test("release makes a run due again, and leaves one that was parked meanwhile or is claimed by another", async () => {
  const claims = await claim(3);
  await set(0, "owner = 'here', due_at = null");
  await set(1, "owner = null, lease_until = null, due_at = now() + interval '1 hour'");
  await set(2, "fence = fence + 1");
  await releaseClaims(ostler.database.claims, claims, { isClean: true, afterSeconds: 0 });
  expect(
    await ostler.test.sql`
      select ordinal, owner, lease_until is null as free, due_at <= now() as due, priority
      from runs where ordinal < 3 order by ordinal`,
  ).toEqual([
    { ordinal: 0, owner: null, free: true, due: true, priority: PRIORITY.woken },
    { ordinal: 1, owner: null, free: true, due: false, priority: PRIORITY.new },
    { ordinal: 2, owner: null, free: false, due: true, priority: PRIORITY.new },
  ]);
});
