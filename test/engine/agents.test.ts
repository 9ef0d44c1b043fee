/** Sessions of the agent: what steps do with them, and what agents are answered. */
import { pino } from "pino";
import { afterAll, describe, expect, test } from "vitest";
import type { AgentBootOptions, AgentStatus, Json } from "../../src/drivers/driver.ts";
import type { AgentReport, Bearer } from "../../src/engine/agents/agents.ts";
import type { Provisioning } from "../../src/engine/input/agent-media.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnyCall } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";

const URL_OF_LISTENER = "http://10.0.0.1:4010";
const PROVISIONING: Provisioning = {
  url: URL_OF_LISTENER,
  mediaFor: (architecture) => (architecture === "X64" ? { version: "1.0.0", protocol: 2 } : null),
};
const CANARY = "canary-of-user-data";
const TASK = {
  kind: "write_image",
  args: { image: { url: "/images/1" }, seed: { userData: `#cloud-config\npassword: ${CANARY}` } },
};

/** Addresses that steps were given, by node. */
const mediumUrls = new Map<string, string>();
const homeUrls = new Map<string, string>();
const statuses = new Map<string, AgentStatus | null>();
const callbacks = new Map<string, Json[]>();

const MEDIUM: AgentBootOptions = { medium: "ISO", architecture: "X64" };

function note(node: string, callback: Json): void {
  callbacks.set(node, [...(callbacks.get(node) ?? []), callback]);
}

async function open(call: AnyCall, options: AgentBootOptions = MEDIUM): Promise<void> {
  const { mediumUrl } = await call.agent.open(options);
  mediumUrls.set(call.node.name, mediumUrl ?? "");
}

/** Does not wait for the agent; entered again every `seconds`, it assigns its task again. */
function hasty(name: string, seconds: number, holdBefore = false) {
  const step = aStep("write", "clean", async (call) => {
    const { node, memo, callback, agent } = call;
    note(node.name, callback);
    if (callback !== null && typeof callback === "object" && "task" in callback)
      return { kind: "done", output: { result: callback } };
    if (memo === null) await open(call);
    if (holdBefore) await holds.get(node.name);
    await agent.assign(TASK);
    if (!holdBefore) await holds.get(node.name);
    return { kind: "wait", callback: true, seconds, memo: "writing" };
  });
  return aDriver(name, { usesAgent: true, clean: stepsOf(step) });
}

const DRIVERS = [
  aDriver("agented", {
    usesAgent: true,
    clean: stepsOf(
      // Opens a session, waits for the agent, lets it work, and is done with its result.
      aStep(
        "write",
        "clean",
        async (call) => {
          const { node, memo, callback, agent } = call;
          note(node.name, callback);
          if (memo === null) {
            await open(call);
            return { kind: "wait", callback: true, seconds: 600, memo: "booting" };
          }
          if (memo === "booting") {
            await agent.assign(TASK);
            return { kind: "wait", callback: true, seconds: 600, memo: "writing" };
          }
          statuses.set(node.name, await agent.status());
          return { kind: "done", output: { result: callback } };
        },
        { abort: async ({ node }) => holds.get(`abort of ${node.name}`) },
      ),
    ),
  }),
  aDriver("erasing", {
    usesAgent: true,
    clean: stepsOf(
      aStep(
        "erase",
        "clean",
        async (call) => {
          if (call.memo === null) await open(call);
          else if (call.memo === "booting") await call.agent.assign(TASK);
          else return { kind: "failed", reason: "the agent is lost", retryable: false };
          const memo = call.memo === null ? "booting" : "erasing";
          return { kind: "wait", callback: true, seconds: memo === "booting" ? 600 : 1, memo };
        },
        { worksAlone: true },
      ),
    ),
  }),
  hasty("hasty", 600),
  hasty("impatient", 1),
  hasty("slow_to_assign", 600, true),
  aDriver("homebound", {
    usesAgent: true,
    clean: stepsOf(
      aStep("install", "clean", async (call) => {
        const { node, memo, callback, agent } = call;
        note(node.name, callback);
        if (memo === null) {
          await open(call);
          homeUrls.set(node.name, await agent.homeUrl());
          await agent.close();
          return { kind: "wait", callback: true, seconds: 600, memo: "installed" };
        }
        statuses.set(node.name, await agent.status());
        return { kind: "done", output: callback };
      }),
    ),
  }),
];

/** Promises that hold the step of a node between its task and its wait. */
const holds = new Map<string, Promise<void>>();

/** Everything that the service logs, of every level. */
const logged: string[] = [];
const log = pino({ level: "trace" }, { write: (line: string) => void logged.push(line) });

const ostler = await engineUnderTest({ drivers: DRIVERS, provisioning: PROVISIONING, log });
afterAll(() => ostler[Symbol.asyncDispose]());

function bearerOf(node: TestNode): Bearer {
  const [, session = "", secret = ""] =
    /\/media\/([^.]+)\.([^/]+)\/agent\.iso$/.exec(mediumUrls.get(node.name) ?? "") ?? [];
  return { session, secret };
}

function report(instance = "one", task?: AgentReport["task"]): AgentReport {
  return {
    instance,
    version: "1.0.0",
    protocol: 2,
    architecture: "X64",
    bootMode: "UEFI",
    address: "10.0.0.7",
    macs: ["52:54:00:00:00:01"],
    disks: 2,
    ...(task && { task }),
  };
}

async function cleaning(driver: string): Promise<{ readonly node: TestNode; readonly id: string }> {
  const node = await ostler.aNode().in("AVAILABLE").with(driver).made();
  const id = await ostler.begin("CLEAN", [node]);
  await ostler.nodeBecomes(node, "CLEAN_WAIT");
  return { node, id };
}

/** The id of the task that the agent of a node is ordered to do. */
async function ordered(node: TestNode, engine = ostler.engine): Promise<string> {
  return eventually(`${node.name} has a task`, async () => {
    const order = await engine.agents.poll(bearerOf(node), report());
    return typeof order === "object" && order.do === "task" && order.task.id;
  });
}

const done = (task: string) => ({ task, ok: true, output: { disk: "/dev/vda" } }) as const;

describe("agent session", () => {
  test("agent session: its first contact wakes the step, its task is ordered, and its result ends the step", async () => {
    const { node, id } = await cleaning("agented");
    const order = await ostler.engine.agents.poll(bearerOf(node), report());
    expect(order).toEqual({ do: "wait", seconds: 2 });
    const task = await ordered(node);
    expect(
      await ostler.engine.agents.poll(bearerOf(node), report("one", { id: task, percent: 1, message: null })),
    ).toEqual({
      do: "continue",
    });
    expect(await ostler.engine.agents.result(bearerOf(node), "one", done(task))).toBe("TAKEN");
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(callbacks.get(node.name)).toEqual([null, { contact: true }, done(task)]);
    expect(statuses.get(node.name)).toMatchObject({
      version: "1.0.0",
      bootMode: "UEFI",
      address: "10.0.0.7",
      disks: 2,
      strangers: 0,
      endedAt: null,
      homeAt: null,
    });
    expect(await ostler.engine.agents.poll(bearerOf(node), report())).toEqual({ do: "power_off" });
  });

  test("agent session: an unknown session, a wrong secret and another session's secret are the same [R-460]", async () => {
    const { node } = await cleaning("agented");
    const { node: other } = await cleaning("agented");
    const { session, secret } = bearerOf(node);
    for (const bearer of [
      { session, secret: "" },
      { session, secret: `${secret}x` },
      { session, secret: bearerOf(other).secret },
      { session: "00000000-0000-4000-8000-000000000000", secret },
      { session: "'; drop table nodes", secret },
    ]) {
      expect(await ostler.engine.agents.poll(bearer, report())).toBe("UNKNOWN");
      expect(await ostler.engine.agents.result(bearer, "one", done("x"))).toBe("UNKNOWN");
      expect(await ostler.engine.agents.medium(bearer)).toBeNull();
      expect(await ostler.engine.agents.isOpen(bearer)).toBe(false);
    }
    expect(await ostler.engine.agents.isOpen({ session, secret })).toBe(true);
    expect(await ostler.engine.agents.medium({ session, secret })).toEqual({
      session,
      secret,
      architecture: "X64",
      kernelArguments: [],
      network: null,
    });
  });

  test("agent session: a second agent with its secret is refused, counted and recorded, and gets no task [R-461]", async () => {
    const { node, id } = await cleaning("agented");
    await ostler.engine.agents.poll(bearerOf(node), report("one"));
    const task = await ordered(node);
    for (let count = 0; count < 8; count += 1)
      expect(await ostler.engine.agents.poll(bearerOf(node), report("two"))).toBe("STRANGER");
    expect(await ostler.engine.agents.result(bearerOf(node), "two", done(task))).toBe("STRANGER");
    const { id: runId } = await ostler.run(id, node);
    const [row] = await ostler.test.sql<{ count: number }[]>`
      select count(*)::int as count from rejected_callbacks where run_id = ${runId} and kind = 'STRANGER'`;
    expect(row?.count).toBe(5);
    expect(await ostler.engine.agents.result(bearerOf(node), "one", done(task))).toBe("TAKEN");
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(statuses.get(node.name)?.strangers).toBe(9);
  });

  test("agent session: of two agents that report first at the same time, one has it [R-461]", async () => {
    const { node } = await cleaning("agented");
    const answers = await Promise.all(
      ["one", "two"].map((instance) => ostler.engine.agents.poll(bearerOf(node), report(instance))),
    );
    expect(answers.filter((answer) => answer === "STRANGER")).toHaveLength(1);
  });

  test("agent session: an agent on the machine of another node gets no task, and its step fails [R-1398]", async () => {
    const giveMac = (node: TestNode, mac: string) =>
      ostler.test.sql`insert into node_macs (mac, node_id, source) values (${mac}, ${node.id}, 'GIVEN')`;
    const other = await ostler.aNode().in("AVAILABLE").with("agented").made();
    await giveMac(other, "b0:26:28:00:00:0b");
    for (const driver of ["agented", "hasty"]) {
      const { node, id } = await cleaning(driver);
      const from = (...macs: readonly string[]) =>
        ostler.engine.agents.poll(bearerOf(node), { ...report(), macs: [...macs, "b0:26:28:00:00:99"] });
      expect(await from("B0-26-28-00-00-0B")).toEqual({ do: "power_off" });
      const { state, firstFailure } = await ostler.operationEnds(id);
      expect([state, firstFailure?.message]).toEqual([
        "FAILED",
        expect.stringContaining(`MAC address b0:26:28:00:00:0b of node ${other.name}, and none of node ${node.name}`),
      ]);
      expect(await ostler.engine.agents.isOpen(bearerOf(node))).toBe(false);
    }
    // A network card that was moved, beside the machine's own.
    const { node, id } = await cleaning("agented");
    await giveMac(node, "b0:26:28:00:00:0a");
    const macs = ["b0:26:28:00:00:0b", "b0:26:28:00:00:0a"];
    expect(await ostler.engine.agents.poll(bearerOf(node), { ...report(), macs })).toMatchObject({ do: "wait" });
    await ostler.engine.agents.result(bearerOf(node), "one", done(await ordered(node)));
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("agent session: the agent of an ended run is ordered to power off [R-462]", async () => {
    const { node, id } = await cleaning("agented");
    await ostler.engine.agents.poll(bearerOf(node), report());
    await ostler.engine.abort(ALICE, { work: { operationId: id }, reason: "enough" });
    await ostler.operationEnds(id);
    expect(await ostler.engine.agents.poll(bearerOf(node), report())).toEqual({ do: "power_off" });
    expect(await ostler.engine.agents.medium(bearerOf(node))).toBeNull();
    expect(await ostler.engine.agents.isOpen(bearerOf(node))).toBe(false);
  });

  test("agent session: an agent whose drives erase themselves was ordered to power off when its step had failed [R-770]", async () => {
    const { node, id } = await cleaning("erasing");
    await ostler.engine.agents.poll(bearerOf(node), report());
    const task = { id: await ordered(node), percent: 1, message: null };
    await ostler.operationEnds(id);
    expect(await ostler.run(id, node)).toMatchObject({ leftAs: { mayBeWorking: true } });
    expect(await ostler.engine.agents.poll(bearerOf(node), report("one", task))).toEqual({ do: "continue" });
    expect(await ostler.engine.agents.poll(bearerOf(node), report())).toEqual({ do: "power_off" });
  });

  test("agent session: a later session of the node ends the earlier one [R-462]", async () => {
    const { node, id } = await cleaning("agented");
    const earlier = bearerOf(node);
    await ostler.engine.agents.poll(earlier, report());
    await ostler.engine.abort(ALICE, { work: { operationId: id }, reason: "again" });
    await ostler.operationEnds(id);
    await ostler.begin("CLEAN", [node]);
    await eventually("a new session is open", () => bearerOf(node).session !== earlier.session);
    expect(await ostler.engine.agents.poll(earlier, report())).toEqual({ do: "power_off" });
    expect(await ostler.engine.agents.poll(bearerOf(node), report("new"))).toEqual({ do: "wait", seconds: 2 });
  });

  test("agent session: an agent of another version of the protocol is ordered to power off", async () => {
    const { node } = await cleaning("agented");
    const answer = await ostler.engine.agents.poll(bearerOf(node), { ...report(), protocol: 1 });
    expect(answer).toEqual({ do: "power_off" });
  });
});

describe("result of a task", () => {
  test("result of a task that comes before the wait is stored is passed to the step once [R-463]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("hasty").made();
    const release = Promise.withResolvers<void>();
    holds.set(node.name, release.promise);
    const id = await ostler.begin("CLEAN", [node]);
    await eventually("the session is open", () => mediumUrls.has(node.name));
    const task = await ordered(node);
    expect(await ostler.engine.agents.result(bearerOf(node), "one", done(task))).toBe("TAKEN");
    release.resolve();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(callbacks.get(node.name)).toEqual([null, done(task)]);
  });

  test("result of a task is taken although the first contact came in the entry that assigned it [R-463]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("slow_to_assign").made();
    const release = Promise.withResolvers<void>();
    holds.set(node.name, release.promise);
    const id = await ostler.begin("CLEAN", [node]);
    await eventually("the session is open", () => mediumUrls.has(node.name));
    await ostler.engine.agents.poll(bearerOf(node), report());
    release.resolve();
    const task = await ordered(node);
    expect(await ostler.engine.agents.result(bearerOf(node), "one", done(task))).toBe("TAKEN");
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(callbacks.get(node.name)).toEqual([null, done(task)]);
  });

  test("result of a task that is repeated counts as taken, and changes nothing [R-463]", async () => {
    const { node, id } = await cleaning("agented");
    await ostler.engine.agents.poll(bearerOf(node), report());
    const task = await ordered(node);
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => ostler.engine.agents.result(bearerOf(node), "one", done(task))),
    );
    expect(new Set(answers)).toEqual(new Set(["TAKEN"]));
    await ostler.operationEnds(id);
    expect(await ostler.engine.agents.result(bearerOf(node), "one", done(task))).toBe("TAKEN");
    expect(callbacks.get(node.name)).toHaveLength(3);
  });

  test("result of a task after an abort is not current, and the agent is ordered to cancel before the machine is cleaned up [R-462]", async () => {
    const { node, id } = await cleaning("agented");
    await ostler.engine.agents.poll(bearerOf(node), report());
    const task = await ordered(node);
    const release = Promise.withResolvers<void>();
    holds.set(`abort of ${node.name}`, release.promise);
    await ostler.engine.abort(ALICE, { work: { operationId: id }, reason: "enough" });
    const working = report("one", { id: task, percent: 50, message: null });
    expect(await ostler.engine.agents.poll(bearerOf(node), working)).toEqual({ do: "cancel" });
    expect(await ostler.engine.agents.result(bearerOf(node), "one", done(task))).toBe("NOT_CURRENT");
    release.resolve();
    await ostler.operationEnds(id);
    expect(await ostler.engine.agents.result(bearerOf(node), "one", done(task))).toBe("NOT_CURRENT");
  });

  test("result of a task that was assigned before the service was restarted is taken by the new process [R-463]", async () => {
    const { node, id } = await cleaning("agented");
    await ostler.engine.agents.poll(bearerOf(node), report());
    const task = await ordered(node);
    await using other = await ostler.another({ drivers: DRIVERS, provisioning: PROVISIONING, started: false });
    expect(
      await other.engine.agents.poll(bearerOf(node), report("one", { id: task, percent: 7, message: "x" })),
    ).toEqual({ do: "continue" });
    expect(await other.engine.agents.result(bearerOf(node), "one", done(task))).toBe("TAKEN");
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("a task that is assigned again in a later entry of its attempt goes on [R-463]", async () => {
    const { node, id } = await cleaning("impatient");
    const task = await ordered(node);
    await eventually("the step is entered again", () => (callbacks.get(node.name)?.length ?? 0) >= 2);
    expect(
      await ostler.engine.agents.poll(bearerOf(node), report("one", { id: task, percent: 7, message: null })),
    ).toEqual({ do: "continue" });
    expect(await ostler.engine.agents.result(bearerOf(node), "one", done(task))).toBe("TAKEN");
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(callbacks.get(node.name)?.at(-1)).toEqual(done(task));
  });
});

describe("secrets of agents", () => {
  test("secrets of agents and arguments of tasks are in no row in clear [R-464]", async () => {
    const { node, id } = await cleaning("agented");
    await ostler.engine.agents.poll(bearerOf(node), report());
    const task = await ordered(node);
    const { secret } = bearerOf(node);
    const leaks = async () =>
      (await ostler.dump()).filter((row) => row.includes(secret) || (row.includes(CANARY) && row.includes(node.id)));
    expect(await leaks()).toEqual([]);
    const leaking = { id: task, percent: 40, message: `writing ${CANARY} with ${secret}` };
    await ostler.engine.agents.poll(bearerOf(node), report("one", leaking));
    const [attempt] = (await ostler.steps(await ostler.run(id, node))).flatMap(({ attempts }) => attempts);
    expect(attempt).toMatchObject({ progressPercent: 40, progressMessage: "writing *** with ***" });
    const error = { code: "WRITE_FAILED", message: `no space for ${CANARY}`, retryable: false };
    expect(await ostler.engine.agents.result(bearerOf(node), "one", { task, ok: false, error })).toBe("TAKEN");
    await ostler.operationEnds(id);
    expect(await leaks()).toEqual([]);
    expect((await ostler.dump()).filter((row) => row.includes(CANARY) && !row.startsWith("agent_sessions "))).toEqual(
      [],
    );
  });

  test("the arguments of a task are removed when its run has ended, although its agent is silent [R-464]", async () => {
    const { node, id } = await cleaning("agented");
    await ostler.engine.agents.poll(bearerOf(node), report());
    await ordered(node);
    const tasks = async () =>
      (await ostler.dump()).filter(
        (row) => row.startsWith("agent_sessions ") && row.includes(node.id) && row.includes("v1."),
      );
    expect(await tasks()).toHaveLength(1);
    await ostler.engine.abort(ALICE, { work: { operationId: id }, reason: "enough" });
    await ostler.operationEnds(id);
    // A process that starts looks for what others left.
    await using _ = await ostler.another({ drivers: DRIVERS, started: true });
    await eventually("the arguments are removed", async () => (await tasks()).length === 0);
  });
});

describe("logs", () => {
  test("logs of agents contain no secret and no argument of a task, at any level [R-464]", async () => {
    const { node, id } = await cleaning("agented");
    const { secret } = bearerOf(node);
    const { node: other } = await cleaning("homebound");
    const token = homeUrls.get(other.name)?.split(".").at(-1) ?? "";
    await ostler.engine.agents.poll(bearerOf(node), report());
    const task = await ordered(node);
    await ostler.engine.agents.poll(bearerOf(node), report("two"));
    await ostler.engine.agents.poll({ ...bearerOf(node), secret: `${secret}x` }, report());
    const error = { code: "WRITE_FAILED", message: `no space for ${CANARY}`, retryable: false };
    await ostler.engine.agents.result(bearerOf(node), "one", { task, ok: false, error });
    await ostler.engine.agents.callHome(`${bearerOf(other).session}.${token}`, {});
    await ostler.operationEnds(id);
    const lines = logged.join("");
    expect(lines).toContain("has reported");
    expect(lines).toContain("by a second agent, which is refused");
    for (const hidden of [secret, token, CANARY]) {
      expect(hidden.length).toBeGreaterThan(15);
      expect(lines).not.toContain(hidden);
    }
  });
});

describe("report of an installed system", () => {
  const tokenOf = (node: TestNode) => homeUrls.get(node.name)?.split("/").at(-1) ?? "";

  test("report of an installed system wakes the step, once, after the session was closed [R-465]", async () => {
    const { node, id } = await cleaning("homebound");
    expect(homeUrls.get(node.name)).toMatch(new RegExp(`^${URL_OF_LISTENER}/home/[0-9a-f-]{36}\\.[\\w-]{43}$`));
    const { callHome } = ostler.engine.agents;
    expect(await callHome(`${tokenOf(node)}x`, {})).toBe(false);
    expect(await callHome("", {})).toBe(false);
    expect(
      await Promise.all([callHome(tokenOf(node), { hostname: "a" }), callHome(tokenOf(node), { hostname: "a" })]),
    ).toEqual([true, true]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(callbacks.get(node.name)).toEqual([null, { home: { hostname: "a" } }]);
    expect(statuses.get(node.name)).toMatchObject({
      home: { hostname: "a" },
      homeAt: expect.any(String) as string,
      endedAt: expect.any(String) as string,
    });
    const token = tokenOf(node);
    expect(await callHome(token, { hostname: "late" })).toBe(true);
    expect(callbacks.get(node.name)).toHaveLength(2);
    await ostler.begin("CLEAN", [node]);
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    expect(await callHome(token, { hostname: "later" })).toBe(false);
  });
});

describe("admission of work with the agent", () => {
  const lacking = async (provisioning: Provisioning | null, settings: Record<string, unknown> = {}) => {
    const node = await ostler.aNode().in("AVAILABLE").with("agented", settings).made();
    await using other = await ostler.another({
      drivers: DRIVERS,
      started: false,
      provisioning,
    });
    const answer = await other.engine.submit(ALICE, { kind: "CLEAN", nodes: { ids: [node.id] }, dryRun: true });
    return answer.refusals.map(({ code, message }) => ({ code, message: message.replace(node.name, "NODE") }));
  };

  test("admission of work with the agent is refused without a provisioning listener [R-466]", async () => {
    expect(await lacking(null)).toEqual([
      {
        code: "AGENT_UNAVAILABLE",
        message:
          "Node NODE cannot boot the agent for clean.write. The service has no provisioning listener, which the agent needs: set OSTLER_PROVISION_HOST, and restart the service.",
      },
    ]);
  });

  test("admission of work with the agent is refused without an agent for the node's architecture [R-466]", async () => {
    expect(await lacking(PROVISIONING)).toEqual([]);
    const [refusal] = await lacking(PROVISIONING, { architecture: "ARM64" });
    expect(refusal?.code).toBe("AGENT_UNAVAILABLE");
    expect(refusal?.message).toContain("no agent for ARM64");
  });

  test("admission of work with the agent is refused if the agent speaks another version of the protocol [R-466]", async () => {
    const [refusal] = await lacking({ ...PROVISIONING, mediaFor: () => ({ version: "2.0.0", protocol: 1 }) });
    expect(refusal?.message).toContain("(version 2.0.0) speaks version 1 of the protocol");
  });

  test("admission of work without a step of the agent needs no provisioning listener [R-466]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("agented").made();
    await using other = await ostler.another({ drivers: DRIVERS, started: false, provisioning: null });
    const power = { kind: "POWER", nodes: { ids: [node.id] }, options: { powerAction: "ON" }, dryRun: true } as const;
    expect((await other.engine.submit(ALICE, power)).refusals).toEqual([]);
  });
});
