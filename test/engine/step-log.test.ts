/**
 * The step log: what a driver logs is stored in batches, in order, bounded and masked, and only by the owner of the
 * run.
 */
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { passGate } from "../../plugins/fake/gates.ts";
import { linesAfter } from "../../src/store/runs/step-log.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnyCall } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { range } from "../support/feed.ts";

const KIB = 1024;
const gates = { talking: aGate(), fenced: aGate(), reporting: aGate(), afterwards: aGate(), late: aGate() };
let loggedLate = false;
const done = { kind: "done" } as const;

/** A driver with one clean step, which calls `speak`. */
const aSpeaker = (
  name: string,
  speak: (call: AnyCall) => Promise<void> | void,
  more: Parameters<typeof aStep>[3] = {},
) =>
  aDriver(name, {
    secret: true,
    clean: stepsOf(
      aStep(
        name,
        "clean",
        async (call) => {
          await speak(call);
          return done;
        },
        more,
      ),
    ),
  });

let failures = 0;

const ostler = await engineUnderTest({
  drivers: [
    aDriver("two_steps", {
      clean: stepsOf(
        aStep("first", "clean", async ({ log }) => (log("one"), log("two"), done), { priority: 20 }),
        aStep(
          "second",
          "clean",
          async ({ log }) => {
            log("three");
            failures += 1;
            return failures === 1 ? { kind: "failed", reason: "not yet", retryable: true } : done;
          },
          { retries: { times: 1, backoffSeconds: 0 } },
        ),
      ),
    }),
    aSpeaker("indiscreet", ({ log, settings }) => log(`the password is ${String(settings["password"])}, \0`)),
    aSpeaker("long_winded", ({ log }) => (log("é".repeat(10_000)), log("short"))),
    aSpeaker("odd", ({ log }) => (log as (given: unknown) => void)({ some: "object" })),
    aSpeaker("talking", async ({ log, signal }) => {
      log("on it");
      await passGate(gates.talking.name, "", signal);
    }),
    aSpeaker("steady", async ({ log, signal }) => {
      for (let line = 1; line <= 60; line += 1) {
        log(`line ${line}`);
        await delay(20, undefined, { signal });
      }
    }),
    aSpeaker("flooding", ({ log }) => {
      for (let line = 1; line <= 100_000; line += 1) log(`line ${line}`);
    }),
    aSpeaker("heavy", ({ log }) => {
      for (let line = 1; line <= 200; line += 1) log("x".repeat(3_000));
      log("a short one, that would fit");
    }),
    aDriver("coming_back", {
      clean: stepsOf(
        aStep("coming_back", "clean", async ({ log, memo }) => {
          const entry = typeof memo === "number" ? memo : 1;
          for (let line = 1; line <= 400; line += 1) log(`entry ${entry}, line ${line}`);
          return entry < 4 ? { kind: "wait", seconds: 0, memo: entry + 1 } : done;
        }),
      ),
    }),
    aDriver("trying_again", {
      clean: stepsOf(
        aStep(
          "trying_again",
          "clean",
          async ({ log }) => {
            for (let line = 1; line <= 1_200; line += 1) log("again");
            return { kind: "failed", reason: "not yet", retryable: true };
          },
          { retries: { times: 1, backoffSeconds: 0 } },
        ),
      ),
    }),
    aSpeaker("fenced", async ({ log }) => {
      log("while it is ours");
      await passGate(gates.fenced.name, "", null);
      log("when it is not");
      await passGate(gates.afterwards.name, "", null);
    }),
    aSpeaker(
      "late",
      async ({ log }) => {
        log("in time");
        await passGate(gates.late.name, "", null);
        log("too late");
        loggedLate = true;
      },
      { timeoutSeconds: 0.2 },
    ),
    aDriver("undoing", {
      clean: stepsOf(
        aStep(
          "undoing",
          "clean",
          async ({ signal, log }) => {
            log("begun");
            return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
          },
          { abort: async ({ log }) => log("undone") },
        ),
      ),
    }),
    aSpeaker("reporting", async ({ progress, signal }) => {
      progress(10, "begun");
      progress(50, "half");
      progress(90, "nearly");
      await passGate(gates.reporting.name, "", signal);
    }),
    aSpeaker("finishing", ({ progress }) => (progress(5, "begun"), progress(42, "as far as it went"))),
    aSpeaker("eager", async ({ progress, signal }) => {
      for (let percent = 1; percent <= 100; percent += 1) {
        progress(percent, `${percent}`);
        await delay(20, undefined, { signal });
      }
    }),
  ],
});
afterAll(() => ostler[Symbol.asyncDispose]());

async function begun(driver: string, settings: Record<string, unknown> = {}) {
  const node = await ostler.aNode().in("AVAILABLE").with(driver, settings).made();
  return { node, id: await ostler.begin("CLEAN", [node]) };
}

const logOf = async (id: string, node: TestNode) =>
  linesAfter(ostler.database.reader, (await ostler.run(id, node)).id, 0, 10_000);

async function logOfOne(driver: string, settings: Record<string, unknown> = {}) {
  const { node, id } = await begun(driver, settings);
  await ostler.operationEnds(id);
  return logOf(id, node);
}

const textsOf = (lines: readonly { readonly text: string }[]) => lines.map(({ text }) => text);
const sequencesOf = (lines: readonly { readonly sequence: number }[]) => lines.map(({ sequence }) => sequence);

describe("log of a run", () => {
  test("log of a run has the lines of all steps and attempts, numbered without gaps", async () => {
    const lines = await logOfOne("two_steps");
    expect(lines.map(({ sequence, step, attempt, text }) => ({ sequence, step, attempt, text }))).toEqual([
      { sequence: 1, step: 0, attempt: 1, text: "one" },
      { sequence: 2, step: 0, attempt: 1, text: "two" },
      { sequence: 3, step: 1, attempt: 1, text: "three" },
      { sequence: 4, step: 1, attempt: 2, text: "three" },
    ]);
  });

  test("log of a run masks secrets, and characters that the database cannot store", async () => {
    expect(textsOf(await logOfOne("indiscreet", { password: "correct horse" }))).toEqual([
      "the password is ***, \uFFFD",
    ]);
  });

  test("log of a run truncates long lines", async () => {
    expect(textsOf(await logOfOne("long_winded"))).toEqual([`${"é".repeat(3_999)}…`, "short"]);
  });

  test("log of a run converts values other than text to text", async () => {
    expect(textsOf(await logOfOne("odd"))).toEqual(["[object Object]"]);
  });

  test("log of a run can be read while the step runs", async () => {
    const { node, id } = await begun("talking");
    await gates.talking.arrivals();
    await eventually("the line is stored", async () => (await logOf(id, node)).length === 1);
    expect((await ostler.run(id, node)).state).toBe("RUNNING");
    gates.talking.open();
    await ostler.operationEnds(id);
  });

  test("log of a run is written at most twice a second", async () => {
    const { node, id } = await begun("steady");
    await ostler.operationEnds(id);
    const run = await ostler.run(id, node);
    expect(textsOf(await logOf(id, node))).toEqual(range(1, 60).map((line) => `line ${line}`));
    const [batches] = await ostler.test.sql<
      { count: number }[]
    >`select count(distinct xmin::text)::int as count from step_log where run_id = ${run.id}`;
    const seconds = (run.finishedAt?.getTime() ?? 0) / 1000 - (run.startedAt?.getTime() ?? 0) / 1000;
    expect(batches?.count).toBeGreaterThan(1);
    // The last one comes with the end of the step.
    expect(batches?.count).toBeLessThanOrEqual(Math.floor(seconds * 2) + 1);
  });

  test("log of a run includes lines from an abort", async () => {
    const { node, id } = await begun("undoing");
    await eventually("the step has started", async () => (await logOf(id, node)).length === 1);
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
    expect(textsOf(await logOf(id, node))).toEqual(["begun", "undone"]);
  });

  test("log of a run has no line of a step that logs after its end", async () => {
    const { node, id } = await begun("late");
    await ostler.operationEnds(id);
    gates.late.open();
    await eventually("the step continues", () => loggedLate);
    // A batch would be stored by then.
    await delay(700);
    expect(textsOf(await logOf(id, node))).toEqual(["in time"]);
  });
});

describe("log limit of an attempt", () => {
  test("log limit of an attempt is a thousand lines; one more line states the number of dropped lines", async () => {
    const lines = await logOfOne("flooding");
    expect(textsOf(lines.slice(0, -1))).toEqual(range(1, 1_000).map((line) => `line ${line}`));
    expect(lines.at(-1)).toMatchObject({
      sequence: 1_001,
      attempt: 1,
      text: "99000 more lines of this attempt were not kept: its log is full.",
    });
  });

  test("log limit of an attempt is 256 KiB; after a dropped line no later line is kept, even if it would fit", async () => {
    const lines = await logOfOne("heavy");
    const kept = Math.floor((256 * KIB) / 3_000);
    expect(lines).toHaveLength(kept + 1);
    expect(new Set(textsOf(lines.slice(0, -1)))).toEqual(new Set(["x".repeat(3_000)]));
    expect(lines.at(-1)?.text).toBe(`${200 - kept + 1} more lines of this attempt were not kept: its log is full.`);
  });

  test("log limit of an attempt covers all its entries, and one line states everything that was dropped", async () => {
    const lines = await logOfOne("coming_back");
    expect(sequencesOf(lines)).toEqual(range(1, 1_001));
    expect(lines[999]?.text).toBe("entry 3, line 200");
    expect(lines[1_000]?.text).toBe("600 more lines of this attempt were not kept: its log is full.");
  });

  test("log limit of an attempt does not affect the next attempt", async () => {
    const lines = await logOfOne("trying_again");
    expect(sequencesOf(lines)).toEqual(range(1, 2_002));
    expect(lines.map(({ attempt }) => attempt)).toEqual([
      ...Array<number>(1_001).fill(1),
      ...Array<number>(1_001).fill(2),
    ]);
    expect([lines[1_000]?.text, lines[2_001]?.text]).toEqual(
      Array(2).fill("200 more lines of this attempt were not kept: its log is full."),
    );
  });
});

describe("log of a process", () => {
  test("log of a process that has lost the run gets no more lines [R-137]", async () => {
    const { node, id } = await begun("fenced");
    await gates.fenced.arrivals();
    await eventually("the line is stored", async () => (await logOf(id, node)).length === 1);
    const run = await ostler.run(id, node);
    await ostler.test.sql`update runs set fence = fence + 1 where id = ${run.id}`;
    gates.fenced.open();
    await gates.afterwards.arrivals();
    gates.afterwards.open();
    await delay(700);
    expect(textsOf(await logOf(id, node))).toEqual(["while it is ours"]);
  });

  test("log of a process that is killed loses at most half a second, and the next process continues the numbers", async () => {
    await using ended = await engineUnderTest({ started: false });
    const gate = aGate();
    const node = await ended
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_metadata": { says: ["erasing", "still erasing"], gate: gate.name } })
      .made();
    const victim = await ended.inAnotherProcess();
    const id = await ended.begin("CLEAN", [node]);
    const lines = async () => linesAfter(ended.database.reader, (await ended.run(id, node)).id, 0, 100);
    await eventually("the lines are stored", async () => (await lines()).length === 2);
    await victim.kill();
    await ended.leasesRunOut();
    gate.open();
    await ended.engine.start();
    expect((await ended.operationEnds(id)).state).toBe("SUCCEEDED");
    expect((await lines()).map(({ sequence, attempt, text }) => ({ sequence, attempt, text }))).toEqual([
      { sequence: 1, attempt: 1, text: "erasing" },
      { sequence: 2, attempt: 1, text: "still erasing" },
      { sequence: 3, attempt: 1, text: "erasing" },
      { sequence: 4, attempt: 1, text: "still erasing" },
    ]);
  });
});

describe("progress of a step", () => {
  const attempt = async (id: string, node: TestNode) =>
    (await ostler.steps(await ostler.run(id, node)))[0]?.attempts[0];

  test("progress of a step shows the last value, though it came too fast", async () => {
    const { node, id } = await begun("reporting");
    await gates.reporting.arrivals();
    await eventually("the newest is stored", async () => (await attempt(id, node))?.progressPercent === 90);
    expect((await attempt(id, node))?.progressMessage).toBe("nearly");
    gates.reporting.open();
    await ostler.operationEnds(id);
  });

  test("progress of a step is kept as it was when the step ended", async () => {
    const { node, id } = await begun("finishing");
    await ostler.operationEnds(id);
    expect(await attempt(id, node)).toMatchObject({
      state: "SUCCEEDED",
      progressPercent: 42,
      progressMessage: "as far as it went",
    });
  });

  test("progress of a step is written at most once a second", async () => {
    const { node, id } = await begun("eager");
    await ostler.operationEnds(id);
    const run = await ostler.run(id, node);
    const seconds = (run.finishedAt?.getTime() ?? 0) / 1000 - (run.startedAt?.getTime() ?? 0) / 1000;
    const quiet = await begun("odd");
    await ostler.operationEnds(quiet.id);
    const without = (await ostler.run(quiet.id, quiet.node)).revision;
    expect(run.revision - without).toBeGreaterThan(1);
    // The first is written at once, the last with the end of the step.
    expect(run.revision - without).toBeLessThanOrEqual(Math.floor(seconds) + 2);
    expect(await attempt(id, node)).toMatchObject({ progressPercent: 100 });
  });
});
