/** Who may still call a machine: told by the lease, and by the fence only together with it. */
import { expect, test } from "vitest";
import { createOwnershipCheck } from "../../src/engine/execution/ownership-check.ts";
import { FencedError } from "../../src/engine/execution/claimed-run.ts";
import type { HeldJob } from "../../src/engine/jobs/leases.ts";

const JOB: HeldJob = { id: "job", retryCount: 0 };
const AGAIN: HeldJob = { id: "job", retryCount: 1 };

/** What is known of the lease, and what the database answers of the fence, one answer after the other; the last one stays. */
function asking({
  fresh = [],
  fences = [7],
}: { readonly fresh?: readonly HeldJob[]; readonly fences?: readonly (number | Error | undefined)[] } = {}) {
  const known = {
    fresh: new Set(fresh),
    held: undefined as HeldJob | undefined,
    renews: undefined as HeldJob | undefined,
    isReleased: false,
    asked: 0,
  };
  const confirm = createOwnershipCheck(
    {
      queue: {
        isFresh: (job) => known.fresh.has(job),
        async renew() {
          if (known.renews) known.fresh.add(known.renews);
        },
        held: () => known.held,
      },
      async fenceOf() {
        const answer = fences[Math.min(known.asked, fences.length - 1)];
        known.asked += 1;
        if (answer instanceof Error) throw answer;
        return answer;
      },
      isReleased: () => known.isReleased,
    },
    { runId: "run", fence: 7, job: JOB },
  );
  return { known, confirm };
}

test("a lease that was renewed a moment ago is enough", async () => {
  const { known, confirm } = asking({ fresh: [JOB] });
  await confirm();
  expect(known.asked).toBe(0);
});

test("one that was not is renewed first", async () => {
  const { known, confirm } = asking();
  known.renews = JOB;
  await confirm();
});

test("a fence that was unchanged when the database answered is not, as the answer may be read when it is changed", async () => {
  const { known, confirm } = asking({ fences: [7, 7, 8] });
  await expect(confirm()).rejects.toThrow(FencedError);
  expect(known.asked).toBe(3);
});

test("a job that this process has taken again is as good, where nobody had the run in between", async () => {
  const { known, confirm } = asking();
  known.held = AGAIN;
  known.fresh.add(AGAIN);
  await confirm();
  await confirm();
  expect(known.asked).toBe(1);
});

test("and is none where somebody had", async () => {
  const { known, confirm } = asking({ fences: [8] });
  known.held = AGAIN;
  known.fresh.add(AGAIN);
  await expect(confirm()).rejects.toThrow(FencedError);
});

test("a database that is away is asked again", async () => {
  const { known, confirm } = asking({ fences: [Object.assign(new Error("gone"), { code: "ECONNRESET" }), undefined] });
  await expect(confirm()).rejects.toThrow(FencedError);
  expect(known.asked).toBe(2);
});

test("what has been given up is not held, however fresh its lease is", async () => {
  const { known, confirm } = asking({ fresh: [JOB] });
  known.isReleased = true;
  await expect(confirm()).rejects.toThrow(FencedError);
});
