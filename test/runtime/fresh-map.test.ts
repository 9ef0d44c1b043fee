/** Maps whose entries are used for a moment only. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FreshMap } from "../../src/runtime/fresh-map.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => void vi.useRealTimers());

test("fresh map gives an entry for its time, and drops it afterwards without being used", () => {
  const map = new FreshMap<string>(100);
  map.set("old", "one");
  vi.advanceTimersByTime(60);
  map.set("new", "two");
  vi.advanceTimersByTime(50);
  expect([map.get("old"), map.get("new")]).toEqual([undefined, "two"]);
  vi.advanceTimersByTime(200);
  expect(map.size).toBe(0);
  expect(vi.getTimerCount()).toBe(0);
});

test("fresh map drops the oldest entries beyond its size, and an entry that is set again is the newest", () => {
  const map = new FreshMap<number>(100, 2);
  map.set("a", 1);
  map.set("b", 2);
  map.set("a", 3);
  map.set("c", 4);
  expect([map.get("a"), map.get("b"), map.get("c")]).toEqual([3, undefined, 4]);
});

test("fresh map drops an entry on request only if it still has that value", () => {
  const map = new FreshMap<number>(100);
  map.set("a", 1);
  map.drop("a", 2);
  expect(map.get("a")).toBe(1);
  map.drop("a", 1);
  expect(map.size).toBe(0);
});
