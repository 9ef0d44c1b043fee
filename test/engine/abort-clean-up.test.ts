/**
 * How an abort or a failure leaves a node: what its steps have touched, its power, and the result of a clean-up that
 * fails.
 */
import { afterAll, describe, expect, test } from "vitest";
import type { Script } from "../../plugins/fake/settings.ts";
import type { AbortRequest } from "../../src/engine/input/interrupt-request.ts";
import type { VerbRequest } from "../../src/engine/admission/request-terms.ts";
import type { NodeState } from "../../src/lifecycle/node-states.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";

const never = () => new Promise<never>(() => {});
const quiet = aDriver("quiet", { clean: stepsOf(aStep("says_nothing", "clean", never)) });
const harmless = aDriver("harmless", { clean: stepsOf(aStep("touches_nothing", "clean", never, { touches: [] })) });

const ostler = await engineUnderTest({ drivers: [quiet, harmless] });
afterAll(() => ostler[Symbol.asyncDispose]());

const abort = (node: TestNode, more: Partial<AbortRequest> = {}) =>
  ostler.engine.abort(ALICE, { work: { ids: [node.id] }, ...more });

/** How to reach each phase: the verb, the node's first state, and a step to interrupt. */
const PHASES = {
  verify: { kind: "MANAGE", from: "ENROLLED", step: "power.read", end: "ENROLLED" },
  inspect: { kind: "INSPECT", from: "MANAGEABLE", step: "inspect.collect_inventory", end: "INSPECT_FAILED" },
  clean: { kind: "CLEAN", from: "AVAILABLE", step: "clean.erase_disks", end: "CLEAN_FAILED" },
  deploy: { kind: "DEPLOY", from: "AVAILABLE", step: "deploy.write_image", end: "DEPLOY_FAILED" },
  undeploy: { kind: "UNDEPLOY", from: "ACTIVE", step: "deploy.remove_system", end: "UNDEPLOY_FAILED" },
} as const satisfies Record<string, { kind: VerbRequest["kind"]; from: NodeState; step: string; end: NodeState }>;

interface Blocked {
  readonly kind: VerbRequest["kind"];
  readonly from: NodeState;
  readonly step: string;
  readonly scripts?: Readonly<Record<string, Script>>;
  readonly more?: Partial<VerbRequest>;
}

/** A node that is switched on and whose machine is blocked in a step. */
async function blockedIn({ kind, from, step, scripts = {}, more = {} }: Blocked) {
  const gate = aGate();
  const node = await ostler
    .aNode()
    .in(from)
    .with("fake", { password: "hunter22", steps: { ...scripts, [step]: { gate: gate.name } } })
    .made();
  await ostler.test.sql`update nodes set power_state = 'ON' where id = ${node.id}`;
  const id = await ostler.begin(kind, [node], more);
  await gate.arrivals();
  return { gate, node, id };
}

/**
 * Aborts the node and waits for the end. The verification is blocked in a power read that the abort clean-up needs too,
 * so there the gate opens as soon as the abort is recorded.
 */
async function abortAndEnd(
  { gate, node, id }: Awaited<ReturnType<typeof blockedIn>>,
  phase: keyof typeof PHASES,
  more: Partial<AbortRequest> = {},
) {
  await abort(node, more);
  if (phase === "verify") gate.open();
  return ostler.operationEnds(id);
}

const leftAs = async (id: string, node: TestNode) => (await ostler.run(id, node)).leftAs;

const FIRMWARE = { interface: "clean", name: "update_firmware", args: { version: "2.1" } } as const;

describe("touched parts after an abort", () => {
  const nothing = { disksTouched: false, firmwareTouched: false, networkAttached: false };

  test.each([
    { step: "inspect.collect_inventory", kind: "INSPECT", from: "MANAGEABLE", touched: nothing },
    { step: "deploy.prepare", kind: "DEPLOY", from: "AVAILABLE", touched: { ...nothing, networkAttached: true } },
    {
      step: "deploy.write_image",
      kind: "DEPLOY",
      from: "AVAILABLE",
      touched: { ...nothing, networkAttached: true, disksTouched: true },
    },
    { step: "clean.erase_disks", kind: "CLEAN", from: "AVAILABLE", touched: { ...nothing, disksTouched: true } },
    { step: "deploy.remove_system", kind: "UNDEPLOY", from: "ACTIVE", touched: nothing },
  ] as const)(
    "abort during $step reports what this step and the steps before it touch [R-084]",
    async ({ step, kind, from, touched }) => {
      const { node, id } = await blockedIn({ kind, from, step });
      await abort(node);
      await ostler.operationEnds(id);
      expect(await leftAs(id, node)).toMatchObject(touched);
    },
  );

  test("abort that took effect after a firmware step reports the firmware, and not the disks of the next step", async () => {
    const more = { options: { steps: [FIRMWARE, { interface: "clean", name: "erase_disks", args: {} }] } } as const;
    const { gate, node, id } = await blockedIn({
      kind: "CLEAN",
      from: "AVAILABLE",
      step: "clean.update_firmware",
      more,
    });
    await abort(node, { mode: "AFTER_STEP" });
    gate.open();
    await ostler.operationEnds(id);
    expect(await leftAs(id, node)).toMatchObject({ ...nothing, firmwareTouched: true });
  });

  test.each([
    { driver: "quiet", says: "declares nothing reports the disks", disksTouched: true },
    { driver: "harmless", says: "declares an empty list reports nothing", disksTouched: false },
  ])("abort during a clean step that $says", async ({ driver, disksTouched }) => {
    const node = await ostler.aNode().in("AVAILABLE").with(driver).made();
    const id = await ostler.begin("CLEAN", [node]);
    await ostler.nodeBecomes(node, "CLEANING");
    await eventually(
      "the step is entered",
      async () => (await ostler.steps(await ostler.run(id, node)))[0]?.attempts.length === 1,
    );
    await abort(node);
    await ostler.operationEnds(id);
    expect(await leftAs(id, node)).toMatchObject({ ...nothing, disksTouched });
  });

  test("abort during a parked step, or during a backoff, counts the step as started", async () => {
    const waiting = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { waitSeconds: 3600 } })
      .made();
    const retrying = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { failures: 9 } })
      .made();
    const id = await ostler.begin("DEPLOY", [waiting, retrying]);
    for (const node of [waiting, retrying]) {
      await ostler.nodeBecomes(node, "DEPLOY_WAIT");
      await abort(node);
    }
    await ostler.operationEnds(id);
    for (const node of [waiting, retrying]) expect(await leftAs(id, node)).toMatchObject({ disksTouched: true });
  });

  test("abort of a restart that keeps earlier steps reports what those steps touched", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.boot_system": { gate: gate.name } })
      .made();
    const first = await ostler.begin("DEPLOY", [node]);
    await gate.arrivals();
    await abort(node, { powerOff: false });
    await ostler.operationEnds(first);
    const answer = await ostler.engine.restart(ALICE, { work: { operationId: first } });
    const second = answer.operationId ?? "";
    await eventually(
      "the step is entered again",
      () => ostler.entered(node).filter((name) => name === "deploy.boot_system").length === 2,
    );
    await abort(node, { powerOff: false });
    await ostler.operationEnds(second);
    expect(
      (await ostler.steps(await ostler.run(second, node))).filter(({ kept }) => kept).map(({ name }) => name),
    ).toEqual(["deploy.prepare", "deploy.write_image"]);
    expect(await leftAs(second, node)).toMatchObject({
      disksTouched: true,
      networkAttached: true,
      firmwareTouched: false,
    });
  });

  test("abort before any step reports nothing as touched [R-084]", async () => {
    const gate = aGate();
    const first = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const queued = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [first, queued], { maxParallel: 1 });
    await gate.arrivals();
    await abort(queued);
    gate.open();
    await ostler.operationEnds(id);
    expect(await leftAs(id, queued)).toBeNull();
  });
});

describe("power after an abort", () => {
  test.each([
    { phase: "verify", power: "ON" },
    { phase: "inspect", power: "ON" },
    { phase: "clean", power: "OFF" },
    { phase: "deploy", power: "OFF" },
    { phase: "undeploy", power: "ON" },
  ] as const)("abort leaves the power $power by the policy for $phase [R-081]", async ({ phase, power }) => {
    const caught = await blockedIn(PHASES[phase]);
    const { node, id } = caught;
    await abortAndEnd(caught, phase);
    expect(await ostler.node(node)).toMatchObject({
      state: PHASES[phase].end,
      powerState: power,
      lastError: { code: "ABORTED" },
    });
    expect(await ostler.run(id, node)).toMatchObject({ state: "ABORTED", leftAs: { power, tearDownError: null } });
    expect(ostler.powerCalls(node)).toEqual(power === "OFF" ? ["OFF"] : []);
  });

  test.each(Object.keys(PHASES) as (keyof typeof PHASES)[])(
    "abort with powerOff: true in %s leaves the power OFF",
    async (phase) => {
      const caught = await blockedIn(PHASES[phase]);
      const { node, id } = caught;
      await abortAndEnd(caught, phase, { powerOff: true });
      expect(await leftAs(id, node)).toMatchObject({ power: "OFF", tearDownError: null });
      expect(ostler.powerCalls(node)).toEqual(["OFF"]);
    },
  );

  test.each(Object.keys(PHASES) as (keyof typeof PHASES)[])(
    "abort with powerOff: false in %s leaves the power as it is [R-081]",
    async (phase) => {
      const caught = await blockedIn(PHASES[phase]);
      const { node, id } = caught;
      await abortAndEnd(caught, phase, { powerOff: false });
      expect(await leftAs(id, node)).toMatchObject({ power: "ON", tearDownError: null });
      expect(ostler.powerCalls(node)).toEqual([]);
    },
  );
});

describe("power after work in place on a failed node", () => {
  const STATES = ["CLEAN_FAILED", "DEPLOY_FAILED"] as const;

  test.each(STATES)("failed power change of a node in %s powered it off [R-191]", async (from) => {
    const node = await ostler
      .aNode()
      .in(from)
      .scripted({ "power.read": { fail: "the relay is stuck" } })
      .made();
    await ostler.test.sql`update nodes set power_state = 'ON' where id = ${node.id}`;
    const id = await ostler.begin("POWER", [node], { options: { powerAction: "ON" } });
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await ostler.node(node)).toMatchObject({ state: from, powerState: "ON" });
    expect(ostler.powerCalls(node)).toEqual([]);
  });

  test.each(STATES)("aborted power change of a node in %s powered it off [R-081]", async (from) => {
    const { gate, node, id } = await blockedIn({
      kind: "POWER",
      from,
      step: "power.read",
      more: { options: { powerAction: "ON" } },
    });
    await abort(node);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(await ostler.node(node)).toMatchObject({ state: from, powerState: "ON" });
    expect(ostler.powerCalls(node)).toEqual([]);
  });
});

describe("failed abort clean-up", () => {
  const FAILURES: readonly {
    readonly what: string;
    readonly scripts: Readonly<Record<string, Script>>;
    readonly power: "OFF" | "UNKNOWN";
    readonly says: readonly string[];
  }[] = [
    {
      what: "a failed abort of the step",
      scripts: { "driver.abort": { throws: "the agent is gone" } },
      power: "OFF",
      says: ["could not be undone: the agent is gone"],
    },
    {
      what: "a failed power change",
      scripts: { "power.set": { fail: "the relay is stuck" } },
      power: "UNKNOWN",
      says: ["the power could not be cut: the relay is stuck"],
    },
    {
      what: "a failed abort and a failed power change",
      scripts: { "driver.abort": { throws: "the agent is gone" }, "power.set": { fail: "the relay is stuck" } },
      power: "UNKNOWN",
      says: ["could not be undone: the agent is gone", "the power could not be cut: the relay is stuck"],
    },
    {
      what: "an abort that never returns",
      scripts: { "driver.abort": { silent: true, ignoreSignal: true } },
      power: "OFF",
      says: ["could not be undone: it did not answer in time"],
    },
  ];
  // The engine's own verification has nothing to undo.
  const cases = (["inspect", "clean", "deploy", "undeploy"] as const).flatMap((phase) =>
    FAILURES.map((failure) => ({ phase, ...failure })),
  );

  test.each(cases)(
    "abort in $phase with $what ends ABORTED with the node failed and flagged [R-082]",
    async ({ phase, scripts, power, says }) => {
      const caught = await blockedIn({ ...PHASES[phase], scripts });
      const { node, id } = caught;
      expect((await abortAndEnd(caught, phase, { powerOff: true })).state).toBe("ABORTED");
      const { state, lastError } = await ostler.node(node);
      expect(state).toBe(PHASES[phase].end);
      expect(lastError).toMatchObject({ code: "BACKEND_FAILED", nodeId: node.id, retryable: false });
      const left = await leftAs(id, node);
      expect(left?.power).toBe(power);
      for (const part of says) {
        expect(left?.tearDownError).toContain(part);
        expect(lastError?.message).toContain(part);
      }
    },
  );

  test("abort during the verification leaves the node ENROLLED and flagged if the clean-up fails", async () => {
    const caught = await blockedIn({ ...PHASES.verify, scripts: { "power.set": { fail: "the relay is stuck" } } });
    expect((await abortAndEnd(caught, "verify", { powerOff: true })).state).toBe("ABORTED");
    expect(await ostler.node(caught.node)).toMatchObject({
      state: "ENROLLED",
      lastError: { message: expect.stringContaining("the relay is stuck") },
    });
  });

  test("abort with a failed clean-up can be restarted [R-105]", async () => {
    const { gate, node, id } = await blockedIn({
      ...PHASES.deploy,
      scripts: { "driver.abort": { throws: "the agent is gone" } },
    });
    await abort(node);
    await ostler.operationEnds(id);
    gate.open();
    const { operationId, refusals } = await ostler.engine.restart(ALICE, { work: { operationId: id } });
    expect(refusals).toEqual([]);
    expect((await ostler.operationEnds(operationId ?? "")).state).toBe("SUCCEEDED");
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", lastError: null });
  });

  test("abort with a failed clean-up exposes no secret of the settings", async () => {
    const { node, id } = await blockedIn({
      ...PHASES.deploy,
      scripts: { "driver.abort": { throws: "login with hunter22 refused" } },
    });
    await abort(node);
    await ostler.operationEnds(id);
    const { failure, leftAs: left } = await ostler.run(id, node);
    const shown = JSON.stringify([failure, left, (await ostler.node(node)).lastError, await ostler.transitions(node)]);
    expect(shown).toContain("could not be undone: login with");
    expect(shown).not.toContain("hunter22");
  });
});

describe("node after a failure", () => {
  const undone = (node: TestNode) =>
    ostler.journal(node).flatMap(({ abort: isAbort, step }) => (isAbort ? [step] : []));

  /** An AVAILABLE node whose machine is on, with an operation that fails. */
  async function failing(
    kind: "CLEAN" | "DEPLOY" | "UNDEPLOY",
    scripts: Record<string, Script>,
    more: Partial<VerbRequest> = {},
  ) {
    const node = await ostler
      .aNode()
      .in(kind === "UNDEPLOY" ? "ACTIVE" : "AVAILABLE")
      .scripted(scripts)
      .made();
    await ostler.test.sql`update nodes set power_state = 'ON' where id = ${node.id}`;
    return { node, id: await ostler.begin(kind, [node], more) };
  }

  test.each([
    { kind: "CLEAN", step: "clean.erase_disks", end: "CLEAN_FAILED", power: "OFF" },
    { kind: "DEPLOY", step: "deploy.write_image", end: "DEPLOY_FAILED", power: "OFF" },
    { kind: "UNDEPLOY", step: "deploy.remove_system", end: "UNDEPLOY_FAILED", power: "ON" },
  ] as const)(
    "step that failed was not undone and its machine stayed on: $step [R-191]",
    async ({ kind, step, end, power }) => {
      const { node, id } = await failing(kind, { [step]: { fail: "worn out" } });
      expect((await ostler.operationEnds(id)).state).toBe("FAILED");
      expect(undone(node)).toEqual([step]);
      const failure = { step, message: expect.stringContaining("worn out") };
      expect(await ostler.run(id, node)).toMatchObject({
        state: "FAILED",
        failure,
        leftAs: { power, tearDownError: null },
      });
      expect(await ostler.node(node)).toMatchObject({ state: end, powerState: power, lastError: failure });
      expect((await ostler.transitions(node)).at(-1)).toMatchObject({ event: "fail", actor: "engine" });
      const attempts = (await ostler.steps(await ostler.run(id, node))).flatMap((one) => one.attempts);
      expect(attempts.at(-1)).toMatchObject({ state: "FAILED", failure });
    },
  );

  test("parked step that ran out of time was not undone, and new work started beside it [R-191]", async () => {
    const undoing = aGate();
    const { node, id } = await failing("CLEAN", {
      "clean.erase_disks": { callback: true },
      "driver.abort": { gate: undoing.name },
    });
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    const { id: runId } = await ostler.run(id, node);
    await ostler.test.sql`update attempts set deadline_at = now() where run_id = ${runId}`;
    await ostler.waitIsOver(node);
    await undoing.arrivals();
    expect((await ostler.submit("CLEAN", [node])).refusals).toMatchObject([
      { code: "BUSY", message: expect.stringContaining("being ended after an abort or a failure") },
    ]);
    expect(await ostler.run(id, node)).toMatchObject({ state: "RUNNING", interruptFailure: { code: "TIMEOUT" } });
    undoing.open();
    expect((await ostler.operationEnds(id)).firstFailure).toMatchObject({ code: "TIMEOUT" });
    expect(undone(node)).toEqual(["clean.erase_disks"]);
    expect(await ostler.run(id, node)).toMatchObject({ state: "FAILED", leftAs: { power: "OFF" } });
  });

  test("power was cut under a step that must not be interrupted and whose time was over [R-191]", async () => {
    const { node, id } = await failing(
      "CLEAN",
      { "clean.update_firmware": { callback: true } },
      { options: { steps: [{ interface: "clean", name: "update_firmware", args: { version: "2.1" } }] } },
    );
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    const { id: runId } = await ostler.run(id, node);
    await ostler.test.sql`update attempts set deadline_at = now() where run_id = ${runId}`;
    await ostler.waitIsOver(node);
    expect((await ostler.operationEnds(id)).firstFailure).toMatchObject({ code: "TIMEOUT" });
    expect(undone(node)).toEqual([]);
    expect(await ostler.run(id, node)).toMatchObject({ state: "FAILED", leftAs: { power: "ON" } });
  });

  test("step that is retried is undone once, after its last attempt [R-191]", async () => {
    const { node, id } = await failing("DEPLOY", { "deploy.write_image": { failures: 9 } });
    await ostler.operationEnds(id);
    const attempts = (await ostler.steps(await ostler.run(id, node)))[1]?.attempts ?? [];
    expect(attempts.length).toBeGreaterThan(1);
    expect(undone(node)).toEqual(["deploy.write_image"]);
  });

  test("failure with powerOnFailure: LEAVE leaves the machine on, by request or by the site's policy", async () => {
    const scripts = { "clean.erase_disks": { fail: "worn out" } };
    const asked = await failing("CLEAN", scripts, { powerOnFailure: "LEAVE" });
    await ostler.operationEnds(asked.id);
    await ostler.engine.updateSite(ALICE, { powerOnFailure: "LEAVE" });
    const bySite = await failing("CLEAN", scripts);
    await ostler.operationEnds(bySite.id);
    const overruled = await failing("CLEAN", scripts, { powerOnFailure: "OFF" });
    await ostler.operationEnds(overruled.id);
    await ostler.engine.updateSite(ALICE, { powerOnFailure: null });
    for (const [{ node, id }, power] of [
      [asked, "ON"],
      [bySite, "ON"],
      [overruled, "OFF"],
    ] as const) {
      expect(await leftAs(id, node)).toMatchObject({ power });
      expect(undone(node)).toEqual(["clean.erase_disks"]);
    }
  });

  test("failure of a best-effort step is undone before the next step, and leaves the power as it is", async () => {
    const node = await ostler
      .aNode()
      .in("ACTIVE")
      .scripted({ "deploy.remove_system": { fail: "stuck" }, "clean.erase_metadata": { fail: "worn out" } })
      .made();
    await ostler.test.sql`update nodes set power_state = 'ON' where id = ${node.id}`;
    const id = await ostler.begin("DECOMMISSION", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED_WITH_ERRORS");
    expect(undone(node)).toEqual(["deploy.remove_system", "clean.erase_metadata"]);
    expect((await ostler.run(id, node)).errors).toHaveLength(2);
    expect(ostler.powerCalls(node)).toEqual([]);
    expect(await ostler.nodeState(node)).toBe("DECOMMISSIONED");
  });

  test("failed undoing does not hide the failure", async () => {
    const { node, id } = await failing("CLEAN", {
      "clean.erase_disks": { fail: "worn out" },
      "driver.abort": { throws: "the agent is gone" },
    });
    await ostler.operationEnds(id);
    expect(await ostler.run(id, node)).toMatchObject({
      state: "FAILED",
      failure: { message: expect.stringContaining("worn out") },
      leftAs: { tearDownError: expect.stringContaining("the agent is gone") },
    });
  });

  test("abort that was accepted while a failure is undone had no effect: the run ends ABORTED, and the step FAILED [R-722]", async () => {
    const undoing = aGate();
    const { node, id } = await failing("CLEAN", {
      "clean.erase_disks": { fail: "worn out" },
      "driver.abort": { gate: undoing.name },
    });
    await undoing.arrivals();
    expect((await abort(node)).results).toMatchObject([{ accepted: true, effect: "NOW" }]);
    undoing.open();
    await ostler.operationEnds(id);
    expect(await ostler.run(id, node)).toMatchObject({
      state: "ABORTED",
      failure: { code: "ABORTED", message: expect.stringContaining("worn out") },
    });
    const steps = await ostler.steps(await ostler.run(id, node));
    expect(steps.at(-1)?.attempts).toMatchObject([
      { state: "FAILED", failure: { code: "BACKEND_FAILED", message: expect.stringContaining("worn out") } },
    ]);
    expect(undone(node)).toHaveLength(1);
  });

  test.each([
    { undoing: "works", script: {}, tearDownError: null },
    {
      undoing: "fails",
      script: { throws: "the agent is gone" },
      tearDownError: expect.stringContaining("the agent is gone") as string,
    },
  ])(
    "abort with powerOff: true while a failure is undone that leaves the power on, which $undoing: the machine is switched off [R-081]",
    async ({ script, tearDownError }) => {
      const undoing = aGate();
      const { node, id } = await failing(
        "CLEAN",
        { "clean.erase_disks": { fail: "worn out" }, "driver.abort": { gate: undoing.name, ...script } },
        { powerOnFailure: "LEAVE" },
      );
      await undoing.arrivals();
      expect((await abort(node, { powerOff: true })).results).toMatchObject([{ accepted: true, effect: "NOW" }]);
      undoing.open();
      await ostler.operationEnds(id);
      expect(await leftAs(id, node)).toMatchObject({ power: "OFF", tearDownError });
      expect(ostler.powerCalls(node)).toEqual(["OFF"]);
      expect(undone(node)).toHaveLength(1);
    },
  );

  test("powerOff: false of an abort that met a failed step was thrown away [R-722]", async () => {
    const undoing = aGate();
    const { node, id } = await failing("CLEAN", {
      "clean.erase_disks": { fail: "worn out" },
      "driver.abort": { gate: undoing.name },
    });
    await undoing.arrivals();
    expect((await abort(node, { powerOff: false })).results).toMatchObject([{ accepted: true, effect: "NOW" }]);
    undoing.open();
    await ostler.operationEnds(id);
    expect(await ostler.run(id, node)).toMatchObject({ state: "ABORTED", leftAs: { power: "ON" } });
  });

  test("powerOff: true of a repeated abort was thrown away [R-722]", async () => {
    const undoing = aGate();
    const { node, id } = await failing(
      "CLEAN",
      { "clean.erase_disks": { fail: "worn out" }, "driver.abort": { gate: undoing.name } },
      { powerOnFailure: "LEAVE" },
    );
    await undoing.arrivals();
    await abort(node, { powerOff: false });
    const again = { work: { ids: [node.id] }, powerOff: true };
    expect((await ostler.engine.abort(ALICE, { ...again, dryRun: true })).forecast?.entries).toMatchObject([
      { endsAs: "ABORTED", powersOff: true },
    ]);
    expect((await ostler.engine.abort(ALICE, again)).results).toMatchObject([{ accepted: true, effect: "NOW" }]);
    undoing.open();
    await ostler.operationEnds(id);
    expect(await ostler.run(id, node)).toMatchObject({ state: "ABORTED", leftAs: { power: "OFF" } });
    expect(undone(node)).toHaveLength(1);
  });

  test("abort of a run whose stop had timed out had no effect [R-722]", async () => {
    const undoing = aGate();
    const { node, id } = await failing("CLEAN", {
      "clean.erase_disks": { silent: true },
      "driver.abort": { gate: undoing.name },
    });
    await eventually("the step is entered", () => ostler.entered(node).includes("clean.erase_disks"));
    await ostler.engine.stop(ALICE, { work: { operationId: id }, timeoutSeconds: 1 });
    await undoing.arrivals();
    expect((await abort(node, { powerOff: true })).results).toMatchObject([{ accepted: true, effect: "NOW" }]);
    undoing.open();
    await ostler.operationEnds(id);
    expect(await ostler.run(id, node)).toMatchObject({ state: "ABORTED", leftAs: { power: "OFF" } });
  });

  test("process that dies while a failure is undone: another one undoes it, and the failure is kept", async () => {
    await using lab = await engineUnderTest({ started: false });
    const node = await lab
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_disks": { fail: "worn out" }, "driver.abort": { gate: aGate().name } })
      .made();
    const victim = await lab.inAnotherProcess();
    const id = await lab.begin("CLEAN", [node]);
    await eventually("the step is being undone", () => lab.journal(node).some((entry) => entry.abort));
    await victim.kill();
    await lab.test.sql`update nodes set settings = settings #- '{fake,steps,driver.abort}' where id = ${node.id}`;
    await lab.leasesRunOut();
    await lab.engine.start();
    expect((await lab.operationEnds(id)).firstFailure).toMatchObject({ message: expect.stringContaining("worn out") });
    expect(await lab.run(id, node)).toMatchObject({ state: "FAILED", leftAs: { tearDownError: null } });
  });
});
