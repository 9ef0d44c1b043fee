/** The order in which nodes begin: runs that a replica claims together begin in any order. */
import { expect } from "vitest";

/** Expects that nodes began in an order, of which up to `together` may have begun at the same time. */
export function expectOrder(begun: readonly string[], expected: readonly string[], together: number): void {
  expect(begun.toSorted()).toEqual(expected.toSorted());
  const displaced = expected.filter((name, index) => Math.abs(begun.indexOf(name) - index) >= together);
  expect(displaced).toEqual([]);
}
