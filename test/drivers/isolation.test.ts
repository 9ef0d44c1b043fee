/**
 * Isolation: whatever a driver does to its process, its own call ends with an error that says so, and calls of the same
 * driver for other nodes, made at the same moment, end as they should. Real processes; the driver is `misbehaving/evil.ts`.
 */
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { pino } from "pino";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { Deadline } from "../../src/drivers/deadline.ts";
import type { BootDevice, Json, PowerAction, StepCall, StepResult } from "../../src/drivers/driver.ts";
import { dispatched } from "../../src/drivers/isolation/dispatch.ts";
import type { Dispatch } from "../../src/drivers/isolation/dispatch.ts";
import { CallNotStartedError, startWorker } from "../../src/drivers/isolation/worker-handle.ts";
import type { Job } from "../../src/drivers/isolation/worker-call.ts";
import type { Handle } from "../../src/drivers/isolation/worker-handle.ts";
import { createMemory } from "../../src/drivers/isolation/driver-memory.ts";
import { createPool } from "../../src/drivers/isolation/pool.ts";
import type { Pool, PoolOptions } from "../../src/drivers/isolation/pool.ts";
import { loadPlugins } from "../../src/drivers/load.ts";
import type { AnyDriver, AnyStep } from "../../src/drivers/registry.ts";
import { eventually } from "../support/eventually.ts";

const EVIL = fileURLToPath(new URL("misbehaving/evil.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "ostler-isolation-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
const aFile = () => join(folder, `trace-${(files += 1)}`);

interface Heard {
  readonly lines: string[];
  readonly progress: (readonly [number, string | undefined])[];
  readonly timed: string[];
}

/** A driver in isolation, and the means to call it. */
interface Lab extends AsyncDisposable {
  readonly pool: Pool;
  readonly driver: AnyDriver;
  /** Lines of the service's log. */
  readonly log: string[];
  step(name?: string): AnyStep;
  /** A call of a step for a node whose driver does this. */
  call(
    does: string,
    more?: Omit<Partial<StepCall<unknown>>, "node"> & {
      readonly file?: string;
      readonly password?: string;
      readonly node?: string;
      readonly heard?: Heard;
      readonly dispatch?: Dispatch;
    },
  ): StepCall<unknown>;
  run(does: string, more?: Parameters<Lab["call"]>[1]): Promise<StepResult>;
}

async function openLab(options: Partial<PoolOptions> = {}): Promise<Lab> {
  const lines: string[] = [];
  const log = pino({ level: "info", base: null }, { write: (line: string) => void lines.push(line) });
  const pool = createPool({ workers: 4, log, ...options });
  const registry = await loadPlugins([EVIL], log, pool);
  const driver = registry.get("evil");
  if (!driver) throw new Error("The driver was not loaded.");
  let nodes = 0;
  const lab: Lab = {
    pool,
    driver,
    log: lines,
    step(name = "erase") {
      const found = driver.clean?.steps.find((one) => one.name === name);
      if (!found) throw new Error(`There is no step ${name}.`);
      return found;
    },
    call(
      does,
      { file = "", password = "correct-horse", node = `node-${(nodes += 1)}`, heard, dispatch, ...more } = {},
    ) {
      const nested = () => dispatched(call, { lane: "NESTED" });
      const call: StepCall<unknown> = {
        node: { id: node, name: node, powerState: "OFF", labels: { rack: "7" } },
        settings: { does, file, password },
        signal: new AbortController().signal,
        deadline: new Date(Date.now() + 120_000),
        log: (line) => heard?.lines.push(line),
        timed: async (name, work) => {
          heard?.timed.push(`${name} begins`);
          try {
            const value = await work();
            heard?.timed.push(`${name} ends`);
            return value;
          } catch (error) {
            heard?.timed.push(`${name}: ${(error as Error).message}`);
            throw error;
          }
        },
        args: {},
        memo: null,
        callback: null,
        callbackPath: "/callback/none",
        attemptKey: "run:0:1",
        variables: {},
        // As the engine has it: through the driver that gives the node its power.
        power: {
          read: () => driver.power.read(nested()),
          set: (action: PowerAction) => driver.power.set(nested(), action),
          setBootDevice: async (device: BootDevice, how) =>
            driver.power.setBootDevice?.(nested(), device, { persistent: how?.persistent ?? false }),
        },
        progress: (percent, message) => heard?.progress.push([percent, message]),
        ...more,
      };
      return dispatch ? dispatched(call, dispatch) : call;
    },
    run: (does, more) => lab.step().run(lab.call(does, more)),
    async [Symbol.asyncDispose]() {
      await registry[Symbol.asyncDispose]();
      await pool[Symbol.asyncDispose]();
    },
  };
  return lab;
}

const thrownBy = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    (value) => expect.fail(`It did not throw; it answered ${JSON.stringify(value)}.`),
    (error: unknown) => error,
  );
const outputOf = (result: StepResult) =>
  (result as Extract<StepResult, { kind: "done" }>).output as Record<string, Json>;
const pidOf = (result: StepResult): number => Number(outputOf(result)["pid"]);
const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
const writesNoMore = (file: string) => async () => {
  const { size } = statSync(file);
  await delay(100);
  return statSync(file).size === size;
};
/** Nothing is heard in this process for so long. */
const holdUp = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
/** A worker by itself, ready for a call. */
async function openWorker() {
  const states: Handle["state"][] = [];
  const plugin = { module: pathToFileURL(EVIL).href, name: "evil", version: "1.0.0", memory: createMemory() };
  const worker = startWorker({
    plugin,
    log: pino({ enabled: false }),
    graceMs: 1_000,
    changed: ({ state }) => states.push(state),
  });
  onTestFinished(() => worker.close());
  await eventually("it is ready", () => worker.state === "idle");
  const job = (does: string): Job => ({
    target: { on: "step", phase: "clean", name: "erase", function: "run" },
    given: {
      settings: { does },
      node: { id: "n", name: "n", powerState: "OFF", labels: {} },
      step: { args: {}, memo: null, callback: null, callbackPath: "", attemptKey: "", variables: {} },
    },
    what: "clean.erase",
    signal: new AbortController().signal,
    deadline: new Deadline(60_000),
    repeatable: false,
    secrets: [],
    listener: { log() {}, timed: (_, work) => work() },
  });
  return { worker, states, job };
}
const SOUND = { kind: "done", output: { pid: expect.any(Number) } };
const heardNothing = (): Heard => ({ lines: [], progress: [], timed: [] });

describe("a step that ends by itself harms no other", () => {
  interface Deed {
    readonly does: string;
    readonly error: Record<string, unknown>;
  }
  const ended = (how: string) => ({
    name: "DriverError",
    kind: "OTHER",
    retryable: true,
    message: `The process of driver "evil" ended during clean.erase: ${how}.`,
  });
  test.each<Deed>([
    { does: "throws", error: { name: "Error", message: "it broke" } },
    {
      does: "throws a failure",
      error: { name: "DriverError", kind: "UNREACHABLE", retryable: true, message: "the wire is cut" },
    },
    { does: "throws what cannot be looked at", error: { message: "it threw a value that cannot be serialized" } },
    { does: "ends its process", error: ended("exit code 0") },
    { does: "ends its process with a code", error: ended("exit code 7") },
    { does: "kills its process", error: ended("signal SIGKILL") },
    { does: "aborts its process", error: ended("signal SIGABRT") },
    { does: "fills its heap", error: ended("it exceeded its 256 MiB of memory") },
    { does: "asks for too much at once", error: ended("it exceeded its 256 MiB of memory") },
    {
      does: "throws in a timer",
      error: {
        name: "DriverError",
        retryable: false,
        message: "The driver threw an unhandled error: out of a timer",
      },
    },
    {
      does: "rejects where nobody waits",
      error: {
        name: "DriverError",
        retryable: false,
        message: "The driver threw an unhandled error: nobody waits",
      },
    },
    {
      does: "emits an error that nobody hears",
      error: {
        name: "DriverError",
        retryable: false,
        message: "The driver threw an unhandled error: nobody hears",
      },
    },
    { does: "writes into the channel", error: ended("it sent an invalid message") },
    {
      does: "closes the channel",
      error: { name: "DriverError", message: expect.stringContaining("ended during clean.erase") },
    },
  ])("that $does", async ({ does, error }) => {
    await using lab = await openLab();
    const bad = thrownBy(lab.run(does));
    const others = Array.from({ length: 6 }, () => lab.run("sound"));
    expect(await Promise.all(others)).toEqual(others.map(() => SOUND));
    expect(await bad).toMatchObject(error);
    // And those that come after it.
    expect(await lab.run("sound")).toEqual(SOUND);
  });

  test("that throws what is no error", async () => {
    await using lab = await openLab();
    expect(await thrownBy(lab.run("throws what is no error"))).toBe("a word");
  });

  test.each([
    ["returns nothing", (result: unknown) => expect(result).toBeUndefined()],
    ["returns a function", (result: unknown) => expect(result).toBeTypeOf("function")],
    ["returns a circle", (result: unknown) => expect(result).toEqual({ kind: "done", output: expect.any(BigInt) })],
    ["returns too much", (result: unknown) => expect(result).toEqual({ kind: "done", output: expect.any(BigInt) })],
    ["returns what throws when it is looked at", (result: unknown) => expect(result).toBeTypeOf("bigint")],
  ])("that %s: the engine is given what it refuses", async (does, holds) => {
    await using lab = await openLab();
    holds(await lab.run(does));
    expect(await lab.run("sound")).toEqual(SOUND);
  });

  test("that must not be made twice says so, when its process has ended under it", async () => {
    await using lab = await openLab();
    expect(await thrownBy(lab.step("flash").run(lab.call("ends its process")))).toMatchObject({
      name: "DriverError",
      retryable: false,
    });
  });

  test("that ends its process: the programs that it has started end with it", async () => {
    await using lab = await openLab();
    const file = aFile();
    expect(await thrownBy(lab.run("leaves a process that goes on, and ends its own", { file }))).toMatchObject(
      ended("exit code 1"),
    );
    await eventually("they write no more", writesNoMore(file));
  });

  test("of a discovery", async () => {
    await using lab = await openLab();
    const probe = (does: string) => {
      const { signal, deadline, log, timed } = lab.call("sound");
      return (
        lab.driver.discover?.probe({ address: "192.0.2.7", settings: { does }, signal, deadline, log, timed }) ??
        expect.fail()
      );
    };
    const [bad, good] = await Promise.all([thrownBy(probe("ends its process")), probe("sound")]);
    expect(bad).toMatchObject({
      name: "DriverError",
      message: expect.stringContaining("during discover.probe: exit code 3"),
    });
    expect(good).toMatchObject({ name: "at-192.0.2.7" });
  });
});

describe("a step that does not end harms no other", () => {
  const HANGING = [
    "hangs",
    "spins for ever",
    "sleeps in a call to the system",
    "waits on a lock for ever",
    "prints without end",
  ];

  test.each(HANGING)(
    "while it %s, calls for other nodes go on; when it was told to end, it is killed [R-072]",
    async (does) => {
      await using lab = await openLab({ graceMs: 300 });
      const cut = new AbortController();
      let over = false;
      const bad = thrownBy(lab.run(does, { signal: cut.signal })).finally(() => (over = true));
      for (let round = 0; round < 3; round += 1) {
        const others = Array.from({ length: 4 }, () => lab.run("sound"));
        expect(await Promise.all(others)).toEqual(others.map(() => SOUND));
      }
      expect(over).toBe(false);
      cut.abort(new Error("The step was aborted."));
      expect(await bad).toMatchObject({
        name: "DriverError",
        kind: "TIMEOUT",
        message: expect.stringMatching(/was killed: clean\.erase continued .* after its cancellation/),
      });
      expect(await lab.run("sound")).toEqual(SOUND);
    },
  );

  test.each(HANGING.slice(0, 3))("one that %s is killed after its deadline, though nobody aborts it", async (does) => {
    await using lab = await openLab();
    const bad = thrownBy(lab.run(does, { deadline: new Date(Date.now() + 500) }));
    expect(await lab.run("sound")).toEqual(SOUND);
    expect(await bad).toMatchObject({ name: "DriverError", kind: "TIMEOUT" });
  });

  test("one that goes on by itself does nothing any more once it has been killed, nor do processes that it started", async () => {
    await using lab = await openLab({ graceMs: 50 });
    for (const does of ["goes on writing", "leaves a process that goes on"]) {
      const file = aFile();
      const cut = new AbortController();
      const bad = thrownBy(lab.run(does, { file, signal: cut.signal }));
      await eventually("it has begun to write", () => existsSync(file) && statSync(file).size > 2);
      cut.abort();
      await bad;
      await eventually("it writes no more", writesNoMore(file));
    }
  });

  test("all places are taken by steps that hang: readings go on, and so do steps when one is killed", async () => {
    await using lab = await openLab({ workers: 2, graceMs: 50 });
    const cuts = [new AbortController(), new AbortController()];
    const bad = cuts.map(({ signal }) => thrownBy(lab.run("spins for ever", { signal })));
    await eventually("both are at it", () => lab.pool.figures.processes.called === 2);
    const waiting = lab.run("sound");
    expect(await lab.driver.power.read(lab.call("sound", { dispatch: { lane: "READING" } }))).toBe("OFF");
    expect(lab.pool.figures.waiting).toBe(1);
    cuts[0]?.abort();
    expect(await waiting).toEqual(SOUND);
    cuts[1]?.abort();
    await Promise.all(bad);
  });

  test("all places are taken by steps that hang: what carries out an abort waits for none", async () => {
    await using lab = await openLab({ workers: 1, graceMs: 50 });
    const cut = new AbortController();
    const bad = thrownBy(lab.run("hangs", { signal: cut.signal }));
    await eventually("the place is taken", () => lab.pool.figures.processes.called === 1);
    expect(await lab.run("asks for power", { dispatch: { lane: "ENDING" } })).toMatchObject({
      output: { power: "ON" },
    });
    expect(lab.pool.figures.processes.called).toBe(1);
    cut.abort();
    await bad;
  });

  test("readings that hang keep no step from its place", async () => {
    await using lab = await openLab({ workers: 2, graceMs: 50 });
    const cut = new AbortController();
    const readings = Array.from({ length: 5 }, () =>
      thrownBy(lab.run("hangs", { signal: cut.signal, dispatch: { lane: "READING" } })),
    );
    expect(await Promise.all([lab.run("works for a while"), lab.run("works for a while")])).toEqual([SOUND, SOUND]);
    cut.abort();
    await Promise.all(readings);
  });

  test("neither probes that hang nor readings of nodes in trouble keep a reading from its place", async () => {
    await using lab = await openLab({ workers: 1, graceMs: 50 });
    const cut = new AbortController();
    const bad = (["TROUBLED", "PROBE"] as const).flatMap((lane) =>
      [1, 2, 3].map(() => thrownBy(lab.run("hangs", { signal: cut.signal, dispatch: { lane } }))),
    );
    await eventually("the places are taken", () => lab.pool.figures.processes.called === 2);
    expect(await lab.driver.power.read(lab.call("sound", { dispatch: { lane: "READING" } }))).toBe("OFF");
    cut.abort();
    await Promise.all(bad);
  });

  test.each(["READING", "TROUBLED", "PROBE"] as const)(
    "the time of a call in lane %s begins when it has a place",
    async (lane) => {
      await using lab = await openLab({ workers: 1, graceMs: 50 });
      const cut = new AbortController();
      const first = thrownBy(lab.run("hangs", { signal: cut.signal, dispatch: { lane } }));
      await eventually("it has the place", () => lab.pool.figures.processes.called === 1);
      const deadline = new Deadline(20_000);
      const second = lab.run("sound", { deadline, dispatch: { lane } });
      const left = deadline.leftMs;
      await delay(20);
      expect(deadline.leftMs).toBe(left);
      cut.abort();
      expect(await second).toEqual(SOUND);
      expect(deadline.leftMs).toBeLessThan(left);
      await first;
    },
  );
});

describe("what a call leaves behind harms no other", () => {
  test.each([
    ["leaves a timer that throws", "threw after its call had ended: left behind"],
    ["leaves a promise that rejects", "threw after its call had ended: left behind"],
    ["leaves a timer that ends the process", "called process.exit after it had ended"],
  ])(
    "one that %s: the call of another node in the same process ends well, and the process is replaced",
    async (does, says) => {
      await using lab = await openLab({ workers: 1 });
      const first = pidOf(await lab.run(does));
      const second = pidOf(await lab.run("works for a while"));
      expect(second).toBe(first);
      await eventually("it is told", () => lab.log.some((line) => line.includes(says)));
      expect(pidOf(await lab.run("sound"))).not.toBe(first);
    },
  );

  test.each(["asks by HTTP", "prints"])(
    "one that %s leaves nothing behind that keeps its process from the next call",
    async (does) => {
      const server = createServer((_request, response) => response.end("{}")).listen(0, "127.0.0.1");
      onTestFinished(() => server.close().closeAllConnections());
      await once(server, "listening");
      await using lab = await openLab({ workers: 1 });
      const file = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const pid = pidOf(await lab.run(does, { file }));
      await eventually("it is quiet", () => lab.pool.figures.processes.idle === 1);
      expect(pidOf(await lab.run(does, { file }))).toBe(pid);
    },
  );

  test("one that leaves a timer that throws between two calls: its process ends, and is not kept for a next one", async () => {
    await using lab = await openLab({ workers: 1 });
    const first = pidOf(await lab.run("leaves a timer that throws between two calls"));
    await eventually("it is told", () =>
      lab.log.some((line) => line.includes("threw after its call had ended: left behind")),
    );
    await eventually("it ends", () => !isAlive(first));
  });

  test("one that leaves a timer that goes on: its process is given no other call, and is killed in the end", async () => {
    await using lab = await openLab({ workers: 1 });
    const first = pidOf(await lab.run("leaves a timer that goes on", { file: aFile() }));
    expect(pidOf(await lab.run("sound"))).not.toBe(first);
    await eventually("it is killed", () => !isAlive(first), 20_000);
  });

  test("one that has left something behind for a moment loses nothing when the service was held up meanwhile", async () => {
    await using lab = await openLab({ workers: 1, idleMs: 200, busyMs: 300 });
    const pid = pidOf(await lab.run("leaves a timer for a moment"));
    const next = lab.run("sound");
    holdUp(1_500);
    expect(pidOf(await next)).toBe(pid);
  });

  test("a process that has been killed becomes nothing but ended, whatever it has said before", async () => {
    const { worker, states, job } = await openWorker();
    expect(await worker.call(job("leaves a timer for a moment"))).toMatchObject({ kind: "done" });
    expect(worker.state).toBe("busy");
    // That it is clean is in the channel by then.
    holdUp(1_000);
    worker.kill("as a test");
    expect(await thrownBy(worker.call(job("sound")))).toBeInstanceOf(CallNotStartedError);
    await eventually("it has ended", () => worker.state === "ended");
    expect(states).toEqual(["idle", "busy", "ended"]);
  });

  test("a call that a killed process has not taken was not begun", async () => {
    const { worker, job } = await openWorker();
    const call = worker.call(job("sound"));
    worker.kill("as a test");
    expect(await thrownBy(call)).toBeInstanceOf(CallNotStartedError);
  });

  test("one that cannot be started is an error in the log", async () => {
    const lines: string[] = [];
    const plugin = {
      module: pathToFileURL(join(folder, "nowhere.ts")).href,
      name: "evil",
      version: "1.0.0",
      memory: createMemory(),
    };
    const worker = startWorker({
      plugin,
      log: pino({ level: "error" }, { write: (line: string) => void lines.push(line) }),
      graceMs: 1_000,
      changed() {},
    });
    await eventually("it has ended", () => worker.state === "ended");
    expect(lines).toEqual([expect.stringContaining("failed to start; calls of this driver fail until one starts")]);
  });

  test.skipIf(process.platform !== "linux")("a process is the first that a machine without memory takes", async () => {
    await using lab = await openLab({ workers: 1 });
    expect(readFileSync(`/proc/${pidOf(await lab.run("sound"))}/oom_score_adj`, "utf8").trim()).toBe("1000");
  });

  test("a process that dies between two calls costs neither", async () => {
    await using lab = await openLab({ workers: 1 });
    const first = pidOf(await lab.run("sound"));
    process.kill(first, "SIGKILL");
    expect(pidOf(await lab.run("sound"))).not.toBe(first);
  });
});

describe("a driver that says too much harms no other", () => {
  test("lines are kept up to a measure, and how many were not is told", async () => {
    await using lab = await openLab();
    const heard = heardNothing();
    const [result, other] = await Promise.all([lab.run("says too much", { heard }), lab.run("sound")]);
    expect(result).toEqual({ kind: "done" });
    expect(other).toEqual(SOUND);
    expect(heard.lines.length).toBeLessThan(20_000);
    expect(heard.lines[0]).toBe("line 0");
    expect(heard.lines.at(-1)).toMatch(/^\d+ lines were dropped: the driver logged too fast\.$/);
  });

  test("what was said between two calls, and has not been heard yet, keeps no call waiting", async () => {
    const { worker, job } = await openWorker();
    await worker.call(job("says much when it has ended, bit by bit"));
    holdUp(300);
    const call = worker.call(job("sound"));
    await new Promise((sent) => process.nextTick(sent));
    holdUp(300);
    expect(await call).toEqual(SOUND);
  });

  test("progress is told as it was last", async () => {
    await using lab = await openLab();
    const heard = heardNothing();
    expect(await lab.run("reports without end", { heard })).toEqual({ kind: "done" });
    expect(heard.progress.length).toBeLessThan(1_000);
    expect(heard.progress.at(-1)).toEqual([199_999 / 2_000, "on its way"]);
  });

  test("questions for the power are answered one after the other", async () => {
    await using lab = await openLab();
    let open = 0;
    let most = 0;
    const power = {
      async read() {
        most = Math.max(most, (open += 1));
        await delay(1);
        open -= 1;
        return "ON" as const;
      },
      set: async () => {},
      setBootDevice: async () => {},
    };
    expect(await lab.run("asks for power without end", { power })).toEqual({ kind: "done" });
    expect(most).toBe(1);
  });

  test("what it prints is in the log, without its secrets", async () => {
    await using lab = await openLab();
    await lab.run("prints its secret");
    await eventually(
      "both lines are there",
      () => lab.log.filter((line) => /the password is|once more/.test(line)).length === 2,
    );
    expect(lab.log.join("")).toContain("the password is ***");
    expect(lab.log.join("")).not.toContain("correct-horse");
  });

  test("what it prints last is in the log, though it ends no line", async () => {
    await using lab = await openLab();
    await thrownBy(lab.run("ends with a word that ends no line"));
    await eventually("it is there", () => lab.log.some((line) => line.includes("the last word was ***")));
  });

  test("what it prints of a key with many lines is in the log without any of them", async () => {
    await using lab = await openLab();
    await lab.run("prints its secret", {
      password: "-----BEGIN KEY-----\r\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END KEY-----\n",
    });
    await eventually("the first line is there", () => lab.log.some((line) => line.includes("the password is ***")));
    await eventually("the last line is there", () => lab.log.some((line) => line.includes("once more: ***")));
    expect(lab.log.join("")).not.toMatch(/KEY|MIIE|Bgkq/);
  });

  test("what is shortened shows no half of a secret", async () => {
    await using lab = await openLab();
    const heard = heardNothing();
    const error = (await thrownBy(lab.run("says its secret at the end of much", { heard }))) as Error;
    await eventually("it is printed", () => lab.log.some((line) => line.includes("printed x")));
    for (const text of [error.message, heard.lines.join(""), lab.log.join("")]) {
      expect(text).toContain("xxx");
      expect(text).not.toContain("corr");
    }
  });
});

describe("a call is carried over whole", () => {
  test("what it is given", async () => {
    await using lab = await openLab();
    const call = lab.call("shows what it was given", {
      args: { version: "2.1" },
      memo: { page: 3 },
      callback: [1, null],
      attemptKey: "run:3:2",
      callbackPath: "/callback/x",
      variables: { image: "jammy" },
    });
    expect(await lab.step().run(call)).toEqual({
      kind: "done",
      output: {
        node: call.node,
        settings: call.settings,
        args: { version: "2.1" },
        memo: { page: 3 },
        callback: [1, null],
        attemptKey: "run:3:2",
        callbackPath: "/callback/x",
        variables: { image: "jammy" },
        deadline: expect.closeTo(call.deadline.getTime(), -3) as number,
        isAborted: false,
      },
    });
  });

  test("what it says, in order, and before it ends", async () => {
    await using lab = await openLab();
    const heard = heardNothing();
    await lab.run("tells its time", { heard });
    expect(heard.lines).toEqual(["one", "two"]);
    expect(heard.progress).toEqual([
      [40, "under way"],
      [90, "nearly there"],
    ]);
    expect(heard.timed.toSorted()).toEqual([
      "evil break begins",
      "evil break: broken",
      "evil look begins",
      "evil look ends",
    ]);
  });

  test("its signal, with the reason", async () => {
    await using lab = await openLab();
    const cut = new AbortController();
    const obeying = thrownBy(lab.run("obeys", { signal: cut.signal }));
    const failing = thrownBy(lab.run("fails when it is told to end", { signal: cut.signal }));
    await eventually("both are under way", () => lab.pool.figures.processes.called === 2);
    cut.abort(Object.assign(new Error("It took too long."), { name: "TimeoutError" }));
    expect(await obeying).toMatchObject({ name: "TimeoutError", message: "It took too long." });
    expect(await failing).toMatchObject({ message: "The driver threw an unhandled error: in the listener" });
  });

  test("what cannot be made into JSON is refused, and costs no process", async () => {
    await using lab = await openLab({ workers: 1 });
    const pid = pidOf(await lab.run("sound"));
    for (const odd of [1n, "x".repeat(20_000_000)]) {
      const error = await thrownBy(lab.run("sound", { args: { odd } as unknown as Record<string, Json> }));
      expect(error).toMatchObject({
        name: "DriverError",
        retryable: false,
        message: expect.stringContaining("The arguments of clean.erase cannot be sent"),
      });
    }
    expect(lab.pool.figures.processes).toMatchObject({ idle: 1, called: 0 });
    expect(pidOf(await lab.run("sound"))).toBe(pid);
  });

  test("a call whose signal has fired is not made", async () => {
    await using lab = await openLab();
    expect(await thrownBy(lab.run("sound", { signal: AbortSignal.abort(new Error("too late")) }))).toMatchObject({
      message: "too late",
    });
    expect(lab.pool.figures.processes.starting).toBe(0);
  });

  test("every function of a step, and of power", async () => {
    await using lab = await openLab();
    const file = aFile();
    expect(await lab.step().verify?.(lab.call("sound", { memo: "look again" }))).toEqual({
      kind: "wait",
      seconds: 1,
      memo: "look again",
    });
    await lab.step().abort?.(lab.call("sound", { file }));
    expect(readFileSync(file, "utf8")).toBe("undone");
    await lab.driver.power.set(lab.call("sound", { node: "lamp" }), "ON");
    expect(
      await Promise.all([1, 2, 3, 4].map(() => lab.driver.power.read(lab.call("sound", { node: "lamp" })))),
    ).toEqual(["ON", "ON", "ON", "ON"]);
  });

  test("secrets of the service are not in the environment of a driver", async () => {
    const names = [
      "OSTLER_TOKEN",
      "OSTLER_LISTEN_URL",
      "DATABASE_URL",
      "PGPASSWORD",
      "PGHOST",
      "PGPASSFILE",
      "OTEL_EXPORTER_OTLP_HEADERS",
      "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    ];
    const before = names.map((name) => process.env[name]);
    for (const name of names) process.env[name] = "0123456789abcdef";
    try {
      await using lab = await openLab();
      const output = outputOf(await lab.run("shows its environment"));
      expect(output["PATH"]).toBe(process.env["PATH"]);
      for (const name of names) expect(output).not.toHaveProperty(name);
    } finally {
      for (const [index, name] of names.entries()) {
        if (before[index] === undefined) delete process.env[name];
        else process.env[name] = before[index];
      }
    }
  });
});

describe("a call that waited is confirmed when it can be made", () => {
  /** One that waits for the only place, which is free then. */
  async function waited(lab: Lab, confirm: () => Promise<void>): Promise<unknown> {
    const cut = new AbortController();
    const first = thrownBy(lab.run("obeys", { signal: cut.signal }));
    await eventually("the place is taken", () => lab.pool.figures.processes.called === 1);
    let asked = 0;
    const confirmed = async () => {
      asked += 1;
      await confirm();
    };
    const second = lab
      .run("sound", { dispatch: { lane: "STEP", confirm: confirmed } })
      .catch((error: unknown) => error);
    await eventually("it waits", () => lab.pool.figures.waiting === 1);
    expect(asked).toBe(0);
    cut.abort();
    await first;
    const answer = await second;
    expect(asked).toBeGreaterThan(0);
    return answer;
  }

  test("and made then", async () => {
    await using lab = await openLab({ workers: 1 });
    expect(await waited(lab, async () => {})).toEqual(SOUND);
  });

  test("and not made when it must not be; its process is there for others", async () => {
    await using lab = await openLab({ workers: 1 });
    expect(await waited(lab, () => Promise.reject(new Error("the run is another's")))).toMatchObject({
      message: "the run is another's",
    });
    expect(lab.pool.figures).toMatchObject({ waiting: 0, processes: { idle: 1 } });
    expect(await lab.run("sound")).toEqual(SOUND);
  });

  test("and made by another process when its own has died meanwhile", async () => {
    await using lab = await openLab({ workers: 1 });
    const pid = pidOf(await lab.run("sound"));
    const confirm = async () => {
      if (!isAlive(pid)) return;
      process.kill(pid, "SIGKILL");
      await eventually("it has died", () => lab.pool.figures.processes.idle === 0);
    };
    expect(pidOf((await waited(lab, confirm)) as StepResult)).not.toBe(pid);
  });
});

describe("power within a step", () => {
  test("is asked of the service, and its errors come back as they are", async () => {
    await using lab = await openLab();
    expect(await lab.run("asks for power")).toMatchObject({ output: { power: "ON" } });
    expect(await lab.run("asks for power that fails")).toEqual({
      kind: "done",
      output: { name: "DriverError", kind: "REFUSED", retryable: true, message: "the plug is stuck" },
    });
  });

  test("never waits for the place that its own step holds, though all are taken", async () => {
    await using lab = await openLab({ workers: 3 });
    const results = await Promise.all(Array.from({ length: 9 }, () => lab.run("asks for power")));
    expect(results).toHaveLength(9);
    expect(results.every((result) => outputOf(result)["power"] === "ON")).toBe(true);
  });
});

describe("processes", () => {
  test("are as many as there are places, and no more", async () => {
    await using lab = await openLab({ workers: 2 });
    const calls = Array.from({ length: 6 }, () => lab.run("works for a while"));
    await eventually("both places are taken", () => lab.pool.figures.processes.called === 2);
    const pids = (await Promise.all(calls)).map(pidOf);
    expect(new Set(pids).size).toBe(2);
  });

  test("are not more while what calls have left behind is not gone", async () => {
    await using lab = await openLab({ workers: 2, busyMs: 60_000 });
    let most = 0;
    const watch = setInterval(() => {
      const { starting, idle, called, busy } = lab.pool.figures.processes;
      most = Math.max(most, starting + idle + called + busy);
    }, 1);
    try {
      const calls = Array.from({ length: 12 }, () => lab.run("leaves a timer for long"));
      await Promise.all(calls);
    } finally {
      clearInterval(watch);
    }
    // Two for steps, and one each for readings, nodes in trouble, and probes.
    expect(most).toBeLessThanOrEqual(5);
  });

  test("end when nobody needs them, all but one", async () => {
    await using lab = await openLab({ idleMs: 100 });
    const pids = new Set((await Promise.all(Array.from({ length: 4 }, () => lab.run("works for a while")))).map(pidOf));
    expect(pids.size).toBeGreaterThan(1);
    await eventually(
      "one is left",
      () => Object.values(lab.pool.figures.processes).reduce((sum, count) => sum + count, 0) === 1,
    );
    expect([...pids].filter(isAlive).length).toBeLessThanOrEqual(1);
    expect(await lab.run("sound")).toEqual(SOUND);
    expect(lab.pool.figures.processes).toEqual({ starting: 0, idle: 1, called: 0, busy: 0, ended: 0 });
  });

  test("let their driver close when the service ends, and are gone then", async () => {
    const file = aFile();
    process.env["EVIL_CLOSED"] = file;
    try {
      let pid = 0;
      {
        await using lab = await openLab();
        pid = pidOf(await lab.run("sound"));
      }
      expect(isAlive(pid)).toBe(false);
      expect(readFileSync(file, "utf8").trim().split("\n").toSorted()).toEqual([`${pid}`, `${process.pid}`].toSorted());
    } finally {
      delete process.env["EVIL_CLOSED"];
    }
  });

  test("let their driver close once, however often they are told to end", async () => {
    const file = aFile();
    process.env["EVIL_CLOSED"] = file;
    onTestFinished(() => void delete process.env["EVIL_CLOSED"]);
    const { worker } = await openWorker();
    await Promise.all([worker.close(), worker.close()]);
    expect(readFileSync(file, "utf8").trim().split("\n")).toHaveLength(1);
  });

  test("are gone when the service ends in the middle of a call", async () => {
    let call: Promise<unknown>;
    {
      await using lab = await openLab();
      call = thrownBy(lab.run("spins for ever"));
      await eventually("it spins", () => lab.pool.figures.processes.called === 1);
    }
    expect(await call).toMatchObject({ message: expect.stringContaining("the service is shutting down") });
  });
});
