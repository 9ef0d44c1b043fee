/**
 * Group commit: runs that reach a boundary at the same time share a transaction. What happens to them when one fails,
 * or when the answer to the commit is lost.
 */
import { afterEach, describe, expect, test } from "vitest";
import type { Database } from "../../src/store/postgres/database.ts";
import { aGate, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { passGate } from "../../plugins/fake/gates.ts";
import { unsound } from "../support/soundness.ts";

const NODES = 30;

/** Entries of steps, as `node step`. */
const entries: string[] = [];
let gate = aGate();

/** Its steps must not be entered twice; the second one waits at the gate. */
const ONCE = aDriver("once", {
  clean: stepsOf(
    ...["first", "second", "third"].map((name, index) =>
      aStep(
        name,
        "clean",
        async ({ node }) => {
          entries.push(`${node.name} ${name}`);
          if (name === "second") await passGate(gate.name, node.name, null);
          return { kind: "done" };
        },
        { idempotent: false, priority: 90 - index },
      ),
    ),
  ),
});

/** Every second commit succeeds, but its answer is lost. */
function losesAnswers(): { readonly through: (database: Database) => Database; lost: number; on: boolean } {
  let commits = 0;
  const loss = {
    lost: 0,
    on: false,
    through: (database: Database): Database => ({
      ...database,
      async transaction(work) {
        const answer = await database.transaction(work);
        commits += 1;
        if (!loss.on || commits % 2 === 0) return answer;
        loss.lost += 1;
        throw Object.assign(new Error("The connection was lost before the answer came."), {
          code: "CONNECTION_CLOSED",
        });
      },
    }),
  };
  return loss;
}

let ostler: EngineUnderTest;
afterEach(() => ostler[Symbol.asyncDispose]());

async function readyToClean(setup: Parameters<typeof engineUnderTest>[0] = {}) {
  entries.length = 0;
  gate = aGate();
  ostler = await engineUnderTest({ drivers: [ONCE], started: false, ...setup });
  const nodes = await ostler.aNode().in("AVAILABLE").with("once").times(NODES);
  return { nodes, id: await ostler.begin("CLEAN", nodes) };
}

describe("group commit whose answer is lost", () => {
  test("group commit whose answer is lost is recognized on the retry: no step is entered twice or taken for interrupted [R-014]", async () => {
    const loss = losesAnswers();
    const { nodes, id } = await readyToClean({ through: loss.through });
    gate.open();
    loss.on = true;
    await ostler.engine.start();
    const ended = await ostler.operationEnds(id);
    loss.on = false;
    expect(loss.lost).toBeGreaterThan(3);
    expect(ended.state).toBe("SUCCEEDED");
    expect(entries.toSorted()).toEqual(
      nodes.flatMap(({ name }) => ["first", "second", "third"].map((step) => `${name} ${step}`)).toSorted(),
    );
    for (const node of nodes) expect(await ostler.story(node, id)).toEqual(["clean → CLEANING", "done → AVAILABLE"]);
    expect(await unsound(ostler)).toEqual([]);
  });
});

describe("group commit with a locked run", () => {
  test("group commit does not delay the other runs if one is locked", async () => {
    const { nodes, id } = await readyToClean();
    await ostler.engine.start();
    await gate.arrivals(NODES);
    const [held] = await ostler.runs(id);
    await ostler.test.sql.begin(async (tx) => {
      await tx`select from runs where id = ${held?.id ?? ""} for update`;
      gate.open();
      await eventually(
        "the others have ended",
        async () => (await ostler.runs(id)).filter(({ state }) => state === "SUCCEEDED").length === NODES - 1,
      );
    });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(entries).toHaveLength(3 * nodes.length);
  });
});

describe("group commits of single locked runs", () => {
  test("group commits that wait for locked runs do not block later ones", async () => {
    const released = new Map<string, () => void>();
    const patient = aDriver("patient", {
      clean: stepsOf(
        aStep("wait", "clean", async ({ node }) => {
          await new Promise<void>((release) => released.set(node.name, release));
          return { kind: "done" };
        }),
      ),
    });
    ostler = await engineUnderTest({ drivers: [patient] });
    const nodes = await ostler.aNode().in("AVAILABLE").with("patient").times(4);
    const id = await ostler.begin("CLEAN", nodes);
    await eventually("all are inside", () => released.size === 4);
    const runs = await ostler.runs(id);
    await ostler.test.sql.begin(async (tx) => {
      await tx`select from runs where id = any(${runs.slice(0, 2).map((run) => run.id)}) for update`;
      for (const [index, run] of runs.entries()) {
        released.get(run.nodeName)?.();
        if (index < 2)
          await eventually(
            "the transaction waits for its row",
            async () => (await ostler.waitingForLocks()) === index + 1,
          );
      }
      await eventually(
        "the other two have ended",
        async () => (await ostler.runs(id)).filter(({ state }) => state === "SUCCEEDED").length === 2,
      );
    });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });
});

describe("driver whose schema check does not return", () => {
  test("driver whose schema check does not return fails its own nodes only", { timeout: 60_000 }, async () => {
    let hangs = false;
    const stuck = aDriver("stuck", { clean: stepsOf(aStep("work", "clean", async () => ({ kind: "done" }))) });
    const { validate } = stuck.settings["~standard"];
    const settings = {
      "~standard": {
        ...stuck.settings["~standard"],
        validate: (value: unknown) => (hangs ? new Promise<never>(() => {}) : validate(value)),
      },
    };
    ostler = await engineUnderTest({ drivers: [{ ...stuck, settings }, ONCE], started: false });
    const bad = await ostler.aNode().in("AVAILABLE").with("stuck").times(3);
    const good = await ostler.aNode().in("AVAILABLE").with("once").times(3);
    gate = aGate();
    gate.open();
    hangs = true;
    const stopped = await ostler.begin("CLEAN", bad);
    const cleaned = await ostler.begin("CLEAN", good);
    await ostler.engine.start();
    expect((await ostler.operationEnds(cleaned)).state).toBe("SUCCEEDED");
    expect((await ostler.operation(stopped)).finishedAt).toBeNull();
    expect((await ostler.operationEnds(stopped)).state).toBe("FAILED");
    expect((await ostler.runs(stopped))[0]?.failure?.code).toBe("UNSUPPORTED_BY_DRIVER");
  });
});

describe("text that the database cannot store", () => {
  test("text that the database cannot store is replaced: a message cut inside a surrogate pair does not lose the result", async () => {
    const surrogates = aDriver("says", {
      clean: stepsOf(
        aStep(
          "say",
          "clean",
          async ({ progress, log }) => {
            progress(50, `${"x".repeat(999)}😀`);
            log("a line with \u0000 and half of \ud83d");
            return { kind: "failed", reason: `${"y".repeat(1_999)}😀`, retryable: false };
          },
          { idempotent: false },
        ),
      ),
    });
    ostler = await engineUnderTest({ drivers: [surrogates] });
    const node = await ostler.aNode().in("AVAILABLE").with("says").made();
    const id = await ostler.begin("CLEAN", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    const run = await ostler.run(id, node);
    expect(run.failure?.code).toBe("BACKEND_FAILED");
    const [step] = await ostler.steps(run);
    expect(step?.attempts[0]?.progressMessage).toBe(`${"x".repeat(999)}\uFFFD`);
  });
});

test("results wait while the disk of the database is full: no step is entered again [R-880]", async () => {
  const { nodes, id } = await readyToClean();
  await ostler.engine.start();
  await gate.arrivals(NODES);
  const { sql } = ostler.test;
  await sql`create sequence refusals`;
  await sql.unsafe(
    `create function refuse() returns trigger language plpgsql as $$ begin perform nextval('refusals'); raise 'No space left on device' using errcode = '53100'; end $$`,
  );
  await sql`create trigger full_disk before update on attempts execute function refuse()`;
  gate.open();
  await eventually(
    "results are refused",
    async () => (await sql`select from refusals where last_value > 2`).length > 0,
  );
  await sql`drop trigger full_disk on attempts`;
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  expect(entries).toHaveLength(3 * nodes.length);
});

describe("run whose outcome cannot be stored", () => {
  test("run whose outcome cannot be stored is retried, and the others continue", async () => {
    const { id } = await readyToClean();
    const [faulty] = await ostler.runs(id);
    // Until the trigger is dropped, storing the result of this run's second step fails the transaction.
    await ostler.test.sql.unsafe(`
      create function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
      create trigger refuse before update on attempts for each row when (new.run_id = '${faulty?.id ?? ""}' and new.step = 1 and new.state = 'SUCCEEDED') execute function refuse()`);
    gate.open();
    await ostler.engine.start();
    await eventually(
      "the others have ended",
      async () => (await ostler.runs(id)).filter(({ state }) => state === "SUCCEEDED").length === NODES - 1,
    );
    await ostler.test.sql`drop trigger refuse on attempts`;
    // Its job was released during the step, which must not run twice.
    expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
    expect((await ostler.runs(id))[0]?.failure?.code).toBe("INTERRUPTED");
  });
});
