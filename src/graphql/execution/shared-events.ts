/**
 * A Yoga plugin that executes an event once for all subscribers with the same request, and makes its JSON text once.
 * Yoga executes a subscription's document per subscriber and event; for 5,000 subscribers that is most of a process's
 * CPU time.
 *
 * A field takes part by an extension `eventKey`, which is equal for events that look the same; events of other fields
 * are executed for each subscriber. Subscribers are in one
 * group if document, operation and caller are the same, and so are the variables below the root field: variables in its
 * arguments, such as a cursor or a filter, only select events. The first subscriber of a group that reaches an event
 * executes it; others that reach it within `FRESH_MS` get its result with its text (`stringify`). Later the event is
 * executed again.
 *
 * A subscriber never goes back in time: it shares a result only if it subscribed before that execution began and has
 * not received a later one. Otherwise it executes the event again, and later subscribers share that result. So a client
 * sees its own earlier writes, and no node goes back within a stream. Subscribers that arrive together still share,
 * because all of them arrive before the first result.
 *
 * All reads of an execution see one moment (event-moment.ts). An execution is paid for from the budget of the
 * subscriber's connection (event-budget.ts); a shared result is free.
 *
 * Every subscriber reads its own source at its own pace, without a queue here. Plugins after this one do not see these
 * streams, so errors are masked here.
 */
import { randomUUID } from "node:crypto";
import { createSourceEventStream, executeSubscriptionEvent, validateSubscriptionArgs } from "graphql";
import type { ExecutionResult, GraphQLError } from "graphql";
import type { Plugin } from "graphql-yoga";
import type { Context } from "../base/context.ts";
import { executeAtOneMoment } from "./event-moment.ts";
import { createEventBudget } from "./event-budget.ts";
import type { EventBudget } from "./event-budget.ts";
import { eventKeyOf, scopeOf } from "./event-scope.ts";

/** A result with its JSON text, as Yoga uses it. */
export interface ReadyResult extends ExecutionResult {
  stringify(result: ExecutionResult): string;
}

/** Time for which a result is shared, in milliseconds: enough to deliver one event to thousands of subscribers. */
const FRESH_MS = 250;
/** Maximum number of shared results over all groups, and of characters of their texts. */
const KEPT_MAX = 2_000;
const CHARACTERS_MAX = 16 * 1024 * 1024;

/**
 * Arguments that others add: the cost of one execution (guards.ts), and the budget of a socket (socket-protocol.ts).
 */
interface Costed {
  readonly eventCost?: number;
  readonly contextValue: { readonly budget?: EventBudget };
}

/** Makes an error visible to the caller. */
type Mask = (error: unknown) => GraphQLError;

type Awaitable<Value> = Value | Promise<Value>;

type Execute = () => Awaitable<ExecutionResult>;

interface Group {
  readonly id: number;
  members: number;
}

/** Executions are ordered by a counter of all their starts and ends. */
interface Execution {
  readonly started: number;
  /** Start in milliseconds of the monotonic clock. */
  readonly at: number;
  ended: number;
  /** Null while it runs, and afterwards if it cannot be shared. */
  result: ExecutionResult | null;
  /** Settles when it has ended, if it is asynchronous. Never rejects. */
  end: Promise<unknown> | null;
  characters: number;
}

/** A subscriber. */
interface Reader {
  readonly group: Group;
  /**
   * Counter up to which it has seen the world: first its subscription, then the end of the last execution it received.
   */
  knows: number;
}

/** Executions of all groups, by group and event. */
class SharedExecutions {
  /** In the order of their starts. */
  readonly #kept = new Map<string, Execution>();
  #characters = 0;
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** The result of an event: a shared one if it is new enough for this subscriber. */
  resultFor(reader: Reader, key: string, execute: Execute): Awaitable<ExecutionResult> {
    this.#dropOld(performance.now());
    const name = `${reader.group.id} ${key}`;
    const known = this.#kept.get(name);
    if (!known || known.started <= reader.knows) return this.#executeShared(reader, name, execute);
    const share = (): Awaitable<ExecutionResult> => {
      if (!known.result) return this.executeAlone(reader, execute);
      reader.knows = known.ended;
      return known.result;
    };
    return known.end && !known.result ? known.end.then(share) : share();
  }

  /** Executes an event for one subscriber only. */
  executeAlone(reader: Reader, execute: Execute): Awaitable<ExecutionResult> {
    const take = (result: ExecutionResult): ExecutionResult => {
      reader.knows = this.#tick();
      return result;
    };
    this.#tick();
    const result = execute();
    return result instanceof Promise ? result.then(take) : take(result);
  }

  #executeShared(reader: Reader, name: string, execute: Execute): Awaitable<ExecutionResult> {
    const mine: Execution = {
      started: this.#tick(),
      at: performance.now(),
      ended: 0,
      result: null,
      end: null,
      characters: 0,
    };
    const take = (result: ExecutionResult): ExecutionResult => {
      reader.knows = mine.ended = this.#tick();
      return this.#keepResult(name, mine, result);
    };
    const fail = (error: unknown): never => {
      this.#dropIfKept(name, mine);
      throw error;
    };
    this.#drop(name);
    this.#kept.set(name, mine);
    try {
      const result = execute();
      if (!(result instanceof Promise)) return take(result);
      const taken = result.then(take).catch(fail);
      mine.end = taken.catch(() => {});
      return taken;
    } catch (error) {
      return fail(error);
    }
  }

  /** A result with errors is not shared: each subscriber gets its own errors, with its own request id. */
  #keepResult(name: string, execution: Execution, result: ExecutionResult): ExecutionResult {
    if (result.errors) {
      this.#dropIfKept(name, execution);
      return result;
    }
    const { ready, length } = withText(result);
    if (this.#kept.get(name) === execution) this.#characters += execution.characters = length;
    execution.result = ready;
    return ready;
  }

  #tick(): number {
    this.#count += 1;
    return this.#count;
  }

  #dropOld(now: number): void {
    for (const [name, { at }] of this.#kept) {
      if (now - at <= FRESH_MS && this.#kept.size <= KEPT_MAX && this.#characters <= CHARACTERS_MAX) return;
      this.#drop(name);
    }
  }

  #dropIfKept(name: string, execution: Execution): void {
    if (this.#kept.get(name) === execution) this.#drop(name);
  }

  #drop(name: string): void {
    this.#characters -= this.#kept.get(name)?.characters ?? 0;
    this.#kept.delete(name);
  }
}

/** Groups of subscribers with the same request. */
class Groups {
  readonly #groups = new Map<string, Group>();
  #made = 0;

  /** Adds a subscriber to its group. */
  join(key: string): { readonly group: Group; readonly leave: () => void } {
    const group = this.#groups.get(key) ?? { id: (this.#made += 1), members: 0 };
    this.#groups.set(key, group);
    group.members += 1;
    let isMember = true;
    const leave = () => {
      if (!isMember) return;
      isMember = false;
      group.members -= 1;
      if (group.members === 0) this.#groups.delete(key);
    };
    return { group, leave };
  }
}

export function shareEvents(mask: Mask): Plugin<Context> {
  const groups = new Groups();
  const executions = new SharedExecutions();

  return {
    async onSubscribe({ args: given, setResultAndStopExecution }) {
      const args = validateSubscriptionArgs(given);
      if (!("schema" in args)) return;
      const eventKey = eventKeyOf(args) ?? (() => null);
      const scope = scopeOf(args, given.contextValue.actor);
      const knows = executions.count;
      const source = await createSourceEventStream(args);
      if (!(Symbol.asyncIterator in source)) return setResultAndStopExecution(masked(source, mask));
      const { group, leave } = groups.join(scope ?? `alone ${randomUUID()}`);
      const reader: Reader = { group, knows };
      const {
        eventCost = 0,
        contextValue: { budget = createEventBudget() },
      } = given as Costed;
      const resultOf = (event: unknown) => {
        const execute = () => {
          budget.spend(eventCost);
          const executed = executeAtOneMoment(args.operation, given.contextValue, (contextValue) =>
            executeSubscriptionEvent({ ...args, contextValue, rootValue: event }),
          );
          return executed instanceof Promise ? executed.then((result) => masked(result, mask)) : masked(executed, mask);
        };
        const take = () => {
          const key = group.members > 1 ? eventKey(event) : null;
          return key === null ? executions.executeAlone(reader, execute) : executions.resultFor(reader, key, execute);
        };
        // Before the execution, not within it: others that share its result do not wait.
        return budget.paid()?.then(take) ?? take();
      };
      setResultAndStopExecution(mapped(source[Symbol.asyncIterator](), { resultOf, leave, mask }));
    },
  };
}

function masked(result: ExecutionResult, mask: Mask): ExecutionResult {
  return result.errors ? { ...result, errors: result.errors.map(mask) } : result;
}

/** A result without errors with its JSON text, which is valid as long as no plugin adds to the result. */
function withText(result: ExecutionResult): { readonly ready: ReadyResult; readonly length: number } {
  const text = JSON.stringify(result);
  const { data } = result;
  const stringify = (given: ExecutionResult) =>
    given.data === data && given.errors === undefined && given.extensions === undefined ? text : JSON.stringify(given);
  return { ready: { ...result, stringify }, length: text.length };
}

/** The results of the events of a source. The end of the source, and of the reader, are passed on at once. */
function mapped(
  source: AsyncIterator<unknown>,
  {
    resultOf,
    leave,
    mask,
  }: {
    readonly resultOf: (event: unknown) => Awaitable<ExecutionResult>;
    readonly leave: () => void;
    readonly mask: Mask;
  },
): AsyncIterableIterator<ExecutionResult> {
  return {
    async next() {
      try {
        const { done, value } = await source.next();
        if (done) {
          leave();
          return { done, value: undefined };
        }
        const result = resultOf(value);
        return { done: false, value: result instanceof Promise ? await result : result };
      } catch (error) {
        leave();
        // If the execution failed, the source would otherwise stay open forever.
        await Promise.allSettled([source.return?.()]);
        throw mask(error);
      }
    },
    async return() {
      leave();
      await source.return?.();
      return { done: true, value: undefined };
    },
    async throw(error: unknown) {
      leave();
      await source.return?.();
      throw error;
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
