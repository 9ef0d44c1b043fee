/** A process whose clock is wrong: times are counted, and deadlines are the database's. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const HOUR_MS = 3_600_000;
const DEAF = aDriver("deaf", { clean: stepsOf(aStep("listen", "clean", async () => new Promise(() => {}), { timeoutSeconds: 1 })) });

let ostler: EngineUnderTest;
beforeEach(async () => {
  ostler = await engineUnderTest({ started: false, drivers: [DEAF] });
});
afterEach(async () => {
  vi.useRealTimers();
  await ostler[Symbol.asyncDispose]();
});

test.each([
  ["ahead", HOUR_MS],
  ["behind", -HOUR_MS],
])("an hour %s ends no step before its time, and none after", async (_, wrongByMs) => {
  const working = await ostler.aNode().in("AVAILABLE").scripted({ "deploy.write_image": { waitSeconds: 0.2 } }).times(3);
  const deaf = await ostler.aNode().in("AVAILABLE").with("deaf").made();
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + wrongByMs });
  await ostler.engine.start();
  const deployed = await ostler.begin("DEPLOY", working);
  const cleaned = await ostler.begin("CLEAN", [deaf]);
  expect((await ostler.operationEnds(deployed)).state).toBe("SUCCEEDED");
  for (const node of working) expect(ostler.entered(node).filter((step) => step === "deploy.write_image")).toHaveLength(2);
  expect((await ostler.operationEnds(cleaned)).state).toBe("FAILED");
  expect((await ostler.run(cleaned, deaf)).failure).toMatchObject({ code: "TIMEOUT", step: "clean.listen" });
});
