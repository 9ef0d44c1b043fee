/** A process whose clock is wrong: durations are counted, and deadlines come from the database's clock. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const HOUR_MS = 3_600_000;
const IGNORING = aDriver("ignoring", {
  clean: stepsOf(aStep("listen", "clean", async () => new Promise(() => {}), { timeoutSeconds: 1 })),
});

let ostler: EngineUnderTest;
beforeEach(async () => {
  ostler = await engineUnderTest({ started: false, drivers: [IGNORING] });
});
afterEach(async () => {
  vi.useRealTimers();
  await ostler[Symbol.asyncDispose]();
});

const CLOCK_ERRORS = [
  ["ahead", HOUR_MS],
  ["behind", -HOUR_MS],
] as const;

// The replica's own clock used to order these in a queue that other replicas share.
test.each(CLOCK_ERRORS)(
  "clock that is an hour %s does not change waiting and interrupt times, which come from the database",
  async (_, wrongByMs) => {
    const nodes = await ostler.aNode().in("AVAILABLE").times(2);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + wrongByMs });
    const id = await ostler.begin("DEPLOY", nodes, { maxParallel: 1 });
    expect(
      (await ostler.runs(id)).map(({ waitingSince, createdAt }) => waitingSince?.getTime() === createdAt.getTime()),
    ).toEqual([false, true]);
    const { operationId } = await ostler.engine.discoverNodes(ALICE, { addresses: ["10.0.0.1"], driver: "fake" });
    await ostler.engine.stop(ALICE, { work: { operationId: operationId ?? "" } });
    const { interruptAt, finishedAt } = await ostler.operation(operationId ?? "");
    expect(interruptAt).toEqual(finishedAt);
  },
);

test.each(CLOCK_ERRORS)(
  "clock that is an hour %s ends no step before its timeout and none after it [R-140]",
  async (_, wrongByMs) => {
    const working = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { waitSeconds: 0.2 } })
      .times(3);
    const ignoring = await ostler.aNode().in("AVAILABLE").with("ignoring").made();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + wrongByMs });
    await ostler.engine.start();
    const deployed = await ostler.begin("DEPLOY", working);
    const cleaned = await ostler.begin("CLEAN", [ignoring]);
    expect((await ostler.operationEnds(deployed)).state).toBe("SUCCEEDED");
    for (const node of working)
      expect(ostler.entered(node).filter((step) => step === "deploy.write_image")).toHaveLength(2);
    expect((await ostler.operationEnds(cleaned)).state).toBe("FAILED");
    expect((await ostler.run(cleaned, ignoring)).failure).toMatchObject({ code: "TIMEOUT", step: "clean.listen" });
  },
);
