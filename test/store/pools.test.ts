/**
 * The number of connections of a replica: each pool within its bounds, and the sum by which servers and poolers are
 * sized.
 */
import { expect, test } from "vitest";
import { connectionsOf, poolsOf } from "../../src/store/postgres/pools.ts";

test.each([
  { writers: 4, pools: { writers: 4, readers: 2, snapshots: 3, queue: 3 }, serving: 14, working: 8 },
  { writers: 20, pools: { writers: 20, readers: 10, snapshots: 3, queue: 5 }, serving: 40, working: 26 },
  { writers: 200, pools: { writers: 200, readers: 100, snapshots: 3, queue: 10 }, serving: 315, working: 211 },
])(
  "pools with $writers writers have $serving connections in all, and $working without request serving",
  ({ writers, pools, serving, working }) => {
    expect(poolsOf(writers)).toEqual(pools);
    expect([connectionsOf(pools, true), connectionsOf(pools, false)]).toEqual([serving, working]);
  },
);
