/** One step: its outcomes, its retries, its time, and what a driver may do wrong without harm. */
import { afterAll, describe, expect, test } from "vitest";
import type { StepResult } from "../../src/drivers/driver.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnyCall } from "../support/driver.ts";

const done: StepResult = { kind: "done" };
const memos: unknown[] = [];
const keys = new Map<string, string[]>();
let tries = 0;

const noteKey = (call: AnyCall) => keys.set(call.node.name, [...(keys.get(call.node.name) ?? []), call.attemptKey]);

const quick = { retries: { times: 2, backoffSeconds: 0 } } as const;

const DRIVERS = [
  aDriver("ordered", {
    clean: stepsOf(aStep("low", "clean", async () => done, { priority: 1 }), aStep("high", "clean", async () => done, { priority: 9 }), aStep("off", "clean", async () => done, { priority: 0 }), aStep("also_high", "clean", async () => done, { priority: 9 })),
  }),
  aDriver("flaky", {
    clean: stepsOf(
      aStep("flaky", "clean", async (call) => {
        noteKey(call);
        tries += 1;
        return tries < 3 ? { kind: "failed", reason: `try ${tries}`, retryable: true } : { kind: "done", output: { tries } };
      }, quick),
    ),
  }),
  aDriver("hopeless", { clean: stepsOf(aStep("hopeless", "clean", async () => ({ kind: "failed", reason: "not today", retryable: true }), quick)) }),
  aDriver("final", { clean: stepsOf(aStep("final", "clean", async () => ({ kind: "failed", reason: "never", retryable: false }), quick)) }),
  aDriver("slow", { clean: stepsOf(aStep("slow", "clean", async ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error))), { timeoutSeconds: 0.2 })) }),
  aDriver("deaf", { clean: stepsOf(aStep("deaf", "clean", async () => new Promise(() => {}), { timeoutSeconds: 0.2 })) }),
  aDriver("patient", { clean: stepsOf(aStep("patient", "clean", async () => ({ kind: "wait", seconds: 0.05, memo: null }), { timeoutSeconds: 0.3 })) }),
  aDriver("counting", {
    clean: stepsOf(
      aStep("counting", "clean", async (call) => {
        noteKey(call);
        memos.push(call.memo);
        const count = typeof call.memo === "number" ? call.memo : 0;
        return count < 3 ? { kind: "wait", seconds: 0, memo: count + 1 } : done;
      }),
    ),
  }),
  aDriver("talkative", {
    secret: true,
    clean: stepsOf(
      aStep("talkative", "clean", async ({ settings, progress }) => {
        progress(250, `logging in with ${String(settings["password"])}`);
        return { kind: "failed", reason: `login ${String(settings["password"])} was refused`, retryable: false };
      }),
    ),
  }),
  aDriver("broken", { clean: stepsOf(aStep("broken", "clean", async () => ({ kind: "failed", reason: "half a \uD83D face, and \0 nothing", retryable: false }))) }),
  aDriver("binary", { clean: stepsOf(aStep("binary", "clean", async ({ progress }) => {
    progress(1, "\0");
    return { kind: "done", output: { "\0": ["\uD800", "fine"] } };
  })) }),
  aDriver("chatty", { secret: true, clean: stepsOf(aStep("chatty", "clean", async ({ settings }) => ({ kind: "done", output: { said: [`it is ${String(settings["password"])}`] } }))) }),
];

/** What drivers may return that is no result. */
const JUNK: readonly { what: string; result: unknown }[] = [
  { what: "nothing", result: undefined },
  { what: "a text", result: "done" },
  { what: "an unknown kind", result: { kind: "perhaps" } },
  { what: "a wait without an end", result: { kind: "wait", memo: null } },
  { what: "a wait of a negative time", result: { kind: "wait", seconds: -1, memo: null } },
  { what: "a failure without a reason", result: { kind: "failed", retryable: true } },
  { what: "an output that refers to itself", result: { kind: "done", output: (() => { const ring: Record<string, unknown> = {}; ring["self"] = ring; return ring; })() } },
  { what: "an output of a megabyte", result: { kind: "done", output: "x".repeat(1_000_000) } },
  { what: "a memo with a character that no database stores", result: { kind: "wait", seconds: 0, memo: "\0" } },
  { what: "a kind with half a character", result: { kind: "\uD800 a kind of its own" } },
  { what: "a memo that is a function", result: { kind: "wait", seconds: 1, memo: () => {} } },
];
const junkDrivers = JUNK.map(({ result }, index) => aDriver(`junk${index}`, { clean: stepsOf(aStep("junk", "clean", async () => result as StepResult)) }));

const ostler = await engineUnderTest({ drivers: [...DRIVERS, ...junkDrivers] });
afterAll(() => ostler[Symbol.asyncDispose]());

async function cleanedBy(driver: string, settings: Record<string, unknown> = {}) {
  const node = await ostler.aNode().in("AVAILABLE").with(driver, settings).made();
  const id = await ostler.begin("CLEAN", [node]);
  const operation = await ostler.operationEnds(id);
  const run = await ostler.run(id, node);
  return { node, operation, run, steps: await ostler.steps(run), story: await ostler.story(node, id) };
}

const attemptsOf = ({ steps: [step] }: Awaited<ReturnType<typeof cleanedBy>>) => (step?.attempts ?? []).map(({ state }) => state);

test("steps run by priority, those alike as they were declared, those of priority 0 not at all", async () => {
  expect((await cleanedBy("ordered")).steps.map(({ name }) => name)).toEqual(["clean.high", "clean.also_high", "clean.low"]);
});

describe("a step that fails", () => {
  test("is tried again where it may be, and each attempt is kept", async () => {
    const seen = await cleanedBy("flaky");
    expect(seen.operation.state).toBe("SUCCEEDED");
    expect(attemptsOf(seen)).toEqual(["FAILED", "FAILED", "SUCCEEDED"]);
    expect(seen.steps[0]?.attempts.map(({ failure, output }) => failure?.message ?? output)).toEqual([expect.stringContaining("try 1"), expect.stringContaining("try 2"), { tries: 3 }]);
    expect(seen.story).toEqual(["clean → CLEANING", "wait → CLEAN_WAIT", "resume → CLEANING", "wait → CLEAN_WAIT", "resume → CLEANING", "done → AVAILABLE"]);
    expect(new Set(keys.get(seen.node.name)).size).toBe(3);
  });

  test("fails its node when its retries are used up", async () => {
    const seen = await cleanedBy("hopeless");
    expect(attemptsOf(seen)).toEqual(["FAILED", "FAILED", "FAILED"]);
    expect(seen.run).toMatchObject({ state: "FAILED", failure: { code: "BACKEND_FAILED", step: "clean.hopeless", message: `Node ${seen.node.name}: clean.hopeless failed: not today.` } });
  });

  test("is not tried again when it says that this is no use", async () => {
    expect(attemptsOf(await cleanedBy("final"))).toEqual(["FAILED"]);
  });

  test("by throwing fails its node, with the message", async () => {
    const node = await ostler.aNode().in("AVAILABLE").scripted({ "clean.erase_disks": { throws: "segmentation fault" } }).made();
    const id = await ostler.begin("CLEAN", [node]);
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "FAILED", firstFailure: { code: "BACKEND_FAILED", message: expect.stringContaining("segmentation fault") } });
    expect(await ostler.nodeState(node)).toBe("CLEAN_FAILED");
  });
});

describe("characters that no database stores are replaced", () => {
  test("in the reason of a failure", async () => {
    expect((await cleanedBy("broken")).run.failure?.message).toContain("half a \uFFFD face, and \uFFFD nothing");
  });

  test("in an output, its keys included", async () => {
    const seen = await cleanedBy("binary");
    expect(seen.steps[0]?.attempts.map(({ output }) => output)).toEqual([{ "\uFFFD": ["\uFFFD", "fine"] }]);
  });
});

test.each(JUNK.map(({ what }, index) => ({ what, driver: `junk${index}` })))("a driver that returns $what fails its node and harms nothing else", async ({ driver }) => {
  const seen = await cleanedBy(driver);
  expect(seen.run).toMatchObject({ state: "FAILED", failure: { code: "BACKEND_FAILED", message: expect.stringContaining("The driver returned") } });
});

describe("a step whose time is over", () => {
  test.each(["slow", "deaf"])("fails with TIMEOUT, be it %s to its signal", async (driver) => {
    const seen = await cleanedBy(driver);
    expect(seen.run).toMatchObject({ state: "FAILED", failure: { code: "TIMEOUT", message: expect.stringContaining("did not end within 0.2 s") } });
  });

  test("fails with TIMEOUT even when it is parked most of it", async () => {
    const seen = await cleanedBy("patient");
    expect(seen.run).toMatchObject({ state: "FAILED", failure: { code: "TIMEOUT" } });
    expect(seen.steps[0]?.attempts[0]?.entries).toBeGreaterThan(1);
  });
});

test("a step that waits is entered again with its memo, as the same attempt", async () => {
  const seen = await cleanedBy("counting");
  expect(memos).toEqual([null, 1, 2, 3]);
  expect(seen.steps[0]?.attempts.map(({ entries, state }) => [entries, state])).toEqual([[4, "SUCCEEDED"]]);
  expect(new Set(keys.get(seen.node.name)).size).toBe(1);
});

describe("a secret of the settings", () => {
  const PASSWORD = "correct-horse";

  test("is masked in what fails", async () => {
    const { run } = await cleanedBy("talkative", { password: PASSWORD });
    expect(run.failure?.message).toContain("login *** was refused");
  });

  test("is masked in outputs", async () => {
    expect((await cleanedBy("chatty", { password: PASSWORD })).steps[0]?.attempts[0]?.output).toEqual({ said: ["it is ***"] });
  });

  test("is nowhere in the database but where secrets are kept", async () => {
    await cleanedBy("talkative", { password: PASSWORD });
    const rest = (await ostler.dump()).filter((row) => !row.startsWith("node_secrets "));
    expect(rest.filter((line) => line.includes(PASSWORD))).toEqual([]);
  });
});

test("the same settings, less what is secret, come back from a node", async () => {
  const node = await ostler.aNode().with("fake", { password: "correct-horse", delayMs: 7 }).made();
  const { settings } = await ostler.node(node);
  expect(settings["fake"]).toMatchObject({ delayMs: 7 });
  expect(settings["fake"]).not.toHaveProperty("password");
});

test("progress is seen while the step runs, within its bounds", async () => {
  const gate = aGate();
  const node = await ostler.aNode().in("AVAILABLE").scripted({ "clean.erase_metadata": { progress: true, delayMs: 20 }, "clean.erase_disks": { gate: gate.name } }).made();
  const id = await ostler.begin("CLEAN", [node]);
  await gate.arrivals();
  const [first] = await ostler.steps(await ostler.run(id, node));
  const percent = first?.attempts[0]?.progressPercent ?? -1;
  expect(percent).toBeGreaterThan(0);
  expect(percent).toBeLessThanOrEqual(100);
  gate.open();
  await ostler.operationEnds(id);
});

describe("explicit clean steps", () => {
  test("run in the order asked, with their arguments, and the node ends where it began", async () => {
    const node = await ostler.aNode().in("MANAGEABLE").made();
    const id = await ostler.begin("CLEAN", [node], {
      options: { steps: [{ interface: "clean", name: "update_firmware", args: { version: "2.1" } }, { interface: "clean", name: "erase_metadata", args: {} }] },
    });
    await ostler.operationEnds(id);
    expect(ostler.entered(node)).toEqual(["clean.update_firmware", "clean.erase_metadata"]);
    expect((await ostler.steps(await ostler.run(id, node)))[0]?.attempts[0]?.output).toEqual({ version: "2.1" });
    expect(await ostler.nodeState(node)).toBe("MANAGEABLE");
  });

  test("are refused with everything that is wrong with them, before anything starts", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const answer = await ostler.engine.submit(ALICE, {
      kind: "CLEAN",
      nodes: { ids: [node.id] },
      options: { steps: [{ interface: "clean", name: "polish", args: {} }, { interface: "clean", name: "update_firmware", args: { version: "new" } }, { interface: "clean", name: "erase_disks", args: { passes: 3 } }] },
    });
    expect(answer.operationId).toBeNull();
    const said = answer.refusals.map(({ message }) => message).join(" ");
    expect(said).toContain(`Step clean.polish on node ${node.name}: its drivers offer no such clean step`);
    expect(said).toContain(`Step clean.update_firmware on node ${node.name}: `);
    expect(said).toContain(`Step clean.erase_disks on node ${node.name}: it takes no arguments, and passes was given.`);
  });
});
