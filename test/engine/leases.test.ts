/** Freshness of leases by the local clock. */
import { expect, test } from "vitest";
import { isFresh } from "../../src/engine/jobs/leases.ts";

test.each([
  { seconds: 0, fresh: true },
  { seconds: 7, fresh: true },
  { seconds: 8.1, fresh: false },
  { seconds: 600, fresh: false },
])("lease that was renewed $seconds s ago is fresh: $fresh", ({ seconds, fresh }) => {
  const job = { id: "00000000-0000-4000-8000-000000000000", retryCount: 0 };
  expect(isFresh({ queue: "runs", job, heldAt: performance.now() - seconds * 1_000 })).toBe(fresh);
});
