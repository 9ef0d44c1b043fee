/**
 * A worker as the service holds it: one process, one call at a time. It is started, called, told that the call's signal has
 * fired, and killed, with every process that it has started itself, when the call goes on all the same.
 *
 * States: starting; idle; called (a call is under way); busy (the call has ended, and something that it left behind has
 * not); ended. Whoever owns the handle hears of every change. One that has been killed can only become ended: what it has
 * said before may still be in the channel, and makes it fit for nothing.
 */
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { messageOf } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { leftUntil, whenOver } from "../deadline.ts";
import type { DriverMemory, Json } from "../driver.ts";
import { createMask } from "../secret-masking.ts";
import { createBucket } from "./token-bucket.ts";
import type { Confirm } from "./dispatch.ts";
import { HEAP_MB, launch } from "./launch.ts";
import {
  IsolationError,
  LINE_LENGTH_MAX,
  SILENCE_SECONDS,
  Unheard,
  shorten,
  errorOf,
  openWire,
  tell,
  unpack,
} from "./protocol.ts";
import type { FromWorker, Given, OfCall, PowerQuestion, Reply, Target, ToWorker, ToldError, Wire } from "./protocol.ts";

/** A plugin that is loaded here, and is to be run elsewhere. */
export interface Plugin {
  /** URL of its module. */
  readonly module: string;
  /** Of its driver. */
  readonly name: string;
  readonly version: string;
  readonly memory: DriverMemory;
}

/** A call to a function of a driver. */
export interface Job {
  readonly target: Target;
  readonly given: Given;
  /** For messages: `clean.erase_disks`. */
  readonly what: string;
  readonly signal: AbortSignal;
  readonly deadline: Date;
  /** Asked when it has a process, before it is made. Absent: it needs no leave. */
  readonly confirm?: Confirm | undefined;
  /** Whether the same call may be made again when the process ends under it. */
  readonly repeatable: boolean;
  /** What must not be seen of what the process prints. */
  readonly secrets: readonly string[];
  readonly listener: JobListener;
}

/** Where the driver, in the middle of a call, is heard. */
export interface JobListener {
  log(text: string): void;
  timed(name: string, work: () => Promise<void>): Promise<void>;
  progress?(percent: number, message: string | undefined): void;
  power?(question: PowerQuestion): Promise<Json>;
}

export interface Handle {
  readonly plugin: Plugin;
  readonly state: "starting" | "idle" | "called" | "busy" | "ended";
  /** Not to be called again. */
  readonly spent: boolean;
  /** Makes a call: only when idle. Throws what the driver throws, an `IsolationError`, `Unheard`, or `NotBegun`. */
  call(job: Job): Promise<unknown>;
  /** Lets the driver close, and ends the process. */
  close(): Promise<void>;
  /** Ends the process at once. */
  kill(why: string): void;
}

export interface HandleOptions {
  readonly plugin: Plugin;
  readonly log: Log;
  /** How long a call may go on after its signal has fired. */
  readonly graceMs: number;
  /** It has become idle, busy or ended. `why`: it could not be started. */
  changed(handle: Handle, why?: IsolationError): void;
}

/** The process ended before it took the call: another one can make it. */
export class NotBegun extends Error {}

const START_MS = 30_000;
const CLOSE_MS = 2_000;
/** After the deadline nobody waits any more. */
const OVERDUE_GRACE_MS = 1_000;
/** What the process has sent before it ended may come after the news of its end. */
const LAST_WORDS_MS = 1_000;
const ALIVE_EVERY_MS = 2_000;
/** How a process ends that ends itself with all that it has started; others may kill it as well. */
const SELF_ENDED = "signal SIGKILL";
/** Printed lines: a burst, and so many a second; what is too much is dropped, and what comes after it has to wait where it is written. */
const PRINTED = { burst: 500, perSecond: 100, lengthMax: 4_000, pauseMs: 1_000 } as const;
const SECRETS_MAX = 64;
/** Of a line that has not ended; the rest of it is dropped. */
const LINE_KEPT_MAX = 64 * 1024;

/** The call under way. */
interface Open {
  readonly id: number;
  readonly job: Job;
  begun: boolean;
  toldToEnd: boolean;
  readonly timings: Map<number, { give(): void; fail(error: unknown): void }>;
  settle(how: { readonly value: unknown } | { readonly error: unknown }): void;
}

export function startWorker({ plugin, log: serviceLog, graceMs, changed }: HandleOptions): Handle {
  const log = serviceLog.child({ driver: plugin.name });
  let state: Handle["state"] = "starting";
  let spent = false;
  let open: Open | null = null;
  let calls = 0;
  /** Why it was killed; null: it was not. */
  let killed: string | null = null;
  let isClosing = false;
  let isOutOfMemory = false;
  /** When the process was told last that the service is there; and whether, in the call under way, that was ever too long ago. */
  let aliveAt = performance.now();
  let wasSilent = false;
  const noteSilence = () => {
    wasSilent ||= performance.now() - aliveAt > SILENCE_SECONDS * 1000;
    aliveAt = performance.now();
  };
  /** Of the calls it has had; the oldest first. */
  const secrets = new Set<string>();
  let mask = createMask(secrets);
  const gone = Promise.withResolvers<void>();
  const child = launch(plugin.module, serviceLog);
  const socket = child.stdio[3] as Socket;
  const wire: Wire<ToWorker> = openWire<ToWorker>(
    socket,
    (message) => take(message as FromWorker),
    () => kill("it sent what is no message"),
  );
  const starting = setTimeout(() => kill(`it was not ready within ${START_MS / 1000} s`), START_MS).unref();
  const alive = setInterval(() => {
    noteSilence();
    if (open) wire.send({ kind: "alive" });
  }, ALIVE_EVERY_MS).unref();

  const exited = Promise.withResolvers<string>();
  const heard = Promise.withResolvers<void>();
  child.once("error", (error) => exited.resolve(`it could not be started (${messageOf(error)})`));
  child.once("exit", (code, signal) => {
    // It may have ended by itself, and left programs behind that go on with the machine.
    killAll();
    exited.resolve(signal === null ? `exit code ${code}` : `signal ${signal}`);
  });
  socket.once("close", () => {
    heard.resolve();
    setTimeout(() => kill("it has closed its channel"), LAST_WORDS_MS).unref();
  });
  socket.on("error", () => {});
  exited.promise
    .then(async (how) => {
      const late = setTimeout(heard.resolve, LAST_WORDS_MS);
      await heard.promise;
      clearTimeout(late);
      end(how);
    })
    .catch((error: unknown) => log.error({ err: error }, "the end of a driver's process was not noted"));
  print(child.stdout, "stdout");
  print(child.stderr, "stderr");

  const handle: Handle = {
    plugin,
    get state() {
      return state;
    },
    get spent() {
      return spent || killed !== null;
    },
    call,
    async close() {
      if (state === "ended") return;
      const isTold = isClosing;
      isClosing = true;
      hold(true);
      if (state === "called") kill("the service ends");
      else if (!isTold) {
        wire.send({ kind: "close" });
        setTimeout(() => kill("it did not close in time"), CLOSE_MS).unref();
      }
      await gone.promise;
    },
    kill,
  };
  return handle;

  function become(next: Handle["state"], why?: IsolationError): void {
    if (killed !== null && next !== "ended") return;
    state = next;
    hold(next === "called");
    if (next === "called") return;
    changed(handle, why);
  }

  /** A worker that nobody waits for keeps no process alive. */
  function hold(isAwaited: boolean): void {
    for (const kept of [child, socket]) {
      if (isAwaited) kept.ref();
      else kept.unref();
    }
  }

  // ---- calls

  async function call(job: Job): Promise<unknown> {
    if (killed !== null || isClosing || state === "ended") throw new NotBegun(killed ?? "its end");
    const id = calls + 1;
    let line: string;
    try {
      line = lineOf(
        { kind: "call", id, target: job.target, given: job.given, leftMs: leftUntil(job.deadline) },
        job.what,
      );
    } catch (error) {
      // It stays as fit as it was.
      become("idle");
      throw error;
    }
    calls = id;
    for (const secret of job.secrets) {
      secrets.delete(secret);
      secrets.add(secret);
    }
    for (const secret of secrets) if (secrets.size > SECRETS_MAX) secrets.delete(secret);
    mask = createMask(secrets);
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const timers: NodeJS.Timeout[] = [];
    const mine: Open = {
      id,
      job,
      begun: false,
      toldToEnd: false,
      timings: new Map(),
      settle(how) {
        if (open !== mine) return;
        open = null;
        if ("value" in how) resolve(how.value);
        else reject(how.error);
      },
    };
    const endCall = (reason: unknown, grace: number) => {
      const since = performance.now();
      if (!mine.toldToEnd) wire.send({ kind: "end", id, reason: tell(reason) });
      mine.toldToEnd = true;
      timers.push(
        setTimeout(
          () =>
            kill(
              `${job.what} went on ${Math.round((performance.now() - since) / 100) / 10} s after it was told to end`,
            ),
          grace,
        ),
      );
    };
    const onAbort = () => endCall(job.signal.reason, leftUntil(job.deadline) <= 0 ? OVERDUE_GRACE_MS : graceMs);
    open = mine;
    noteSilence();
    wasSilent = false;
    become("called");
    wire.sendLine(line);
    const calm = whenOver(job.deadline, () =>
      endCall(Object.assign(new Error("The call's time is over."), { name: "TimeoutError" }), OVERDUE_GRACE_MS),
    );
    if (job.signal.aborted) onAbort();
    else job.signal.addEventListener("abort", onAbort, { once: true });
    try {
      return await promise;
    } finally {
      job.signal.removeEventListener("abort", onAbort);
      calm();
      for (const timer of timers) clearTimeout(timer);
      for (const timing of mine.timings.values()) timing.fail(new Error("The call has ended."));
    }
  }

  function take(message: FromWorker): void {
    if ("id" in message) return open?.id === message.id ? hear(open, message) : undefined;
    switch (message.kind) {
      case "ready":
        if (message.name !== plugin.name || message.version !== plugin.version)
          return kill(
            `its plugin has changed: it makes ${message.name} ${message.version}, and the service has loaded ${plugin.name} ${plugin.version}; restart the service`,
          );
        clearTimeout(starting);
        return become("idle");
      case "unfit":
        return kill(shorten(message.message, 2_000));
      case "memory":
        return void remember(message);
      case "late":
        spent = true;
        log.warn(
          `A call of driver "${plugin.name}" that had ended ${mask.all(message.text)}; its process is replaced.`,
        );
        return state === "idle" ? become("idle") : undefined;
      case "clean":
        return state === "busy" ? become("idle") : undefined;
      case "line":
        return log.info(mask.all(message.text));
    }
  }

  /** What is said within a call. What comes after its end is of no call. */
  function hear(mine: Open, message: OfCall): void {
    const { job, timings } = mine;
    switch (message.kind) {
      case "begun":
        mine.begun = true;
        return;
      case "log":
        return job.listener.log(mask.cutEnd(message.text));
      case "progress":
        return job.listener.progress?.(
          message.percent,
          message.message === null ? undefined : mask.cutEnd(message.message),
        );
      case "timing":
        job.listener
          .timed(
            mask.cutEnd(message.name),
            () => new Promise((give, fail) => timings.set(message.timing, { give, fail })),
          )
          .catch(() => {});
        return;
      case "timed": {
        const timing = timings.get(message.timing);
        timings.delete(message.timing);
        return message.error ? timing?.fail(errorOf(message.error)) : timing?.give();
      }
      case "power":
        return void answerPower(mine, message);
      case "fault": {
        const error = uncut(message.error);
        failCall(
          mine,
          new IsolationError(`The driver threw where nobody waited for it: ${error.message}`, {
            retryable: error.name === "DriverError" && error.retryable === true,
            ...(error.kind && { kind: error.kind }),
          }),
        );
        return kill(null);
      }
      case "ended": {
        const how = "value" in message ? { value: unpack(message.value) } : { error: errorOf(uncut(message.error)) };
        spent ||= message.left === "SPENT";
        mine.settle(how);
        return become(message.left === "NONE" && !spent ? "idle" : "busy");
      }
    }
  }

  function failCall(mine: Open, error: IsolationError): void {
    mine.settle({ error });
  }

  async function answerPower(asking: Open, { question, ask }: Extract<FromWorker, { kind: "power" }>): Promise<void> {
    const reply = await replyOf(async () => {
      if (!asking.job.listener.power) throw new Error("Only steps may ask for the power of their node.");
      return asking.job.listener.power(ask);
    });
    wire.send({ kind: "reply", question, reply });
  }

  async function remember({ question, key, put }: Extract<FromWorker, { kind: "memory" }>): Promise<void> {
    wire.send({
      kind: "reply",
      question,
      reply: await replyOf(async () =>
        put ? plugin.memory.set(key, put.value).then(() => undefined) : plugin.memory.get(key),
      ),
    });
  }

  // ---- its end

  /** `why` null: the reason has been told. */
  function kill(why: string | null): void {
    if (state === "ended" || killed !== null) return;
    killed = why ?? "";
    killAll();
  }

  /** The process, and every program that it has started. */
  function killAll(): void {
    if (child.pid === undefined) return;
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      child.kill("SIGKILL");
    }
  }

  function end(how: string): void {
    if (state === "ended") return;
    clearTimeout(starting);
    clearInterval(alive);
    noteSilence();
    const cut = open;
    const cause =
      killed !== null && killed !== "" ? killed : isOutOfMemory ? `it ran out of its ${HEAP_MB} MiB of memory` : how;
    if (cut) {
      const { job } = cut;
      if (!cut.begun && !isClosing) cut.settle({ error: new NotBegun(cause) });
      else if (wasSilent && killed === null && how === SELF_ENDED)
        cut.settle({
          error: new Unheard(
            `The process of driver "${plugin.name}" heard nothing of the service in the middle of ${job.what}, and ended.`,
          ),
        });
      else if (killed !== null && cut.toldToEnd)
        failCall(
          cut,
          new IsolationError(`The process of driver "${plugin.name}" was killed: ${killed}.`, {
            kind: "TIMEOUT",
            retryable: job.repeatable,
          }),
        );
      else
        failCall(
          cut,
          new IsolationError(`The process of driver "${plugin.name}" ended in the middle of ${job.what}: ${cause}.`, {
            retryable: job.repeatable,
          }),
        );
      log.warn(
        { node: job.given.node?.name ?? job.given.address, step: job.what, cause },
        "a driver's process ended in the middle of a call",
      );
    } else if (state === "starting" && !isClosing)
      log.error(
        { cause },
        "a driver's process could not be started; for as long as none can be, every call of this driver fails",
      );
    else if (!isClosing && killed !== "") log.warn({ cause }, "a driver's process ended");
    const why =
      state === "starting"
        ? new IsolationError(`Driver "${plugin.name}" could not be started in a process of its own: ${cause}`, {
            retryable: true,
          })
        : undefined;
    socket.destroy();
    gone.resolve();
    become("ended", why);
  }

  // ---- what it prints

  function print(stream: Readable | null, name: "stdout" | "stderr"): void {
    const bucket = createBucket(PRINTED.burst, PRINTED.perSecond);
    let rest = "";
    const note = (line: string) => {
      if (line.trim() === "") return;
      if (bucket.take()) log.info({ stream: name }, shorten(mask.all(line), PRINTED.lengthMax));
      else if (stream?.isPaused() === false) {
        stream.pause();
        setTimeout(() => stream.resume(), PRINTED.pauseMs).unref();
      }
    };
    stream?.setEncoding("utf8").on("data", (chunk: string) => {
      if (chunk.includes("heap out of memory")) isOutOfMemory = true;
      const lines = (rest + chunk).split("\n");
      rest = (lines.pop() ?? "").slice(0, LINE_KEPT_MAX);
      for (const line of lines) note(line);
    });
    stream?.on("end", () => note(rest));
    stream?.on("error", () => {});
    (stream as Socket | null)?.unref();
  }

  /** What was shortened before anybody looked for secrets. */
  function uncut(error: ToldError): ToldError {
    return { ...error, message: mask.cutEnd(error.message) };
  }
}

/** A call as it goes over the channel; throws when it cannot. */
function lineOf(message: ToWorker, what: string): string {
  const refusal = (reason: string) =>
    new IsolationError(
      `What ${what} is given cannot be sent to the driver's process: ${reason}; see to what the schemas of its settings and arguments make of values.`,
      { retryable: false },
    );
  let line: string;
  try {
    line = JSON.stringify(message);
  } catch (error) {
    throw refusal(shorten(messageOf(error), 500));
  }
  if (line.length > LINE_LENGTH_MAX) throw refusal(`it is longer than ${LINE_LENGTH_MAX} characters`);
  return line;
}

async function replyOf(work: () => Promise<Json | undefined>): Promise<Reply> {
  try {
    const value = await work();
    return value === undefined ? {} : { value };
  } catch (error) {
    return { error: tell(error) satisfies ToldError };
  }
}
