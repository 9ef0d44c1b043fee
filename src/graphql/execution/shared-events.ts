/**
 * A Yoga plugin: one execution and one text of an event for all subscribers that asked the same. Yoga executes a
 * subscription's document for each subscriber and event, which for 5,000 of them is most of what a process does.
 *
 * A field takes part by saying in its extensions what makes two of its events the same (`eventKey`). Subscribers are of
 * one group when document, operation and caller are the same, and the variables that are used below the root field:
 * those in its arguments, a cursor or a filter, only decide which events come. Whoever of the group comes to an event
 * first executes it; those who come to it within a moment get its result, which carries its text (`stringify`), ready
 * for server-sent events and for WebSocket. After that moment it is executed anew.
 *
 * Nobody is shown anything older than what he knows: a result is given only to subscribers who had subscribed before its
 * execution began, and to whom nothing is told yet that was executed later. Others execute the event anew, and theirs is
 * the one that is given from then on. So what a client wrote before it subscribed is in all it is told, and no node goes
 * back within a stream. Many who come at once share all the same, because they have all come before the first is told.
 *
 * Each subscriber still reads its own source at its own pace; nothing queues here. And nothing else stands between: plugins
 * after this one do not see these streams, so errors are masked here.
 */
import { createSourceEventStream, executeSubscriptionEvent, validateSubscriptionArgs, visit } from "graphql";
import type {
  ASTNode,
  ExecutionResult,
  FragmentDefinitionNode,
  GraphQLError,
  OperationDefinitionNode,
  SelectionSetNode,
  ValidatedSubscriptionArgs,
} from "graphql";
import type { Plugin } from "graphql-yoga";
import { ofSubscription } from "../base/context.ts";
import type { Context } from "../base/context.ts";

/** What tells two events of a field apart; null for an event that is one subscriber's own. */
export type EventKey<Event> = (event: Event) => string | null;

/** A result that has its text with it, as Yoga knows it. */
export interface ReadyResult extends ExecutionResult {
  stringify(result: ExecutionResult): string;
}

/** How long a result is given to others of the group: as long as it takes to tell thousands of one event. */
const FRESH_MS = 250;
/** Results held at a time, of all groups together, and characters of their texts. */
const HELD_MAX = 2_000;
const CHARACTERS_MAX = 16 * 1024 * 1024;

/** What an error looks like to the caller. */
type Mask = (error: unknown) => GraphQLError;

type Awaitable<Value> = Value | Promise<Value>;

interface Group {
  readonly id: number;
  members: number;
}

/** Executions are put in order by the count of all their beginnings and ends. */
interface Execution {
  readonly begun: number;
  /** In milliseconds of a clock that nobody sets. */
  readonly at: number;
  ended: number;
  /** null while it goes on, and for good when it is none for others. */
  result: ExecutionResult | null;
  /** Settles with it, if it takes a while; never rejects. */
  end: Promise<unknown> | null;
  characters: number;
}

/** One subscriber. */
interface Reader {
  readonly group: Group;
  /** Count as of which it knows the world: when it subscribed, and then the end of the last execution that it was told. */
  knows: number;
}

export function shareEvents(mask: Mask): Plugin<Context> {
  const groups = new Map<string, Group>();
  // In the order of their beginnings, oldest first.
  const held = new Map<string, Execution>();
  let characters = 0;
  let groupsMade = 0;
  let count = 0;

  function letGo(name: string): void {
    characters -= held.get(name)?.characters ?? 0;
    held.delete(name);
  }

  function forget(now: number): void {
    for (const [name, { at }] of held) {
      if (now - at <= FRESH_MS && held.size <= HELD_MAX && characters <= CHARACTERS_MAX) return;
      letGo(name);
    }
  }

  /** Executes an event for one subscriber, and under a name, if there is one, for those who come after it. */
  function execute(
    reader: Reader,
    name: string | null,
    work: () => Awaitable<ExecutionResult>,
  ): Awaitable<ExecutionResult> {
    const mine: Execution = {
      begun: (count += 1),
      at: performance.now(),
      ended: 0,
      result: null,
      end: null,
      characters: 0,
    };
    const isHeld = () => name !== null && held.get(name) === mine;
    const fail = (error: unknown): never => {
      if (name !== null && isHeld()) letGo(name);
      throw error;
    };
    const take = (result: ExecutionResult): ExecutionResult => {
      reader.knows = mine.ended = count += 1;
      if (name === null) return result;
      // Each is to have its own error: a passing fault hits one, and the request it names is its own.
      if (result.errors) {
        if (isHeld()) letGo(name);
        return result;
      }
      const { ready, length } = withText(result);
      if (isHeld()) characters += mine.characters = length;
      return (mine.result = ready);
    };
    if (name !== null) {
      letGo(name);
      held.set(name, mine);
    }
    try {
      const result = work();
      if (!(result instanceof Promise)) return take(result);
      const taken = result.then(take).catch(fail);
      mine.end = taken.catch(() => {});
      return taken;
    } catch (error) {
      return fail(error);
    }
  }

  /** The result of an event that others may be told too: theirs, if there is one that is new enough for this subscriber. */
  function resultFor(reader: Reader, key: string, work: () => Awaitable<ExecutionResult>): Awaitable<ExecutionResult> {
    forget(performance.now());
    const name = `${reader.group.id} ${key}`;
    const known = held.get(name);
    if (!known || known.begun <= reader.knows) return execute(reader, name, work);
    const given = (): Awaitable<ExecutionResult> => {
      if (!known.result) return execute(reader, null, work);
      reader.knows = known.ended;
      return known.result;
    };
    return known.end && !known.result ? known.end.then(given) : given();
  }

  /** Counts a subscriber into its group; answers how to leave it. */
  function join(key: string): { readonly group: Group; readonly leave: () => void } {
    const group = groups.get(key) ?? { id: (groupsMade += 1), members: 0 };
    groups.set(key, group);
    group.members += 1;
    let here = true;
    const leave = () => {
      if (!here) return;
      here = false;
      group.members -= 1;
      if (group.members === 0) groups.delete(key);
    };
    return { group, leave };
  }

  return {
    async onSubscribe({ args: given, setResultAndStopExecution }) {
      const args = validateSubscriptionArgs(given);
      if (!("schema" in args)) return;
      const eventKey = eventKeyOf(args);
      const scope = eventKey ? scopeOf(args, given.contextValue.actor) : null;
      if (!eventKey || scope === null) return;
      const knows = count;
      const source = await createSourceEventStream(args);
      if (!(Symbol.asyncIterator in source)) return setResultAndStopExecution(masked(source, mask));
      const { group, leave } = join(scope);
      const reader: Reader = { group, knows };
      const contextValue = ofSubscription(given.contextValue);
      const resultOf = (event: unknown) => {
        const work = () => {
          const executed = executeSubscriptionEvent({ ...args, contextValue, rootValue: event });
          return executed instanceof Promise ? executed.then((result) => masked(result, mask)) : masked(executed, mask);
        };
        const key = group.members > 1 ? eventKey(event) : null;
        return key === null ? execute(reader, null, work) : resultFor(reader, key, work);
      };
      setResultAndStopExecution(mapped(source[Symbol.asyncIterator](), { resultOf, leave, mask }));
    },
  };
}

function masked(result: ExecutionResult, mask: Mask): ExecutionResult {
  return result.errors ? { ...result, errors: result.errors.map(mask) } : result;
}

/** A result without errors with its text, which holds as long as nobody has added to it. */
function withText(result: ExecutionResult): { readonly ready: ReadyResult; readonly length: number } {
  const text = JSON.stringify(result);
  const { data } = result;
  const stringify = (given: ExecutionResult) =>
    given.data === data && given.errors === undefined && given.extensions === undefined ? text : JSON.stringify(given);
  return { ready: { ...result, stringify }, length: text.length };
}

/** Results of the events of a source, whose end, and whose reader's leaving, goes through at once. */
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
        // When it is the result that failed, the source would go on for ever.
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

const documents = new WeakMap<
  OperationDefinitionNode,
  { readonly id: number; readonly variables: readonly string[] }
>();
let documentsSeen = 0;

/** What all subscribers of a group have in common; null where that cannot be told. A variable that is absent is not null: defaults differ. */
function scopeOf(args: ValidatedSubscriptionArgs, actor: Context["actor"]): string | null {
  const { coerced } = args.variableValues;
  let known = documents.get(args.operation);
  if (!known) {
    known = { id: (documentsSeen += 1), variables: variablesBelowRoot(args.operation, args.fragmentDefinitions) };
    documents.set(args.operation, known);
  }
  try {
    return JSON.stringify([
      known.id,
      actor,
      known.variables.map((name) => (Object.hasOwn(coerced, name) ? [coerced[name]] : [])),
    ]);
  } catch {
    // A value that JSON has no form for.
    return null;
  }
}

/** Names of the variables that decide what an event looks like: all but those in arguments of the root field. */
export function variablesBelowRoot(
  operation: OperationDefinitionNode,
  fragments: Readonly<Record<string, FragmentDefinitionNode>>,
): readonly string[] {
  const names = new Set<string>();
  const seen = new Set<string>();
  const takeAll = (node: ASTNode): void => {
    visit(node, {
      Variable: ({ name }) => void names.add(name.value),
      FragmentSpread({ name }) {
        const fragment = fragments[name.value];
        if (fragment && !seen.has(name.value)) {
          seen.add(name.value);
          takeAll(fragment);
        }
      },
    });
  };
  const takeRoot = (set: SelectionSetNode): void => {
    for (const selection of set.selections) {
      selection.directives?.forEach(takeAll);
      if (selection.kind === "Field") {
        if (selection.selectionSet) takeAll(selection.selectionSet);
      } else {
        const inner =
          selection.kind === "InlineFragment" ? selection.selectionSet : fragments[selection.name.value]?.selectionSet;
        if (inner) takeRoot(inner);
      }
    }
  };
  takeRoot(operation.selectionSet);
  return [...names].toSorted();
}

/** What the root field of a subscription says of its events, if it takes part. */
function eventKeyOf({
  schema,
  operation,
  fragmentDefinitions,
}: ValidatedSubscriptionArgs): EventKey<unknown> | undefined {
  const name = rootField(operation.selectionSet, fragmentDefinitions);
  return schema.getSubscriptionType()?.getFields()[name ?? ""]?.extensions["eventKey"] as EventKey<unknown> | undefined;
}

/** The name of the one field that a subscription has at its root. */
function rootField(
  set: SelectionSetNode,
  fragments: Readonly<Record<string, FragmentDefinitionNode>>,
): string | undefined {
  for (const selection of set.selections) {
    if (selection.kind === "Field") return selection.name.value;
    const inner =
      selection.kind === "InlineFragment" ? selection.selectionSet : fragments[selection.name.value]?.selectionSet;
    const found = inner && rootField(inner, fragments);
    if (found !== undefined) return found;
  }
  return undefined;
}
