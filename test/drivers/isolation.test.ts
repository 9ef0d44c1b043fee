/**
 * Isolation: whatever a driver does to its process, its own call fails with an error that says so, and simultaneous
 * calls of the same driver for other nodes succeed. Real processes; the driver is `misbehaving/evil.ts`.
 */
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
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
import type { Dispatch, Dispatched } from "../../src/drivers/isolation/dispatch.ts";
import { CallNotStartedError, startWorker } from "../../src/drivers/isolation/worker-handle.ts";
import type { Job } from "../../src/drivers/isolation/worker-call.ts";
import type { Handle } from "../../src/drivers/isolation/worker-handle.ts";
import { createMemory } from "../../src/drivers/isolation/driver-memory.ts";
import { createPool } from "../../src/drivers/isolation/pool.ts";
import type { Pool, PoolOptions } from "../../src/drivers/isolation/pool.ts";
import { loadPlugins } from "../../src/drivers/load.ts";
import type { AnyDriver, AnyStep } from "../../src/drivers/interfaces.ts";
import { startEmbedded } from "../../src/store/postgres/embedded.ts";
import { eventually } from "../support/eventually.ts";
import { noAgent } from "../../src/drivers/no-agent.ts";

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

/** A driver in isolation, and functions that call it. */
interface Lab extends AsyncDisposable {
  readonly pool: Pool;
  readonly driver: AnyDriver;
  /** Lines of the service's log. */
  readonly log: string[];
  step(name?: string): AnyStep;
  /** A call of a step for a node whose driver shows this behavior. */
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
  const registry = await loadPlugins([EVIL], log, { pool });
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
      const nested = () => ({ ...call, dispatch: { lane: "NESTED" } as const });
      const call: StepCall<unknown> & Partial<Dispatched> = {
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
        fence: 1,
        variables: {},
        media: { offered: false, insert: async () => {}, eject: async () => {} },
        agent: noAgent("there is no agent"),
        image: null,
        userData: null,
        // As the engine does it: through the driver that provides the power of the node.
        power: {
          read: () => driver.power.read(nested()),
          set: async (action: PowerAction) => driver.power.set?.(nested(), action),
          setBootDevice: async (device: BootDevice, how) =>
            driver.power.setBootDevice?.(nested(), device, { persistent: how?.persistent ?? false }),
        },
        progress: (percent, message) => heard?.progress.push([percent, message]),
        ...(dispatch && { dispatch }),
        ...more,
      };
      return call;
    },
    run: (does, more) => lab.step().run(lab.call(does, more)),
    async [Symbol.asyncDispose]() {
      await registry[Symbol.asyncDispose]();
      await pool[Symbol.asyncDispose]();
    },
  };
  return lab;
}

/** Labs of tests that look at calls only: the processes of one test serve the next, as they do in the service. */
const shared = new Map<string, Promise<Lab>>();
afterAll(async () => {
  for (const lab of await Promise.all(shared.values())) await lab[Symbol.asyncDispose]();
});

/** The lab with these options that other tests use too: its log and the number of its processes depend on them. */
function sharedLab(options: Partial<PoolOptions> = {}): Promise<Lab> {
  const key = JSON.stringify(options);
  const lab = shared.get(key) ?? openLab(options);
  shared.set(key, lab);
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
/** Blocks this process. */
const holdUp = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
const evilPlugin = (file: string) => ({
  module: pathToFileURL(file).href,
  name: "evil",
  version: "1.0.0",
  memory: createMemory(),
  hash: null,
  permissions: ["FILES", "PROGRAMS"] as const,
  egress: null,
});
/** A single worker, ready for a call. */
async function openWorker() {
  const states: Handle["state"][] = [];
  const plugin = evilPlugin(EVIL);
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
      step: {
        args: {},
        memo: null,
        callback: null,
        callbackPath: "",
        attemptKey: "",
        fence: 1,
        variables: {},
        mediaOffered: false,
        image: null,
        userData: null,
      },
      args: [],
    },
    what: "clean.erase",
    signal: new AbortController().signal,
    deadline: new Deadline(60_000),
    dispatch: { lane: "STEP" },
    repeatable: false,
    secrets: [],
    listener: { log() {}, timed: (_, work) => work() },
  });
  return { worker, states, job };
}
const SOUND = { kind: "done", output: { pid: expect.any(Number) } };
const heardNothing = (): Heard => ({ lines: [], progress: [], timed: [] });

describe("step that ends its process", () => {
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
      error: { name: "DriverError", kind: "UNREACHABLE", retryable: true, message: "the wire is broken" },
    },
    { does: "throws a value that cannot be read", error: { message: "it threw a value that cannot be serialized" } },
    { does: "ends its process", error: ended("exit code 0") },
    { does: "ends its process with a code", error: ended("exit code 7") },
    { does: "kills its process", error: ended("signal SIGKILL") },
    { does: "aborts its process", error: ended("signal SIGABRT") },
    { does: "fills its heap", error: ended("it exceeded its 256 MiB of memory") },
    { does: "allocates too much at once", error: ended("it exceeded its 256 MiB of memory") },
    {
      does: "throws in a timer",
      error: {
        name: "DriverError",
        retryable: false,
        message: "The driver threw an unhandled error: out of a timer",
      },
    },
    {
      does: "rejects without a handler",
      error: {
        name: "DriverError",
        retryable: false,
        message: "The driver threw an unhandled error: no handler",
      },
    },
    {
      does: "emits an error without a listener",
      error: {
        name: "DriverError",
        retryable: false,
        message: "The driver threw an unhandled error: no listener",
      },
    },
    { does: "writes into the channel", error: ended("it sent an invalid message") },
    {
      does: "closes the channel",
      error: { name: "DriverError", message: expect.stringContaining("ended during clean.erase") },
    },
  ])("step that $does does not affect other calls", async ({ does, error }) => {
    const lab = await sharedLab();
    const bad = thrownBy(lab.run(does));
    const others = Array.from({ length: 6 }, () => lab.run("sound"));
    expect(await Promise.all(others)).toEqual(others.map(() => SOUND));
    expect(await bad).toMatchObject(error);
    // And later calls.
    expect(await lab.run("sound")).toEqual(SOUND);
  });

  test("step that throws a value that is not an error does not affect other calls", async () => {
    const lab = await sharedLab();
    expect(await thrownBy(lab.run("throws a value that is not an error"))).toBe("a word");
  });

  test.each([
    ["returns nothing", "undefined in place of a result"],
    ["returns a function", "function in place of a result"],
    ["returns a circular value", "an output that is not JSON or is too large"],
    ["returns too much", "an output that is not JSON or is too large"],
    ["returns a value that throws when it is read", "bigint in place of a result"],
  ])("step that %s is rejected with an error that says so", async (does, what) => {
    const lab = await sharedLab();
    expect(await thrownBy(lab.run(does))).toMatchObject({
      name: "InvalidStepResultError",
      message: `The driver returned ${what}`,
    });
    expect(await lab.run("sound")).toEqual(SOUND);
  });

  test("step that is not idempotent is not retryable after the end of its process", async () => {
    const lab = await sharedLab();
    expect(await thrownBy(lab.step("flash").run(lab.call("ends its process")))).toMatchObject({
      name: "DriverError",
      retryable: false,
    });
  });

  test("step that ends its process also ends the programs that it started", async () => {
    const lab = await sharedLab();
    const file = aFile();
    expect(await thrownBy(lab.run("leaves a process that continues, and ends its own", { file }))).toMatchObject(
      ended("exit code 1"),
    );
    await eventually("they write no more", writesNoMore(file));
  });

  test("step of a discovery that ends its process does not affect other probes", async () => {
    const lab = await sharedLab();
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

describe("step that does not end", () => {
  const HANGING = ["hangs", "spins forever", "sleeps in a system call", "waits on a lock forever", "prints endlessly"];

  test.each(HANGING)(
    "step that %s does not delay other calls, and is killed after its cancellation [R-072]",
    async (does) => {
      const lab = await sharedLab({ graceMs: 300 });
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

  test.each(HANGING)(
    "step that %s went on for the grace period after a forced abort: it is killed at once [R-263]",
    async (does) => {
      const lab = await sharedLab({ graceMs: 60_000 });
      const [cut, kill] = [new AbortController(), new AbortController()];
      const bad = thrownBy(lab.run(does, { signal: cut.signal, dispatch: { lane: "STEP", kill: kill.signal } }));
      expect(await lab.run("sound")).toEqual(SOUND);
      // Canceled already, as by an abort before the forced one.
      cut.abort(new Error("The step was aborted."));
      kill.abort(new Error("The abort was forced."));
      expect(await bad).toMatchObject({ name: "DriverError", message: expect.stringContaining("was killed") });
      expect(await lab.run("sound")).toEqual(SOUND);
    },
  );

  test.each(HANGING.slice(0, 3))("step that %s is killed after its deadline without an abort", async (does) => {
    const lab = await sharedLab();
    const bad = thrownBy(lab.run(does, { deadline: new Date(Date.now() + 500) }));
    expect(await lab.run("sound")).toEqual(SOUND);
    expect(await bad).toMatchObject({ name: "DriverError", kind: "TIMEOUT" });
  });

  test("step that is killed has no further effect, nor have processes that it started", async () => {
    const lab = await sharedLab({ graceMs: 50 });
    for (const does of ["keeps writing", "leaves a process that continues"]) {
      const file = aFile();
      const cut = new AbortController();
      const bad = thrownBy(lab.run(does, { file, signal: cut.signal }));
      await eventually("it has begun to write", () => existsSync(file) && statSync(file).size > 2);
      cut.abort();
      await bad;
      await eventually("it writes no more", writesNoMore(file));
    }
  });

  test("hanging steps in all slots do not delay readings, and a killed one frees its slot", async () => {
    await using lab = await openLab({ workers: 2, graceMs: 50 });
    const cuts = [new AbortController(), new AbortController()];
    const bad = cuts.map(({ signal }) => thrownBy(lab.run("spins forever", { signal })));
    await eventually("both are at it", () => lab.pool.figures.processes.called === 2);
    const waiting = lab.run("sound");
    expect(await lab.driver.power.read(lab.call("sound", { dispatch: { lane: "READING" } }))).toBe("OFF");
    expect(lab.pool.figures.waiting).toBe(1);
    cuts[0]?.abort();
    expect(await waiting).toEqual(SOUND);
    cuts[1]?.abort();
    await Promise.all(bad);
  });

  test("hanging steps in all slots do not delay an abort, which waits for no slot", async () => {
    await using lab = await openLab({ workers: 1, graceMs: 50 });
    const cut = new AbortController();
    const bad = thrownBy(lab.run("hangs", { signal: cut.signal }));
    await eventually("the place is taken", () => lab.pool.figures.processes.called === 1);
    expect(await lab.run("uses the power", { dispatch: { lane: "ENDING" } })).toMatchObject({
      output: { power: "ON" },
    });
    expect(lab.pool.figures.processes.called).toBe(1);
    cut.abort();
    await bad;
  });

  test("hanging readings take no slot from steps", async () => {
    await using lab = await openLab({ workers: 2, graceMs: 50 });
    const cut = new AbortController();
    const readings = Array.from({ length: 5 }, () =>
      thrownBy(lab.run("hangs", { signal: cut.signal, dispatch: { lane: "READING" } })),
    );
    expect(await Promise.all([lab.run("runs for a while"), lab.run("runs for a while")])).toEqual([SOUND, SOUND]);
    cut.abort();
    await Promise.all(readings);
  });

  test("hanging probes and readings of failing nodes take no slot from readings", async () => {
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

  test.each(["STEP", "READING", "TROUBLED", "PROBE"] as const)(
    "timeout of a call in lane %s starts with the call, not while it waits for a slot or for its check [R-826]",
    async (lane) => {
      await using lab = await openLab({ workers: 1, graceMs: 50 });
      const cut = new AbortController();
      const first = thrownBy(lab.run("hangs", { signal: cut.signal, dispatch: { lane } }));
      await eventually("it has the place", () => lab.pool.figures.processes.called === 1);
      const deadline = new Deadline(20_000);
      const left: number[] = [];
      const confirm = async () => void left.push(deadline.leftMs);
      const second = lab.run("sound", { deadline, dispatch: { lane, confirm } });
      left.push(deadline.leftMs);
      await delay(20);
      left.push(deadline.leftMs);
      cut.abort();
      expect(await second).toEqual(SOUND);
      expect(new Set(left).size).toBe(1);
      expect(left).toHaveLength(3);
      expect(deadline.leftMs).toBeLessThan(left[0] ?? 0);
      await first;
    },
  );
});

describe("remains of a call", () => {
  test.each([
    ["leaves a timer that throws", "threw after its call had ended: left behind"],
    ["leaves a promise that rejects", "threw after its call had ended: left behind"],
    ["leaves a timer that ends the process", "called process.exit after it had ended"],
  ])("call that %s: the next call in the process succeeds, and then the process is replaced", async (does, says) => {
    await using lab = await openLab({ workers: 1 });
    const first = pidOf(await lab.run(does));
    const second = pidOf(await lab.run("runs for a while"));
    expect(second).toBe(first);
    await eventually("it is logged", () => lab.log.some((line) => line.includes(says)));
    expect(pidOf(await lab.run("sound"))).not.toBe(first);
  });

  test.each(["asks by HTTP", "prints"])(
    "call that %s leaves nothing that keeps its process from the next call",
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

  test("call that leaves a timer that throws between two calls: its process ends and is not used again", async () => {
    await using lab = await openLab({ workers: 1 });
    const first = pidOf(await lab.run("leaves a timer that throws between two calls"));
    await eventually("it is logged", () =>
      lab.log.some((line) => line.includes("threw after its call had ended: left behind")),
    );
    await eventually("it ends", () => !isAlive(first));
  });

  test("call that leaves a repeating timer: its process gets no other call and is killed", async () => {
    await using lab = await openLab({ workers: 1 });
    const first = pidOf(await lab.run("leaves a timer that repeats", { file: aFile() }));
    expect(pidOf(await lab.run("sound"))).not.toBe(first);
    await eventually("it is killed", () => !isAlive(first), 20_000);
  });

  test("call that leaves a short timer: its process is kept, although the service was blocked meanwhile", async () => {
    await using lab = await openLab({ workers: 1, idleMs: 200, busyMs: 300 });
    const pid = pidOf(await lab.run("leaves a timer for a moment"));
    const next = lab.run("sound");
    holdUp(1_500);
    expect(pidOf(await next)).toBe(pid);
  });

  test.each([
    // Node opens or closes one of its own now and then.
    ["leaves descriptors open", /left (39|4\d) file descriptors open/],
    ["changes a prototype", "changed the global object map"],
    ["adds to a prototype", "changed the global object extra"],
    ["replaces a global function", "changed the global object fetch"],
    ["adds a global variable", "changed the global object globalThis"],
    ["changes the environment", "changed the environment variables"],
    ["changes the folder", "changed the working directory"],
    ["keeps much memory", "left much memory in use"],
  ])("call that %s: no other call meets it, because its process is replaced [R-210]", async (does, says) => {
    const lab = await sharedLab({ workers: 1 });
    const first = pidOf(await lab.run(does));
    const pattern = new RegExp(`${typeof says === "string" ? says : says.source}; its process is replaced`);
    expect(lab.log.filter((line) => pattern.test(line))).not.toEqual([]);
    expect(pidOf(await lab.run("sound"))).not.toBe(first);
  });

  test("call that replaces a global of the HTTP client in use: no other call meets it, because its process is replaced [R-210]", async () => {
    const lab = await sharedLab({ workers: 1 });
    const first = pidOf(await lab.run("uses headers"));
    expect(pidOf(await lab.run("replaces headers"))).toBe(first);
    expect(lab.log.filter((line) => line.includes("changed the global object Headers"))).not.toEqual([]);
    expect(pidOf(await lab.run("sound"))).not.toBe(first);
  });

  test.each(["fails without descriptors", "throws without descriptors"])(
    "call that %s: no other call meets it, because its process is replaced [R-210]",
    async (does) => {
      const lab = await sharedLab({ workers: 1 });
      const first = pidOf(await lab.run("sound"));
      await lab.run(does).catch(() => {});
      expect(pidOf(await lab.run("sound"))).not.toBe(first);
    },
  );

  test("worker that is killed only becomes ended, whatever it has sent before", async () => {
    const { worker, states, job } = await openWorker();
    expect(await worker.call(job("leaves a timer for a moment"))).toMatchObject({ kind: "done" });
    expect(worker.state).toBe("busy");
    // Its message that it is idle is in the channel by then.
    holdUp(1_000);
    worker.kill("as a test");
    expect(await thrownBy(worker.call(job("sound")))).toBeInstanceOf(CallNotStartedError);
    await eventually("it has ended", () => worker.state === "ended");
    expect(states).toEqual(["idle", "busy", "ended"]);
  });

  test("worker that is killed before it took a call reports the call as not started", async () => {
    const { worker, job } = await openWorker();
    const call = worker.call(job("sound"));
    worker.kill("as a test");
    expect(await thrownBy(call)).toBeInstanceOf(CallNotStartedError);
  });

  test("worker that cannot be started is an error in the log", async () => {
    const lines: string[] = [];
    const plugin = evilPlugin(join(folder, "nowhere.ts"));
    const worker = startWorker({
      plugin,
      log: pino({ level: "error" }, { write: (line: string) => void lines.push(line) }),
      graceMs: 1_000,
      changed() {},
    });
    await eventually("it has ended", () => worker.state === "ended");
    expect(lines).toEqual([expect.stringContaining("failed to start; calls of this driver fail until one starts")]);
  });

  test.skipIf(process.platform !== "linux")(
    "worker is the first process that the kernel kills when memory runs out",
    async () => {
      await using lab = await openLab({ workers: 1 });
      expect(readFileSync(`/proc/${pidOf(await lab.run("sound"))}/oom_score_adj`, "utf8").trim()).toBe("1000");
    },
  );

  test.each([
    { kills: 2, ends: "done" },
    { kills: 3, ends: "failed" },
  ])(
    "step whose worker is killed $kills times while it starts, before any call, is $ends [R-184]",
    async ({ kills, ends }) => {
      const starts = join(folder, `starts-${kills}`);
      const module = join(folder, `dying-${kills}.ts`);
      writeFileSync(
        module,
        `import { appendFileSync, readFileSync } from "node:fs";
       appendFileSync(${JSON.stringify(starts)}, ".");
       if (readFileSync(${JSON.stringify(starts)}, "utf8").length <= ${kills}) process.kill(process.pid, "SIGKILL");
       export { default } from ${JSON.stringify(pathToFileURL(EVIL).href)};`,
      );
      const { job } = await openWorker();
      await using pool = createPool({ workers: 1, log: pino({ level: "silent" }) });
      const plugin = evilPlugin(module);
      const result = pool.run(plugin, job("sound"));
      if (ends === "done") expect(await result).toMatchObject({ kind: "done" });
      else
        expect(await thrownBy(result)).toMatchObject({
          message: expect.stringContaining("failed to start: signal SIGKILL"),
        });
      expect(readFileSync(starts, "utf8")).toHaveLength(3);
    },
  );

  test("worker that dies between two calls is replaced without a failed call", async () => {
    await using lab = await openLab({ workers: 1 });
    const first = pidOf(await lab.run("sound"));
    process.kill(first, "SIGKILL");
    expect(pidOf(await lab.run("sound"))).not.toBe(first);
  });
});

describe("hostile driver", () => {
  test("driver without permissions can neither read the service's secrets nor use its database [R-215]", async () => {
    const data = mkdtempSync(join(tmpdir(), "ostler-hidden-"));
    onTestFinished(() => rmSync(data, { recursive: true, force: true }));
    await using database = await startEmbedded({ folder: data, durable: false });
    expect(database.connection).toHaveProperty("password");
    process.env["EVIL_PERMISSIONS"] = "none";
    onTestFinished(() => void delete process.env["EVIL_PERMISSIONS"]);
    await using lab = await openLab({ workers: 1, place: { hidden: data, user: null } });
    expect(outputOf(await lab.run("looks for secrets", { file: data }))).toEqual({
      environment: "ERR_ACCESS_DENIED",
      memory: "ERR_ACCESS_DENIED",
      password: "ERR_ACCESS_DENIED",
      program: "ERR_ACCESS_DENIED",
      write: "ERR_ACCESS_DENIED",
      database: expect.not.stringMatching(/^1$/),
    });
    expect(await lab.run("sound")).toEqual(SOUND);
  });
});

describe("output of a driver", () => {
  test("log lines of a call are limited, and the number of dropped lines is logged", async () => {
    const lab = await sharedLab();
    const heard = heardNothing();
    const [result, other] = await Promise.all([lab.run("logs too much", { heard }), lab.run("sound")]);
    expect(result).toEqual({ kind: "done" });
    expect(other).toEqual(SOUND);
    expect(heard.lines.length).toBeLessThan(20_000);
    expect(heard.lines[0]).toBe("line 0");
    expect(heard.lines.at(-1)).toMatch(/^\d+ lines were dropped: the driver logged too fast\.$/);
  });

  test("log lines between two calls do not delay the next call", async () => {
    const { worker, job } = await openWorker();
    await worker.call(job("logs much after its end, in parts"));
    holdUp(300);
    const call = worker.call(job("sound"));
    await new Promise((sent) => process.nextTick(sent));
    holdUp(300);
    expect(await call).toEqual(SOUND);
  });

  test("progress of a call is limited, and the last value is reported", async () => {
    const lab = await sharedLab();
    const heard = heardNothing();
    expect(await lab.run("reports progress endlessly", { heard })).toEqual({ kind: "done" });
    expect(heard.progress.length).toBeLessThan(1_000);
    expect(heard.progress.at(-1)).toEqual([199_999 / 2_000, "on its way"]);
  });

  test("power requests of a call are answered one after the other", async () => {
    const lab = await sharedLab();
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
    expect(await lab.run("reads the power endlessly", { power })).toEqual({ kind: "done" });
    expect(most).toBe(1);
  });

  test("printed lines are logged without secrets", async () => {
    await using lab = await openLab();
    await lab.run("prints its secret");
    await eventually(
      "both lines are there",
      () => lab.log.filter((line) => /the password is|once more/.test(line)).length === 2,
    );
    expect(lab.log.join("")).toContain("the password is ***");
    expect(lab.log.join("")).not.toContain("correct-horse");
  });

  test("printed text without a line end is logged when the process ends", async () => {
    await using lab = await openLab();
    await thrownBy(lab.run("ends with an incomplete line"));
    await eventually("it is there", () => lab.log.some((line) => line.includes("the last word was ***")));
  });

  test("printed key of several lines is logged without any of them", async () => {
    await using lab = await openLab();
    await lab.run("prints its secret", {
      password: "-----BEGIN KEY-----\r\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END KEY-----\n",
    });
    await eventually("the first line is there", () => lab.log.some((line) => line.includes("the password is ***")));
    await eventually("the last line is there", () => lab.log.some((line) => line.includes("once more: ***")));
    expect(lab.log.join("")).not.toMatch(/KEY|MIIE|Bgkq/);
  });

  test("truncated text contains no half of a secret", async () => {
    await using lab = await openLab();
    const heard = heardNothing();
    const error = (await thrownBy(lab.run("logs its secret at the end of a long text", { heard }))) as Error;
    await eventually("it is printed", () => lab.log.some((line) => line.includes("printed x")));
    for (const text of [error.message, heard.lines.join(""), lab.log.join("")]) {
      expect(text).toContain("xxx");
      expect(text).not.toContain("corr");
    }
  });
});

const IMAGE = {
  id: "debian",
  name: "debian",
  url: "/images/debian",
  format: "RAW",
  sizeBytes: 1,
  diskBytes: null,
  checksum: { algorithm: "SHA256", value: "00" },
  architecture: "X64",
  bootMode: null,
  callsHome: true,
} as const;

describe("transfer of a call", () => {
  test("transfer of a call passes all its arguments", async () => {
    const lab = await sharedLab();
    // The worker counts the time that is left from the arrival of the call, which must not wait for a process.
    await lab.run("sound");
    const call = lab.call("returns its call", {
      args: { version: "2.1" },
      memo: { page: 3 },
      callback: [1, null],
      attemptKey: "run:3:2",
      callbackPath: "/callback/x",
      variables: { image: "jammy" },
      image: IMAGE,
      userData: "#cloud-config\npassword: canary",
    });
    expect(await lab.step().run(call)).toEqual({
      kind: "done",
      output: {
        node: call.node,
        settings: call.settings,
        args: { version: "2.1" },
        memo: { page: 3 },
        callback: [1, null],
        fence: 1,
        attemptKey: "run:3:2",
        callbackPath: "/callback/x",
        variables: { image: "jammy" },
        media: { offered: false },
        agent: {},
        image: IMAGE,
        userData: "#cloud-config\npassword: canary",
        deadline: expect.closeTo(call.deadline.getTime(), -3) as number,
        isAborted: false,
      },
    });
  });

  test("transfer of a call passes its log lines and progress in order, and before its end", async () => {
    const lab = await sharedLab();
    const heard = heardNothing();
    await lab.run("reports its times", { heard });
    expect(heard.lines).toEqual(["one", "two"]);
    expect(heard.progress).toEqual([
      [40, "in progress"],
      [90, "nearly there"],
    ]);
    expect(heard.timed.toSorted()).toEqual([
      "evil break begins",
      "evil break: broken",
      "evil look begins",
      "evil look ends",
    ]);
  });

  test("transfer of a call passes its signal with the reason", async () => {
    await using lab = await openLab();
    const cut = new AbortController();
    const obeying = thrownBy(lab.run("obeys", { signal: cut.signal }));
    const failing = thrownBy(lab.run("fails when it is cancelled", { signal: cut.signal }));
    await eventually("both are in progress", () => lab.pool.figures.processes.called === 2);
    cut.abort(Object.assign(new Error("It took too long."), { name: "TimeoutError" }));
    expect(await obeying).toMatchObject({ name: "TimeoutError", message: "It took too long." });
    expect(await failing).toMatchObject({ message: "The driver threw an unhandled error: in the listener" });
  });

  test("transfer of a call refuses values that JSON cannot represent, and keeps the process", async () => {
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

  test("transfer of a call whose signal has fired does not call the driver", async () => {
    await using lab = await openLab();
    expect(await thrownBy(lab.run("sound", { signal: AbortSignal.abort(new Error("too late")) }))).toMatchObject({
      message: "too late",
    });
    expect(lab.pool.figures.processes.starting).toBe(0);
  });

  test("transfer works for every function of a step, and of power", async () => {
    const lab = await sharedLab();
    const file = aFile();
    expect(await lab.step().verify?.(lab.call("sound", { memo: "look again" }))).toEqual({
      kind: "wait",
      seconds: 1,
      memo: "look again",
    });
    await lab.step().abort?.(lab.call("sound", { file }));
    expect(readFileSync(file, "utf8")).toBe("undone");
    await lab.driver.power.set?.(lab.call("sound", { node: "lamp" }), "ON");
    expect(
      await Promise.all([1, 2, 3, 4].map(() => lab.driver.power.read(lab.call("sound", { node: "lamp" })))),
    ).toEqual(["ON", "ON", "ON", "ON"]);
  });

  test("transfer passes no secret of the service in the environment", async () => {
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
      const output = outputOf(await lab.run("returns its environment"));
      expect(output["PATH"]).toBe(process.env["PATH"]);
      for (const name of names) expect(output).not.toHaveProperty(name);
    } finally {
      for (const [index, name] of names.entries()) {
        if (before[index] === undefined) delete process.env[name];
        else process.env[name] = before[index];
      }
    }
  });

  test("transfer passes no compile cache of the service, whose code a plugin could replace [R-330]", async () => {
    const before = process.env["NODE_COMPILE_CACHE"];
    process.env["NODE_COMPILE_CACHE"] = join(folder, "compiled");
    onTestFinished(() => {
      if (before === undefined) delete process.env["NODE_COMPILE_CACHE"];
      else process.env["NODE_COMPILE_CACHE"] = before;
    });
    await using lab = await openLab({ workers: 1 });
    expect(outputOf(await lab.run("returns its environment"))["NODE_COMPILE_CACHE"]).toMatch(/ostler-compiled-\d+/);
    expect(existsSync(join(folder, "compiled"))).toBe(false);
  });
});

describe("check of a call that waited for its slot", () => {
  /** A call that waits for the only slot, which is released then. */
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

  test("call that waited for its slot is sent after a successful check", async () => {
    await using lab = await openLab({ workers: 1 });
    expect(await waited(lab, async () => {})).toEqual(SOUND);
  });

  test("call that waited for its slot is not sent after a failed check, and its process serves others", async () => {
    await using lab = await openLab({ workers: 1 });
    expect(await waited(lab, () => Promise.reject(new Error("the run is another's")))).toMatchObject({
      message: "the run is another's",
    });
    expect(lab.pool.figures).toMatchObject({ waiting: 0, processes: { idle: 1 } });
    expect(await lab.run("sound")).toEqual(SOUND);
  });

  test("call that waited for its slot is sent by another process if its own has died meanwhile", async () => {
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
  test("power within a step is requested from the service, and returns its errors", async () => {
    const lab = await sharedLab();
    expect(await lab.run("uses the power")).toMatchObject({ output: { power: "ON" } });
    expect(await lab.run("uses power that fails")).toEqual({
      kind: "done",
      output: { name: "DriverError", kind: "REFUSED", retryable: true, message: "the plug is stuck" },
    });
  });

  test("the agent within a step is requested from the service, with its arguments and errors", async () => {
    const lab = await sharedLab();
    const asked: unknown[] = [];
    const agent = {
      status: async () => null,
      open: async (boot: unknown) => {
        asked.push(boot);
        return { mediumUrl: "http://10.0.0.1/media/x/agent.iso", loaderUrl: "http://10.0.0.1/ipxe.efi" };
      },
      assign: async (task: unknown) => void asked.push(task),
      close: async () => {
        throw Object.assign(new Error("no"), { name: "DriverError", kind: "UNSUPPORTED", retryable: false });
      },
      homeUrl: async () => "http://10.0.0.1/home/y",
    };
    expect(await lab.run("uses the agent", { agent })).toEqual({
      kind: "done",
      output: {
        before: null,
        mediumUrl: "http://10.0.0.1/media/x/agent.iso",
        loaderUrl: "http://10.0.0.1/ipxe.efi",
        home: "http://10.0.0.1/home/y",
        name: "DriverError",
        kind: "UNSUPPORTED",
      },
    });
    expect(asked).toEqual([
      { medium: "ISO", architecture: "X64" },
      { kind: "inventory", args: { lldpSeconds: 0 } },
    ]);
  });

  test("media within a step are requested from the service, with their options and errors [R-371]", async () => {
    const lab = await sharedLab();
    const inserted: unknown[] = [];
    const media = {
      offered: true,
      insert: async (...given: unknown[]) => void inserted.push(given),
      async eject() {
        const late = new Error("the BMC is slow");
        throw Object.assign(late, { name: "DriverError", kind: "TIMEOUT", retryable: true, withoutEffect: true });
      },
    };
    expect(await lab.run("uses the media", { media })).toEqual({
      kind: "done",
      output: { offered: true, name: "DriverError", kind: "TIMEOUT", withoutEffect: true },
    });
    expect(inserted).toEqual([["http://10.0.0.1/agent.iso", { writeProtected: false }]]);
  });

  test("steps that use the power of their node leave a process to that, which other calls may have [R-695]", async () => {
    await using lab = await openLab({ idleMs: 600_000 });
    // The service learns that the step makes nested calls.
    expect(await lab.run("uses the power")).toMatchObject({ output: { power: "ON" } });
    await eventually("both are ready", () => lab.pool.figures.processes.idle === 2);
    const gate = Promise.withResolvers<void>();
    const power = { read: async () => "ON" as const, set: () => gate.promise, setBootDevice: async () => {} };
    const first = lab.run("uses the power", { power });
    await eventually("it has a process", () => lab.pool.figures.processes.called === 1);
    const second = lab.run("uses the power", { power });
    expect(lab.pool.figures).toMatchObject({ waiting: 1, processes: { called: 1, idle: 1 } });
    const other = lab.driver.power.read(lab.call("sound"));
    expect(lab.pool.figures.waiting).toBe(1);
    expect(await other).toBe("OFF");
    gate.resolve();
    for (const step of [first, second]) expect(await step).toMatchObject({ output: { power: "ON" } });
  });

  test("power within a step never waits for a slot, although all are taken", async () => {
    await using lab = await openLab({ workers: 3 });
    const results = await Promise.all(Array.from({ length: 9 }, () => lab.run("uses the power")));
    expect(results).toHaveLength(9);
    expect(results.every((result) => outputOf(result)["power"] === "ON")).toBe(true);
  });
});

describe("worker processes", () => {
  test("worker processes are at most as many as slots", async () => {
    await using lab = await openLab({ workers: 2 });
    const calls = Array.from({ length: 6 }, () => lab.run("runs for a while"));
    await eventually("both places are taken", () => lab.pool.figures.processes.called === 2);
    const pids = (await Promise.all(calls)).map(pidOf);
    expect(new Set(pids).size).toBe(2);
  });

  test("worker processes do not exceed the slots while busy ones still have remains of calls", async () => {
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
    // Two for steps, and one each for readings, failing nodes, and probes.
    expect(most).toBeLessThanOrEqual(5);
  });

  test("worker processes end when idle, except for one", async () => {
    await using lab = await openLab({ idleMs: 100 });
    const pids = new Set((await Promise.all(Array.from({ length: 4 }, () => lab.run("runs for a while")))).map(pidOf));
    expect(pids.size).toBeGreaterThan(1);
    await eventually(
      "one is left",
      () => Object.values(lab.pool.figures.processes).reduce((sum, count) => sum + count, 0) === 1,
    );
    expect([...pids].filter(isAlive).length).toBeLessThanOrEqual(1);
    expect(await lab.run("sound")).toEqual(SOUND);
    expect(lab.pool.figures.processes).toEqual({ starting: 0, idle: 1, called: 0, busy: 0, ended: 0 });
  });

  test("worker processes close their driver when the service ends, and have ended then", async () => {
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

  test("worker processes close their driver once, however often they are asked to end", async () => {
    const file = aFile();
    process.env["EVIL_CLOSED"] = file;
    onTestFinished(() => void delete process.env["EVIL_CLOSED"]);
    const { worker } = await openWorker();
    await Promise.all([worker.close(), worker.close()]);
    expect(readFileSync(file, "utf8").trim().split("\n")).toHaveLength(1);
  });

  test("worker processes end when the service ends during a call", async () => {
    let call: Promise<unknown>;
    {
      await using lab = await openLab();
      call = thrownBy(lab.run("spins forever"));
      await eventually("it spins", () => lab.pool.figures.processes.called === 1);
    }
    expect(await call).toMatchObject({ message: expect.stringContaining("the service is shutting down") });
  });
});
