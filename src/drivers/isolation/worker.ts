/**
 * The program of a worker: a process of its own that makes one driver and runs its functions, one call at a time, for the
 * service at the other end of descriptor 3. What a driver does to its process it does to this one.
 *
 *     node worker.ts <URL of the plugin module>
 *
 * Everything that runs on behalf of a call knows it (`calling`), also in timers and promises that outlive the call. So what
 * goes wrong late is laid to the call that left it behind, and not to the one that happens to be under way.
 *
 * It ends when it is told to, when the service is gone, and when it hears nothing of the service for as long as a lease
 * lasts: then another process may have taken over the work, and this one must not go on with it.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { writeFileSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { Socket } from "node:net";
import { setPriority } from "node:os";
import { getHeapStatistics } from "node:v8";
import { Deadline } from "../deadline.ts";
import type { AnyDriver } from "../registry.ts";
import { findStep } from "../registry.ts";
import type {
  Call,
  DiscoverCall,
  DriverFactory,
  DriverMemory,
  Json,
  NodePower,
  PluginHost,
  PowerState,
  StepCall,
} from "../driver.ts";
import { createTokenBucket } from "./token-bucket.ts";
import { SILENCE_SECONDS, errorOf, openWire, pack, shorten, serializeError } from "./protocol.ts";
import type { FromWorker, Given, Leftovers, PowerQuestion, Reply, Target, ToWorker } from "./protocol.ts";

const CHANNEL = 3;
/** Spinning drivers give way to the service. */
const NICENESS = 5;
/** The first to go when the machine is out of memory, of which a heap's bound bounds only a part; programs that it starts are so too. */
const OOM_SCORE = "1000";
/** Lines and timings: a burst, then so many a second. */
const SAID = { burst: 1_000, perSecond: 200 } as const;
const PROGRESS_EVERY_MS = 100;
/** How often it is looked whether what a call has left behind is gone. */
const LOOK_EVERY_MS = 20;
/** A process is replaced after so many calls, or with half of its memory in use: drivers may leak. */
const CALLS_MAX = 5_000;
const MEMORY_SHARE_MAX = 0.5;

/** The call under way. */
interface Current {
  readonly id: number;
  readonly deadline: Deadline;
  readonly controller: AbortController;
  /** Sends the progress that was reported last. */
  tellProgress(): void;
  /** Lines that were too many. */
  dropped: number;
}

const calling = new AsyncLocalStorage<number>();
let current: Current | null = null;
let calls = 0;
/** Of a second each. */
let checksInSilence = 0;

const socket = new Socket({ fd: CHANNEL, readable: true, writable: true });
const wire = openWire<FromWorker>(socket, (message) => take(message as ToWorker), leave);
socket.on("error", leave);
socket.on("close", leave);
const { send } = wire;
const said = createTokenBucket(SAID.burst, SAID.perSecond);

const exit = process.exit.bind(process);
process.on("exit", () => wire.flush());

/** Ends at once, with all processes that the driver has started. */
function leave(): never {
  try {
    process.kill(-process.pid, "SIGKILL");
  } catch {
    // This process leads no group: then it ends alone.
  }
  return exit(1);
}

// ---- what goes wrong outside of a call

function isCurrent(id: number | undefined): id is number {
  return id !== undefined && id === current?.id;
}

/** Nobody has caught this. The call under way ends with it if it is its own. */
function uncaught(error: unknown): void {
  const id = calling.getStore();
  const told = serializeError(error);
  if (!isCurrent(id)) return send({ kind: "late", text: `threw after its call had ended: ${told.message}` });
  current = null;
  send({ kind: "fault", id, error: told });
  // Nothing else of the call is listened to; the service ends this process when it has read so.
}
process.on("uncaughtException", uncaught);
process.on("unhandledRejection", uncaught);

process.exit = (code?: number | string | null) => {
  if (isCurrent(calling.getStore())) return exit(code);
  send({ kind: "late", text: "wanted to end its process when no call of its own was under way" });
  throw new Error("A driver ends no process outside of its own call.");
};

// ---- questions to the service

const questions = new Map<
  number,
  { readonly give: (value: Json | undefined) => void; readonly fail: (error: unknown) => void }
>();
let asked = 0;

function ask(question: (number: number) => FromWorker): Promise<Json | undefined> {
  asked += 1;
  const number = asked;
  return new Promise((give, fail) => {
    questions.set(number, { give, fail });
    send(question(number));
  });
}

function answer(number: number, reply: Reply): void {
  const question = questions.get(number);
  questions.delete(number);
  if ("error" in reply) question?.fail(errorOf(reply.error));
  else question?.give(reply.value);
}

/** Asks one after the other, so that a driver that asks without end keeps only itself busy. */
function inTurn(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const mine = last.then(work, work);
    last = mine.catch(() => {});
    return mine;
  };
}

const rememberInTurn = inTurn();
const memory: DriverMemory = {
  get: (key) => rememberInTurn(() => ask((question) => ({ kind: "memory", question, key }))),
  async set(key, value) {
    await rememberInTurn(() =>
      ask((question) => ({ kind: "memory", question, key, put: value === undefined ? {} : { value } })),
    );
  },
};

// ---- a call

function take(message: ToWorker): void {
  checksInSilence = 0;
  switch (message.kind) {
    case "call":
      return void perform(message);
    case "end":
      // What the driver does when it hears of it is the call's.
      if (isCurrent(message.id)) calling.run(message.id, () => current?.controller.abort(errorOf(message.reason)));
      return;
    case "reply":
      return answer(message.question, message.reply);
    case "alive":
      return;
    case "close":
      return void close();
  }
}

async function perform({ id, target, given, leftMs }: Extract<ToWorker, { kind: "call" }>): Promise<void> {
  const mine: Current = {
    id,
    deadline: new Deadline(leftMs),
    controller: new AbortController(),
    tellProgress: () => {},
    dropped: 0,
  };
  current = mine;
  calls += 1;
  send({ kind: "begun", id });
  // The service has it before anything can happen: a call that is not known to have begun is made once more.
  wire.flush();
  if (socket.writableLength > 0) await new Promise((sent) => socket.write("", sent));
  const outcome = await calling.run(id, async () => {
    try {
      return { value: pack(await enter(target, given, mine)) };
    } catch (error) {
      return { error: serializeError(error) };
    }
  });
  // It threw elsewhere before it ended.
  if (current !== mine) return;
  mine.tellProgress();
  tellDropped(mine);
  current = null;
  const left = leftovers();
  send({ kind: "ended", id, left, ...outcome });
  if (left === "BUSY") lookUntilClean();
}

function enter(target: Target, given: Given, mine: Current): Promise<unknown> {
  switch (target.on) {
    case "power": {
      const { power } = driver;
      const call = callOf(given, mine);
      if (target.function === "read") return power.read(call);
      if (target.function === "set") return power.set(call, given.action ?? "OFF");
      if (!power.setBootDevice) throw new Error(`Driver "${driver.name}" cannot set the boot device.`);
      return power.setBootDevice(call, given.device ?? "DISK", { persistent: given.persistent ?? false });
    }
    case "discover": {
      if (!driver.discover) throw new Error(`Driver "${driver.name}" cannot discover nodes.`);
      return driver.discover.probe(probeOf(given, mine));
    }
    case "step": {
      const step = findStep(driver, target.phase, target.name);
      const work = step?.[target.function];
      if (!step || !work)
        throw new Error(
          `Driver "${driver.name}" no longer has the ${target.function} of a step ${target.phase}.${target.name}.`,
        );
      return (work as (call: StepCall<unknown>) => Promise<unknown>).call(step, stepCallOf(given, mine));
    }
  }
}

type Common = Pick<Call<unknown>, "signal" | "deadline" | "log" | "timed">;

function commonOf(mine: Current): Common {
  let timings = 0;
  return {
    signal: mine.controller.signal,
    deadline: mine.deadline,
    log: (message: unknown) => say(mine, String(message)),
    async timed(name: unknown, work) {
      if (current !== mine || !said.take()) return work();
      timings += 1;
      const timing = timings;
      send({ kind: "timing", id: mine.id, timing, name: shorten(String(name), 200) });
      try {
        const value = await work();
        if (current === mine) send({ kind: "timed", id: mine.id, timing });
        return value;
      } catch (error) {
        if (current === mine) send({ kind: "timed", id: mine.id, timing, error: serializeError(error) });
        throw error;
      }
    },
  };
}

function callOf(given: Given, mine: Current): Call<unknown> {
  if (!given.node) throw new Error("The call names no node.");
  return { ...commonOf(mine), node: given.node, settings: given.settings };
}

function probeOf(given: Given, mine: Current): DiscoverCall {
  return { ...commonOf(mine), address: given.address ?? "", settings: given.settings as DiscoverCall["settings"] };
}

function stepCallOf(given: Given, mine: Current): StepCall<unknown> {
  if (!given.step) throw new Error("The call is none of a step.");
  return {
    ...callOf(given, mine),
    ...(given.step as Pick<StepCall<unknown>, keyof typeof given.step>),
    power: powerOf(mine),
    progress: progressOf(mine),
  };
}

function powerOf(mine: Current): NodePower {
  const takeTurn = inTurn();
  const question = (about: PowerQuestion) =>
    takeTurn(() => {
      if (current !== mine) throw new Error("The call has ended; the power of its node is no longer its own.");
      return ask((number) => ({ kind: "power", id: mine.id, question: number, ask: about }));
    });
  return {
    read: async () => (await question({ function: "read" })) as PowerState,
    async set(action) {
      await question({ function: "set", action });
    },
    async setBootDevice(device, options) {
      await question({ function: "setBootDevice", device, persistent: options?.persistent ?? false });
    },
  };
}

// ---- what a call says

function say(mine: Current, text: string): void {
  if (current !== mine) return;
  if (!said.take()) {
    mine.dropped += 1;
    return;
  }
  tellDropped(mine);
  send({ kind: "log", id: mine.id, text: shorten(text) });
}

function tellDropped(mine: Current): void {
  if (mine.dropped === 0) return;
  send({ kind: "log", id: mine.id, text: `${mine.dropped} lines were not kept: the driver said too much at once.` });
  mine.dropped = 0;
}

/** What is reported is told at once, or soon, and then as it was last. */
function progressOf(mine: Current): StepCall<unknown>["progress"] {
  let report: { readonly percent: number; readonly message: string | null } | null = null;
  let toldAt = Number.NEGATIVE_INFINITY;
  mine.tellProgress = () => {
    if (current !== mine || !report) return;
    send({ kind: "progress", id: mine.id, ...report });
    report = null;
    toldAt = performance.now();
  };
  return (percent: unknown, message: unknown) => {
    const isDue = report === null;
    report = {
      percent: typeof percent === "number" && Number.isFinite(percent) ? percent : 0,
      message: typeof message === "string" ? shorten(message, 1_000) : null,
    };
    if (!isDue) return;
    const wait = toldAt + PROGRESS_EVERY_MS - performance.now();
    if (wait <= 0) mine.tellProgress();
    else setTimeout(mine.tellProgress, wait).unref();
  };
}

// ---- between calls

/** Its own pipes. Node opens those that it prints to when they are first asked for, as `fetch` does: a call would seem to have left them behind. */
const OWN_PIPES = [socket, process.stdout, process.stderr].length;

/** Whether nothing keeps the process at work besides its own pipes and what is being written. */
function isQuiet(): boolean {
  const names = process.getActiveResourcesInfo().filter((name) => !name.endsWith("WriteWrap"));
  return names.length <= Math.min(OWN_PIPES, names.filter((name) => name === "PipeWrap").length);
}

function leftovers(): Leftovers {
  const { used_heap_size: used, external_memory: outside, heap_size_limit: limit } = getHeapStatistics();
  if (calls >= CALLS_MAX || used + outside > limit * MEMORY_SHARE_MAX) return "SPENT";
  return isQuiet() ? "NONE" : "BUSY";
}

function lookUntilClean(): void {
  const look = () => {
    if (current) return;
    if (isQuiet()) send({ kind: "clean" });
    else setTimeout(look, LOOK_EVERY_MS).unref();
  };
  setImmediate(look);
}

async function close(): Promise<void> {
  try {
    await driver.close?.();
  } finally {
    exit(0);
  }
}

setInterval(() => {
  checksInSilence += 1;
  if (current && checksInSilence > SILENCE_SECONDS) leave();
}, 1_000).unref();

// ---- the driver

try {
  writeFileSync("/proc/self/oom_score_adj", OOM_SCORE);
} catch {
  // Not everywhere is there such a thing.
}

const host: PluginHost = {
  log(message: unknown) {
    if (said.take()) send({ kind: "line", text: shorten(String(message)) });
  },
  memory,
};

const driver: AnyDriver = await (async () => {
  try {
    const { default: factory } = (await import(process.argv[2] ?? "")) as { readonly default: DriverFactory<unknown> };
    return await factory(host);
  } catch (error) {
    send({ kind: "unfit", message: serializeError(error).message });
    return new Promise<never>(() => {});
  }
})();

try {
  setPriority(NICENESS);
} catch {
  // Not everywhere may a process be nice.
}
send({ kind: "ready", name: driver.name, version: driver.version });
// The next one starts in half the time.
flushCompileCache();
