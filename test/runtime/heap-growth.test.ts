/** The growth of the heap between collections of the old generation, in a process of its own. */
import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";

/** Keeps objects, replaces others once they are old, and prints the peak of the old generation in MB. */
const PROGRAM = `
  import { getHeapSpaceStatistics } from "node:v8";
  const old = () => getHeapSpaceStatistics().find((space) => space.space_name === "old_space").space_used_size / 1e6;
  const block = () => Array.from({ length: 1_000 }, (_, index) => ({ index }));
  const kept = Array.from({ length: 1_000 }, block);
  const replaced = [];
  let peak = 0;
  for (let count = 0; count < 15_000; count += 1) {
    replaced.push(block());
    if (replaced.length > 60) replaced.splice(0, 30);
    peak = Math.max(peak, old());
  }
  console.log(kept.length > 0 && peak);
`;

/** Old generation at its peak, in MB, in a process that runs `before` first. */
function peakMb(before: string): number {
  const args = ["--max-semi-space-size=1", "--single-threaded-gc", "--input-type=module", "--eval", before + PROGRAM];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  expect(stderr).toBe("");
  return Number(stdout);
}

describe("growth of the heap", () => {
  test("the service's heap takes less than two thirds of what V8 lets it grow to with the same objects [R-709]", () => {
    const module = JSON.stringify(new URL("../../src/runtime/heap-growth.ts", import.meta.url).href);
    const limited = peakMb(`import { limitHeapGrowth } from ${module}; limitHeapGrowth();`);
    expect(limited).toBeGreaterThan(10);
    expect(limited / peakMb("")).toBeLessThan(2 / 3);
  });
});
