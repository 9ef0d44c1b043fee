/** Takeover from a process that was lost, or only seemed lost: callbacks, pending aborts and waits are kept. */
import { afterAll, describe, expect, test } from "vitest";
import { passGate } from "../../plugins/fake/gates.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestGate, TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnyCall } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { lockRun } from "../../src/store/run-locks.ts";
import { runStatement } from "../../src/store/postgres/statements.ts";

/** Arguments of each entry of the step under test. */
const entries: Pick<AnyCall, "memo" | "callback" | "callbackPath">[] = [];
let gate: TestGate = aGate();

const stopAtGate = async ({ node, memo, callback, callbackPath }: AnyCall) => {
  entries.push({ memo, callback, callbackPath });
  await passGate(gate.name, node.name, null);
};

const DRIVERS = [
  aDriver("listener", {
    clean: stepsOf(
      aStep("listen", "clean", async (call) => {
        if (call.memo === null) {
          entries.push({ memo: call.memo, callback: call.callback, callbackPath: call.callbackPath });
          return { kind: "wait", callback: true, seconds: 600, memo: 1 };
        }
        await stopAtGate(call);
        return { kind: "done", output: { heard: call.callback } };
      }),
    ),
  }),
  aDriver("firmware", {
    clean: stepsOf(
      aStep(
        "flash",
        "clean",
        async (call) => {
          await stopAtGate(call);
          return { kind: "done" };
        },
        { interruptible: "NEVER" },
      ),
    ),
  }),
  aDriver("patient", {
    clean: stepsOf(
      aStep("boot", "clean", async (call) => {
        await stopAtGate(call);
        return { kind: "wait", callback: true, seconds: 600, memo: "asked" };
      }),
    ),
  }),
];

const ostler = await engineUnderTest({ drivers: DRIVERS });
/** Has one slot, so that another process takes over what it loses. */
const narrow = await engineUnderTest({ drivers: DRIVERS, concurrency: 1 });
afterAll(async () => {
  await narrow[Symbol.asyncDispose]();
  await ostler[Symbol.asyncDispose]();
});

async function cleaning(driver: string, lab = ostler): Promise<{ readonly node: TestNode; readonly id: string }> {
  entries.length = 0;
  gate = aGate();
  const node = await lab.aNode().in("AVAILABLE").with(driver).made();
  return { node, id: await lab.begin("CLEAN", [node]) };
}

/** Lets the first owner's lease expire, though its process is alive and sends heartbeats in between. */
const takenOver = (lab: typeof ostler, what: string, isSo: () => Promise<boolean> | boolean) =>
  eventually(what, async () => {
    await lab.leasesRunOut("first owners");
    return isSo();
  });

const entered = (count: number) => eventually(`the step is entered ${count} times`, () => entries.length === count);
const token = () => entries.at(-1)?.callbackPath.split("/").at(-1) ?? "";

describe("callback before a takeover", () => {
  test("callback is passed to the step again if the process dies in the entry that received it", async () => {
    const { node, id } = await cleaning("listener", narrow);
    await narrow.nodeBecomes(node, "CLEAN_WAIT");
    expect(await narrow.engine.receiveCallback(token(), { ok: true })).toBe("TAKEN");
    await entered(2);
    await using others = new AsyncDisposableStack();
    others.use(await narrow.another({ drivers: DRIVERS, started: true }));
    await takenOver(narrow, "the step is entered by the other", () => entries.length === 3);
    expect(entries.map(({ callback }) => callback)).toEqual([null, { ok: true }, { ok: true }]);
    gate.open();
    expect((await narrow.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("callback before the deadline counts, though no process handled it before the deadline", async () => {
    const { node, id } = await cleaning("listener");
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    const { id: runId } = await ostler.run(id, node);
    await ostler.test.sql`update attempts set deadline_at = now() - interval '1 second' where run_id = ${runId}`;
    await ostler.test.sql`update runs set wake_at = now() - interval '1 second' where id = ${runId}`;
    gate.open();
    expect(await ostler.engine.receiveCallback(token(), { ok: true })).toBe("TAKEN");
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(entries.at(-1)?.callback).toEqual({ ok: true });
  });
});

describe("takeover of a step that must not be interrupted", () => {
  test("takeover of a step that must not be interrupted enters it again, and its pending abort waits for the end of the step", async () => {
    const { node, id } = await cleaning("firmware", narrow);
    await entered(1);
    const asked = await narrow.engine.abort(ALICE, { work: { operationId: id }, mode: "AFTER_STEP" });
    expect(asked.results).toMatchObject([{ accepted: true, effect: "PENDING" }]);
    await using others = new AsyncDisposableStack();
    others.use(await narrow.another({ drivers: DRIVERS, started: true }));
    await takenOver(narrow, "the step is entered by the other", () => entries.length === 2);
    expect(await narrow.nodeState(node)).toBe("CLEANING");
    const withdrawn = await narrow.engine.withdrawAbort(ALICE, { work: { operationId: id } });
    expect(withdrawn.results).toMatchObject([{ accepted: true }]);
    gate.open();
    expect((await narrow.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await narrow.story(node, id)).toEqual([
      "clean → CLEANING",
      "abort_pending → CLEANING",
      "recover → CLEANING",
      "abort_withdrawn → CLEANING",
      "done → AVAILABLE",
    ]);
  });
});

describe("stale job of a parked run", () => {
  async function parkedRun() {
    const { node, id } = await cleaning("patient");
    gate.open();
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    return { node, id, runId: (await ostler.run(id, node)).id };
  }

  test.each([
    { interrupt: "no", ask: async () => {} },
    {
      interrupt: "a stop",
      ask: async (id: string) => void (await ostler.engine.stop(ALICE, { work: { operationId: id } })),
    },
  ])(
    "stale job of a parked run with $interrupt interrupt ends itself, and the step is entered on time",
    async ({ ask }) => {
      const { node, id, runId } = await parkedRun();
      await ask(id);
      const early = await ostler.test.sql<
        { id: string }[]
      >`insert into pgboss.job (name, data, singleton_key, policy) values ('runs', ${ostler.test.sql.json({ runId })}, ${runId}, 'standard') returning id`;
      await eventually(
        "the job has ended",
        async () => (await ostler.test.sql`select from pgboss.job where id = ${early[0]?.id ?? ""}`).length === 0,
      );
      expect(entries).toHaveLength(1);
      expect(await ostler.nodeState(node)).toBe("CLEAN_WAIT");
      expect(await ostler.engine.receiveCallback(token(), { ok: true })).toBe("TAKEN");
      await entered(2);
      await ostler.engine.abort(ALICE, { work: { operationId: id } });
      await ostler.operationEnds(id);
    },
  );

  test("wait of a parked run is over at its time, and not before [R-701]", async () => {
    const { id, runId } = await parkedRun();
    // Within one transaction the time of the database stands still. The column keeps milliseconds.
    const isDue = (milliseconds: number) =>
      ostler.database.transaction(async (tx) => {
        const late = `${milliseconds} * interval '1 millisecond'`;
        await runStatement(tx, `update runs set wake_at = now() + ${late} where id = $1`, [runId]);
        return (await lockRun(tx, runId))?.isDue;
      });
    expect([await isDue(60_000), await isDue(2), await isDue(-2)]).toEqual([false, false, true]);
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
  });

  test("only job of a parked run continues it, also if it comes before its time", async () => {
    const { id, runId } = await parkedRun();
    await ostler.test.sql`update runs set wake_at = now() + interval '1 hour' where id = ${runId}`;
    const [job] = await ostler.test.sql<{ count: number }[]>`
      with own as (update pgboss.job set start_after = now() where singleton_key = ${runId} returning 1) select count(*)::int from own`;
    expect(job).toEqual({ count: 1 });
    await entered(2);
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
  });
});

describe("job whose lease expired while its process was running", () => {
  test("job whose lease expired while its process was running does not enter the step that was parked meanwhile", async () => {
    const { node, id } = await cleaning("patient");
    await entered(1);
    const { id: runId } = await ostler.run(id, node);
    const jobs = () =>
      ostler.test.sql<
        { retries: number; state: string }[]
      >`select retry_count as retries, state::text from pgboss.job where name = 'runs' and singleton_key = ${runId} order by created_on`;
    await takenOver(ostler, "the job is fetched once more", async () =>
      (await jobs()).some(({ retries, state }) => retries > 0 && state === "active"),
    );
    gate.open();
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    await eventually("the old job has ended", async () => (await jobs()).every(({ retries }) => retries === 0));
    expect(entries).toHaveLength(1);
    expect(await ostler.nodeState(node)).toBe("CLEAN_WAIT");
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  });
});
