/**
 * The results of a subscriber's events, in their order. Events that are ready together and read from the database are
 * executed together, so that a page of them costs as many statements as one.
 *
 * Modes:
 * - single: the next event is executed when it is requested. So are events of an operation that was not seen to read.
 * - page: the next event and those that are ready are executed together; their results wait to be requested.
 * - ended early: what was not delivered is dropped. The source's last event follows the one that was delivered last.
 *
 * Results that wait for too long are dropped and their events executed again: first one, then twice as many each time,
 * so that a reader that pauses after each item costs little more than in the mode single.
 */
import type { ExecutionResult, OperationDefinitionNode } from "graphql";
import type { Awaitable } from "../../runtime/awaitable.ts";
import { requestNext } from "../../runtime/requests.ts";
import type { Receiver, Requestable } from "../../runtime/requests.ts";
import { createSharedYielding } from "../../runtime/yielding.ts";
import type { EventBudget } from "./event-budget.ts";
import type { EventKey } from "./event-scope.ts";
import { receive } from "./shared-executions.ts";
import type { Page, Reader, SharedExecutions } from "./shared-executions.ts";

/** Maximum number of events in a page, and of their cost: that of a fifth of the largest request. */
const PAGE_MAX = 100;
const PAGE_COST = 1_000;
/** Time for which results wait to be requested, in milliseconds. */
const READY_MS = 1_000;

/** Results of a stream between two looks at the time of the turn: they leave in one write. */
const RUN = 4;

/** Operations whose events have read from the database. */
const reading = new WeakSet<OperationDefinitionNode>();

interface EventExecution {
  readonly operation: OperationDefinitionNode;
  readonly executions: SharedExecutions;
  readonly reader: Reader;
  readonly eventKey: EventKey<unknown>;
  readonly budget: EventBudget;
  /** Cost of one event. */
  readonly cost: number;
  /** Executes one event. */
  execute(event: unknown): Awaitable<ExecutionResult>;
  /** Executes events together; returns the results of the first ones, none of which has errors. */
  executePage(events: readonly unknown[]): Promise<readonly ExecutionResult[]>;
  /** Makes an error visible to the caller. */
  mask(error: unknown): unknown;
  /** Called at the end, whatever ended the results, possibly more than once. */
  onEnd(): void;
}

/**
 * Results of all streams follow each other in one turn of the event loop while they are ready: a page of changes for a
 * thousand subscribers would hold up everything else for seconds.
 */
const yieldTurn = createSharedYielding();

interface Pending {
  readonly event: unknown;
  ready: { readonly page: Page; readonly result: ExecutionResult; readonly until: number } | null;
}

/** A source with events that may be ready. */
type Source = AsyncIterator<unknown> &
  Partial<Requestable<unknown>> & {
    readonly hasReady?: boolean;
    takeReady?(most: number): readonly unknown[];
    endAfter?(received: unknown): unknown;
  };

export class EventResults
  implements AsyncIterableIterator<ExecutionResult>, Requestable<ExecutionResult>, Receiver<unknown>
{
  readonly #source: Source;
  readonly #given: EventExecution;
  readonly #pageMax: number;
  #pageSize: number;
  /** Results since the event loop last went round for this stream, or since it had no event. */
  #run = 0;
  #pending: Pending[] = [];
  /** The last result that was requested. */
  #last: Promise<IteratorResult<ExecutionResult>> = Promise.resolve({ done: true, value: undefined });
  /** Results that were requested and not delivered yet. */
  #requested = 0;
  /** Of the result that is due next. */
  #receiver: Receiver<ExecutionResult> | null = null;
  /** The event of the result that is due next, and of the one that was delivered last; null: there is none. */
  #due: unknown = null;
  #received: unknown = null;
  /** In the mode ended early, with the last event until it is due. What began before is not delivered. */
  #early: { last: unknown } | null = null;

  constructor(source: AsyncIterator<unknown>, given: EventExecution) {
    this.#source = source;
    this.#given = given;
    this.#pageMax = Math.max(1, Math.min(PAGE_MAX, Math.floor(PAGE_COST / Math.max(1, given.cost))));
    this.#pageSize = this.#pageMax;
  }

  /** Delivered in the order of the requests. */
  next(): Promise<IteratorResult<ExecutionResult>> {
    this.#requested += 1;
    this.#last = this.#requested === 1 ? this.#next() : this.#nextAfter(this.#last);
    return this.#last;
  }

  request(receiver: Receiver<ExecutionResult>): void {
    this.#requested += 1;
    this.#start(receiver);
  }

  /** Ends with the last event of the source, in place of all that was not delivered. */
  endEarly(): void {
    if (this.#early) return;
    const early = { last: null as unknown };
    this.#early = early;
    this.#pending = [];
    if (this.#source.endAfter) early.last = this.#source.endAfter(this.#received);
    else void this.#source.return?.();
    if (this.#receiver) this.#deliverLater(this.#lastResult());
  }

  /** Ends the source too, at once. */
  async return(): Promise<IteratorResult<ExecutionResult>> {
    this.#given.onEnd();
    await this.#source.return?.();
    return { done: true, value: undefined };
  }

  async throw(error: unknown): Promise<IteratorResult<ExecutionResult>> {
    await this.return();
    throw error;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #nextAfter(last: Promise<unknown>): Promise<IteratorResult<ExecutionResult>> {
    const following = () => this.#next();
    return last.then(following, following);
  }

  #next(): Promise<IteratorResult<ExecutionResult>> {
    return new Promise((resolve, reject) => this.#start({ resolve, reject }));
  }

  #start(receiver: Receiver<ExecutionResult>): void {
    this.#receiver = receiver;
    if (this.#early) return this.#deliverLater(this.#lastResult());
    const turn = this.#yieldTurn();
    if (turn) void turn.then(() => this.#early ?? this.#begin());
    else this.#begin();
  }

  /** The turn of the event loop in which the next result is due, if it exists already; nothing if that is this one. */
  #yieldTurn(): Promise<void> | undefined {
    const isReady = this.#pending.length > 0 || this.#source.hasReady === true;
    this.#run = isReady ? this.#run + 1 : 0;
    if (this.#run < RUN) return undefined;
    this.#run = 0;
    return yieldTurn();
  }

  #begin(): void {
    if (this.#pending.length === 0) requestNext(this.#source, this);
    else this.#deliverLater(this.#nextPending());
  }

  async #nextPending(): Promise<ExecutionResult> {
    return this.#nextResult();
  }

  /** The result of the last event, then null. */
  async #lastResult(): Promise<ExecutionResult | null> {
    const last = this.#early?.last ?? null;
    if (this.#early) this.#early.last = null;
    return last === null ? null : this.#given.execute(last);
  }

  /** Receives the next event, or the end of the source. */
  resolve(next: IteratorResult<unknown, unknown>): void {
    if (this.#early) return;
    let result: Awaitable<ExecutionResult | null>;
    try {
      result = this.#resultOf(next);
    } catch (error) {
      return this.reject(error);
    }
    if (result instanceof Promise) this.#deliverLater(result);
    else this.#deliver(result);
  }

  /** Receives a failure of the source. */
  reject(failure: unknown): void {
    if (!this.#early) void this.#fail(failure);
  }

  /** Takes the next event, with those that are ready; null at the end of the source. */
  #resultOf({ done, value }: IteratorResult<unknown, unknown>): Awaitable<ExecutionResult | null> {
    if (done) return null;
    this.#pending = [{ event: value, ready: null }];
    if (reading.has(this.#given.operation))
      for (const event of this.#source.takeReady?.(this.#pageMax - 1) ?? []) this.#pending.push({ event, ready: null });
    return this.#nextResult();
  }

  #deliverLater(result: Promise<ExecutionResult | null>): void {
    const begun = this.#early;
    result.then(
      (value) => {
        if (this.#early === begun) this.#deliver(value);
      },
      (error: unknown) => {
        if (this.#early === begun) void this.#fail(error);
      },
    );
  }

  #deliver(value: ExecutionResult | null): void {
    if (!value) this.#given.onEnd();
    this.#received = this.#due;
    this.#settled()?.resolve(value ? { done: false, value } : { done: true, value: undefined });
  }

  async #fail(failure: unknown): Promise<void> {
    this.#given.onEnd();
    // If the execution failed, the source would otherwise stay open forever.
    await Promise.allSettled([this.#source.return?.()]);
    this.#settled()?.reject(this.#given.mask(failure));
  }

  /** The receiver, which is called now. */
  #settled(): Receiver<ExecutionResult> | null {
    const receiver = this.#receiver;
    this.#receiver = null;
    this.#requested -= 1;
    return receiver;
  }

  /** The result of the first event that is pending. */
  #nextResult(): Awaitable<ExecutionResult> {
    const ready = this.#takeReady();
    if (ready) return ready;
    const paid = this.#given.budget.paid();
    return paid ? paid.then(() => this.#execute()) : this.#execute();
  }

  #execute(): Awaitable<ExecutionResult> {
    if (this.#pending.length <= 1) return this.#executeOne();
    return this.#executePage().then(() => this.#takeReady() ?? this.#executeOne());
  }

  #takeReady(): ExecutionResult | null {
    const [first] = this.#pending;
    const ready = first?.ready;
    if (!first || !ready) return null;
    if (performance.now() > ready.until) {
      for (const pending of this.#pending) pending.ready = null;
      this.#pageSize = 1;
      return null;
    }
    this.#pending.shift();
    this.#due = first.event;
    receive(this.#given.reader, ready.page.moment);
    return ready.result;
  }

  /** Executes the next events together, unless the result of the first one is shared. */
  async #executePage(): Promise<void> {
    const { reader, executions, eventKey, budget, cost } = this.#given;
    const pending = this.#pending.slice(0, Math.min(this.#pageSize, budget.affords(cost)));
    this.#pageSize = Math.min(this.#pageMax, this.#pageSize * 2);
    if (pending.length === 1) return;
    const events = pending.map(({ event }) => event);
    const keys = events.map((event) => (reader.group.members > 1 ? eventKey(event) : null));
    const [first] = keys;
    if (first != null && executions.isShared(reader, first)) return;
    const execute = () => {
      for (const _ of events) budget.spend(cost);
      return this.#given.executePage(events);
    };
    // What fails for a page fails for one of its events, which is then executed alone.
    const page = await executions.executePage(reader, { keys, execute }).catch(() => null);
    if (page?.results.length !== events.length) this.#pageSize = 1;
    const until = performance.now() + READY_MS;
    page?.results.forEach((result, index) => {
      const one = pending[index];
      if (one) one.ready = { page, result, until };
    });
  }

  #executeOne(): Awaitable<ExecutionResult> {
    const { operation, reader, executions, eventKey, budget, cost } = this.#given;
    const next = this.#pending.shift();
    // It has ended early meanwhile.
    if (!next) return {};
    const { event } = next;
    this.#due = event;
    const execute = () => {
      budget.spend(cost);
      const result = this.#given.execute(event);
      if (result instanceof Promise) reading.add(operation);
      return result;
    };
    const key = reader.group.members > 1 ? eventKey(event) : null;
    return key === null ? executions.executeAlone(reader, execute) : executions.resultFor(reader, key, execute);
  }
}
