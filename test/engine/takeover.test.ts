/** Takeover from a process that was lost, or only seemed lost: callbacks, pending aborts and waits are kept. */
import { afterAll, describe, expect, test } from "vitest";
import { passGate } from "../../plugins/fake/gates.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestGate, TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnyCall } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { claimRun } from "../../src/engine/execution/claim/claim.ts";
import type { ClaimParts, ClaimReads } from "../../src/engine/execution/claim/claim.ts";
import { Ledger } from "../../src/engine/execution/commit/ledger.ts";
import type { Transaction } from "../../src/engine/transaction.ts";
import { lockRun } from "../../src/store/runs/run-locks.ts";
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
async function takenOver(lab: typeof ostler, what: string, isSo: () => boolean): Promise<void> {
  const owners = await lab.test.sql<{ owner: string }[]>`select distinct owner from runs where owner is not null`;
  await eventually(what, async () => {
    await lab.leasesRunOut(owners.map(({ owner }) => owner));
    return isSo();
  });
}

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

describe("claim of a parked run", () => {
  async function parkedRun() {
    const { node, id } = await cleaning("patient");
    gate.open();
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    return { node, id, runId: (await ostler.run(id, node)).id };
  }

  test("claim of a parked run is possible at its time, and not before [R-701]", async () => {
    const { id, runId } = await parkedRun();
    // Within one transaction the time of the database stands still. The column keeps milliseconds.
    const isDue = (milliseconds: number) =>
      ostler.database.transaction(async (tx) => {
        const late = `${milliseconds} * interval '1 millisecond'`;
        await runStatement(tx, `update runs set due_at = now() + ${late} where id = $1`, [runId]);
        return (await lockRun(tx, runId))?.isDue;
      });
    expect([await isDue(60_000), await isDue(2), await isDue(-2)]).toEqual([false, false, true]);
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
  });

  test.each([
    ["whose start was withdrawn after the claim", { state: "QUEUED", isDue: false }, {}],
    ["whose wait was extended after the claim", { state: "RUNNING", isDue: false }, {}],
    ["that an interrupt woke which was withdrawn", { state: "HOLDING", isDue: true }, { dueAt: null }],
  ] as const)("claim leaves a run %s", async (_what, changes, noted) => {
    const { id, runId } = await parkedRun();
    const run = await ostler.database.transaction((tx) => lockRun(tx, runId));
    if (!run) throw new Error("The run is gone.");
    const ledger = new Ledger({} as Transaction, { ...run, ...changes }, true);
    expect(await claimRun({} as ClaimParts, ledger, run, {} as ClaimReads)).toEqual({ kind: "RELEASE" });
    expect(ledger.notes).toMatchObject({ run: noted, hops: [], begun: [], end: null });
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
  });
});

describe("lease that expired while its process was running", () => {
  test("lease that expired while its process was running is renewed by it, and no other execution begins", async () => {
    const { node, id } = await cleaning("patient");
    await entered(1);
    await ostler.leasesRunOut();
    await eventually("the lease is renewed", async () => ((await ostler.run(id, node)).leaseUntil ?? 0) > new Date());
    expect(await ostler.run(id, node)).toMatchObject({ fence: 1 });
    gate.open();
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    expect(entries).toHaveLength(1);
    expect(await ostler.run(id, node)).toMatchObject({ owner: null, leaseUntil: null });
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  });
});
