/** The current state of all watched nodes, maintained from the items of `watchNodes`. */
import type { NodeFields, WatchItem, WatchedNode } from "./items.ts";

export interface NodeMap<Fields> {
  /**
   * Nodes by UUID, as of `cursor`. A map that was read never changes: after the next change there is a new one, made at
   * the first read. During a new snapshot it keeps the old nodes, so readers never see half a snapshot. Exact without a
   * filter and with a filter by `ids` only. With other filters the stream does not report nodes that stop matching or
   * are deleted; they remain until the next snapshot. Between snapshots a node never returns to an older revision, also
   * not after a reconnection.
   */
  readonly nodes: ReadonlyMap<string, WatchedNode<Fields>>;
  /** Increases with each change of `nodes`. */
  readonly version: number;
  /** null until the first snapshot is complete. */
  readonly cursor: string | null;
  /** Must be called with each item, in order. */
  apply(item: WatchItem<Fields>): void;
  /** Calls the listener after each change of `nodes`, until the returned function is called. */
  subscribe(listener: () => void): () => void;
}

export function createNodeMap<Fields = NodeFields>(): NodeMap<Fields> {
  let current = new Map<string, WatchedNode<Fields>>();
  let incoming = new Map<string, WatchedNode<Fields>>();
  /** The copy of `current` for readers; null after a change. */
  let shown: ReadonlyMap<string, WatchedNode<Fields>> | null = null;
  let cursor: string | null = null;
  let version = 0;
  const listeners = new Set<() => void>();

  /** Applies an item; whether the nodes changed. */
  function change(item: WatchItem<Fields>): boolean {
    switch (item.kind) {
      case "begin":
        incoming = new Map();
        return false;
      case "node":
        incoming.set(item.node.uuid, item.node);
        return false;
      case "complete":
        current = incoming;
        return true;
      case "transition":
        if (item.transition.to === null) return current.delete(item.transition.nodeUuid);
        // null: the node is deleted; keep it until its deletion arrives.
        if (!item.node || isOlder(item.node, current.get(item.node.uuid))) return false;
        current.set(item.node.uuid, item.node);
        return true;
      case "bookmark":
        return false;
    }
  }

  return {
    get nodes() {
      shown ??= new Map(current);
      return shown;
    },
    get version() {
      return version;
    },
    get cursor() {
      return cursor;
    },
    apply(item) {
      const isChanged = change(item);
      if ("cursor" in item) cursor = item.cursor;
      if (!isChanged) return;
      shown = null;
      version += 1;
      for (const listener of listeners) listener();
    },
    subscribe(listener) {
      // A wrapper of its own: the same function may subscribe twice.
      const own = () => listener();
      listeners.add(own);
      return () => void listeners.delete(own);
    },
  };
}

function isOlder(node: WatchedNode<unknown>, known: WatchedNode<unknown> | undefined): boolean {
  return known !== undefined && node.revision < known.revision;
}
