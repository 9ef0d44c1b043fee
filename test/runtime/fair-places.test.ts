/** The sharing of places by addresses that tests cannot connect from: those of IPv6. */
import { expect, test } from "vitest";
import { createFairPlaces } from "../../src/runtime/fair-places.ts";

const MOST = 8;

/** The addresses whose places were taken away, and whether the newcomer has one. */
function afterwards(holders: readonly string[], newcomer: string): [ended: readonly string[], isIn: boolean] {
  const places = createFairPlaces(MOST);
  const ended: string[] = [];
  for (const address of holders) places.take(address, () => ended.push(address));
  return [ended, places.take(newcomer, () => {}) !== null];
}

const many = (network: string) => Array.from({ length: MOST }, (_, index) => `${network}::${index + 1}`);

test.each([
  ["many addresses of one /64 leave a place to another", many("2001:db8:0:1"), "2001:db8:0:2::1", ["2001:db8:0:1::1"]],
  ["and to an IPv4 address", many("fe80"), "10.0.0.9", ["fe80::1"]],
  ["one address leaves a place to its neighbours", many("fd00").fill("fd00::1"), "fd00::2%eth0", ["fd00::1"]],
  ["each address has one place in one /64", many("fd00"), "fd00::99", []],
])("places of IPv6: %s [R-828]", (_title, holders, newcomer, ended) => {
  expect(afterwards(holders, newcomer)).toEqual([ended, ended.length > 0]);
});
