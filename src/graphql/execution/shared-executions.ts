/**
 * Executions of events that subscribers share: of one event, or of a page of events together. Each is of one moment,
 * and moments are ordered by a counter of all starts and ends.
 */
import type { ExecutionResult } from "graphql";
import type { Awaitable } from "../../runtime/awaitable.ts";

/** A result with its JSON text, as Yoga uses it. */
export interface ReadyResult extends ExecutionResult {
  stringify(result: ExecutionResult): string;
}

/** Time for which a result is shared, in milliseconds: enough to deliver one event to thousands of subscribers. */
const FRESH_MS = 250;
/** Maximum number of shared results over all groups, and of characters of their texts. */
const KEPT_MAX = 2_000;
const CHARACTERS_MAX = 16 * 1024 * 1024;

type Execute = () => Awaitable<ExecutionResult>;

/** Subscribers with the same request. */
export interface Group {
  readonly id: number;
  members: number;
}

/** Starts and ends are values of the counter. */
interface Moment {
  readonly started: number;
  /** Start in milliseconds of the monotonic clock. */
  readonly at: number;
  ended: number;
}

interface Execution {
  readonly moment: Moment;
  /** Null while it runs, and afterwards if it cannot be shared. */
  result: ExecutionResult | null;
  /** Settles when it has ended, if it is asynchronous. Never rejects. */
  end: Promise<unknown> | null;
  characters: number;
}

/** A subscriber. */
export interface Reader {
  readonly group: Group;
  /**
   * Counter up to which it has seen the world: first its subscription, then the end of the last execution it received.
   */
  knows: number;
  /** Moment of the last result that it received: others of this moment are not older. */
  moment: Moment | null;
}

/** Results of the first events of a page, in their order. */
export interface Page {
  readonly moment: Moment;
  readonly results: readonly ExecutionResult[];
}

export interface PageRequest {
  /** Key of each event; null for an event that is not shared. */
  readonly keys: readonly (string | null)[];
  /** Returns the results of the first events, none of which has errors. */
  execute(): Promise<readonly ExecutionResult[]>;
}

/** Executions of all groups, by group and event. */
export class SharedExecutions {
  /** In the order of their starts. */
  readonly #kept = new Map<string, Execution>();
  #characters = 0;
  #count = 0;
  #dropTimer: NodeJS.Timeout | undefined;

  get count(): number {
    return this.#count;
  }

  /** Whether an execution of this event can be shared. */
  isShared(reader: Reader, key: string): boolean {
    return this.#sharedWith(reader, nameOf(reader, key)) !== null;
  }

  /** The result of an event: a shared one if it is new enough for this subscriber. */
  resultFor(reader: Reader, key: string, execute: Execute): Awaitable<ExecutionResult> {
    this.#dropOld(performance.now());
    const name = nameOf(reader, key);
    const known = this.#sharedWith(reader, name);
    if (!known) return this.#executeShared(reader, name, execute);
    const share = (): Awaitable<ExecutionResult> => {
      if (!known.result) return this.executeAlone(reader, execute);
      receive(reader, known.moment);
      return known.result;
    };
    return known.end && !known.result ? known.end.then(share) : share();
  }

  /** Executes an event for one subscriber only. */
  executeAlone(reader: Reader, execute: Execute): Awaitable<ExecutionResult> {
    const moment = this.#begin();
    const take = (result: ExecutionResult): ExecutionResult => {
      moment.ended = this.#tick();
      receive(reader, moment);
      return result;
    };
    const result = execute();
    return result instanceof Promise ? result.then(take) : take(result);
  }

  /** Executes a page of events for one subscriber; its group shares the results. The subscriber receives them later. */
  async executePage({ group }: Pick<Reader, "group">, { keys, execute }: PageRequest): Promise<Page> {
    this.#dropOld(performance.now());
    const moment = this.#begin();
    const ended = Promise.withResolvers<void>();
    const names = keys.map((key) => (key === null ? null : nameOf({ group }, key)));
    const executions = names.map((name) => {
      const execution: Execution = { moment, result: null, end: ended.promise, characters: 0 };
      if (name !== null) this.#keep(name, execution);
      return execution;
    });
    let results: readonly ExecutionResult[] = [];
    try {
      results = await execute();
    } finally {
      moment.ended = this.#tick();
      names.forEach((name, index) => {
        if (name !== null && !results[index]) this.#dropIfKept(name, executions[index]);
      });
      results = results.map((result, index) => {
        const [name, execution] = [names[index], executions[index]];
        return name != null && execution ? this.#keepResult(name, execution, result) : result;
      });
      ended.resolve();
    }
    return { moment, results };
  }

  #executeShared(reader: Reader, name: string, execute: Execute): Awaitable<ExecutionResult> {
    const moment = this.#begin();
    const mine: Execution = { moment, result: null, end: null, characters: 0 };
    const take = (result: ExecutionResult): ExecutionResult => {
      moment.ended = this.#tick();
      receive(reader, moment);
      return this.#keepResult(name, mine, result);
    };
    const fail = (error: unknown): never => {
      this.#dropIfKept(name, mine);
      throw error;
    };
    this.#keep(name, mine);
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

  #sharedWith({ knows, moment }: Reader, name: string): Execution | null {
    const known = this.#kept.get(name);
    return known && (known.moment.started > knows || known.moment === moment) ? known : null;
  }

  #keep(name: string, execution: Execution): void {
    this.#drop(name);
    this.#kept.set(name, execution);
    this.#dropLater();
  }

  /** Without further events the results would be kept. */
  #dropLater(): void {
    if (this.#dropTimer !== undefined) return;
    this.#dropTimer = setTimeout(() => {
      this.#dropTimer = undefined;
      this.#dropOld(performance.now());
      if (this.#kept.size > 0) this.#dropLater();
    }, FRESH_MS).unref();
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

  #begin(): Moment {
    return { started: this.#tick(), at: performance.now(), ended: 0 };
  }

  #tick(): number {
    this.#count += 1;
    return this.#count;
  }

  #dropOld(now: number): void {
    for (const [name, { moment }] of this.#kept) {
      if (now - moment.at <= FRESH_MS && this.#kept.size <= KEPT_MAX && this.#characters <= CHARACTERS_MAX) return;
      this.#drop(name);
    }
  }

  #dropIfKept(name: string, execution: Execution | undefined): void {
    if (this.#kept.get(name) === execution) this.#drop(name);
  }

  #drop(name: string): void {
    this.#characters -= this.#kept.get(name)?.characters ?? 0;
    this.#kept.delete(name);
  }
}

/** The subscriber receives a result of this moment. */
export function receive(reader: Reader, moment: Moment): void {
  reader.knows = moment.ended;
  reader.moment = moment;
}

function nameOf({ group }: Pick<Reader, "group">, key: string): string {
  return `${group.id} ${key}`;
}

/** A result without errors with its JSON text, which is valid as long as no plugin adds to the result. */
function withText(result: ExecutionResult): { readonly ready: ReadyResult; readonly length: number } {
  const text = JSON.stringify(result);
  const { data } = result;
  const stringify = (given: ExecutionResult) =>
    given.data === data && given.errors === undefined && given.extensions === undefined ? text : JSON.stringify(given);
  return { ready: { ...result, stringify }, length: text.length };
}
