/**
 * The watched nodes as a store for user interfaces: a view that never changes, and listeners that are called when there
 * is another one. It watches from the first subscriber until the last one has left; the next one starts a new watch.
 */
import type { NodeFields, WatchedNode } from "./items.ts";
import { createNodeMap } from "./node-map.ts";
import { watchNodes } from "./watch-nodes.ts";
import type { WatchOptions } from "./watch-nodes.ts";

export interface NodeStoreOptions extends Omit<WatchOptions, "after" | "signal"> {
  /** Minimum time between two views, in milliseconds. Default: 250. */
  readonly throttleMs?: number | undefined;
}

/** The nodes at one moment. */
export interface NodesView<Fields = NodeFields> {
  /** Nodes by UUID, as `NodeMap.nodes`. Empty until the first snapshot is complete. */
  readonly nodes: ReadonlyMap<string, WatchedNode<Fields>>;
  /** Increases with each change of `nodes`. */
  readonly version: number;
  /** Whether the watch has caught up with the service. False after a connection loss; `nodes` then stays as it was. */
  readonly isLive: boolean;
  /** null until the first snapshot is complete. */
  readonly cursor: string | null;
  /** Why the watch has ended; null while it continues. The watch continues after a connection loss. */
  readonly error: Error | null;
}

export interface NodeStore<Fields = NodeFields> {
  /** The newest view; the same object until there is another one. */
  getSnapshot(): NodesView<Fields>;
  /** Calls the listener for each further view, until the returned function is called. */
  subscribe(listener: () => void): () => void;
}

const THROTTLE_MS = 250;

export function createNodeStore<Fields = NodeFields>(options: NodeStoreOptions): NodeStore<Fields> {
  const { throttleMs = THROTTLE_MS, ...watchOptions } = options;
  const map = createNodeMap<Fields>();
  const listeners = new Set<() => void>();
  let watch: AbortController | null = null;
  let isLive = false;
  let error: Error | null = null;
  let view = look();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let publishedAt = -Infinity;

  function look(): NodesView<Fields> {
    return { nodes: map.nodes, version: map.version, isLive, cursor: map.cursor, error };
  }

  function publish(): void {
    timer = undefined;
    publishedAt = performance.now();
    view = look();
    for (const listener of listeners) listener();
  }

  function changed(): void {
    if (timer !== undefined) return;
    const waitMs = publishedAt + throttleMs - performance.now();
    if (waitMs > 0) timer = setTimeout(publish, waitMs);
    else publish();
  }

  async function follow(signal: AbortSignal): Promise<void> {
    // React's strict mode subscribes, unsubscribes and subscribes at once; only the last one connects.
    await Promise.resolve();
    try {
      for await (const item of watchNodes<Fields>({ ...watchOptions, signal, onBreak })) {
        if (signal.aborted) return;
        map.apply(item);
        if (item.kind === "bookmark" && item.live) isLive = true;
        if ("cursor" in item) changed();
      }
    } catch (cause) {
      if (signal.aborted) return;
      error = cause instanceof Error ? cause : new Error(String(cause));
      isLive = false;
      changed();
    }
  }

  const onBreak: WatchOptions["onBreak"] = (broken) => {
    isLive = false;
    changed();
    options.onBreak?.(broken);
  };

  function start(): void {
    error = null;
    watch = new AbortController();
    void follow(watch.signal);
  }

  function stop(): void {
    watch?.abort();
    clearTimeout(timer);
    timer = undefined;
    isLive = false;
    view = look();
  }

  return {
    getSnapshot: () => view,
    subscribe(listener) {
      const own = () => listener();
      listeners.add(own);
      if (listeners.size === 1) start();
      return () => {
        if (listeners.delete(own) && listeners.size === 0) stop();
      };
    },
  };
}
