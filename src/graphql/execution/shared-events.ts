/**
 * A Yoga plugin that executes an event once for all subscribers with the same request, and makes its JSON text once.
 * Yoga executes a subscription's document per subscriber and event; for 5,000 subscribers that is most of a process's
 * CPU time.
 *
 * A field takes part by an extension `eventKey`, which is equal for events that look the same; events of other fields
 * are executed for each subscriber. Subscribers are in one group if document, operation and caller are the same, and so
 * are the variables below the root field: variables in its arguments, such as a cursor or a filter, only select events.
 * The first subscriber of a group that reaches an event executes it; others that reach it within `FRESH_MS` get its
 * result with its text (`stringify`). Later the event is executed again.
 *
 * A subscriber never goes back in time: it shares a result only if it subscribed before that execution began and has
 * not received a later one. Otherwise it executes the event again, and later subscribers share that result. So a client
 * sees its own earlier writes, and no node goes back within a stream. Subscribers that arrive together still share,
 * because all of them arrive before the first result.
 *
 * All reads of an execution see one moment (moment.ts). An execution is paid for from the budget of the
 * subscriber's connection (event-budget.ts); a shared result is free.
 *
 * A stream has one access from its start to its end: it ends early when that of its caller is another one.
 *
 * Every subscriber reads its own source at its own pace, without a queue here. Plugins after this one do not see these
 * streams, so errors are masked here, and open streams are counted here.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { createSourceEventStream, executeSubscriptionEvent, validateSubscriptionArgs } from "graphql";
import type { ExecutionResult, GraphQLError } from "graphql";
import type { Plugin } from "graphql-yoga";
import type { Observer } from "../../observer.ts";
import { whenReady } from "../../runtime/awaitable.ts";
import type { Context } from "../base/context.ts";
import { executeAtOneMoment, executeTogether } from "./moment.ts";
import { createEventBudget } from "./event-budget.ts";
import type { EventBudget } from "./event-budget.ts";
import { EventResults } from "./event-results.ts";
import { eventKeyOf, scopeOf } from "./event-scope.ts";
import { transportOf } from "./instrumentation.ts";
import { SharedExecutions } from "./shared-executions.ts";
import type { Group, Reader } from "./shared-executions.ts";

/**
 * Arguments that others add: the cost of one execution (guards.ts), and the budget of a socket (socket-protocol.ts).
 */
interface Costed {
  readonly eventCost?: number;
  readonly contextValue: { readonly budget?: EventBudget };
}

/** Makes an error visible to the caller. */
type Mask = (error: unknown) => GraphQLError;

/** Groups of subscribers with the same request. */
class Groups {
  readonly #groups = new Map<string, Group>();
  #made = 0;

  /** Adds a subscriber to its group; `leave` returns false if it has left before. */
  join(key: string): { readonly group: Group; readonly leave: () => boolean } {
    const group = this.#groups.get(key) ?? { id: (this.#made += 1), members: 0 };
    this.#groups.set(key, group);
    group.members += 1;
    let isMember = true;
    const leave = () => {
      if (!isMember) return false;
      isMember = false;
      group.members -= 1;
      if (group.members === 0) this.#groups.delete(key);
      return true;
    };
    return { group, leave };
  }
}

export function shareEvents(mask: Mask, observer?: Observer): Plugin<Context> {
  const groups = new Groups();
  const executions = new SharedExecutions();

  return {
    async onSubscribe({ args: given, setResultAndStopExecution }) {
      const args = validateSubscriptionArgs(given);
      if (!("schema" in args)) return;
      const eventKey = eventKeyOf(args) ?? (() => null);
      const scope = scopeOf(args, given.contextValue.actor);
      const knows = executions.count;
      // A change of the log calls the stream outside of its request.
      const inRequest = AsyncLocalStorage.snapshot();
      const maskInRequest: Mask = (error) => inRequest(mask, error);
      const source = await createSourceEventStream(args);
      if (!(Symbol.asyncIterator in source)) return setResultAndStopExecution(masked(source, mask));
      const { group, leave } = groups.join(scope ?? `alone ${randomUUID()}`);
      const transport = transportOf(given.contextValue);
      observer?.streamOpened(transport);
      const reader: Reader = { group, knows, moment: null };
      const {
        eventCost = 0,
        contextValue: { budget = createEventBudget() },
      } = given as Costed;
      const executionOf = (event: unknown) => (contextValue: Context) =>
        executeSubscriptionEvent({ ...args, contextValue, rootValue: event });
      const results = new EventResults(source[Symbol.asyncIterator](), {
        operation: args.operation,
        executions,
        reader,
        eventKey,
        budget,
        cost: eventCost,
        execute(event) {
          const executed = inRequest(executeAtOneMoment, args.operation, given.contextValue, executionOf(event));
          return whenReady(executed, (result) => masked(result, maskInRequest));
        },
        executePage: (events) =>
          inRequest(executeTogether, args.operation, given.contextValue, events.map(executionOf)),
        mask: maskInRequest,
        onEnd() {
          unwatch();
          if (leave()) observer?.streamEnded(transport);
        },
      });
      const { services, actor } = given.contextValue;
      const unwatch = services.access.watch(actor, () => results.endEarly());
      setResultAndStopExecution(results);
    },
  };
}

function masked(result: ExecutionResult, mask: Mask): ExecutionResult {
  return result.errors ? { ...result, errors: result.errors.map(mask) } : result;
}
