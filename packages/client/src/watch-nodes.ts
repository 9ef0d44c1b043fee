/**
 * Watches nodes: a snapshot, then every change of the selected fields and of all others, in order, over any loss of the
 * connection. A reader that is slow receives the newest state of a node, not each one between: what waits for it has at
 * most one item for each node.
 */
import type { Connection } from "./connection.ts";
import { nodesDocument, readSubscription } from "./documents.ts";
import type { NodesItem, NodesVariables, OwnFields, TypedDocument } from "./documents.ts";
import type { WatchError } from "./errors.ts";
import { openStream } from "./stream.ts";

/**
 * Why a new snapshot follows: the watch starts; the cursor was too old or belongs to another log; or the connection was
 * lost before the snapshot was complete.
 */
export type BeginReason = "START" | "CURSOR_EXPIRED" | "SNAPSHOT_BROKEN";

export type WatchItem<Row> =
  /** A snapshot follows: discard all known nodes. */
  | { readonly kind: "begin"; readonly reason: BeginReason }
  /**
   * Put the node. `changed`: the fields that changed; null if the node is new to you. `cursor`: null in a snapshot,
   * because a watch cannot resume there.
   */
  | {
      readonly kind: "node";
      readonly node: Row & OwnFields;
      readonly changed: readonly string[] | null;
      readonly cursor: string | null;
    }
  /** Remove the node, if you have it: it no longer matches the filter, or was deleted. */
  | {
      readonly kind: "left";
      readonly id: string;
      readonly name: string;
      readonly deleted: boolean;
      readonly cursor: string | null;
    }
  /** The snapshot is complete, as of the cursor. */
  | { readonly kind: "complete"; readonly cursor: string }
  /** Everything up to the cursor was delivered. `live`: including all that had happened before the stream began. */
  | { readonly kind: "bookmark"; readonly cursor: string; readonly live: boolean };

export interface WatchOptions extends NodesVariables {
  /** Resumes after this cursor of an earlier watch, without a snapshot. */
  readonly after?: string | undefined;
  /** Ends the iteration. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Iterates over items until the loop is left or the signal fires; both end it immediately. Throws a `WatchError` if the
 * service rejects this client or this request.
 */
export function watchNodes<Row>(
  connection: Connection,
  fragment: TypedDocument<Row, never>,
  options: WatchOptions = {},
): AsyncIterableIterator<WatchItem<Row>> {
  const stop = new AbortController();
  const { query } = readSubscription(nodesDocument(fragment));
  const signal = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
  const items = read<Row>(connection, query, { ...options, signal });
  return {
    next: () => items.next(),
    // A waiting generator would not process `return` before its next item.
    return() {
      stop.abort();
      return items.return(undefined);
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

async function* read<Row>(
  connection: Connection,
  query: string,
  { filter = null, after, signal }: WatchOptions & { readonly signal: AbortSignal },
): AsyncGenerator<WatchItem<Row>, undefined> {
  if (signal.aborted) return;
  const fold = createFold<Row>(after ?? null);
  let error: WatchError | null = null;
  let wakeUp = () => {};
  const wake = () => wakeUp();
  const close = openStream(connection, query, {
    begin: () => ({ filter, ...fold.begin() }),
    take(item) {
      fold.take(item);
      wake();
    },
    lost() {},
    failed(cause) {
      error = cause;
      wake();
    },
  });
  signal.addEventListener("abort", wake);
  try {
    for (;;) {
      const items = fold.takeAll();
      for (const item of items) {
        yield item;
        if (signal.aborted) return;
      }
      if (items.length > 0) continue;
      if (error) throw error;
      await new Promise<void>((resolve) => (wakeUp = resolve));
      if (signal.aborted) return;
    }
  } finally {
    signal.removeEventListener("abort", wake);
    close();
  }
}

/** The position of a watch, and the items that wait for the reader. Pure: no clock, no connection. */
interface Fold<Row> {
  /** Arguments of the next subscription. */
  begin(): { readonly after: string | null; readonly snapshot: boolean };
  take(item: NodesItem<Row>): void;
  /** Removes and returns what waits. */
  takeAll(): readonly WatchItem<Row>[];
}

function createFold<Row>(after: string | null): Fold<Row> {
  /** Null until the snapshot is complete. */
  let cursor = after;
  let reason: BeginReason = "START";
  /** By node; those of a snapshot come before its end, so they have keys of their own. */
  let waiting = new Map<string, WatchItem<Row>>();

  /** An item in place of one that waits comes last, so that everything up to a cursor was delivered. */
  function put(key: string, item: WatchItem<Row>): void {
    waiting.delete(key);
    waiting.set(key, item);
  }

  function keyOf(id: string): string {
    return cursor === null ? `snapshot ${id}` : id;
  }

  function mark({
    cursor: reached,
    snapshotComplete,
    caughtUp,
  }: Extract<NodesItem<Row>, { snapshotComplete: boolean }>) {
    if (cursor === null && !snapshotComplete) return;
    cursor = reached;
    if (snapshotComplete) put("complete", { kind: "complete", cursor });
    const before = waiting.get("bookmark");
    put("bookmark", { kind: "bookmark", cursor, live: caughtUp || (before?.kind === "bookmark" && before.live) });
  }

  return {
    begin() {
      if (cursor !== null) return { after: cursor, snapshot: false };
      waiting = new Map([["begin", { kind: "begin", reason }]]);
      return { after: null, snapshot: true };
    },
    take(item) {
      // The cursor of a reset may be beyond changes that did not arrive.
      if (cursor !== null && item.__typename !== "StreamReset") ({ cursor } = item);
      switch (item.__typename) {
        case "NodeUpserted": {
          reason = "SNAPSHOT_BROKEN";
          const { node, changed } = item;
          const key = keyOf(node.id);
          put(key, { kind: "node", node, changed: changedSince(waiting.get(key), changed), cursor });
          return;
        }
        case "NodeLeft": {
          const { id, name, deleted } = item;
          put(keyOf(id), { kind: "left", id, name, deleted, cursor });
          return;
        }
        case "StreamBookmark":
          mark(item);
          return;
        case "StreamReset":
          if (item.code !== "CURSOR_EXPIRED") return;
          cursor = null;
          reason = "CURSOR_EXPIRED";
      }
    },
    takeAll() {
      const items = [...waiting.values()];
      waiting = new Map();
      return items;
    },
  };
}

/** The changes since before an item that the reader did not receive. */
function changedSince(
  unread: WatchItem<unknown> | undefined,
  changed: readonly string[] | null,
): readonly string[] | null {
  if (!unread) return changed;
  if (changed === null || unread.kind !== "node" || unread.changed === null) return null;
  return [...new Set([...unread.changed, ...changed])];
}
