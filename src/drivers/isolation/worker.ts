/**
 * The program of a worker: a process that creates one driver and runs its functions, one call at a time, for the
 * service at the other end of file descriptor 3. A driver can harm only this process.
 *
 *     node worker.ts <URL of the plugin module> <WorkerOptions as JSON>
 *
 * An async context (`callContext`) traces every callback to the call that started it, also in timers and promises that
 * outlive the call. A late error is thus attributed to its own call and not to the current one.
 *
 * The worker ends when the service asks it to, when the service has exited, and when it has received no heartbeat for
 * the duration of a lease: another replica may have taken over the run, and this worker must not continue it.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { flushCompileCache } from "node:module";
import { Socket } from "node:net";
import { setPriority } from "node:os";
import { getHeapStatistics } from "node:v8";
import { Deadline } from "../deadline.ts";
import type { DriverMemory, Json, PluginHost, StepCall } from "../driver.ts";
import { isExhaustion, noteProcess } from "./process-traces.ts";
import type { WorkerOptions } from "./launch.ts";
import { createTokenBucket } from "../../runtime/token-bucket.ts";
import { loadDriver } from "./worker-driver.ts";
import { createQuestions, createSequence } from "./worker-questions.ts";
import { callTarget } from "./worker-target.ts";
import type { CommonParts, Question } from "./worker-target.ts";
import { SILENCE_SECONDS, errorOf, openWire, pack, shorten, serializeError } from "./protocol.ts";
import type { FromWorker, Leftovers, ToWorker } from "./protocol.ts";

const CHANNEL = 3;
/** Drivers that spin yield the CPU to the service. */
const NICENESS = 5;
/** Rate limit of log lines and timings. */
const REPORT_RATE = { burst: 1_000, perSecond: 200 } as const;
const PROGRESS_EVERY_MS = 100;
/** How often to check whether the activity that a call left behind has ended. */
const CHECK_EVERY_MS = 20;
/** A process is replaced after this many calls, or with half of its memory in use: drivers may leak. */
const CALLS_MAX = 5_000;
const MEMORY_SHARE_MAX = 0.5;

/** The call in progress. */
interface Current {
  readonly id: number;
  readonly deadline: Deadline;
  readonly controller: AbortController;
  /** Sends the last reported progress. */
  sendProgress(): void;
  /** Number of lines dropped by the rate limit. */
  dropped: number;
  readonly startedAt: number;
  /** Time for which it has waited for the driver's memory, which is the time of the service. */
  memoryMs: number;
}

const callContext = new AsyncLocalStorage<number>();
let current: Current | null = null;
let calls = 0;
/** Checks, one per second, since the last message of the service. */
let checksInSilence = 0;

const socket = new Socket({ fd: CHANNEL, readable: true, writable: true });
const wire = openWire<FromWorker>(socket, (message) => take(message as ToWorker), killSelf);
socket.on("error", killSelf);
socket.on("close", killSelf);
const { send } = wire;
const reportRate = createTokenBucket(REPORT_RATE.burst, REPORT_RATE.perSecond);

const exit = process.exit.bind(process);
process.on("exit", () => wire.flush());

/** Exits immediately, with all processes that the driver has started. */
function killSelf(): never {
  try {
    process.kill(-process.pid, "SIGKILL");
  } catch {
    // This process does not lead a group.
  }
  return exit(1);
}

// ---- errors outside of a call

function isCurrent(id: number | undefined): id is number {
  return id !== undefined && id === current?.id;
}

/** An unhandled error. It ends the current call if that call caused it. */
function uncaught(error: unknown): void {
  const id = callContext.getStore();
  const serialized = serializeError(error);
  if (!isCurrent(id)) return send({ kind: "late", text: `threw after its call had ended: ${serialized.message}` });
  current = null;
  send({ kind: "fault", id, error: serialized });
  // The service ignores further messages of the call and kills this process.
}
process.on("uncaughtException", uncaught);
process.on("unhandledRejection", uncaught);

process.exit = (code?: number | string | null) => {
  if (isCurrent(callContext.getStore())) return exit(code);
  send({ kind: "late", text: "called process.exit after it had ended" });
  throw new Error("A driver may exit its process only during its own call.");
};

// ---- questions to the service

const { ask, answer } = createQuestions(send);

const inMemoryOrder = createSequence();
const askMemory = (key: string, put?: { readonly value?: Json }) =>
  inMemoryOrder(async () => {
    const asking = current;
    const askedAt = performance.now();
    try {
      return await ask((question) => ({ kind: "memory", question, key, ...(put && { put }) }));
    } finally {
      if (asking) asking.memoryMs += performance.now() - askedAt;
    }
  });
const memory: DriverMemory = {
  get: (key) => askMemory(key),
  async set(key, value) {
    await askMemory(key, value === undefined ? {} : { value });
  },
};

// ---- a call

function take(message: ToWorker): void {
  checksInSilence = 0;
  switch (message.kind) {
    case "call":
      return void perform(message);
    case "end":
      // Abort listeners run in the call's context.
      if (isCurrent(message.id)) callContext.run(message.id, () => current?.controller.abort(errorOf(message.reason)));
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
    sendProgress: () => {},
    dropped: 0,
    startedAt: performance.now(),
    memoryMs: 0,
  };
  current = mine;
  calls += 1;
  send({ kind: "begun", id });
  // The message must reach the service before the driver acts: a call that has not begun is repeated.
  wire.flush();
  if (socket.writableLength > 0) await new Promise((sent) => socket.write("", sent));
  let isExhausted = false;
  const outcome = await callContext.run(id, async () => {
    try {
      const value = await callTarget(driver, target, given, {
        common: commonOf(mine),
        question: questionsOf(mine),
        progress: progressOf(mine),
      });
      isExhausted = isExhaustion(value);
      return { value: pack(value) };
    } catch (error) {
      isExhausted = isExhaustion(error);
      return { error: serializeError(error) };
    }
  });
  // An unhandled error has already ended the call.
  if (current !== mine) return;
  mine.sendProgress();
  reportDropped(mine);
  current = null;
  const trace = isExhausted ? "lacked file descriptors or memory" : traceOfCalls();
  const left = trace === null ? leftovers() : "SPENT";
  const ms = performance.now() - mine.startedAt - mine.memoryMs;
  send({ kind: "ended", id, left, ms, ...(trace !== null && { trace }), ...outcome });
  if (left === "BUSY") reportWhenClean();
}

function commonOf(mine: Current): CommonParts {
  let timings = 0;
  return {
    signal: mine.controller.signal,
    deadline: mine.deadline,
    log: (message: unknown) => logLine(mine, String(message)),
    async timed(name: unknown, work) {
      if (current !== mine || !reportRate.take()) return work();
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

/** The questions of a step about its node, one after the other. */
function questionsOf(mine: Current): Question {
  const inOrder = createSequence();
  return (about) =>
    inOrder(() => {
      if (current !== mine)
        throw new Error("The call has ended and can no longer use its node's power, media or agent.");
      return ask((number) => ({ kind: "question", id: mine.id, question: number, ask: about }));
    });
}

// ---- reports of a call

function logLine(mine: Current, text: string): void {
  if (current !== mine) return;
  if (!reportRate.take()) {
    mine.dropped += 1;
    return;
  }
  reportDropped(mine);
  send({ kind: "log", id: mine.id, text: shorten(text) });
}

function reportDropped(mine: Current): void {
  if (mine.dropped === 0) return;
  send({ kind: "log", id: mine.id, text: `${mine.dropped} lines were dropped: the driver logged too fast.` });
  mine.dropped = 0;
}

/** Sends the first report at once and later ones at most every `PROGRESS_EVERY_MS`, always the latest. */
function progressOf(mine: Current): StepCall<unknown>["progress"] {
  let report: { readonly percent: number; readonly message: string | null } | null = null;
  let sentAt = Number.NEGATIVE_INFINITY;
  mine.sendProgress = () => {
    if (current !== mine || !report) return;
    send({ kind: "progress", id: mine.id, ...report });
    report = null;
    sentAt = performance.now();
  };
  return (percent: unknown, message: unknown) => {
    const isDue = report === null;
    report = {
      percent: typeof percent === "number" && Number.isFinite(percent) ? percent : 0,
      message: typeof message === "string" ? shorten(message, 1_000) : null,
    };
    if (!isDue) return;
    const wait = sentAt + PROGRESS_EVERY_MS - performance.now();
    if (wait <= 0) mine.sendProgress();
    else setTimeout(mine.sendProgress, wait).unref();
  };
}

// ---- between calls

/** The worker's own pipes. Node opens stdout and stderr lazily, for example in `fetch`, so they are opened here. */
const OWN_PIPES = [socket, process.stdout, process.stderr].length;

/** Whether the event loop has no active resources except the worker's own pipes and pending writes. */
function isQuiet(): boolean {
  const names = process.getActiveResourcesInfo().filter((name) => !name.endsWith("WriteWrap"));
  return names.length <= Math.min(OWN_PIPES, names.filter((name) => name === "PipeWrap").length);
}

function leftovers(): Leftovers {
  const { used_heap_size: used, external_memory: outside, heap_size_limit: limit } = getHeapStatistics();
  if (calls >= CALLS_MAX || used + outside > limit * MEMORY_SHARE_MAX) return "SPENT";
  return isQuiet() ? "NONE" : "BUSY";
}

function reportWhenClean(): void {
  const check = () => {
    if (current) return;
    if (isQuiet()) send({ kind: "clean" });
    else setTimeout(check, CHECK_EVERY_MS).unref();
  };
  setImmediate(check);
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
  if (current && checksInSilence > SILENCE_SECONDS) killSelf();
}, 1_000).unref();

// ---- the driver

const host: PluginHost = {
  log(message: unknown) {
    if (reportRate.take()) send({ kind: "line", text: shorten(String(message)) });
  },
  memory,
};

const [, , plugin = "", options = "{}"] = process.argv;
const driver = await loadDriver(plugin, JSON.parse(options) as WorkerOptions, host).catch((error: unknown) => {
  send({ kind: "unfit", message: serializeError(error).message });
  return new Promise<never>(() => {});
});

try {
  setPriority(NICENESS);
} catch {
  // Not permitted on this system.
}
const traceOfCalls = noteProcess();
send({ kind: "ready", name: driver.name, version: driver.version });
// Halves the start-up time of the next worker.
flushCompileCache();
