/** Helpers that the layers share: timeouts, limits of concurrency, LRU maps, canonical JSON, texts. */
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { canonicalJson, hashOf, isSameJson } from "../../src/runtime/canonical-json.ts";
import { mapConcurrently } from "../../src/runtime/concurrency.ts";
import { isRecord, isStorable } from "../../src/runtime/json-values.ts";
import { LruMap } from "../../src/runtime/lru-map.ts";
import { cutTo, isStorableText, sentence, storableText } from "../../src/runtime/text.ts";
import { withTimeout, withinTime } from "../../src/runtime/timeout.ts";
import { isUuid } from "../../src/runtime/uuid.ts";

const never = new Promise<never>(() => {});

describe("timeouts", () => {
  test("withTimeout passes on the result and the failure of work that ends in time", async () => {
    expect(await withTimeout(5_000, Promise.resolve("done"))).toBe("done");
    await expect(withTimeout(5_000, Promise.reject(new Error("failed")))).rejects.toThrow("failed");
  });

  test("withTimeout rejects with its own error when work takes longer", async () => {
    await expect(withTimeout(1, never)).rejects.toThrow("There was no answer within 0.001 s.");
    await expect(withTimeout(1, never, () => new Error("too late"))).rejects.toThrow("too late");
  });

  test("withinTime returns the substitute when work takes longer, and ignores a later failure", async () => {
    expect(await withinTime(5_000, Promise.resolve("done"), "late")).toBe("done");
    const { promise, reject } = Promise.withResolvers<never>();
    expect(await withinTime(1, promise, "late")).toBe("late");
    reject(new Error("failed"));
    await delay(0);
  });
});

describe("mapConcurrently", () => {
  test("mapConcurrently keeps the order, and never runs more calls than its limit", async () => {
    let running = 0;
    let most = 0;
    const results = await mapConcurrently(3, [5, 1, 4, 2, 3, 1], async (ms) => {
      running += 1;
      most = Math.max(most, running);
      await delay(ms);
      running -= 1;
      return ms * 10;
    });
    expect(results).toEqual([50, 10, 40, 20, 30, 10]);
    expect(most).toBe(3);
  });

  test("mapConcurrently rejects with the failure of a call", async () => {
    await expect(mapConcurrently(2, [1, 2], () => Promise.reject(new Error("failed")))).rejects.toThrow("failed");
  });
});

test("LRU map drops the entry that was not used for the longest time", () => {
  const map = new LruMap<string, number>(2);
  map.set("a", 1);
  map.set("b", 2);
  expect(map.get("a")).toBe(1);
  map.set("c", 3);
  expect([map.has("a"), map.has("b"), map.has("c"), map.size]).toEqual([true, false, true, 2]);
  map.set("c", 4);
  expect([map.get("c"), map.size]).toEqual([4, 2]);
  expect(map.delete("c")).toBe(true);
  expect(map.get("c")).toBeUndefined();
});

test("LRU map with weights drops entries until their weights fit", () => {
  const map = new LruMap<string, number>(6, (key) => key.length);
  map.set("aaa", 1);
  map.set("bb", 2);
  map.set("cccc", 3);
  expect([map.has("aaa"), map.has("bb"), map.has("cccc")]).toEqual([false, true, true]);
});

test("canonical JSON does not depend on the order of keys or on undefined members", () => {
  expect(canonicalJson({ b: [1, { d: null, c: "x" }], a: undefined })).toBe('{"b":[1,{"c":"x","d":null}]}');
  expect(hashOf({ a: 1, b: 2 })).toBe(hashOf({ b: 2, a: 1 }));
  expect(isSameJson({ a: [1, 2] }, { a: [1, 2], b: undefined })).toBe(true);
  expect(isSameJson([1, 2], [2, 1])).toBe(false);
});

test("texts that PostgreSQL cannot store are recognized and repaired", () => {
  const broken = "a\0b\uD800";
  expect(isStorableText(broken)).toBe(false);
  expect(isStorable({ list: [broken] })).toBe(false);
  expect(isStorable({ [broken]: 1 })).toBe(false);
  expect(isStorable({ list: ["fine", 1, null] })).toBe(true);
  expect(storableText(broken)).toBe("a\uFFFDb\uFFFD");
  expect(cutTo("ab😀", 3)).toBe("ab\uFFFD");
});

test("sentence adds a full stop unless the text has an end", () => {
  expect(["failed", "failed.", "why?", "and so on…"].map(sentence)).toEqual([
    "failed.",
    "failed.",
    "why?",
    "and so on…",
  ]);
});

test("isUuid and isRecord accept their form only", () => {
  expect(isUuid("0190a5e3-7b1c-7c3d-8e4f-5a6b7c8d9e0f")).toBe(true);
  expect([isUuid("0190A5E3-7B1C-7C3D-8E4F-5A6B7C8D9E0F"), isUuid("abc")]).toEqual([false, false]);
  expect([{}, [], null, "x"].map(isRecord)).toEqual([true, false, false, false]);
});
