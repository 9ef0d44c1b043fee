/**
 * The short form of the tools `cuts`, `change-cuts`, `stalled` and `stalled-changes`: what those show over a long time,
 * for a moment and by counting.
 */
import { expect, test, vi } from "vitest";
import { move } from "../support/moves.ts";
import { runChangeCuts } from "../durability/change-cuts.ts";
import { runCuts } from "../durability/cuts.ts";
import { runStalledChanges } from "../durability/stalled-changes.ts";
import type { Transport } from "../durability/subscriber.ts";
import { eventually } from "../support/eventually.ts";
import { takeUntil, serviceUnderTest } from "../support/service.ts";
import { openReader } from "../support/stopping-reader.ts";
import type { StoppingReader } from "../support/stopping-reader.ts";

const SEED = 20_261;

test(
  "connection losses: thirty losses by ten clients during two thousand transitions lose, repeat and reorder nothing [R-118]",
  { timeout: 120_000 },
  async () => {
    await using ostler = await serviceUnderTest({ started: false });
    const { seconds: _, ...report } = await runCuts(ostler, { seed: SEED, clients: 10, cuts: 30, transitions: 2_000 });
    expect(report).toEqual({
      cuts: 30,
      written: 2_000,
      missing: 0,
      duplicates: 0,
      outOfOrder: 0,
      outOfOrderInNode: 0,
      surprises: [],
    });
    await eventually("no stream listens", () => ostler.listeners() === 0);
  },
);

test(
  "streams of changes: clients that are cut at any time, also during a snapshot, have what the lists have, and nothing goes back [R-690]",
  { timeout: 120_000 },
  async () => {
    await using ostler = await serviceUnderTest();
    const options = { seed: SEED, cuts: 20, kills: 0, nodes: 30 };
    const { items, cutsInSnapshots, unused, faults, differences } = await runChangeCuts(ostler, options);
    const errors = ostler.logLines.filter((line) => line.includes('"level":50')).join("\n");
    expect({ unused, faults, differences }, errors).toEqual({ unused: [], faults: [], differences: [] });
    expect(items).toBeGreaterThan(300);
    expect(cutsInSnapshots).toBeGreaterThan(0);
    await eventually("no stream listens", () => ostler.changeListeners() === 0);
  },
);

test(
  "streams of changes: readers that stop reading beside many changes have what the list has once they read on [R-694]",
  { timeout: 120_000 },
  async () => {
    await using ostler = await serviceUnderTest({ started: false });
    const { early, late, faults, differences, beside } = await runStalledChanges(ostler.url, {
      readers: 6,
      changes: 1_000,
      nodes: 50,
      ballast: 60_000,
      earlyMs: 100,
      // Else the list is ahead of its cursor, and the readers are compared at that.
      beforeReading: ostler.changesNumbered,
    });
    expect({ faults, differences }).toEqual({ faults: [], differences: [] });
    expect([early.length, late.length, beside.edits.length]).toEqual([1, 5, 20]);
    await eventually("no stream listens", () => ostler.changeListeners() === 0);
  },
);

const HEAVY =
  "subscription Heavy { nodeTransitions { ... on StreamBookmark { caughtUp } ... on Transition { cursor node { cluster { variables } } } } }";
const LIGHT =
  "subscription Light { nodeTransitions { ... on StreamBookmark { caughtUp } ... on Transition { cursor } } }";
const OPERATIONS =
  "subscription Operations { operationChanges(snapshot: true) { ... on StreamBookmark { caughtUp } } }";
const READERS = 20;

const transportOf = (index: number): Transport => (index % 2 === 0 ? "WebSocket" : "server-sent events");

test(
  "readers that stop reading cost a bounded number of items, are released when they disconnect, and delay no others [R-126]",
  { timeout: 120_000 },
  async () => {
    await using ostler = await serviceUnderTest({ started: false });
    await ostler.query(
      "mutation Create($input: CreateClusterInput!) { createCluster(input: $input) { errors { message } } }",
      { input: { name: "heavy", variables: { ballast: "x".repeat(60_000) } } },
    );
    const { nodeIds } = await ostler.engine.registerNodes(
      { actor: "test", project: "default", scope: "ADMIN" as const },
      Array.from({ length: 300 }, (_, index) => ({
        name: `heavy-${index}`,
        driver: "fake",
        cluster: { name: "heavy" },
      })),
    );
    const readers = Array.from({ length: READERS }, (_, index) => stalled(ostler.url, transportOf(index)));
    await Promise.all(readers.map(({ first }) => first));
    const recent = vi.spyOn(ostler.tail, "recent");
    const healthy = ostler.overSocket<{ nodeTransitions: { cursor?: string } }>(LIGHT);
    await healthy.next();
    for (let round = 0; round < 3; round += 1)
      await ostler.transact((work) => move(work, nodeIds, { from: "ENROLLED", event: "recover" }, { actor: "test" }));
    const seen = await takeUntil(
      healthy,
      ({ nodeTransitions }) => nodeTransitions.cursor?.startsWith("1200-") === true,
    );
    expect(seen).toHaveLength(900);
    // Each was handed a page or two; what the buffers in between do not hold stays in the log.
    const handed = recent.mock.results.reduce(
      (sum, { value }) => sum + ((value as readonly unknown[] | null)?.length ?? 0),
      0,
    );
    expect((handed - 900) / READERS).toBeLessThan(400);
    expect(ostler.listeners()).toBe(READERS + 1);
    for (const reader of readers) reader.end();
    await eventually("only the healthy one listens", () => ostler.listeners() === 1);
    await healthy.return?.();
  },
);

test(
  "three hundred clients that connect and disconnect, with and without items, leave nothing behind [R-127]",
  { timeout: 120_000 },
  async () => {
    await using ostler = await serviceUnderTest({ started: false });
    for (let round = 0; round < 30; round += 1) {
      await Promise.all(
        Array.from({ length: 10 }, async (_, index) => {
          const { end, first } = stalled(ostler.url, transportOf(index));
          if (index % 3 > 0) await first;
          end();
        }),
      );
    }
    await eventually("no stream listens", () => ostler.listeners() === 0);
  },
);

test("stream of server-sent events whose client disconnected before it began was kept until the process ended", async () => {
  await using ostler = await serviceUnderTest({ started: false });
  // A snapshot of operations is preceded by a count of them.
  await ostler.test.sql.begin(async (tx) => {
    await tx`lock table operations`;
    const left = stalled(ostler.url, "server-sent events", OPERATIONS);
    await eventually("the count waits", async () => {
      const waiting = await tx`
        select from pg_locks join pg_database on pg_database.oid = database
        where not granted and datname = current_database()`;
      return waiting.length > 0;
    });
    left.end();
    // Answered after the service has read that the first connection is closed.
    await ostler.query("{ viewer { subject } }");
  });
  const later = ostler.overEvents(OPERATIONS);
  await later.next();
  await later.return?.();
  await eventually("no stream listens", () => ostler.changeListeners() === 0);
});

/** A client of either kind that reads nothing after its first item. */
function stalled(url: string, transport: Transport, query = HEAVY): StoppingReader {
  return openReader(transport, url, { query }, (_text, reader) => reader.stop());
}
