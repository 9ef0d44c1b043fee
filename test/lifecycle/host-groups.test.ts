import { expect, test } from "vitest";
import { comesAfter } from "../../src/lifecycle/host-groups.ts";
import type { RulesByGroup } from "../../src/lifecycle/host-groups.ts";

test("groups that come before another one are read once each, however many ways lead to them", () => {
  const reads: string[] = [];
  const rules: RulesByGroup = Object.fromEntries(
    Array.from({ length: 20 }, (_, layer) => ["a", "b"].map((side) => `${side}${layer}`)).flatMap((layer, at) =>
      layer.map((group) => [group, at === 0 ? {} : { after: [{ group: `a${at - 1}` }, { group: `b${at - 1}` }] }]),
    ),
  );
  const counted = new Proxy(rules, { get: (all, group: string) => (reads.push(group), all[group]) });
  expect(comesAfter(counted, "a19", "lost")).toBe(false);
  expect(reads.length).toBeLessThan(50);
  expect(comesAfter(rules, "a19", "b0")).toBe(true);
  expect(comesAfter({ a: { after: [{ group: "b" }] }, b: { after: [{ group: "a" }] } }, "a", "c")).toBe(false);
});
