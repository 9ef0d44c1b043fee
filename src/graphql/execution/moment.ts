/**
 * All that an execution reads is of one moment: that of a snapshot of the database, which the first statement opens.
 *
 * A query has a moment of its own, and so has the payload of each root field of a mutation. Events share one: an
 * execution joins the newest moment until its first statement is sent. This statement waits while the moment before is
 * in use, but for `GATHERED_MS` at most, so that thousands of executions share a few moments, and their batches.
 *
 * Rows that an event has brought are of an earlier moment. If an execution takes one and reads, its result is
 * discarded; events of its operation read such rows again from then on. An execution that ends at once has read
 * nothing, and is of the moment of its event.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { ExecutionResult, OperationDefinitionNode } from "graphql";
import { whenReady } from "../../runtime/awaitable.ts";
import type { Awaitable } from "../../runtime/awaitable.ts";
import { lazily } from "../base/batching.ts";
import type { Schedule } from "../base/batching.ts";
import type { BroughtRow, Context, Services } from "../base/context.ts";
import { createLoaders } from "../base/loaders.ts";
import type { Loaders, RowLoaders } from "../base/loaders.ts";

/** Parts of a context whose reads are of one moment. */
export interface Moment {
  readonly bound: { readonly services: Services; readonly load: Loaders };
  /** Whether a statement was sent. */
  isOpen(): boolean;
  close(): void;
}

export function createMoment(services: Services, schedule?: Schedule): Moment {
  const { reader, isOpen, close } = services.database.lazySnapshot();
  const database = { ...services.database, reader };
  const load = lazily(() => createLoaders(database, schedule));
  return { bound: { services: { ...services, database }, load }, isOpen, close };
}

/** Maximum time for which the first statement of a moment waits, in milliseconds. */
const GATHERED_MS = 20;

/** A moment of the executions of events. */
interface SharedMoment extends Moment {
  /** Executions that began, and those that have not ended. */
  members: number;
  running: number;
  readonly over: PromiseWithResolvers<void>;
}

/** The newest moment of all events. */
const newest = new WeakMap<Services, SharedMoment>();

function newestMoment(services: Services): SharedMoment {
  const known = newest.get(services);
  if (known && !known.isOpen()) return known;
  const before = known && Promise.race([known.over.promise, delay(GATHERED_MS, undefined, { ref: false })]);
  const made = createSharedMoment(services, before && ((send) => void before.then(() => process.nextTick(send))));
  newest.set(services, made);
  return made;
}

function createSharedMoment(services: Services, schedule?: Schedule): SharedMoment {
  return { ...createMoment(services, schedule), members: 0, running: 0, over: Promise.withResolvers<void>() };
}

function enter(moment: SharedMoment): () => void {
  moment.members += 1;
  moment.running += 1;
  return () => {
    moment.running -= 1;
    if (moment.running > 0 || !moment.isOpen()) return;
    moment.close();
    moment.over.resolve();
  };
}

type Execute = (context: Context) => Awaitable<ExecutionResult>;

/** Operations whose events read the rows again that they have brought. */
const rereading = new WeakSet<OperationDefinitionNode>();

/** Executes an event. */
export function executeAtOneMoment(
  operation: OperationDefinitionNode,
  context: Context,
  execute: Execute,
): Awaitable<ExecutionResult> {
  const { services } = context;
  const tryIn = (moment: SharedMoment): Awaitable<ExecutionResult> =>
    whenReady(executeIn(moment, operation, context, execute), (result) => {
      if (!result) return tryIn(newestMoment(services));
      // Another execution may have failed the snapshot.
      return result.errors && moment.members > 1 ? tryIn(createSharedMoment(services)) : result;
    });
  return tryIn(newestMoment(services));
}

/**
 * Executes events together, in their order, and returns the results of the first ones: those before the first event
 * that failed, or has to be executed again. What they read is of one moment, and is read in one statement for all.
 */
export async function executeTogether(
  operation: OperationDefinitionNode,
  context: Context,
  executions: readonly Execute[],
): Promise<readonly ExecutionResult[]> {
  const moment = newestMoment(context.services);
  const results = await Promise.all(executions.map(async (execute) => executeIn(moment, operation, context, execute)));
  const end = results.findIndex((result) => !result || result.errors !== undefined);
  return results.slice(0, end === -1 ? results.length : end).filter((result) => result !== null);
}

/** The result, or null if the execution is not of one moment. */
function executeIn(
  moment: SharedMoment,
  operation: OperationDefinitionNode,
  context: Context,
  execute: Execute,
): Awaitable<ExecutionResult | null> {
  let isTaken = false;
  const rows: RowLoaders = moment.bound.load;
  const brought: BroughtRow = rereading.has(operation)
    ? async (kind, row) => (await rows[kind].load(row.id)) ?? row
    : (_kind, row) => {
        isTaken = true;
        return row;
      };
  const leave = enter(moment);
  let result: Awaitable<ExecutionResult> | undefined;
  try {
    result = execute({ ...context, ...moment.bound, brought });
  } finally {
    if (!(result instanceof Promise)) leave();
  }
  if (!(result instanceof Promise)) return result;
  return result.finally(leave).then((read) => {
    if (!isTaken) return read;
    rereading.add(operation);
    return null;
  });
}
