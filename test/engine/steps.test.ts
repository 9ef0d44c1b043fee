/** One step: its outcomes, retries and timeout, and driver faults that must affect only their own node. */
import { afterAll, describe, expect, test } from "vitest";
import * as z from "zod";
import type { StepResult } from "../../src/drivers/driver.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { Entry, TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnyCall } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";

const MEDIUM_SECRET = "Zk3v9_mQ-x7Tq1LrW8bYc2dEf5gHj6nP0sUaVtRwXyZ";
const MEDIUM_URL = `http://10.0.0.1:4010/media/1b671a64-40d5-491e-99b0-da01ff1f3341.${MEDIUM_SECRET}/agent.iso`;
const done: StepResult = { kind: "done" };
const memos: unknown[] = [];
const keys = new Map<string, string[]>();
let tries = 0;
let bootPath = "";

/** As a BMC quotes what it was given. */
const echoOf = (...spellings: string[]) => new Error(`\u001B[31mno\u001B[0m \u202Elive\u200B: ${spellings.join(" ")}`);

const noteKey = (call: AnyCall) => keys.set(call.node.name, [...(keys.get(call.node.name) ?? []), call.attemptKey]);

const quick = { retries: { times: 2, backoffSeconds: 0 } } as const;

const DRIVERS = [
  aDriver("ordered", {
    clean: stepsOf(
      aStep("low", "clean", async () => done, { priority: 1 }),
      aStep("high", "clean", async () => done, { priority: 9 }),
      aStep("off", "clean", async () => done, { priority: 0 }),
      aStep("also_high", "clean", async () => done, { priority: 9 }),
    ),
  }),
  aDriver("flaky", {
    clean: stepsOf(
      aStep(
        "flaky",
        "clean",
        async (call) => {
          noteKey(call);
          tries += 1;
          return tries < 3
            ? { kind: "failed", reason: `try ${tries}`, retryable: true }
            : { kind: "done", output: { tries } };
        },
        quick,
      ),
    ),
  }),
  aDriver("hopeless", {
    clean: stepsOf(
      aStep("hopeless", "clean", async () => ({ kind: "failed", reason: "not today", retryable: true }), quick),
    ),
  }),
  aDriver("tireless", {
    clean: stepsOf(
      aStep(
        "tireless",
        "clean",
        async () => ({ kind: "failed", reason: "no answer for 120 s", retryable: true, retried: true }),
        quick,
      ),
    ),
  }),
  aDriver("final", {
    clean: stepsOf(aStep("final", "clean", async () => ({ kind: "failed", reason: "never", retryable: false }), quick)),
  }),
  aDriver("slow", {
    clean: stepsOf(
      aStep(
        "slow",
        "clean",
        async ({ signal }) =>
          new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error))),
        { timeoutSeconds: 0.2 },
      ),
    ),
  }),
  aDriver("ignoring", {
    clean: stepsOf(aStep("ignoring", "clean", async () => new Promise(() => {}), { timeoutSeconds: 0.2 })),
  }),
  aDriver("patient", {
    clean: stepsOf(
      aStep("patient", "clean", async () => ({ kind: "wait", seconds: 0.05, memo: null }), { timeoutSeconds: 1.5 }),
    ),
  }),
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
  aDriver("echoing", {
    media: {
      async insert(_call, url) {
        throw echoOf(url, encodeURIComponent(url), Buffer.from(url).toString("base64"), JSON.stringify({ url }));
      },
      async eject() {
        throw echoOf(MEDIUM_URL, encodeURIComponent(MEDIUM_URL), MEDIUM_URL.replaceAll("/", "&#47;"));
      },
    },
    clean: stepsOf(
      aStep("insert", "clean", async ({ media, memo, log, progress }) => {
        if (memo !== null) await media.eject();
        const error: unknown = await media.insert(MEDIUM_URL).catch((one: unknown) => one);
        log(String(error));
        progress(5, String(error));
        return { kind: "wait", seconds: 0, memo: "inserted" };
      }),
    ),
  }),
  aDriver("broken", {
    clean: stepsOf(
      aStep("broken", "clean", async () => ({
        kind: "failed",
        reason: "half a \uD83D face, and \0 nothing",
        retryable: false,
      })),
    ),
  }),
  aDriver("backing_off", {
    clean: stepsOf(
      aStep(
        "backing_off",
        "clean",
        async ({ attemptKey }) => {
          const number = Number(attemptKey.split(":").at(-1));
          return number < 3 ? { kind: "failed", reason: `the disk is busy, ${number}`, retryable: true } : done;
        },
        { retries: { times: 2, backoffSeconds: 600 } },
      ),
    ),
  }),
  aDriver("tardy", {
    clean: stepsOf(
      aStep("tardy", "clean", async () => new Promise(() => {}), {
        timeoutSeconds: 0.2,
        retries: { times: 1, backoffSeconds: 0 },
      }),
    ),
  }),
  ...[0.4, 60].map((timeoutSeconds) =>
    aDriver(`waits_within_${String(timeoutSeconds).replace(".", "_")}`, {
      clean: stepsOf(
        aStep("waits", "clean", async () => ({ kind: "wait", seconds: 3_600, memo: "parked" }), { timeoutSeconds }),
      ),
    }),
  ),
  aDriver("rebooting", {
    clean: stepsOf(
      aStep("update_bios", "clean", async ({ memo, power, callbackPath, callback }) => {
        if (memo === null) {
          await power.set("REBOOT");
          bootPath = callbackPath;
          return { kind: "wait", callback: true, seconds: 60, memo: { version: "2.1", rebooted: true } };
        }
        return { kind: "done", output: { memo, callback, power: await power.read() } };
      }),
    ),
  }),
  aDriver("binary", {
    clean: stepsOf(
      aStep("binary", "clean", async ({ progress }) => {
        progress(1, "\0");
        return { kind: "done", output: { "\0": ["\uD800", "fine"] } };
      }),
    ),
  }),
  aDriver("chatty", {
    secret: true,
    clean: stepsOf(
      aStep("chatty", "clean", async ({ settings }) => ({
        kind: "done",
        output: { texts: [`it is ${String(settings["password"])}`] },
      })),
    ),
  }),
];

/** Rejects passwords that it used to accept. */
let fussy = false;
const fussyDriver = {
  ...aDriver("fussy", { clean: stepsOf(aStep("fussy", "clean", async () => done)) }),
  settings: z.looseObject({
    password: z
      .string()
      .refine(() => !fussy, { error: ({ input }) => `"${String(input)}" is too weak` })
      .meta({ writeOnly: true }),
  }),
} as unknown as ReturnType<typeof aDriver>;

/** Throws on settings that it used to accept. */
let isCrashing = false;
const crashingDriver = {
  ...aDriver("crashing", { clean: stepsOf(aStep("sound", "clean", async () => done)) }),
  settings: z.looseObject({}).transform((settings) => {
    if (isCrashing) throw new Error("no such field: correct-horse");
    return settings;
  }),
} as unknown as ReturnType<typeof aDriver>;

/** Returns or throws as its settings say. */
const quotableDriver = {
  ...aDriver("quotable", {
    clean: stepsOf(
      aStep("answer", "clean", async ({ settings }) => {
        const { result, throws } = settings as { result?: object; throws?: string };
        if (throws !== undefined)
          throw Object.assign(new Error("no luck"), { name: "DriverError", kind: throws, retryable: false });
        return { token: (settings as { password: string }).password, ...result } as unknown as StepResult;
      }),
    ),
  }),
  settings: z.looseObject({ password: z.string().meta({ writeOnly: true }) }),
} as unknown as ReturnType<typeof aDriver>;

/** Return values of drivers that are not valid results. */
const JUNK: readonly { what: string; result: unknown }[] = [
  { what: "nothing", result: undefined },
  { what: "a text", result: "done" },
  { what: "an unknown kind", result: { kind: "perhaps" } },
  { what: "a wait without a duration", result: { kind: "wait", memo: null } },
  { what: "a wait with a negative time", result: { kind: "wait", seconds: -1, memo: null } },
  { what: "a failure without a reason", result: { kind: "failed", retryable: true } },
  {
    what: "an output that refers to itself",
    result: {
      kind: "done",
      output: (() => {
        const ring: Record<string, unknown> = {};
        ring["self"] = ring;
        return ring;
      })(),
    },
  },
  { what: "an output of a megabyte", result: { kind: "done", output: "x".repeat(1_000_000) } },
  { what: "a memo with a character that the database cannot store", result: { kind: "wait", seconds: 0, memo: "\0" } },
  { what: "a kind with a lone surrogate", result: { kind: "\uD800 a kind of its own" } },
  { what: "a memo that is a function", result: { kind: "wait", seconds: 1, memo: () => {} } },
];
const junkDrivers = JUNK.map(({ result }, index) =>
  aDriver(`junk${index}`, { clean: stepsOf(aStep("junk", "clean", async () => result as StepResult)) }),
);

const ostler = await engineUnderTest({
  drivers: [...DRIVERS, quotableDriver, fussyDriver, crashingDriver, ...junkDrivers],
});
afterAll(() => ostler[Symbol.asyncDispose]());

/** The middle of a text in Base64, which is the same whatever surrounds the text at this offset. */
const base64From = (text: string, by: number) => Buffer.from(text.slice(by)).toString("base64").slice(80, 100);

async function cleanedBy(driver: string, settings: Record<string, unknown> = {}) {
  const node = await ostler.aNode().in("AVAILABLE").with(driver, settings).made();
  const id = await ostler.begin("CLEAN", [node]);
  const operation = await ostler.operationEnds(id);
  const run = await ostler.run(id, node);
  return { node, operation, run, steps: await ostler.steps(run), story: await ostler.story(node, id) };
}

const attemptsOf = ({ steps: [step] }: Awaited<ReturnType<typeof cleanedBy>>) =>
  (step?.attempts ?? []).map(({ state }) => state);

test("steps run by priority, then in their order of declaration; steps of priority 0 do not run [R-023, R-061]", async () => {
  expect((await cleanedBy("ordered")).steps.map(({ name }) => name)).toEqual([
    "clean.high",
    "clean.also_high",
    "clean.low",
  ]);
});

describe("step that fails", () => {
  test("step that fails is retried if its driver allows it, and each attempt is kept [R-065]", async () => {
    const seen = await cleanedBy("flaky");
    expect(seen.operation.state).toBe("SUCCEEDED");
    expect(attemptsOf(seen)).toEqual(["FAILED", "FAILED", "SUCCEEDED"]);
    expect(seen.steps[0]?.attempts.map(({ failure, output }) => failure?.message ?? output)).toEqual([
      expect.stringContaining("try 1"),
      expect.stringContaining("try 2"),
      { tries: 3 },
    ]);
    expect(seen.story).toEqual([
      "clean → CLEANING",
      "wait → CLEAN_WAIT",
      "resume → CLEANING",
      "wait → CLEAN_WAIT",
      "resume → CLEANING",
      "done → AVAILABLE",
    ]);
    expect(new Set(keys.get(seen.node.name)).size).toBe(3);
  });

  test("step that fails after its last retry fails its node [R-067]", async () => {
    const seen = await cleanedBy("hopeless");
    expect(attemptsOf(seen)).toEqual(["FAILED", "FAILED", "FAILED"]);
    expect(seen.run).toMatchObject({
      state: "FAILED",
      failure: {
        code: "BACKEND_FAILED",
        step: "clean.hopeless",
        message: `Node ${seen.node.name}: clean.hopeless failed: not today.`,
      },
    });
  });

  test("step that fails as not retryable is not retried [R-065]", async () => {
    expect(attemptsOf(await cleanedBy("final"))).toEqual(["FAILED"]);
  });

  test("step whose driver has already tried again is not retried, and its failure may pass [R-683]", async () => {
    const seen = await cleanedBy("tireless");
    expect(attemptsOf(seen)).toEqual(["FAILED"]);
    expect(seen.run.failure).toMatchObject({ retryable: true, code: "BACKEND_FAILED" });
  });

  test("step that throws fails its node with the message [R-066]", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_disks": { throws: "segmentation fault" } })
      .made();
    const id = await ostler.begin("CLEAN", [node]);
    expect(await ostler.operationEnds(id)).toMatchObject({
      state: "FAILED",
      firstFailure: { code: "BACKEND_FAILED", message: expect.stringContaining("segmentation fault") },
    });
    expect(await ostler.nodeState(node)).toBe("CLEAN_FAILED");
  });
});

describe("backoff between two attempts", () => {
  test("backoff between two attempts parks the node as long as the step declares, and each attempt keeps its failure [R-067]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("backing_off").made();
    const id = await ostler.begin("CLEAN", [node]);
    const waits: number[] = [];
    for (const number of [1, 2]) {
      const run = await eventually(`the run waits for attempt ${number + 1}`, async () => {
        // Read the attempts first: a run that is read before them may still wait for the one that they show.
        const attempts = (await ostler.steps(await ostler.run(id, node)))[0]?.attempts ?? [];
        const seen = await ostler.run(id, node);
        return seen.waitReason === "RETRY" && attempts.length === number && seen;
      });
      const attempt = (await ostler.steps(run))[0]?.attempts.at(-1);
      expect(await ostler.nodeState(node)).toBe("CLEAN_WAIT");
      waits.push((run.wakeAt?.getTime() ?? 0) - (attempt?.finishedAt?.getTime() ?? 0));
      // The ten minutes are over.
      await ostler.waitIsOver(node);
    }
    expect(waits).toEqual([600_000, 600_000]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    const attempts = (await ostler.steps(await ostler.run(id, node)))[0]?.attempts ?? [];
    expect(attempts.map(({ number, state, failure }) => [number, state, failure?.message ?? null])).toEqual([
      [1, "FAILED", `Node ${node.name}: clean.backing_off failed: the disk is busy, 1.`],
      [2, "FAILED", `Node ${node.name}: clean.backing_off failed: the disk is busy, 2.`],
      [3, "SUCCEEDED", null],
    ]);
  });
});

test("texts of a machine have no secret of a medium in any spelling, also in a later entry, no terminal sequence and no invisible character [R-496, R-831, R-832]", async () => {
  const { run, steps } = await cleanedBy("echoing");
  const { message = "" } = run.failure ?? {};
  expect(message).toContain("failed: no live: http://10.0.0.1:4010/media/1b671a64-40d5-491e-99b0-da01ff1f3341.***");
  expect(steps[0]?.attempts[0]?.progressMessage).toMatch(
    /no live: \*\*\* http\S+\.\*\*\*%2Fagent.iso \*\*\* \{"url":"\*\*\*"\}$/,
  );
  const rows = await ostler.dump();
  expect(rows.filter((row) => row.includes("Error: no live: ***"))).not.toEqual([]);
  const forms = [MEDIUM_SECRET, "\u202E", ...[0, 1, 2].map((by) => base64From(MEDIUM_URL, by))];
  expect(rows.filter((row) => forms.some((form) => row.includes(form)))).toEqual([]);
});

describe("characters that the database cannot store", () => {
  test("characters that the database cannot store are replaced in the message of a failure", async () => {
    expect((await cleanedBy("broken")).run.failure?.message).toContain("half a \uFFFD face, and \uFFFD nothing");
  });

  test("characters that the database cannot store are replaced in an output and its keys", async () => {
    const seen = await cleanedBy("binary");
    expect(seen.steps[0]?.attempts.map(({ output }) => output)).toEqual([{ "\uFFFD": ["\uFFFD", "fine"] }]);
  });
});

test("invalid result of a driver is quoted in the failure, 200 characters of it and without secrets [R-211]", async () => {
  const seen = await cleanedBy("quotable", {
    result: { kind: "perhaps", text: "x".repeat(500) },
    password: "correct-horse",
  });
  expect(seen.run?.failure?.message).toMatch(
    /returned a result of kind "perhaps": \{"token":"\*\*\*","kind":"perhaps","text":"x{100,}…/,
  );
  expect(seen.run?.failure).toMatchObject({ code: "BACKEND_FAILED", kind: "OTHER" });
});

test.each([
  ["AUTHENTICATION", "BACKEND_FAILED"],
  ["UNREACHABLE", "BACKEND_FAILED"],
  ["TIMEOUT", "TIMEOUT"],
  ["REFUSED", "BACKEND_FAILED"],
  ["OTHER", "BACKEND_FAILED"],
])("failure of kind %s keeps its kind on run, attempt and node, with code %s [R-211]", async (kind, code) => {
  const seen = await cleanedBy("quotable", { throws: kind, password: "correct-horse" });
  expect(seen.run?.failure).toMatchObject({ kind, code });
  expect(seen.steps[0]?.attempts[0]?.failure).toMatchObject({ kind, code });
  expect(seen.operation.firstFailure).toMatchObject({ kind, code });
  expect((await ostler.node(seen.node)).lastError).toMatchObject({ kind, code });
});

test.each(JUNK.map(({ what }, index) => ({ what, driver: `junk${index}` })))(
  "driver that returns $what fails its node and affects nothing else [R-066]",
  async ({ driver }) => {
    const seen = await cleanedBy(driver);
    expect(seen.run).toMatchObject({
      state: "FAILED",
      failure: { code: "BACKEND_FAILED", message: expect.stringContaining("The driver returned") },
    });
  },
);

// The job of the run used to be retried indefinitely, and neither abort nor stop could end it.
test("driver that throws while it checks settings fails the run before it begins, and the error is not exposed", async () => {
  const node = await ostler.aNode().in("AVAILABLE").with("crashing").made();
  isCrashing = true;
  const id = await ostler.begin("CLEAN", [node]);
  expect((await ostler.operationEnds(id)).firstFailure).toMatchObject({
    code: "UNSUPPORTED_BY_DRIVER",
    message: expect.stringContaining("report that to the author of the driver"),
  });
  expect(await ostler.nodeState(node)).toBe("AVAILABLE");
  expect((await ostler.dump()).filter((row) => row.includes("correct-horse") && row.includes(node.id))).toEqual([]);
});

describe("step that exceeds its timeout", () => {
  test.each(["slow", "ignoring"])(
    "step that exceeds its timeout fails with TIMEOUT (driver %s) [R-141]",
    async (driver) => {
      const seen = await cleanedBy(driver);
      expect(seen.run).toMatchObject({
        state: "FAILED",
        failure: { code: "TIMEOUT", message: expect.stringContaining("did not end within 0.2 s") },
      });
    },
  );

  test("step that exceeds its timeout mostly parked fails with TIMEOUT [R-141]", async () => {
    const seen = await cleanedBy("patient");
    expect(seen.run).toMatchObject({ state: "FAILED", failure: { code: "TIMEOUT" } });
    expect(seen.steps[0]?.attempts[0]?.entries).toBeGreaterThan(1);
  });
});

describe("timeout of a step", () => {
  const deadlineOf = async (id: string, node: TestNode) => {
    const attempt = (await ostler.steps(await ostler.run(id, node)))[0]?.attempts.at(-1);
    return { attempt, seconds: ((attempt?.deadlineAt.getTime() ?? 0) - (attempt?.startedAt.getTime() ?? 0)) / 1000 };
  };

  test("timeout of a step is what it declares, from its start; a retry has the full timeout again [R-141]", async () => {
    const seen = await cleanedBy("tardy");
    const attempts = seen.steps[0]?.attempts ?? [];
    expect(attempts.map(({ state, failure }) => [state, failure?.code])).toEqual([
      ["FAILED", "TIMEOUT"],
      ["FAILED", "TIMEOUT"],
    ]);
    for (const { startedAt, deadlineAt } of attempts) expect(deadlineAt.getTime() - startedAt.getTime()).toBe(200);
    expect(attempts[1]?.startedAt.getTime()).toBeGreaterThanOrEqual(attempts[0]?.deadlineAt.getTime() ?? 0);
  });

  test("timeout of a step limits a longer wait of this step, and of no other [R-142]", async () => {
    const short = await ostler.aNode().in("AVAILABLE").with("waits_within_0_4").made();
    const long = await ostler.aNode().in("AVAILABLE").with("waits_within_60").made();
    const [shortId, longId] = [await ostler.begin("CLEAN", [short]), await ostler.begin("CLEAN", [long])];
    await ostler.nodeBecomes(long, "CLEAN_WAIT");
    const parked = await ostler.run(longId, long);
    expect(
      Math.abs((parked.wakeAt?.getTime() ?? 0) - ((await deadlineOf(longId, long)).attempt?.deadlineAt.getTime() ?? 0)),
    ).toBeLessThan(1_000);
    expect(await ostler.operationEnds(shortId)).toMatchObject({
      state: "FAILED",
      firstFailure: { code: "TIMEOUT", step: "clean.waits" },
    });
    expect((await deadlineOf(shortId, short)).seconds).toBeCloseTo(0.4);
    expect((await deadlineOf(longId, long)).seconds).toBeCloseTo(60);
    expect(await ostler.nodeState(long)).toBe("CLEAN_WAIT");
    await ostler.engine.abort(ALICE, { work: { operationId: longId } });
    await ostler.operationEnds(longId);
  });

  test("timeout of the reserved steps is part of the plan: a minute for power, six for a verification, the wait plus a margin for waits [R-144]", async () => {
    const node = await ostler.aNode().made();
    const answer = await ostler.submit("MANAGE", [node], { dryRun: true });
    expect(answer.results[0]?.plan?.steps.map(({ name, timeoutSeconds }) => [name, timeoutSeconds])).toEqual([
      ["verify", 360],
    ]);
    const ready = await ostler.aNode().in("AVAILABLE").made();
    const chosen = [
      { interface: "power", name: "reboot", args: {} },
      { interface: "engine", name: "wait", args: { seconds: 30 } },
    ] as const;
    const planned = await ostler.submit("CLEAN", [ready], { dryRun: true, options: { steps: chosen } });
    expect(planned.results[0]?.plan?.steps.map(({ name, timeoutSeconds }) => [name, timeoutSeconds])).toEqual([
      ["reboot", 60],
      ["wait", 90],
    ]);
  });
});

test("step that reboots the machine reboots it once: it continues with its memo after the callback [R-068]", async () => {
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .with("rebooting")
    .borrowing([{ kinds: ["power"], driver: "fake", settings: {} }])
    .made();
  const id = await ostler.begin("CLEAN", [node]);
  await ostler.nodeBecomes(node, "CLEAN_WAIT");
  expect(await ostler.run(id, node)).toMatchObject({ state: "WAITING", waitReason: "CALLBACK" });
  expect(await ostler.engine.receiveCallback(bootPath.split("/").at(-1) ?? "", { booted: true })).toBe("TAKEN");
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  expect(ostler.powerCalls(node)).toEqual(["REBOOT"]);
  const [step] = await ostler.steps(await ostler.run(id, node));
  expect(step?.attempts).toMatchObject([
    {
      state: "SUCCEEDED",
      entries: 2,
      output: { memo: { version: "2.1", rebooted: true }, callback: { booted: true }, power: "ON" },
    },
  ]);
  expect((await ostler.node(node)).powerState).toBe("ON");
});

test("step that waits continues with its memo in the same attempt after its process has died [R-006, R-068]", async () => {
  await using ended = await engineUnderTest({ started: false });
  const node = await ended
    .aNode()
    .in("AVAILABLE")
    .scripted({ "clean.erase_disks": { waitSeconds: 2 } })
    .made();
  const victim = await ended.inAnotherProcess();
  const id = await ended.begin("CLEAN", [node]);
  await eventually("the run is parked", async () => (await ended.run(id, node)).waitReason === "TIME");
  await victim.kill();
  await ended.engine.start();
  expect((await ended.operationEnds(id)).state).toBe("SUCCEEDED");
  const entries = ended
    .journal(node)
    .filter(({ step, done: isDone }) => step === "clean.erase_disks" && !isDone) as (Entry & {
    readonly attempt: string;
  })[];
  expect(entries.map(({ memo }) => memo)).toEqual([null, "waited"]);
  expect(new Set(entries.map(({ attempt }) => attempt)).size).toBe(1);
  const step = (await ended.steps(await ended.run(id, node))).find(({ name }) => name === "clean.erase_disks");
  expect(step?.attempts).toMatchObject([{ number: 1, state: "SUCCEEDED", entries: 2 }]);
});

test("reserved wait parks the node for its time and calls no driver", async () => {
  const node = await ostler.aNode().in("AVAILABLE").made();
  const id = await ostler.begin("CLEAN", [node], {
    options: { steps: [{ interface: "engine", name: "wait", args: { seconds: 0.3 } }] },
  });
  await ostler.nodeBecomes(node, "CLEAN_WAIT");
  expect(await ostler.run(id, node)).toMatchObject({ waitReason: "TIME" });
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  const attempt = (await ostler.steps(await ostler.run(id, node)))[0]?.attempts[0];
  expect((attempt?.finishedAt?.getTime() ?? 0) - (attempt?.startedAt.getTime() ?? 0)).toBeGreaterThanOrEqual(300);
  expect(ostler.journal(node)).toEqual([]);
});

test("step that waits is entered again with its memo in the same attempt [R-065]", async () => {
  const seen = await cleanedBy("counting");
  expect(memos).toEqual([null, 1, 2, 3]);
  expect(seen.steps[0]?.attempts.map(({ entries, state }) => [entries, state])).toEqual([[4, "SUCCEEDED"]]);
  expect(new Set(keys.get(seen.node.name)).size).toBe(1);
});

describe("secret of the settings", () => {
  const PASSWORD = "correct-horse";

  test("secret of the settings is masked in failures", async () => {
    const { run } = await cleanedBy("talkative", { password: PASSWORD });
    expect(run.failure?.message).toContain("login *** was refused");
  });

  test("secret of the settings is masked in what a newer driver version reports about the settings", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("fussy", { password: PASSWORD }).made();
    fussy = true;
    const id = await ostler.begin("CLEAN", [node]);
    expect((await ostler.operationEnds(id)).firstFailure?.message).toContain(
      'do not fit that driver: "***" is too weak',
    );
    expect((await ostler.dump()).filter((row) => !row.startsWith("node_secrets ") && row.includes(PASSWORD))).toEqual(
      [],
    );
  });

  test("secret of the settings is masked in outputs", async () => {
    expect((await cleanedBy("chatty", { password: PASSWORD })).steps[0]?.attempts[0]?.output).toEqual({
      texts: ["it is ***"],
    });
  });

  test("secret of the settings is stored only in the table of secrets", async () => {
    await cleanedBy("talkative", { password: PASSWORD });
    const rest = (await ostler.dump()).filter((row) => !row.startsWith("node_secrets "));
    expect(rest.filter((line) => line.includes(PASSWORD))).toEqual([]);
  });
});

test("settings of a node are read without their secrets", async () => {
  const node = await ostler.aNode().with("fake", { password: "correct-horse", delayMs: 7 }).made();
  const { settings } = await ostler.node(node);
  expect(settings["fake"]).toMatchObject({ delayMs: 7 });
  expect(settings["fake"]).not.toHaveProperty("password");
});

test("progress of a step can be read while it runs, within its limits [R-070]", async () => {
  const gate = aGate();
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "clean.erase_metadata": { progress: true, delayMs: 20 }, "clean.erase_disks": { gate: gate.name } })
    .made();
  const id = await ostler.begin("CLEAN", [node]);
  await gate.arrivals();
  const [first] = await ostler.steps(await ostler.run(id, node));
  const percent = first?.attempts[0]?.progressPercent ?? -1;
  expect(percent).toBeGreaterThan(0);
  expect(percent).toBeLessThanOrEqual(100);
  gate.open();
  await ostler.operationEnds(id);
});

describe("requested clean steps", () => {
  test("requested clean steps run in order with their arguments, and the node ends where it began [R-021]", async () => {
    const node = await ostler.aNode().in("MANAGEABLE").made();
    const id = await ostler.begin("CLEAN", [node], {
      options: {
        steps: [
          { interface: "clean", name: "update_firmware", args: { version: "2.1" } },
          { interface: "clean", name: "erase_metadata", args: {} },
        ],
      },
    });
    await ostler.operationEnds(id);
    expect(ostler.entered(node)).toEqual(["clean.update_firmware", "clean.erase_metadata"]);
    expect((await ostler.steps(await ostler.run(id, node)))[0]?.attempts[0]?.output).toEqual({ version: "2.1" });
    expect(await ostler.nodeState(node)).toBe("MANAGEABLE");
  });

  test("requested clean steps with errors are refused with every error, before anything starts [R-064]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const answer = await ostler.engine.submit(ALICE, {
      kind: "CLEAN",
      nodes: { ids: [node.id] },
      options: {
        steps: [
          { interface: "clean", name: "polish", args: {} },
          { interface: "clean", name: "update_firmware", args: { version: "new" } },
          { interface: "clean", name: "erase_disks", args: { passes: 3 } },
        ],
      },
    });
    expect(answer.operationId).toBeNull();
    const messages = answer.refusals.map(({ message }) => message).join(" ");
    expect(messages).toContain(`Step clean.polish on node ${node.name}: its drivers offer no such clean step`);
    expect(messages).toContain(`Step clean.update_firmware on node ${node.name}: `);
    expect(messages).toContain(`Step clean.erase_disks on node ${node.name}: passes: `);
  });
});
