/**
 * Reads of one execution of a subscription's event: all see one moment of the database.
 *
 * Modes of an execution:
 * - alone: it may read once, without a transaction, together with the events of all subscriptions. What the event has
 *   brought counts as a read. At a second read the execution is discarded, and leads to shared; so do later events of
 *   the same operation, from the beginning.
 * - shared: it reads in a snapshot, with all other executions that began before the snapshot's first statement. Rows
 *   that the event has brought are read again. If an execution fails, it leads to own: another one may have failed the
 *   snapshot.
 * - own: it reads in a snapshot of its own, and its result is final.
 *
 * A page of events is executed together, in the modes alone or shared: what its items read is read in one statement for
 * all of them. The page ends before the first item that would leave its mode; that item is executed alone.
 */
import type { ExecutionResult, OperationDefinitionNode } from "graphql";
import type { Awaitable } from "../../runtime/awaitable.ts";
import type { BroughtRows, Context } from "../base/context.ts";
import { createLoaders, rowsOfEvents } from "../base/loaders.ts";
import type { EventRows, Loaders } from "../base/loaders.ts";
import { lazily } from "../base/batching.ts";
import type { Database, LazySnapshot } from "../../store/postgres/database.ts";

type Execute = (context: Context) => Awaitable<ExecutionResult>;

/** Operations of which an execution has read twice. */
const readingTwice = new WeakSet<OperationDefinitionNode>();

/** Executes an event of the operation with a context whose reads see one moment. */
export function executeAtOneMoment(
  operation: OperationDefinitionNode,
  context: Context,
  execute: Execute,
): Awaitable<ExecutionResult> {
  if (readingTwice.has(operation)) return executeInSnapshot(context, execute);
  const alone = new SingleRead(context);
  const take = (result: ExecutionResult): Awaitable<ExecutionResult> => {
    if (!alone.isExceeded) return result;
    readingTwice.add(operation);
    return executeInSnapshot(context, execute);
  };
  const result = execute(alone.context);
  return result instanceof Promise ? result.then(take) : take(result);
}

/**
 * Executes events of the operation together, in their order, and returns the results of the first ones: those before
 * the first event that failed, or has to be executed in another way. What they read is of one moment.
 */
export async function executeTogether(
  operation: OperationDefinitionNode,
  context: Context,
  executions: readonly Execute[],
): Promise<readonly ExecutionResult[]> {
  if (readingTwice.has(operation)) return executePageInSnapshot(context, executions);
  const page = executions.map((execute) => {
    const alone = new SingleRead(context);
    return { alone, result: execute(alone.context) };
  });
  const results = await Promise.all(page.map(async ({ result }) => result));
  if (page.some(({ alone }) => alone.isExceeded)) readingTwice.add(operation);
  return untilFirst(results, ({ errors }, index) => errors !== undefined || page[index]?.alone.isExceeded === true);
}

async function executePageInSnapshot(
  context: Context,
  executions: readonly Execute[],
): Promise<readonly ExecutionResult[]> {
  const { database } = context.services;
  const round = joinable(rounds.get(database)) ?? createRound(database);
  rounds.set(database, round);
  // Otherwise the snapshot would be closed after an event without reads.
  const leave = enter(round);
  try {
    const results = await Promise.all(executions.map(async (execute) => executeIn(round, context, execute)));
    return untilFirst(results, ({ errors }) => errors !== undefined);
  } finally {
    leave();
  }
}

function untilFirst<Item>(items: readonly Item[], isEnd: (item: Item, index: number) => boolean): readonly Item[] {
  const end = items.findIndex(isEnd);
  return end === -1 ? items : items.slice(0, end);
}

/** The context of an execution that may read once. */
class SingleRead {
  readonly context: Context;
  isExceeded = false;
  #read: "nothing" | "event" | "row" = "nothing";

  constructor(context: Context) {
    const { services } = context;
    const { database } = services;
    const exceed = () => this.#exceed();
    const rows = rowsOfEvents(database);
    const load = new Proxy({} as Loaders, {
      get: (_none, name) => (isRow(name, rows) ? { load: (key: string) => this.#load(rows, name, key) } : exceed()),
    });
    const unread: Database = Object.defineProperty({ ...database }, "reader", { get: exceed });
    this.context = { ...context, services: { ...services, database: unread }, load, brought: this.#brought() };
  }

  #brought(): BroughtRows {
    const take = <Row>(row: Row): Row => {
      if (this.#read === "row") this.#exceed();
      this.#read = "event";
      return row;
    };
    return { node: take, operation: take, run: take, cluster: take };
  }

  #load(rows: EventRows, name: keyof EventRows, key: string) {
    if (this.#read !== "nothing") this.#exceed();
    this.#read = "row";
    return rows[name].load(key);
  }

  #exceed(): never {
    this.isExceeded = true;
    throw new Error("An execution that may read once reads again.");
  }
}

function isRow(name: string | symbol, rows: EventRows): name is keyof EventRows {
  return Object.hasOwn(rows, name);
}

/** A snapshot for the executions that began before its first statement. */
interface Round {
  readonly snapshot: LazySnapshot;
  readonly database: Database;
  readonly load: Loaders;
  readonly brought: BroughtRows;
  /** Executions that began, and those that have not ended. */
  members: number;
  running: number;
}

const rounds = new WeakMap<Database, Round>();

function executeInSnapshot(context: Context, execute: Execute): Awaitable<ExecutionResult> {
  const { database } = context.services;
  const round = joinable(rounds.get(database)) ?? createRound(database);
  rounds.set(database, round);
  const take = (result: ExecutionResult): Awaitable<ExecutionResult> =>
    result.errors && round.members > 1 ? executeIn(createRound(database), context, execute) : result;
  const result = executeIn(round, context, execute);
  return result instanceof Promise ? result.then(take) : take(result);
}

function joinable(round: Round | undefined): Round | undefined {
  return round && round.running > 0 && !round.snapshot.isOpen() ? round : undefined;
}

function createRound(services: Database): Round {
  const snapshot = services.lazySnapshot();
  const database = { ...services, reader: snapshot.reader };
  const load = lazily(() => createLoaders(database));
  const brought: BroughtRows = {
    node: async (row) => (await load.node.load(row.id)) ?? row,
    operation: async (row) => (await load.operation.load(row.id)) ?? row,
    run: async (row) => (await load.run.load(row.id)) ?? row,
    cluster: async (row) => (await load.cluster.load(row.id)) ?? row,
  };
  return { snapshot, database, load, brought, members: 0, running: 0 };
}

function executeIn(round: Round, context: Context, execute: Execute): Awaitable<ExecutionResult> {
  const { database, load, brought } = round;
  round.members += 1;
  const leave = enter(round);
  let result: Awaitable<ExecutionResult> | undefined;
  try {
    result = execute({ ...context, services: { ...context.services, database }, load, brought });
  } finally {
    if (!(result instanceof Promise)) leave();
  }
  return result instanceof Promise ? result.finally(leave) : result;
}

/** Keeps the snapshot of a round until the returned function is called. */
function enter(round: Round): () => void {
  round.running += 1;
  return () => {
    round.running -= 1;
    if (round.running === 0) round.snapshot.close();
  };
}
