/** Freshness of leases by the local clock. */
import { expect, test } from "vitest";
import { Leases } from "../../src/engine/claims/leases.ts";

test.each([
  { seconds: 0, fresh: true },
  { seconds: 7, fresh: true },
  { seconds: 8.1, fresh: false },
  { seconds: 600, fresh: false },
])("lease that was renewed $seconds s ago is fresh: $fresh", ({ seconds, fresh }) => {
  const leases = new Leases({} as never);
  const claim = { id: "00000000-0000-4000-8000-000000000000", fence: 2 };
  leases.hold(claim, performance.now() - seconds * 1_000);
  expect(leases.isFresh(claim)).toBe(fresh);
  expect(leases.isFresh({ ...claim, fence: 1 })).toBe(false);
});
