/** One run through the API: its wait, its requested interrupt, the part of its step, and its rejected callbacks. */
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { range } from "../support/feed.ts";
import { serviceUnderTest } from "../support/service.ts";
import type { Variables } from "../support/service.ts";

const paths = new Map<string, string>();
/** Statements of reads. */
const statements: string[] = [];

const ostler = await serviceUnderTest({
  onStatement: (text) => statements.push(text),
  drivers: [
    aDriver("calling", {
      clean: stepsOf(
        aStep("listen", "clean", async ({ node, memo, callbackPath }) => {
          paths.set(node.name, callbackPath);
          return memo === null ? { kind: "wait", callback: true, seconds: 600, memo: 1 } : { kind: "done" };
        }),
      ),
    }),
  ],
});
afterAll(() => ostler[Symbol.asyncDispose]());

interface Waiting {
  readonly reason: string;
  readonly description: string;
  readonly since: string;
  readonly until: string | null;
  readonly waitFor: string | null;
  readonly position: number | null;
  readonly lastAttempts: readonly {
    readonly number: number;
    readonly state: string;
    readonly failure: { readonly message: string } | null;
  }[];
}

interface Run {
  readonly nodeName: string;
  readonly state: string;
  readonly waitReason: string | null;
  readonly wakeAt: string | null;
  readonly waiting: Waiting | null;
}

const WAITING =
  "nodeName state waitReason wakeAt waiting { reason description since until waitFor position lastAttempts { number state failure { message } } }";

async function runs<Seen = Run>(uuid: string, selection = WAITING): Promise<Seen[]> {
  const { operation } = await ostler.query<{ operation: { runs: { edges: { node: Seen }[] } } }>(
    `query Runs($uuid: ID!) { operation(id: $uuid) { runs(first: 100) { edges { node { ${selection} } } } } }`,
    { uuid },
  );
  return operation.runs.edges.map(({ node }) => node);
}

/** The run of the only node once it waits for this reason. */
async function waitsFor(uuid: string, reason: string): Promise<Run & { readonly waiting: Waiting }> {
  return eventually(`the run waits for ${reason}`, async () => {
    const [run] = await runs(uuid);
    return run?.waiting?.reason === reason ? { ...run, waiting: run.waiting } : false;
  });
}

/** Executes a mutation; any refusal fails the test. */
async function ask(verb: string, type: string, input: object): Promise<void> {
  const answer = await ostler.query<Record<string, { errors: unknown[] }>>(
    `mutation Ask($input: ${type}!) { ${verb}(input: $input) { errors { code message } } }`,
    { input },
  );
  expect(answer[verb]?.errors).toEqual([]);
}

async function registered(settings: object, driver = "fake"): Promise<string> {
  const name = `run-${Math.random().toString(36).slice(2)}`;
  await ask("registerNodes", "RegisterNodesInput", {
    nodes: [{ name, driver: { [driver]: settings }, sharedController: true }],
  });
  return name;
}

/** A node that is MANAGEABLE, and an operation that cleans it. */
async function cleaning(settings: object, more: Variables = {}, driver = "fake") {
  const name = await registered(settings, driver);
  expect(await ostler.operationEnds(await ostler.begin("manageNodes", [name]))).toBe("SUCCEEDED");
  return { name, uuid: await ostler.begin("cleanNodes", [name], more) };
}

async function end(uuid: string): Promise<void> {
  await ask("abort", "AbortInput", { work: { operationId: uuid } });
  await ostler.operationEnds(uuid);
}

beforeEach(() => ask("updateSite", "UpdateSiteInput", { phaseLimits: [], controllerLimit: null }));

describe("Run.waiting", () => {
  test("Run.waiting returns the time that a step waits for", async () => {
    const { uuid } = await cleaning({ steps: { "clean.erase_disks": { waitSeconds: 600 } } });
    const { waiting, waitReason, wakeAt, state } = await waitsFor(uuid, "TIME");
    expect([state, waitReason]).toEqual(["WAITING", "TIME"]);
    expect(waiting).toMatchObject({
      until: wakeAt,
      waitFor: null,
      position: null,
      description: `clean.erase_disks waits and continues at ${wakeAt}.`,
      lastAttempts: [{ number: 1, state: "WAITING" }],
    });
    expect(Date.parse(waiting.until ?? "") - Date.parse(waiting.since)).toBe(600_000);
    await end(uuid);
  });

  test("Run.waiting returns a callback with its timeout", async () => {
    const { uuid } = await cleaning({ steps: { "clean.erase_disks": { callback: true, waitSeconds: 300 } } });
    const { waiting } = await waitsFor(uuid, "CALLBACK");
    expect(waiting.description).toBe(`clean.erase_disks waits for a callback of the machine, until ${waiting.until}.`);
    await end(uuid);
  });

  test("Run.waiting of a callback says that the node has DISAPPEARED, which it kept quiet about", async () => {
    const { name, uuid } = await cleaning({ steps: { "clean.erase_disks": { callback: true, waitSeconds: 300 } } });
    await waitsFor(uuid, "CALLBACK");
    await ask("reportPresence", "ReportPresenceInput", { event: "DISAPPEARED", nodes: [{ name }] });
    const { waiting } = await waitsFor(uuid, "DISAPPEARED");
    expect(waiting.description).toContain(`until ${waiting.until}. Monitoring has reported the node as disappeared`);
    await end(uuid);
  });

  test("Run.waiting returns ABORTING while a hanging driver undoes a step, and a forced abort ends it", async () => {
    const { name, uuid } = await cleaning({
      steps: { "clean.erase_disks": { callback: true }, "driver.abort": { silent: true, ignoreSignal: true } },
    });
    await waitsFor(uuid, "CALLBACK");
    await ask("abort", "AbortInput", { work: { operationId: uuid } });
    const { waiting, state } = await waitsFor(uuid, "ABORTING");
    expect(["RUNNING", "WAITING"]).toContain(state);
    expect(waiting.description).toContain("clean.erase_disks is canceled and undone");
    await ask("abort", "AbortInput", { work: { names: [name] }, mode: "FORCE", reason: "the driver hangs" });
    const [run] = await runs<{ state: string; failure: unknown; machineCondition: unknown }>(
      uuid,
      "state failure { code message } machineCondition { power }",
    );
    expect(run).toMatchObject({
      state: "ABORTED",
      failure: {
        code: "ABORTED",
        message: `Node ${name} was aborted by anonymous at clean.erase_disks: the driver hangs.`,
      },
      machineCondition: { power: "UNKNOWN" },
    });
  });

  test("Run.waiting returns the next attempt and the earlier ones", async () => {
    const name = await registered({ steps: { "deploy.write_image": { fail: "the disk is busy", retryable: true } } });
    await ostler.commission([name], "AVAILABLE");
    const uuid = await ostler.begin("deployNodes", [name]);
    const { waiting, wakeAt } = await waitsFor(uuid, "RETRY");
    expect(waiting).toMatchObject({
      until: wakeAt,
      description: `deploy.write_image failed and will be retried at ${wakeAt}.`,
    });
    expect(waiting.lastAttempts[0]).toMatchObject({
      number: 1,
      state: "FAILED",
      failure: { message: expect.stringContaining("the disk is busy") as string },
    });
    expect(await ostler.operationEnds(uuid)).toBe("FAILED");
  });

  test("Run.waiting returns a hold with its reason", async () => {
    const { uuid } = await cleaning(
      {},
      { steps: [{ interface: "ENGINE", name: "hold", args: { reason: "look at the cables" } }] },
    );
    const { waiting, state } = await waitsFor(uuid, "HOLD");
    expect([state, waiting.until, waiting.position]).toEqual(["HOLDING", null, null]);
    expect(waiting.description).toBe("The run is on hold (look at the cables). Release the hold to go on.");
    await ask("releaseHolds", "ReleaseHoldsInput", { work: { operationId: uuid } });
    expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
  });

  test("Run.waiting returns maintenance before the next step [R-034]", async () => {
    const gate = aGate();
    const { name, uuid } = await cleaning({ steps: { "clean.erase_metadata": { gate: gate.name } } });
    await gate.arrivals();
    await ask("setMaintenance", "SetMaintenanceInput", { nodes: { names: [name] }, reason: "new disks" });
    gate.open();
    const { waiting } = await waitsFor(uuid, "PAUSED_BY_MAINTENANCE");
    expect(waiting).toMatchObject({
      until: null,
      position: null,
      lastAttempts: [],
      description: "The node is in maintenance. The run continues when maintenance ends.",
    });
    await end(uuid);
  });

  test("Run.waiting returns a site limit and the position in its queue over all operations [R-056]", async () => {
    const gate = aGate();
    const at = { steps: { "power.read": { gate: gate.name } } };
    const [first, second, third] = [await registered(at), await registered(at), await registered(at)];
    await ask("updateSite", "UpdateSiteInput", { phaseLimits: [{ phase: "VERIFY", limit: 1 }] });
    const working = await ostler.begin("manageNodes", [first]);
    await gate.arrivals();
    const queued = [await ostler.begin("manageNodes", [second]), await ostler.begin("manageNodes", [third])];
    const seen = [];
    for (const uuid of queued) seen.push((await waitsFor(uuid, "CAPACITY_PHASE")).waiting);
    expect(seen).toMatchObject([
      {
        waitFor: "phase:verify",
        position: 1,
        until: null,
        description: "The site's limit for phase verify is reached. The run continues when a node leaves this phase.",
      },
      { waitFor: "phase:verify", position: 2 },
    ]);
    gate.open();
    for (const uuid of [working, ...queued]) expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
  });

  test("Run.waiting returns the limit of a controller", async () => {
    const gate = aGate();
    const at = { controller: "10.0.0.7", steps: { "power.read": { gate: gate.name } } };
    const [first, second] = [await registered(at), await registered(at)];
    await ask("updateSite", "UpdateSiteInput", { controllerLimit: 1 });
    const working = await ostler.begin("manageNodes", [first]);
    await gate.arrivals();
    const queued = await ostler.begin("manageNodes", [second]);
    const { waiting } = await waitsFor(queued, "CAPACITY_CONTROLLER");
    expect(waiting.waitFor).toMatch(/^controller:/);
    expect(waiting).toMatchObject({ position: 1, description: expect.stringContaining("10.0.0.7") as string });
    gate.open();
    for (const uuid of [working, queued]) expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
  });

  test("Run.waiting returns `maxParallel` with the position in the order of the request", async () => {
    const gate = aGate();
    const names = await ostler.register(5, { steps: { "power.read": { gate: gate.name } } });
    const uuid = await ostler.begin("manageNodes", names, { maxParallel: 2 });
    await gate.arrivals(2);
    const seen = await runs(uuid);
    expect(seen.map(({ waiting }) => waiting && [waiting.reason, waiting.position])).toEqual([
      null,
      null,
      ["MAX_PARALLEL", 1],
      ["MAX_PARALLEL", 2],
      ["MAX_PARALLEL", 3],
    ]);
    expect(seen[2]?.waiting?.description).toBe(
      "The operation works on at most 2 nodes at the same time. The run starts when one of them has ended.",
    );
    gate.open();
    expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
    expect((await runs(uuid)).map(({ waiting, waitReason }) => [waiting, waitReason])).toEqual(
      names.map(() => [null, null]),
    );
  });

  test("Run.waiting returns CONCURRENCY for a run that no replica has claimed", async () => {
    await using idle = await serviceUnderTest({ started: false });
    const names = await idle.register(1);
    const uuid = await idle.begin("manageNodes", names);
    const { operation } = await idle.query<{ operation: { runs: { edges: { node: Run }[] } } }>(
      `query Runs($uuid: ID!) { operation(id: $uuid) { runs(first: 1) { edges { node { ${WAITING} } } } } }`,
      { uuid },
    );
    expect(operation.runs.edges[0]?.node).toMatchObject({
      state: "QUEUED",
      waitReason: "CONCURRENCY",
      waiting: {
        position: null,
        until: null,
        lastAttempts: [],
        description: "The run can start. It waits for a replica with free capacity.",
      },
    });
  });

  test("Run.waiting returns the wave and a halt of the waves", async () => {
    const gate = aGate();
    const names = await ostler.register(3, { steps: { "power.read": { gate: gate.name } } });
    const uuid = await ostler.begin("manageNodes", names, { waves: { sizes: [{ count: 1 }] } });
    await gate.arrivals(1);
    const waves = await runs(uuid);
    expect(waves.map(({ waiting }) => waiting && [waiting.reason, waiting.position, waiting.description])).toEqual([
      null,
      ["WAVE", 1, "The run is in wave 2; wave 1 is running."],
      ["WAVE", 2, "The run is in wave 3; wave 1 is running."],
    ]);
    await ask("haltWaves", "HaltWavesInput", { operationId: uuid, reason: "smoke in the rack" });
    expect((await runs(uuid))[1]?.waiting).toMatchObject({
      reason: "WAVE_HALTED",
      description: "The waves of the operation are halted (smoke in the rack); resume them to go on.",
    });
    await ask("resumeWaves", "ResumeWavesInput", { operationId: uuid });
    gate.open();
    expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
  });

  test("positions of any number of waiting runs take one statement", async () => {
    const gate = aGate();
    const names = await ostler.register(101, { steps: { "power.read": { gate: gate.name } } });
    const uuid = await ostler.begin("manageNodes", names, { maxParallel: 1 });
    await gate.arrivals();
    statements.length = 0;
    const seen = await runs(uuid);
    expect(statements.filter((text) => text.includes("row_number()"))).toHaveLength(1);
    expect(seen.map(({ waiting }) => waiting?.position ?? null)).toEqual([null, ...range(1, 99)]);
    gate.open();
    await end(uuid);
  });
});

describe("interrupt of a run", () => {
  test("a requested abort is returned with caller, reason and time, and whether it can be withdrawn", async () => {
    const gate = aGate();
    const { uuid } = await cleaning({ steps: { "clean.erase_metadata": { gate: gate.name } } });
    await gate.arrivals();
    const interrupt = async () =>
      (
        await runs<{
          interrupt: string | null;
          interruptBy: string | null;
          interruptReason: string | null;
          interruptAt: string | null;
          abortPendingAfterStep: string | null;
          abortWithdrawable: boolean;
        }>(uuid, "interrupt interruptBy interruptReason interruptAt abortPendingAfterStep abortWithdrawable")
      )[0];
    const none = {
      interrupt: null,
      interruptBy: null,
      interruptReason: null,
      interruptAt: null,
      abortPendingAfterStep: null,
      abortWithdrawable: false,
    };
    expect(await interrupt()).toEqual(none);
    await ask("abort", "AbortInput", { work: { operationId: uuid }, reason: "wrong rack" });
    const pending = await interrupt();
    expect(pending).toMatchObject({
      interrupt: "ABORT",
      interruptBy: "anonymous",
      interruptReason: "wrong rack",
      abortPendingAfterStep: "clean.erase_metadata",
      abortWithdrawable: true,
    });
    expect(Math.abs(Date.now() - Date.parse(pending?.interruptAt ?? ""))).toBeLessThan(60_000);
    await ask("withdrawAbort", "WithdrawAbortInput", { work: { operationId: uuid } });
    expect(await interrupt()).toEqual(none);
    gate.open();
    expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
  });

  test("an abort that takes effect at once cannot be withdrawn", async () => {
    const { uuid } = await cleaning({ steps: { "clean.erase_disks": { waitSeconds: 600 } } });
    await waitsFor(uuid, "TIME");
    await end(uuid);
    expect(await runs(uuid, "state interrupt abortWithdrawable")).toEqual([
      { state: "ABORTED", interrupt: "ABORT", abortWithdrawable: false },
    ]);
  });
});

test("Run.cleanupFailed is true after a failed best-effort step [R-029]", async () => {
  const [good, bad] = [
    await registered({}),
    await registered({ steps: { "clean.erase_disks": { fail: "disk 3 is dead" } } }),
  ];
  for (const [name, failed] of [
    [good, false],
    [bad, true],
  ] as const) {
    await ostler.operationEnds(await ostler.begin("manageNodes", [name]));
    const uuid = await ostler.begin("decommissionNodes", [name]);
    expect(await ostler.operationEnds(uuid)).toBe(failed ? "SUCCEEDED_WITH_ERRORS" : "SUCCEEDED");
    expect(await runs(uuid, "state cleanupFailed")).toEqual([{ state: "SUCCEEDED", cleanupFailed: failed }]);
  }
});

test("StepAttempt.part returns VERIFY during verification, and Step has its declared retries [R-060]", async () => {
  const gate = aGate();
  const { uuid } = await cleaning(
    { steps: { "clean.update_firmware.verify": { gate: gate.name } } },
    { steps: [{ name: "update_firmware", args: { version: "2.1" } }] },
  );
  await gate.arrivals();
  const part = () => runs(uuid, "steps { name retries backoffSeconds output attempts { state part entries } }");
  expect(await part()).toEqual([
    {
      steps: [
        {
          name: "update_firmware",
          retries: 0,
          backoffSeconds: 0,
          output: { version: "2.1" },
          attempts: [{ state: "RUNNING", part: "VERIFY", entries: 2 }],
        },
      ],
    },
  ]);
  gate.open();
  expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
  expect(await part()).toMatchObject([{ steps: [{ attempts: [{ state: "SUCCEEDED", part: "VERIFY" }] }] }]);
});

describe("Run.rejectedCallbacks", () => {
  const postCallback = async (path: string) =>
    (await fetch(ostler.url + path, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" }))
      .status;

  /** A callback's path with a token that has the right form and was never issued. */
  const forged = (path: string, number: number) => path.slice(0, -43) + String(number).padStart(43, "A");

  test("Run.rejectedCallbacks has each rejected callback, and the log a line for it [R-071]", async () => {
    const { name, uuid } = await cleaning({}, {}, "calling");
    await waitsFor(uuid, "CALLBACK");
    const path = paths.get(name) ?? "";
    const logged = ostler.logLines.length;
    expect(await postCallback(forged(path, 0))).toBe(404);
    expect(await postCallback(path)).toBe(202);
    expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
    expect(await postCallback(path)).toBe(409);
    const [run] = await runs<{
      rejectedCallbacks: readonly { readonly kind: string; readonly step: string | null; readonly at: string }[];
    }>(uuid, "rejectedCallbacks { kind step at }");
    expect(run?.rejectedCallbacks.map(({ kind, step }) => [kind, step])).toEqual([
      ["FORGED", "clean.listen"],
      ["LATE", null],
    ]);
    const lines = ostler.logLines
      .slice(logged)
      .map((line) => JSON.parse(line) as { level: number; msg: string; kind?: string; node?: string });
    const warned = lines.filter(({ msg }) => msg.includes("callback"));
    expect(warned).toMatchObject([
      {
        level: "warn",
        kind: "FORGED",
        node: name,
        msg: `a callback to node ${name} was rejected: its token was never issued`,
      },
      {
        level: "warn",
        kind: "LATE",
        node: name,
        msg: `a callback to node ${name} was rejected: it is late, the step has continued or ended`,
      },
    ]);
    expect(lines.some(({ msg }) => msg.includes(path.split(".").at(-1) ?? ""))).toBe(false);
  });

  test("Run.rejectedCallbacks has at most 100 entries, with as many log lines", async () => {
    const { name, uuid } = await cleaning({}, {}, "calling");
    await waitsFor(uuid, "CALLBACK");
    const logged = ostler.logLines.length;
    for (let batch = 0; batch < 5; batch += 1)
      await Promise.all(
        range(1, 25).map((number) => postCallback(forged(paths.get(name) ?? "", 100 * batch + number))),
      );
    const [run] = await runs<{ rejectedCallbacks: unknown[] }>(uuid, "rejectedCallbacks { kind }");
    expect(run?.rejectedCallbacks).toEqual(range(1, 100).map(() => ({ kind: "FORGED" })));
    const warned = ostler.logLines.slice(logged).filter((line) => line.includes("callback"));
    expect(warned).toHaveLength(100);
    expect(warned.filter((line) => line.includes("further ones are not recorded"))).toHaveLength(1);
    await end(uuid);
  });
});
