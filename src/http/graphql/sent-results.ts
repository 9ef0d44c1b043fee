/**
 * Results of a subscription that are sent to their socket here. graphql-ws awaits several promises for each result and
 * makes its text from an object; a shared result has its text already (shared-executions.ts), and its socket decides
 * when the next one is requested. For graphql-ws this is a stream without results, which ends after the last one.
 */
import type { ExecutionResult } from "graphql";
import { requestNext } from "../../runtime/requests.ts";
import type { Receiver, Requestable } from "../../runtime/requests.ts";

type Results = AsyncIterator<ExecutionResult> & Partial<Requestable<ExecutionResult>>;
/** Sends a result; returns when the next one may be requested, undefined if that is at once. */
type Send = (result: ExecutionResult) => Promise<void> | undefined;

export class SentResults implements AsyncIterableIterator<never>, Receiver<ExecutionResult> {
  readonly #results: Results;
  readonly #send: Send;
  #hasLeft = false;
  readonly #end = Promise.withResolvers<IteratorResult<never>>();

  constructor(results: Results, send: Send) {
    this.#results = results;
    this.#send = send;
  }

  /** Settles when the stream has ended. Called once. */
  next(): Promise<IteratorResult<never>> {
    this.#request();
    return this.#end.promise;
  }

  /** The client has completed the subscription or is gone: nothing more is sent. */
  async return(): Promise<IteratorResult<never>> {
    this.#hasLeft = true;
    await this.#results.return?.();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #request(): void {
    requestNext(this.#results, this);
  }

  /** Receives the next result, or the end. */
  resolve({ done, value }: IteratorResult<ExecutionResult, unknown>): void {
    if (done || this.#hasLeft) return this.#end.resolve({ done: true, value: undefined });
    try {
      const sent = this.#send(value);
      if (sent) void sent.then(() => this.#request());
      else this.#request();
    } catch (error) {
      void this.#fail(error);
    }
  }

  /** Receives the failure of the results. */
  reject(error: unknown): void {
    this.#end.reject(error);
  }

  async #fail(failure: unknown): Promise<void> {
    await Promise.allSettled([this.#results.return?.()]);
    this.#end.reject(failure);
  }
}
