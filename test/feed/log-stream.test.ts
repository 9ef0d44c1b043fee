/** The stream of a run's log: every line once, in order, from any cursor, until the run has ended. */
import { afterAll, describe, expect, test, vi } from "vitest";
import { passGate } from "../../plugins/fake/gates.ts";
import { logStream } from "../../src/feed/log/log-stream.ts";
import type { LogStreamItem } from "../../src/feed/log/log-stream.ts";
import { createTail } from "../../src/feed/log/tail.ts";
import { createLog } from "../../src/log.ts";
import { createNotifier } from "../../src/store/postgres/notifier.ts";
import { aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { countListeners, range } from "../support/feed.ts";
import { heldIn } from "../support/held-work.ts";
import { randomOfTest } from "../support/random.ts";
import { takeAll, takeUntil } from "../support/service.ts";

const gates = { first: aGate(), second: aGate() };
const done = { kind: "done" } as const;

const owned = new AsyncDisposableStack();
afterAll(() => owned.disposeAsync());
const ostler = owned.use(
  await engineUnderTest({
    drivers: [
      aDriver("speaking", {
        clean: stepsOf(
          aStep("low", "clean", async ({ log }) => (log("then that"), done), { priority: 1 }),
          aStep(
            "high",
            "clean",
            async ({ log, node, signal }) => {
              log("first this");
              if (node.labels["gated"]) await passGate(gates.first.name, node.name, signal);
              log("now that");
              if (node.labels["gated"]) await passGate(gates.second.name, node.name, signal);
              return done;
            },
            { priority: 9 },
          ),
        ),
      }),
      aDriver("verbose", {
        clean: stepsOf(
          aStep("count", "clean", async ({ log }) => {
            for (let line = 1; line <= 950; line += 1) log(`${line}`);
            return done;
          }),
        ),
      }),
      aDriver("mute", { clean: stepsOf(aStep("mute", "clean", async () => done)) }),
    ],
  }),
);
const { database } = ostler;
const notifier = owned.use(await createNotifier(database, () => {}));
const whole = owned.use(await createTail({ database, notifier, log: createLog("silent") }));
const { tail, listeners } = countListeners(whole);

const stream = (runId: string, after = 0) => logStream({ database, tail }, runId, after);
const textsOf = (items: readonly LogStreamItem[]) =>
  items.map((item) => (item.kind === "line" ? `${item.row.sequence} ${item.label}: ${item.row.text}` : item.reason));
const sequences = (items: readonly LogStreamItem[]) =>
  items.flatMap((item) => (item.kind === "line" ? [item.row.sequence] : []));

async function begun(
  driver: string,
  labels: Record<string, string> = {},
): Promise<{ readonly node: TestNode; readonly id: string; readonly runId: string }> {
  const node = await ostler.aNode().in("AVAILABLE").with(driver).labelled(labels).made();
  const id = await ostler.begin("CLEAN", [node]);
  return { node, id, runId: (await ostler.run(id, node)).id };
}

async function ended(driver: string) {
  const run = await begun(driver);
  await ostler.operationEnds(run.id);
  return run;
}

describe("log stream", () => {
  test("log stream emits each line as it is written, with its step, and completes when the run has ended [R-124]", async () => {
    const { runId } = await begun("speaking", { gated: "yes" });
    const items = stream(runId);
    expect(textsOf(await takeUntil(items, ({ kind }) => kind === "line"))).toEqual(["1 clean.high: first this"]);
    gates.first.open();
    expect(textsOf(await takeUntil(items, ({ kind }) => kind === "line"))).toEqual(["2 clean.high: now that"]);
    gates.second.open();
    expect(textsOf(await takeAll(items))).toEqual(["3 clean.low: then that"]);
  });

  test("log stream continues although the clock was set back", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_metadata": { says: ["one", "two"], gate: gate.name } })
      .made();
    const id = await ostler.begin("CLEAN", [node]);
    const items = stream((await ostler.run(id, node)).id);
    await takeUntil(items, (item) => sequences([item])[0] === 2);
    const { now } = Date;
    const setBack = vi.spyOn(Date, "now").mockImplementation(() => now() - 3_600_000);
    gate.open();
    await takeAll(items);
    setBack.mockRestore();
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "SUCCEEDED" });
  });

  test("log stream of an ended run emits its whole log", async () => {
    const { runId } = await ended("speaking");
    expect(textsOf(await takeAll(stream(runId)))).toEqual([
      "1 clean.high: first this",
      "2 clean.high: now that",
      "3 clean.low: then that",
    ]);
  });

  test("log stream of a run without log lines completes when the run ends", async () => {
    const { runId } = await begun("mute");
    expect(await takeAll(stream(runId))).toEqual([]);
  });

  test("log stream of an unknown run completes at once", async () => {
    expect(await takeAll(stream("00000000-0000-0000-0000-000000000000"))).toEqual([]);
  });

  test("log stream resumes from any position, over many pages, without gaps or duplicates [R-124]", async () => {
    const random = randomOfTest();
    const { runId } = await ended("verbose");
    const seen: number[] = [];
    for (let cursor = 0; cursor < 950;) {
      const items = stream(runId, cursor);
      const most = random.whole(1, 300);
      for (let taken = 0; taken < most && cursor < 950; taken += 1) {
        const { value } = (await items.next()) as { value: LogStreamItem };
        cursor = sequences([value])[0] ?? 0;
        seen.push(cursor);
      }
      await items.return?.();
    }
    expect(seen).toEqual(range(1, 950));
  });

  test("log stream reads no further than its reader", async () => {
    const { runId } = await ended("verbose");
    const asked = vi.spyOn(database.reader, "select");
    const items = stream(runId);
    await items.next();
    const forOnePage = asked.mock.calls.length;
    for (let taken = 2; taken <= 100; taken += 1) await items.next();
    expect(asked.mock.calls.length).toBe(forOnePage);
    await items.next();
    expect(asked.mock.calls.length).toBeGreaterThan(forOnePage);
    asked.mockRestore();
    await items.return?.();
  });

  test("log stream from the last line emits only the end", async () => {
    const { runId } = await ended("speaking");
    expect(await takeAll(stream(runId, 3))).toEqual([]);
  });

  test("log stream with an invalid cursor ends with CURSOR_EXPIRED and the first valid cursor", async () => {
    const { runId } = await ended("speaking");
    expect(await takeAll(stream(runId, 4))).toEqual([
      { kind: "reset", cursor: { position: 0, at: null }, reason: "CURSOR_EXPIRED" },
    ]);
  });

  test("log stream ends at once when its client leaves, and removes its listener", async () => {
    const { gate, node, id } = await heldIn(ostler, "clean.erase_metadata");
    const before = listeners();
    const items = stream((await ostler.run(id, node)).id);
    const waiting = items.next();
    expect(listeners()).toBe(before + 1);
    expect(await items.return?.()).toEqual({ done: true, value: undefined });
    expect(await waiting).toEqual({ done: true, value: undefined });
    expect(listeners()).toBe(before);
    gate.open();
    await ostler.operationEnds(id);
  });

  test("log stream ends with SHUTTING_DOWN and a cursor when the process shuts down during the run", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_metadata": { says: ["one", "two"], gate: gate.name } })
      .made();
    const id = await ostler.begin("CLEAN", [node]);
    await using leaving = await createTail({ database, notifier, log: createLog("silent") });
    const items = logStream({ database, tail: leaving }, (await ostler.run(id, node)).id, 0);
    await takeUntil(items, (item) => sequences([item])[0] === 2);
    leaving.close();
    expect(await takeAll(items)).toEqual([
      { kind: "reset", cursor: { position: 2, at: null }, reason: "SHUTTING_DOWN" },
    ]);
    gate.open();
    await ostler.operationEnds(id);
  });
});
