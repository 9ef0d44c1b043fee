/**
 * A worker as the service holds it: one process that runs one call of one driver at a time.
 *
 * States:
 * - starting: the process loads its plugin. Left by its `ready` message, or by its end.
 * - idle: ready for a call.
 * - called: a call is in progress (worker-call.ts). Left by its result, or by the end of the process.
 * - busy: the call has ended, but something that it started has not. Becomes idle when the worker reports it clean.
 * - ended: the process has exited. Final.
 *
 * The owner is notified of every change. A killed worker can only become ended: earlier messages may still be in the
 * channel and no longer count. Killing ends the process together with all processes that it has started.
 */
import type { ChildProcess } from "node:child_process";
import type { Socket } from "node:net";
import { messageOf } from "../../errors.ts";
import type { Log } from "../../log.ts";
import type { DriverMemory, DriverPermission } from "../driver.ts";
import type { EgressLimits } from "../egress.ts";
import { plainText } from "../../runtime/text.ts";
import { createMask } from "../secret-masking.ts";
import { CallTime } from "./call-time.ts";
import { HEAP_MB, PLAIN_PLACE, launch } from "./launch.ts";
import type { WorkerPlace } from "./launch.ts";
import {
  IsolationError,
  SILENCE_SECONDS,
  HeartbeatLostError,
  errorOf,
  isNesting,
  openWire,
  shorten,
  unpack,
} from "./protocol.ts";
import type { FromWorker, OfCall, OfDriver, SerializedError, ToWorker, Wire } from "./protocol.ts";
import { WorkerCall, replyOf, serializeCall } from "./worker-call.ts";
import type { Job } from "./worker-call.ts";
import { readLines } from "./worker-output.ts";

/** A plugin that the service has loaded and that workers run. */
export interface Plugin {
  /** URL of the module. */
  readonly module: string;
  /** Expected hash of the module's file; null: not checked. */
  readonly hash: string | null;
  readonly permissions: readonly DriverPermission[];
  /** Name and version of its driver. */
  readonly name: string;
  readonly version: string;
  readonly memory: DriverMemory;
  /** Limits of the addresses of its calls; null: none. */
  readonly egress: EgressLimits | null;
}

export interface Handle {
  readonly plugin: Plugin;
  readonly state: "starting" | "idle" | "called" | "busy" | "ended";
  /** The worker must not be called again. */
  readonly isSpent: boolean;
  /**
   * How long the call has lasted, without the time for which its process waited for a processor, or for which the
   * service had other things to do than to read its end; 0 without a call.
   */
  readonly calledMs: number;
  /**
   * Makes a call; allowed only when idle. Throws the driver's error, `IsolationError`, `HeartbeatLostError` or
   * `CallNotStartedError`.
   */
  call(job: Job): Promise<unknown>;
  /** Lets the driver close, then ends the process. */
  close(): Promise<void>;
  /** Ends the process immediately. */
  kill(why: string): void;
}

interface HandleOptions {
  readonly plugin: Plugin;
  readonly log: Log;
  readonly place?: WorkerPlace;
  /** How long a call may continue after its signal has fired. */
  readonly graceMs: number;
  /** The worker became idle, busy or ended. `why`: it failed to start. */
  changed(handle: Handle, why?: IsolationError): void;
  /**
   * A call has ended; its duration in the worker, without the time for which it waited for a processor or for the
   * driver's memory.
   */
  measured?(ms: number): void;
  /** The call asks for the power or the media of its node: a nested call, which another process makes. */
  nests?(handle: Handle, what: string): void;
}

/** The process ended before it started the call; another process can make it. */
export class CallNotStartedError extends Error {
  override readonly name = "CallNotStartedError";
}

/**
 * The process was killed while it started, before any call, as the kernel does for memory; another process may start.
 */
export class StartKilledError extends IsolationError {}

const START_MS = 30_000;
const CLOSE_MS = 2_000;
/** Messages may arrive after the exit of their process; wait this long for them. */
const DRAIN_MS = 1_000;
const ALIVE_EVERY_MS = 2_000;
/** Exit of a worker that ended itself and its process group; other causes share this signal. */
const SELF_ENDED = "signal SIGKILL";
const PRINTED_LINE_LENGTH_MAX = 4_000;
/** Secrets of recent calls that are masked in what the process prints. */
const SECRETS_MAX = 64;

export function startWorker(options: HandleOptions): Handle {
  return new WorkerHandle(options);
}

class WorkerHandle implements Handle {
  readonly plugin: Plugin;
  readonly #log: Log;
  readonly #graceMs: number;
  readonly #changed: HandleOptions["changed"];
  readonly #measured: HandleOptions["measured"];
  readonly #nests: HandleOptions["nests"];
  readonly #child: ChildProcess;
  readonly #socket: Socket;
  readonly #wire: Wire<ToWorker>;
  readonly #callTime: CallTime;
  readonly #exit = Promise.withResolvers<void>();
  readonly #startTimer: NodeJS.Timeout;
  readonly #aliveTimer: NodeJS.Timeout;
  #state: Handle["state"] = "starting";
  #isSpent = false;
  #call: WorkerCall | null = null;
  #calls = 0;
  /** Why it was killed; null if it was not; empty if the reason is reported elsewhere. */
  #killReason: string | null = null;
  #isClosing = false;
  #isOutOfMemory = false;
  /** When the service last sent `alive`, and whether a gap during the current call exceeded the worker's limit. */
  #aliveAt = performance.now();
  #wasSilent = false;
  /** Oldest first. */
  readonly #secrets = new Set<string>();
  #mask = createMask(this.#secrets);

  constructor({ plugin, place = PLAIN_PLACE, log, graceMs, changed, measured, nests }: HandleOptions) {
    this.plugin = plugin;
    this.#log = log.child({ driver: plugin.name });
    this.#graceMs = graceMs;
    this.#changed = changed;
    this.#measured = measured;
    this.#nests = nests;
    this.#child = launch(plugin, place, log);
    this.#callTime = new CallTime(this.#child.pid);
    this.#socket = this.#child.stdio[3] as Socket;
    this.#wire = openWire<ToWorker>(
      this.#socket,
      (message) => this.#receive(message as FromWorker),
      () => this.kill("it sent an invalid message"),
    );
    this.#startTimer = setTimeout(() => this.kill(`it was not ready within ${START_MS / 1000} s`), START_MS).unref();
    this.#aliveTimer = setInterval(() => this.#sendAlive(), ALIVE_EVERY_MS).unref();
    this.#watchExit();
    this.#logOutput();
  }

  get state(): Handle["state"] {
    return this.#state;
  }

  get isSpent(): boolean {
    return this.#isSpent || this.#killReason !== null;
  }

  get calledMs(): number {
    return this.#call ? this.#callTime.ms : 0;
  }

  async call(job: Job): Promise<unknown> {
    if (this.#killReason !== null || this.#isClosing || this.#state === "ended")
      throw new CallNotStartedError(this.#killReason ?? "its end");
    const id = this.#calls + 1;
    let line: string;
    try {
      line = serializeCall(id, job);
    } catch (error) {
      // The worker has not been used.
      this.#become("idle");
      throw error;
    }
    this.#calls = id;
    this.#maskSecrets(job.secrets);
    const call = new WorkerCall(id, job, {
      wire: this.#wire,
      graceMs: this.#graceMs,
      mask: (text) => this.#mask.cutEnd(text),
      kill: (why) => this.kill(why),
    });
    this.#call = call;
    this.#callTime.begin();
    this.#noteSilence();
    this.#wasSilent = false;
    this.#become("called");
    return call.send(line);
  }

  async close(): Promise<void> {
    if (this.#state === "ended") return;
    const wasClosing = this.#isClosing;
    this.#isClosing = true;
    this.#keepAlive(true);
    if (this.#state === "called") this.kill("the service is shutting down");
    else if (!wasClosing) {
      this.#wire.send({ kind: "close" });
      setTimeout(() => this.kill("it did not close in time"), CLOSE_MS).unref();
    }
    await this.#exit.promise;
  }

  kill(why: string): void {
    if (this.#state === "ended" || this.#killReason !== null) return;
    this.#killReason = why;
    this.#killGroup();
  }

  #become(next: Handle["state"], why?: IsolationError): void {
    if (this.#killReason !== null && next !== "ended") return;
    this.#state = next;
    this.#keepAlive(next === "called");
    if (next !== "called") this.#changed(this, why);
  }

  /** Whether the worker keeps the service's process alive: only while a caller waits for it. */
  #keepAlive(isAwaited: boolean): void {
    for (const resource of [this.#child, this.#socket]) {
      if (isAwaited) resource.ref();
      else resource.unref();
    }
  }

  /** A worker ends itself if it receives no `alive` during a call: its lease may have expired. */
  #sendAlive(): void {
    this.#noteSilence();
    if (this.#call) this.#wire.send({ kind: "alive" });
  }

  #noteSilence(): void {
    this.#wasSilent ||= performance.now() - this.#aliveAt > SILENCE_SECONDS * 1000;
    this.#aliveAt = performance.now();
  }

  #maskSecrets(secrets: readonly string[]): void {
    for (const secret of secrets) {
      this.#secrets.delete(secret);
      this.#secrets.add(secret);
    }
    for (const secret of this.#secrets) if (this.#secrets.size > SECRETS_MAX) this.#secrets.delete(secret);
    this.#mask = createMask(this.#secrets);
  }

  // ---- messages

  #receive(message: FromWorker): void {
    if (!("id" in message)) return this.#receiveOfDriver(message);
    const call = this.#call;
    // A message after the end of its call belongs to no call.
    if (call?.id === message.id) this.#receiveOfCall(call, message);
  }

  #receiveOfCall(call: WorkerCall, message: OfCall): void {
    switch (message.kind) {
      case "fault": {
        const error = this.#masked(message.error);
        this.#endCall()?.reject(
          new IsolationError(`The driver threw an unhandled error: ${error.message}`, {
            retryable: error.name === "DriverError" && error.retryable === true,
            ...(error.kind && { kind: error.kind }),
          }),
        );
        // The reason is in the call's error.
        return this.kill("");
      }
      case "ended": {
        this.#isSpent ||= message.left === "SPENT";
        this.#measured?.(this.#callTime.ended(message.ms));
        if (message.trace !== undefined)
          this.#log.warn(
            { node: call.job.given.node?.name ?? call.job.given.address, step: call.job.what },
            `A call of driver "${this.plugin.name}" ${this.#mask.all(message.trace)}; its process is replaced.`,
          );
        const ended = this.#endCall();
        if ("value" in message) ended?.resolve(unpack(message.value));
        else ended?.reject(errorOf(this.#masked(message.error)));
        return this.#become(message.left === "NONE" && !this.#isSpent ? "idle" : "busy");
      }
      case "question":
        if (isNesting(message.ask)) this.#nests?.(this, call.job.what);
        return call.handle(message);
      default:
        return call.handle(message);
    }
  }

  #receiveOfDriver(message: OfDriver): void {
    const { plugin } = this;
    switch (message.kind) {
      case "ready":
        if (message.name !== plugin.name || message.version !== plugin.version)
          return this.kill(
            `its plugin has changed: it provides ${message.name} ${message.version}, but the service has loaded ${plugin.name} ${plugin.version}; restart the service`,
          );
        clearTimeout(this.#startTimer);
        return this.#become("idle");
      case "unfit":
        return this.kill(shorten(message.message, 2_000));
      case "memory":
        return void this.#accessMemory(message);
      case "late":
        this.#isSpent = true;
        this.#log.warn(
          `A call of driver "${plugin.name}" that had ended ${this.#mask.all(message.text)}; its process is replaced.`,
        );
        return this.#state === "idle" ? this.#become("idle") : undefined;
      case "clean":
        return this.#state === "busy" ? this.#become("idle") : undefined;
      case "line":
        return this.#log.info(this.#mask.all(message.text));
    }
  }

  async #accessMemory({ question, key, put }: Extract<OfDriver, { kind: "memory" }>): Promise<void> {
    const { memory } = this.plugin;
    const reply = await replyOf(async () => (put ? memory.set(key, put.value).then(() => undefined) : memory.get(key)));
    this.#wire.send({ kind: "reply", question, reply });
  }

  /** The worker may have cut the message in the middle of a secret. */
  #masked(error: SerializedError): SerializedError {
    return { ...error, message: this.#mask.cutEnd(error.message) };
  }

  // ---- end of the process

  #watchExit(): void {
    const exited = Promise.withResolvers<string>();
    const drained = Promise.withResolvers<void>();
    this.#child.once("error", (error) => exited.resolve(`it could not be started (${messageOf(error)})`));
    this.#child.once("exit", (code, signal) => {
      // It may leave processes behind that continue to use the machine.
      this.#killGroup();
      exited.resolve(signal === null ? `exit code ${code}` : `signal ${signal}`);
    });
    this.#socket.once("close", () => {
      drained.resolve();
      setTimeout(() => this.kill("it closed its channel"), DRAIN_MS).unref();
    });
    this.#socket.on("error", () => {});
    exited.promise
      .then(async (how) => {
        const timer = setTimeout(drained.resolve, DRAIN_MS);
        await drained.promise;
        clearTimeout(timer);
        this.#end(how);
      })
      .catch((error: unknown) => this.#log.error({ err: error }, "cannot process the end of a driver's process"));
  }

  /** Kills the process and every process that it has started. */
  #killGroup(): void {
    if (this.#child.pid === undefined) return;
    try {
      process.kill(-this.#child.pid, "SIGKILL");
    } catch {
      this.#child.kill("SIGKILL");
    }
  }

  #endCall(): WorkerCall | null {
    const call = this.#call;
    this.#call = null;
    return call;
  }

  #end(how: string): void {
    if (this.#state === "ended") return;
    clearTimeout(this.#startTimer);
    clearInterval(this.#aliveTimer);
    this.#noteSilence();
    const cause = this.#killReason || (this.#isOutOfMemory ? `it exceeded its ${HEAP_MB} MiB of memory` : how);
    const isStarting = this.#state === "starting";
    const call = this.#endCall();
    if (call) {
      const { job } = call;
      call.reject(this.#errorOfCall(call, how, cause));
      this.#log.warn(
        { node: job.given.node?.name ?? job.given.address, step: job.what, cause },
        "a driver's process ended during a call",
      );
    } else if (isStarting && !this.#isClosing)
      this.#log.error({ cause }, "a driver's process failed to start; calls of this driver fail until one starts");
    else if (!this.#isClosing && this.#killReason !== "") this.#log.warn({ cause }, "a driver's process ended");
    this.#socket.destroy();
    this.#callTime.close();
    this.#exit.resolve();
    this.#become("ended", isStarting ? this.#errorOfStart(how, cause) : undefined);
  }

  #errorOfStart(how: string, cause: string): IsolationError {
    const message = `The process of driver "${this.plugin.name}" failed to start: ${cause}`;
    const isKilled = this.#killReason === null && how.startsWith("signal");
    return new (isKilled ? StartKilledError : IsolationError)(message, { retryable: true, withoutEffect: true });
  }

  /** The error of the call during which the process ended. */
  #errorOfCall({ job, hasBegun, isCancelled }: WorkerCall, how: string, cause: string): Error {
    const { name } = this.plugin;
    if (!hasBegun && !this.#isClosing) return new CallNotStartedError(cause);
    if (this.#wasSilent && this.#killReason === null && how === SELF_ENDED)
      return new HeartbeatLostError(
        `The process of driver "${name}" received no heartbeat from the service during ${job.what}, and ended itself.`,
      );
    if (this.#killReason !== null && isCancelled)
      return new IsolationError(`The process of driver "${name}" was killed: ${this.#killReason}.`, {
        kind: "TIMEOUT",
        retryable: job.repeatable,
      });
    return new IsolationError(`The process of driver "${name}" ended during ${job.what}: ${cause}.`, {
      retryable: job.repeatable,
    });
  }

  #logOutput(): void {
    const { stdout, stderr } = this.#child;
    for (const [name, stream] of Object.entries({ stdout, stderr }))
      readLines(
        stream,
        (line) => this.#log.info({ stream: name }, shorten(this.#mask.all(plainText(line)), PRINTED_LINE_LENGTH_MAX)),
        (text) => {
          if (text.includes("heap out of memory")) this.#isOutOfMemory = true;
        },
      );
  }
}
