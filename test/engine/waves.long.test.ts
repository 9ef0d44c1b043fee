/** Waves of a large fleet. */
import { expect, test } from "vitest";
import { engineUnderTest } from "../support/builders.ts";

test("waves of ten thousand nodes are admitted, and only the first wave may start", async () => {
  await using lab = await engineUnderTest({ started: false });
  const nodes = await lab.aNode().times(10_000);
  const begun = performance.now();
  const id = await lab.begin("COMMISSION", nodes, {
    waves: { sizes: [{ count: 10 }, { percent: 1 }], maxFailures: { percent: 1 } },
  });
  console.log(`10,000 nodes were admitted in waves within ${Math.round(performance.now() - begun)} ms`);
  expect(await lab.operation(id)).toMatchObject({ totalCount: 10_000, waves: { maxFailures: 100 } });
  const waves = await lab.test.sql<
    { wave: number; reason: string | null; runs: number }[]
  >`select wave, wait_reason as reason, count(*)::int as runs from runs where state = 'QUEUED' group by wave, wait_reason order by wave`;
  expect(waves.slice(0, 3)).toEqual([
    { wave: 0, reason: "CONCURRENCY", runs: 10 },
    { wave: 1, reason: null, runs: 100 },
    { wave: 2, reason: null, runs: 100 },
  ]);
  expect(waves.reduce((sum, { runs }) => sum + runs, 0)).toBe(10_000);
  const [touched] = await lab.test.sql<
    { nodes: number }[]
  >`select count(*)::int as nodes from nodes where state <> 'ENROLLED'`;
  expect(touched?.nodes).toBe(0);
});
