import { sql } from "drizzle-orm";
import { afterAll, expect, test } from "vitest";
import { openAgentSessions } from "../../src/store/fleet-gauges.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const mediumUrls = new Map<string, string>();

const boots = aDriver("boots", {
  usesAgent: true,
  clean: stepsOf(
    aStep("boot", "clean", async ({ node, agent, callback }) => {
      // Also entered when the agent makes contact.
      if (callback === null) {
        const { mediumUrl } = await agent.open({ medium: "ISO", architecture: "X64" });
        mediumUrls.set(node.name, mediumUrl ?? "");
      }
      return { kind: "wait", callback: true, seconds: 600, memo: "booting" };
    }),
  ),
});
const provisioning = { url: "http://10.0.0.1:4010", mediaFor: () => ({ version: "1.0.0", protocol: 2 }) };
const ostler = await engineUnderTest({ drivers: [boots], provisioning });
afterAll(() => ostler[Symbol.asyncDispose]());

const REPORT = {
  instance: "one",
  version: "1.0.0",
  protocol: 2,
  architecture: "X64",
  bootMode: "UEFI",
  address: "10.0.0.7",
  macs: [],
} as const;

const counts = async () =>
  Object.fromEntries((await openAgentSessions(ostler.database.reader)).map(({ state, count }) => [state, count]));

test("metrics count open sessions of agents that boot, are connected, and are silent for a minute [R-682]", async () => {
  expect(await counts()).toEqual({});
  const nodes = await Promise.all([1, 2, 3].map(() => ostler.aNode().in("AVAILABLE").with("boots").made()));
  const id = await ostler.begin("CLEAN", nodes);
  for (const node of nodes) await ostler.nodeBecomes(node, "CLEAN_WAIT");
  expect(await counts()).toEqual({ BOOTING: 3 });
  const bearers = nodes.map(({ name }) => {
    const [, session = "", secret = ""] = /\/media\/([^.]+)\.([^/]+)\//.exec(mediumUrls.get(name) ?? "") ?? [];
    return { session, secret };
  });
  for (const bearer of bearers.slice(1)) await ostler.engine.agents.poll(bearer, REPORT);
  expect(await counts()).toEqual({ BOOTING: 1, CONNECTED: 2 });
  const silent = bearers[2]?.session ?? "";
  await ostler.database.transaction((tx) =>
    tx.execute(sql`update agent_sessions set seen_at = now() - interval '61 seconds' where id = ${silent}`),
  );
  expect(await counts()).toEqual({ BOOTING: 1, CONNECTED: 1, SILENT: 1 });
  await ostler.engine.abort(ALICE, { work: { operationId: id } });
  await ostler.operationEnds(id);
  expect(await counts()).toEqual({});
});
