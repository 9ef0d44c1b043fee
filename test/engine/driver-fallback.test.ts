/** Several drivers for one interface: which is tried after which failure, and what is recorded. */
import { describe, expect, test } from "vitest";
import type { Driver, DriverErrorKind, MediaInterface, PowerInterface } from "../../src/drivers/driver.ts";
import { FAILURES_MAX } from "../../src/drivers/circuits.ts";
import { attemptsOf } from "../../src/store/runs/attempts.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest, TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnySettings } from "../support/driver.ts";
import { changeNode } from "../support/change-node.ts";

/** Failures of the driver `first` by function, and the calls that both drivers received. */
interface Script {
  fails: Partial<Record<"read" | "set" | "boot" | "insert", { kind: DriverErrorKind; withoutEffect?: true }>>;
  hasBoot: boolean;
  readonly calls: string[];
}

function scripted(name: string, script: Script, isFirst: boolean): Driver<never> {
  const called = (what: keyof Script["fails"]) => {
    script.calls.push(`${name} ${what}`);
    const failure = isFirst ? script.fails[what] : undefined;
    if (failure)
      throw Object.assign(new Error(`The BMC reports ${failure.kind}.`), {
        name: "DriverError",
        retryable: false,
        ...failure,
      });
  };
  const made = aDriver(name);
  const own = made.power as unknown as PowerInterface<AnySettings>;
  const power: PowerInterface<AnySettings> = {
    async read(call) {
      called("read");
      return own.read(call);
    },
    async set(call, action) {
      called("set");
      await own.set?.(call, action);
    },
    ...((!isFirst || script.hasBoot) && { setBootDevice: async () => called("boot") }),
  };
  const media: MediaInterface<AnySettings> = { insert: async () => called("insert"), eject: async () => {} };
  const deploy = stepsOf(
    aStep("insert_agent", "deploy", async (call) => {
      await call.media.insert("http://10.0.0.1/agent.iso");
      return { kind: "done", output: call.media.offered };
    }),
    aStep("remove", "undeploy", async () => ({ kind: "done" })),
  );
  return Object.assign(made, { power, media }, isFirst && { deploy });
}

async function lab(fails: Script["fails"] = {}, hasBoot = true) {
  const script: Script = { fails, hasBoot, calls: [] };
  const ostler = await engineUnderTest({
    drivers: [scripted("first", script, true), scripted("second", script, false)],
  });
  const node = await ostler
    .aNode()
    .with("first")
    .borrowing([{ kinds: [], fallbackFor: ["power", "media"], driver: "second" }])
    .in("AVAILABLE")
    .made();
  return { ...ostler, script, machine: node };
}

async function switchOn(ostler: EngineUnderTest, node: TestNode, powerAction: "ON" | "OFF" = "ON") {
  const id = await ostler.begin("POWER", [node], { options: { powerAction } });
  const { state } = await ostler.operationEnds(id);
  const run = await ostler.run(id, node);
  const attempts = await attemptsOf(ostler.database.reader, [run.id]);
  const tries = attempts.flatMap(({ driverTries }) => driverTries ?? []);
  return {
    state,
    tries: tries.map(({ call, driver, kind }) => [call, driver, kind]),
    raw: tries,
    failure: run.failure,
  };
}

describe("fallback", () => {
  test("fallback: a power change goes by the second driver if the first is unreachable, and the step says so [R-380]", async () => {
    await using ostler = await lab({ read: { kind: "UNREACHABLE" }, set: { kind: "UNREACHABLE" } });
    const { state, tries, raw } = await switchOn(ostler, ostler.machine);
    expect(state).toBe("SUCCEEDED");
    // The change begins with the driver that has answered.
    expect(tries).toEqual([
      ["power read", "first", "UNREACHABLE"],
      ["power read", "second", null],
      ["power set on", "second", null],
    ]);
    expect(raw[0]).toMatchObject({ interface: "power", error: "The BMC reports UNREACHABLE." });
    expect(ostler.script.calls).toEqual(["first read", "second read", "second set"]);
  });

  test.each(["AUTHENTICATION", "REFUSED", "OTHER"] as const)(
    "fallback: no other driver is tried after %s, because the machine has answered [R-381]",
    async (kind) => {
      await using ostler = await lab({ set: { kind } });
      const { state, tries, failure } = await switchOn(ostler, ostler.machine);
      expect([state, failure?.kind]).toEqual(["FAILED", kind]);
      expect(tries).toEqual([
        ["power read", "first", null],
        ["power set on", "first", kind],
      ]);
    },
  );

  test("fallback: a change that timed out is not repeated by another driver, unless it had no effect; a read is [R-382]", async () => {
    await using ostler = await lab({ set: { kind: "TIMEOUT" } });
    expect((await switchOn(ostler, ostler.machine)).state).toBe("FAILED");
    expect(ostler.script.calls).toEqual(["first read", "first set"]);
    ostler.script.fails = { set: { kind: "TIMEOUT", withoutEffect: true } };
    expect((await switchOn(ostler, ostler.machine)).state).toBe("SUCCEEDED");
    ostler.script.fails = { read: { kind: "TIMEOUT" } };
    expect((await switchOn(ostler, ostler.machine, "OFF")).tries).toEqual([
      ["power read", "first", "TIMEOUT"],
      ["power read", "second", null],
      ["power set off", "second", null],
    ]);
  });

  test("fallback: a driver without the function counts as UNSUPPORTED", async () => {
    await using ostler = await lab({}, false);
    const id = await ostler.begin("BOOT_DEVICE", [ostler.machine], {
      options: { bootDevice: { device: "NETWORK", persistent: false } },
    });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(ostler.script.calls).toEqual(["second boot"]);
  });

  test("fallback: a step inserts a medium through the second driver, and its attempt says so [R-383]", async () => {
    await using ostler = await lab({ insert: { kind: "UNSUPPORTED" } });
    const id = await ostler.begin("DEPLOY", [ostler.machine]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    const [attempt] = await attemptsOf(ostler.database.reader, [(await ostler.run(id, ostler.machine)).id]);
    expect(attempt).toMatchObject({
      output: true,
      driverTries: [
        { interface: "media", call: "media insert", driver: "first", kind: "UNSUPPORTED" },
        { interface: "media", call: "media insert", driver: "second", kind: null, error: null },
      ],
    });
  });

  test("fallback: a node with one driver for the interface records no calls", async () => {
    await using ostler = await lab();
    const node = await ostler.aNode().with("first").in("AVAILABLE").made();
    expect((await switchOn(ostler, node)).raw).toEqual([]);
  });

  test.each([
    ["clean", "its clean interface has a further driver, which only power"],
    ["deploy", "the steps of all its drivers are performed"],
  ])("fallback for steps is refused: %s", async (kind, reason) => {
    await using ostler = await lab();
    const interfaces = [{ kinds: [], fallbackFor: [kind], driver: "fake", settings: {} }];
    const answer = await ostler.engine.registerNodes(ALICE, [{ name: "steps", driver: "first", interfaces }]);
    expect(answer.refusals).toMatchObject([
      {
        code: "INVALID_INPUT",
        path: ["input", "nodes", "0", "interfaces", "0", "fallbackFor", "0"],
        message: expect.stringContaining(reason),
      },
    ]);
  });

  test("fallback stays when an update changes only the settings, in its order", async () => {
    await using ostler = await lab();
    const node = await ostler
      .aNode()
      .with("first")
      .borrowing([
        { kinds: [], fallbackFor: ["power"], driver: "second" },
        { kinds: ["inspect"], fallbackFor: ["power", "media"], driver: "fake", settings: {} },
      ])
      .made();
    const before = (await ostler.node(node)).fallbacks;
    expect(before).toEqual({ power: ["second", "fake"], media: ["fake"] });
    await changeNode(ostler.engine, ALICE, node.id, { settings: { rack: 7 } });
    const after = await ostler.node(node);
    expect([after.fallbacks, after.borrowed, after.settings["first"]]).toEqual([
      before,
      { inspect: "fake" },
      { rack: 7 },
    ]);
  });
});

describe("circuit", () => {
  test("circuit of a dead BMC: calls fail at once with the reason and the time of the next probe [R-386]", async () => {
    await using ostler = await lab({ read: { kind: "UNREACHABLE" } });
    const node = await ostler.aNode().with("first").in("AVAILABLE").made();
    for (let count = 0; count < FAILURES_MAX; count += 1) await switchOn(ostler, node);
    const made = ostler.script.calls.length;
    const { failure } = await switchOn(ostler, node);
    expect(ostler.script.calls.length).toBe(made);
    expect(failure?.kind).toBe("UNREACHABLE");
    expect(failure?.message).toMatch(
      /Controller \S+ of driver first has not answered 5 times in a row: The BMC reports UNREACHABLE\. It is tried again from \d{4}-/,
    );
  });

  test("circuit of a dead BMC ends with a change of the node's settings, which may be the repair", async () => {
    await using ostler = await lab({ read: { kind: "UNREACHABLE" } });
    const node = await ostler.aNode().with("first").in("AVAILABLE").made();
    for (let count = 0; count < FAILURES_MAX; count += 1) await switchOn(ostler, node);
    ostler.script.fails = {};
    expect((await switchOn(ostler, node)).state).toBe("FAILED");
    await changeNode(ostler.engine, ALICE, node.id, { settings: { rack: 8 } });
    expect((await switchOn(ostler, node)).state).toBe("SUCCEEDED");
  });

  test("circuit of a dead BMC: the second driver is tried at once, and other nodes are not affected", async () => {
    await using ostler = await lab({ read: { kind: "UNREACHABLE" } });
    for (let count = 0; count <= FAILURES_MAX; count += 1)
      expect((await switchOn(ostler, ostler.machine, count % 2 === 0 ? "ON" : "OFF")).state).toBe("SUCCEEDED");
    expect(ostler.script.calls.filter((call) => call === "first read").length).toBe(FAILURES_MAX);
    const healthy = await ostler.aNode().with("second").in("AVAILABLE").made();
    expect((await switchOn(ostler, healthy)).state).toBe("SUCCEEDED");
  });
});
