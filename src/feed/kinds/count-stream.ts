/**
 * Streams of counts of nodes: the present counts first, then the counts whenever they have changed. Like the stream of
 * an operation it sends states, so a client that reconnects needs no cursor.
 *
 * A count reads all matching nodes, so the counts of a process share their time: streams of equal counts share each
 * read, one count is read at a time, and reads take at most a tenth of the time. Each count is read at most once a
 * second. Nothing else is asked before a read, because no notification covers all fields of nodes.
 */
import type { Database } from "../../store/postgres/database.ts";
import { nodeGroups } from "../../store/nodes/node-counts.ts";
import type { NodeGroups, NodeGroupsRequest } from "../../store/nodes/node-counts.ts";
import { pulled } from "../pull.ts";
import type { Tail } from "../log/tail.ts";

export interface CountUpdate extends NodeGroups {
  readonly by: NodeGroupsRequest["by"];
  /** Equal for updates that look the same. */
  readonly key: string;
}

/** A count that streams wait for. */
interface SharedCount {
  readonly id: number;
  readonly request: NodeGroupsRequest;
  readonly listeners: Set<() => void>;
  /** By the monotonic clock. */
  readAt: number;
  update: CountUpdate | null;
  /** The counts of the update as text. */
  text: string;
  /** Number of updates so far. */
  version: number;
  /** Ends the streams; a later one starts again. */
  error: unknown;
}

const EVERY_MS = 1_000;
/** Reads are followed by a pause of this many times their duration. */
const PAUSE_FACTOR = 9;
/** Longest wait of a stream without a look. */
const LOOK_MS = 10_000;

class SharedCounts {
  readonly #database: Database;
  readonly #counts = new Map<string, SharedCount>();
  #isRunning = false;
  #made = 0;
  #wake = () => {};

  constructor(database: Database) {
    this.#database = database;
  }

  /** Joins the streams of equal counts. */
  join(request: NodeGroupsRequest, listener: () => void): { readonly count: SharedCount; leave(): void } {
    const key = keyOf(request);
    const count = this.#counts.get(key) ?? {
      id: (this.#made += 1),
      request,
      listeners: new Set(),
      readAt: -Infinity,
      update: null,
      text: "",
      version: 0,
      error: null,
    };
    this.#counts.set(key, count);
    count.listeners.add(listener);
    if (this.#isRunning) this.#wake();
    else void this.#run();
    const leave = () => {
      count.listeners.delete(listener);
      if (count.listeners.size === 0) this.#drop(count);
    };
    return { count, leave };
  }

  /** Reads the count that was read longest ago, again and again, as long as there are streams. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#counts.size > 0) {
      const [oldest] = [...this.#counts.values()].toSorted((a, b) => a.readAt - b.readAt);
      const early = oldest ? EVERY_MS - (performance.now() - oldest.readAt) : 0;
      if (!oldest || early > 0) {
        // A stream with another count ends the pause.
        await pause(early, (wake) => (this.#wake = wake));
        continue;
      }
      const startedAt = performance.now();
      oldest.readAt = startedAt;
      // A read that failed ended the streams of its count. Later ones must not wait for as long as it took.
      if (await this.#read(oldest)) await pause(PAUSE_FACTOR * (performance.now() - startedAt));
    }
    this.#isRunning = false;
  }

  #drop(count: SharedCount): void {
    const key = keyOf(count.request);
    if (this.#counts.get(key) === count) this.#counts.delete(key);
  }

  /** False if the count could not be read. */
  async #read(count: SharedCount): Promise<boolean> {
    try {
      const groups = await nodeGroups(this.#database.reader, count.request);
      const text = JSON.stringify({ ...groups, cursor: null });
      if (count.update && text === count.text) return true;
      count.text = text;
      count.version += 1;
      count.update = { ...groups, by: count.request.by, key: `${count.id}.${count.version}` };
    } catch (error) {
      count.error = error;
      this.#drop(count);
    }
    for (const listener of count.listeners) listener();
    return count.error === null;
  }
}

function keyOf(request: NodeGroupsRequest): string {
  return JSON.stringify(request);
}

function pause(milliseconds: number, onWake?: (wake: () => void) => void): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds).unref();
    onWake?.(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}

const countsOf = new WeakMap<Database, SharedCounts>();

export function countStream(
  { database, tail }: { readonly database: Database; readonly tail: Pick<Tail, "closed" | "onAdvance"> },
  request: NodeGroupsRequest,
): AsyncIterableIterator<CountUpdate> {
  const shared = countsOf.get(database) ?? new SharedCounts(database);
  countsOf.set(database, shared);
  let sent: CountUpdate | null = null;
  let wake = () => {};
  const { count, leave } = shared.join(request, () => wake());
  return pulled({
    onChange(listener) {
      wake = listener;
      // The end of the tail ends the stream.
      const unsubscribe = tail.onAdvance(() => tail.closed && listener());
      return () => {
        wake = () => {};
        unsubscribe();
      };
    },
    produce() {
      if (tail.closed) return [];
      if (count.error !== null) throw count.error;
      return count.update && count.update !== sent ? [(sent = count.update)] : { pauseMs: LOOK_MS };
    },
    release: leave,
  });
}
