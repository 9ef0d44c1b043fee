/**
 * The log and its streams without server and engine, and writers that fill the log as fast as the database takes it.
 */
import { clusterChanges } from "../../src/feed/kinds/cluster-changes.ts";
import type { ClusterChangesRequest } from "../../src/feed/kinds/cluster-changes.ts";
import { nodeChanges } from "../../src/feed/kinds/node-changes.ts";
import type { NodeChangeItem, NodeChangesRequest } from "../../src/feed/kinds/node-changes.ts";
import { operationChanges } from "../../src/feed/kinds/operation-changes.ts";
import type { OperationChangeItem, OperationChangesRequest } from "../../src/feed/kinds/operation-changes.ts";
import { runChanges } from "../../src/feed/kinds/run-changes.ts";
import type { RunChangesRequest } from "../../src/feed/kinds/run-changes.ts";
import type { ChangeStream, FeedParts } from "../../src/feed/change-stream.ts";
import type { ChangeTail } from "../../src/feed/log/change-tail.ts";
import type { ClusterChangeField, RunChangeField } from "../../src/store/log/change-fields.ts";
import type { ClusterRow } from "../../src/store/nodes/clusters.ts";
import type { RunRow } from "../../src/store/runs/runs.ts";
import { createTail } from "../../src/feed/log/tail.ts";
import type { Tail } from "../../src/feed/log/tail.ts";
import type { Head } from "../../src/feed/log/paced-head.ts";
import { nodeStream } from "../../src/feed/kinds/node-stream.ts";
import type { NodeStreamItem, NodeStreamRequest } from "../../src/feed/kinds/node-stream.ts";
import { move } from "./moves.ts";
import { createLog } from "../../src/log.ts";
import { createNotifier } from "../../src/store/postgres/notifier.ts";
import { transitionsAfter } from "../../src/store/log/transitions.ts";
import type { TransitionRow } from "../../src/store/log/transitions.ts";
import { engineUnderTest } from "./builders.ts";
import type { EngineUnderTest, TestNode } from "./builders.ts";

/** An item, with the position of its cursor in place of the cursor. */
export type SeenItem = { readonly position: number } & DistributiveOmit<NodeStreamItem, "cursor">;
type DistributiveOmit<Item, Key extends keyof Item> = Item extends unknown ? Omit<Item, Key> : never;

/** `after`: a position. */
type Request = Partial<Omit<NodeStreamRequest, "after">> & { readonly after?: number };

export interface FeedUnderTest extends AsyncDisposable {
  readonly ostler: EngineUnderTest;
  readonly tail: Tail;
  /** How many listen to the tail at this moment. */
  readonly listeners: number;
  /** As a replica does after a commit, for what the test writes itself: both tails look at once, not once a second. */
  notify(): void;
  stream(request?: Request): AsyncIterableIterator<SeenItem>;
  /** The stream of changes. `elsewhere`: of a second process. */
  changes(request: NodeChangesRequest, elsewhere?: boolean): AsyncIterableIterator<NodeChangeItem>;
  operationChanges(request: OperationChangesRequest, elsewhere?: boolean): AsyncIterableIterator<OperationChangeItem>;
  runChanges(request: RunChangesRequest, elsewhere?: boolean): ChangeStream<RunRow, RunChangeField>;
  clusterChanges(request: ClusterChangesRequest, elsewhere?: boolean): ChangeStream<ClusterRow, ClusterChangeField>;
  /** A stream of a process that has just come: its ring is empty. */
  streamElsewhere(request?: Request): Promise<AsyncIterableIterator<SeenItem>>;
  /**
   * Takes AVAILABLE nodes round: manage, clean, done. Each round writes three transitions a node, in three
   * transactions.
   */
  goRound(nodes: readonly TestNode[], rounds?: number): Promise<void>;
  /** The whole log as it is in the database. */
  log(): Promise<TransitionRow[]>;
}

const ROUND = [
  ["AVAILABLE", "manage"],
  ["MANAGEABLE", "clean"],
  ["CLEANING", "done"],
] as const;

export async function feedUnderTest(): Promise<FeedUnderTest> {
  const owned = new AsyncDisposableStack();
  const ostler = owned.use(await engineUnderTest({ started: false }));
  const { database, transact } = ostler;
  const notifier = owned.use(await createNotifier(database, () => {}));
  const tailHere = async () => owned.use(await createTail({ database, notifier, log: createLog("silent") }));
  const tail = await tailHere();
  const second = await tailHere();
  const counted = countListeners(tail);
  const partsOf = (elsewhere = false): FeedParts => ({ database, tail: elsewhere ? second : tail });
  return {
    ostler,
    tail: counted.tail,
    get listeners() {
      return counted.listeners();
    },
    notify: () => notifier.notify(),
    stream: (request) => seen(nodeStream({ database, tail: counted.tail }, requestOf(request))),
    changes: (request, elsewhere) => nodeChanges(partsOf(elsewhere), request),
    operationChanges: (request, elsewhere) => operationChanges(partsOf(elsewhere), request),
    runChanges: (request, elsewhere) => runChanges(partsOf(elsewhere), request),
    clusterChanges: (request, elsewhere) => clusterChanges(partsOf(elsewhere), request),
    streamElsewhere: async (request) => seen(nodeStream({ database, tail: await tailHere() }, requestOf(request))),
    async goRound(nodes, rounds = 1) {
      const ids = nodes.map(({ id }) => id);
      for (let round = 0; round < rounds; round += 1) {
        for (const [from, event] of ROUND)
          await transact(async (work) => void (await move(work, ids, { from, event }, { actor: "writer" })));
      }
    },
    log: () => transitionsAfter(database.reader, { after: 0, limit: 1_000_000 }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The same tail, and how many listen to it: none may be left behind by a stream that has ended. */
export function countListeners(tail: Tail): {
  readonly tail: Tail;
  /** Of the log of transitions. */
  listeners(): number;
  /** Of the log of changes. */
  changeListeners(): number;
} {
  const [transitions, changes] = [createListenerCount(), createListenerCount()];
  const countedHead = <Of extends Head>(head: Of): Of => {
    const onAdvance = changes.counting((listener) => head.onAdvance(listener));
    return new Proxy(head, { get: (of, name) => (name === "onAdvance" ? onAdvance : Reflect.get(of, name)) });
  };
  const countedChanges: ChangeTail = {
    ...tail.changes,
    live: countedHead(tail.changes.live),
    paced: countedHead(tail.changes.paced),
  };
  return {
    tail: new Proxy(tail, {
      get(of, name) {
        if (name === "changes") return countedChanges;
        return name === "onAdvance" || name === "onWrite" ? transitions.counting(of[name]) : Reflect.get(of, name);
      },
    }),
    listeners: transitions.count,
    changeListeners: changes.count,
  };
}

function createListenerCount() {
  let count = 0;
  return {
    count: () => count,
    counting:
      (listen: Tail["onAdvance"]): Tail["onAdvance"] =>
      (listener) => {
        const leave = listen(listener);
        let here = 1;
        count += 1;
        return () => {
          count -= here;
          here = 0;
          leave();
        };
      },
  };
}

function requestOf({ after, ...more }: Request = {}): NodeStreamRequest {
  return { snapshot: false, ...more, ...(after !== undefined && { after: { position: after, at: null } }) };
}

function seen(stream: AsyncIterableIterator<NodeStreamItem>): AsyncIterableIterator<SeenItem> {
  const shown = ({ done, value }: IteratorResult<NodeStreamItem>): IteratorResult<SeenItem> => {
    if (done) return { done, value };
    const { cursor, ...item } = value;
    return { value: { position: cursor.position, ...item } };
  };
  return {
    next: async () => shown(await stream.next()),
    return: async () => shown((await stream.return?.()) ?? { done: true, value: undefined }),
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

export const positionsOf = (items: readonly SeenItem[]): number[] =>
  items.flatMap((item) => (item.kind === "transition" ? [item.position] : []));

/** The whole numbers from one to another, both included. */
export const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index);
