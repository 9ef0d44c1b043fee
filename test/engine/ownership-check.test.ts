/**
 * The check before a call to a machine: is the run still ours? The lease decides; the fence counts only together with
 * the lease.
 */
import { expect, test } from "vitest";
import { createOwnershipCheck } from "../../src/engine/execution/claim/ownership-check.ts";
import { FencedError } from "../../src/engine/execution/claim/claimed-run.ts";

/** The state of the lease, and the database's answers for the fence in order; the last answer repeats. */
function aCheck({
  isFresh = false,
  fences = [7],
}: { readonly isFresh?: boolean; readonly fences?: readonly (number | Error | undefined)[] } = {}) {
  const state = {
    isFresh,
    renews: false,
    isReleased: false,
    asked: 0,
  };
  const confirm = createOwnershipCheck(
    {
      leases: {
        isFresh: () => state.isFresh,
        async renewSoon() {
          state.isFresh ||= state.renews;
        },
      },
      async fenceOf() {
        const answer = fences[Math.min(state.asked, fences.length - 1)];
        state.asked += 1;
        if (answer instanceof Error) throw answer;
        return answer;
      },
      isReleased: () => state.isReleased,
    },
    { id: "run", fence: 7 },
  );
  return { state, confirm };
}

test("ownership check passes with a lease that was just renewed, without a query", async () => {
  const { state, confirm } = aCheck({ isFresh: true });
  await confirm();
  expect(state.asked).toBe(0);
});

test("ownership check renews a lease that is not fresh", async () => {
  const { state, confirm } = aCheck();
  state.renews = true;
  await confirm();
});

test("ownership check fails with an unchanged fence alone, because it may change before the answer is read", async () => {
  const { state, confirm } = aCheck({ fences: [7, 7, 8] });
  await expect(confirm()).rejects.toThrow(FencedError);
  expect(state.asked).toBe(3);
});

test("ownership check asks a lost database again", async () => {
  const { state, confirm } = aCheck({
    fences: [Object.assign(new Error("connection lost"), { code: "ECONNRESET" }), undefined],
  });
  await expect(confirm()).rejects.toThrow(FencedError);
  expect(state.asked).toBe(2);
});

test("ownership check fails for a released run, even with a fresh lease", async () => {
  const { state, confirm } = aCheck({ isFresh: true });
  state.isReleased = true;
  await expect(confirm()).rejects.toThrow(FencedError);
});
