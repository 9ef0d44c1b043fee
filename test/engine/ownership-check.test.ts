/**
 * The check before a call to a machine: is the run still ours? The lease decides; the fence counts only together with
 * the lease.
 */
import { expect, test } from "vitest";
import { createOwnershipCheck } from "../../src/engine/execution/ownership-check.ts";
import { FencedError } from "../../src/engine/execution/claimed-run.ts";
import type { HeldJob } from "../../src/engine/jobs/leases.ts";

const JOB: HeldJob = { id: "job", retryCount: 0 };
const AGAIN: HeldJob = { id: "job", retryCount: 1 };

/** The state of the lease, and the database's answers for the fence in order; the last answer repeats. */
function aCheck({
  fresh = [],
  fences = [7],
}: { readonly fresh?: readonly HeldJob[]; readonly fences?: readonly (number | Error | undefined)[] } = {}) {
  const state = {
    fresh: new Set(fresh),
    held: undefined as HeldJob | undefined,
    renews: undefined as HeldJob | undefined,
    isReleased: false,
    asked: 0,
  };
  const confirm = createOwnershipCheck(
    {
      queue: {
        isFresh: (job) => state.fresh.has(job),
        async renew() {
          if (state.renews) state.fresh.add(state.renews);
        },
        held: () => state.held,
      },
      async fenceOf() {
        const answer = fences[Math.min(state.asked, fences.length - 1)];
        state.asked += 1;
        if (answer instanceof Error) throw answer;
        return answer;
      },
      isReleased: () => state.isReleased,
    },
    { runId: "run", fence: 7, job: JOB },
  );
  return { state, confirm };
}

test("ownership check passes with a lease that was just renewed, without a query", async () => {
  const { state, confirm } = aCheck({ fresh: [JOB] });
  await confirm();
  expect(state.asked).toBe(0);
});

test("ownership check renews a lease that is not fresh", async () => {
  const { state, confirm } = aCheck();
  state.renews = JOB;
  await confirm();
});

test("ownership check fails with an unchanged fence alone, because it may change before the answer is read", async () => {
  const { state, confirm } = aCheck({ fences: [7, 7, 8] });
  await expect(confirm()).rejects.toThrow(FencedError);
  expect(state.asked).toBe(3);
});

test("ownership check passes for a job that this process has claimed again, if no other worker had the run in between", async () => {
  const { state, confirm } = aCheck();
  state.held = AGAIN;
  state.fresh.add(AGAIN);
  await confirm();
  await confirm();
  expect(state.asked).toBe(1);
});

test("ownership check fails for a job that this process has claimed again, if another worker had the run in between", async () => {
  const { state, confirm } = aCheck({ fences: [8] });
  state.held = AGAIN;
  state.fresh.add(AGAIN);
  await expect(confirm()).rejects.toThrow(FencedError);
});

test("ownership check asks a lost database again", async () => {
  const { state, confirm } = aCheck({
    fences: [Object.assign(new Error("connection lost"), { code: "ECONNRESET" }), undefined],
  });
  await expect(confirm()).rejects.toThrow(FencedError);
  expect(state.asked).toBe(2);
});

test("ownership check fails for a released run, even with a fresh lease", async () => {
  const { state, confirm } = aCheck({ fresh: [JOB] });
  state.isReleased = true;
  await expect(confirm()).rejects.toThrow(FencedError);
});
