/**
 * One call of a driver's function in a worker process, as the service sees it: sends it, handles the worker's messages
 * about it, and cancels it.
 *
 * The call is cancelled when its signal fires or its deadline passes: the worker is asked to end it, and killed if the
 * call continues after the grace period. A forced abort kills the worker at once.
 */
import { messageOf } from "../../errors.ts";
import { leftUntil, whenOver } from "../deadline.ts";
import type { Json } from "../driver.ts";
import type { FunctionName } from "../driver-functions.ts";
import type { Dispatch } from "./dispatch.ts";
import { IsolationError, LINE_LENGTH_MAX, errorOf, serializeError, shorten } from "./protocol.ts";
import type { Given, OfCall, NodeQuestion, Reply, SerializedError, ToWorker, Wire } from "./protocol.ts";

/** A call of a driver's function. */
export interface Job {
  readonly target: FunctionName;
  readonly given: Given;
  /** The function's name for messages: `clean.erase_disks`. */
  readonly what: string;
  readonly signal: AbortSignal;
  readonly deadline: Date;
  readonly dispatch: Dispatch;
  /** Whether the call may be repeated if its process ends during the call. */
  readonly repeatable: boolean;
  /** Values to mask in everything that the process prints. */
  readonly secrets: readonly string[];
  readonly listener: JobListener;
}

/** Receives what the driver reports during a call. */
interface JobListener {
  log(text: string): void;
  timed(name: string, work: () => Promise<void>): Promise<void>;
  progress?(percent: number, message: string | undefined): void;
  question?(about: NodeQuestion): Promise<Json | undefined>;
}

/** The members of the worker that a call uses. */
interface CallHost {
  readonly wire: Wire<ToWorker>;
  /** How long a call may continue after its signal has fired. */
  readonly graceMs: number;
  /** Masks secrets in a text, also one that is cut off at its end. */
  mask(text: string): string;
  kill(why: string): void;
}

/** Grace period after the deadline, when no caller waits any longer. */
const OVERDUE_GRACE_MS = 1_000;

type Timing = { readonly resolve: () => void; readonly reject: (error: unknown) => void };

export class WorkerCall {
  readonly id: number;
  readonly job: Job;
  /** The worker has entered the function. */
  hasBegun = false;
  isCancelled = false;
  readonly #host: CallHost;
  readonly #result = Promise.withResolvers<unknown>();
  readonly #timings = new Map<number, Timing>();
  readonly #killTimers: NodeJS.Timeout[] = [];

  constructor(id: number, job: Job, host: CallHost) {
    this.id = id;
    this.job = job;
    this.#host = host;
  }

  /** Sends `line`, the serialized call, and waits for its result. */
  async send(line: string): Promise<unknown> {
    const { job } = this;
    const onAbort = () =>
      this.#cancel(job.signal.reason, leftUntil(job.deadline) <= 0 ? OVERDUE_GRACE_MS : this.#host.graceMs);
    this.#host.wire.sendLine(line);
    const stopDeadline = whenOver(job.deadline, () =>
      this.#cancel(Object.assign(new Error("The call timed out."), { name: "TimeoutError" }), OVERDUE_GRACE_MS),
    );
    if (job.signal.aborted) onAbort();
    else job.signal.addEventListener("abort", onAbort, { once: true });
    const { kill } = job.dispatch;
    const onKill = () => this.#cancel(kill?.reason, 0);
    if (kill?.aborted) onKill();
    else kill?.addEventListener("abort", onKill, { once: true });
    try {
      return await this.#result.promise;
    } finally {
      job.signal.removeEventListener("abort", onAbort);
      kill?.removeEventListener("abort", onKill);
      stopDeadline();
      for (const timer of this.#killTimers) clearTimeout(timer);
      for (const timing of this.#timings.values()) timing.reject(new Error("The call has ended."));
    }
  }

  resolve(value: unknown): void {
    this.#result.resolve(value);
  }

  reject(error: unknown): void {
    this.#result.reject(error);
  }

  /** Handles a message about this call that does not end it. */
  handle(message: Exclude<OfCall, { kind: "fault" | "ended" }>): void {
    const { listener } = this.job;
    const { mask } = this.#host;
    switch (message.kind) {
      case "begun":
        this.hasBegun = true;
        return;
      case "log":
        return listener.log(mask(message.text));
      case "progress":
        return listener.progress?.(message.percent, message.message === null ? undefined : mask(message.message));
      case "timing":
        listener
          .timed(
            mask(message.name),
            () => new Promise((resolve, reject) => this.#timings.set(message.timing, { resolve, reject })),
          )
          .catch(() => {});
        return;
      case "timed": {
        const timing = this.#timings.get(message.timing);
        this.#timings.delete(message.timing);
        return message.error ? timing?.reject(errorOf(message.error)) : timing?.resolve();
      }
      case "question":
        return void this.#answerQuestion(message.question, message.ask);
    }
  }

  async #answerQuestion(question: number, ask: NodeQuestion): Promise<void> {
    const reply = await replyOf(async () => {
      if (!this.job.listener.question)
        throw new Error("Only steps can use the power, the media and the agent of their node.");
      return this.job.listener.question(ask);
    });
    this.#host.wire.send({ kind: "reply", question, reply });
  }

  #cancel(reason: unknown, graceMs: number): void {
    const cancelledAt = performance.now();
    if (!this.isCancelled) this.#host.wire.send({ kind: "end", id: this.id, reason: serializeError(reason) });
    this.isCancelled = true;
    const kill = () => {
      const seconds = Math.round((performance.now() - cancelledAt) / 100) / 10;
      this.#host.kill(`${this.job.what} continued for ${seconds} s after its cancellation`);
    };
    if (graceMs === 0) kill();
    else this.#killTimers.push(setTimeout(kill, graceMs));
  }
}

/** Serializes a call. Throws an `IsolationError` if its arguments are not JSON or too large. */
export function serializeCall(id: number, { target, given, deadline, what }: Job): string {
  const refusal = (reason: string) =>
    new IsolationError(
      `The arguments of ${what} cannot be sent to the driver's process: ${reason}. Check what the schemas of its settings and arguments produce.`,
      { retryable: false, withoutEffect: true },
    );
  const message: ToWorker = { kind: "call", id, target, given, leftMs: leftUntil(deadline) };
  let line: string;
  try {
    line = JSON.stringify(message);
  } catch (error) {
    throw refusal(shorten(messageOf(error), 500));
  }
  if (line.length > LINE_LENGTH_MAX) throw refusal(`they are longer than ${LINE_LENGTH_MAX} characters`);
  return line;
}

/** The result of `work` as a reply to a worker's question. */
export async function replyOf(work: () => Promise<Json | undefined>): Promise<Reply> {
  try {
    const value = await work();
    return value === undefined ? {} : { value };
  } catch (error) {
    return { error: serializeError(error) satisfies SerializedError };
  }
}
