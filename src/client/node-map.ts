/** The current state of all watched nodes, maintained from the items of `watchNodes`. */
import type { NodeFields, WatchItem, WatchedNode } from "./items.ts";

export interface NodeMap<Fields> {
  /**
   * Nodes by UUID, as of `cursor`. During a new snapshot it keeps the old nodes, so readers never see half a snapshot. Exact
   * without a filter and with a filter by `ids` only. With other filters the stream does not report nodes that stop matching
   * or are deleted; they remain until the next snapshot. Between snapshots a node never returns to an older revision, also
   * not after a reconnection.
   */
  readonly nodes: ReadonlyMap<string, WatchedNode<Fields>>;
  /** null until the first snapshot is complete. */
  readonly cursor: string | null;
  /** Must be called with each item, in order. */
  apply(item: WatchItem<Fields>): void;
}

export function createNodeMap<Fields = NodeFields>(): NodeMap<Fields> {
  let nodes = new Map<string, WatchedNode<Fields>>();
  let incoming = new Map<string, WatchedNode<Fields>>();
  let cursor: string | null = null;
  return {
    get nodes() {
      return nodes;
    },
    get cursor() {
      return cursor;
    },
    apply(item) {
      switch (item.kind) {
        case "begin":
          incoming = new Map();
          return;
        case "node":
          incoming.set(item.node.uuid, item.node);
          return;
        case "complete":
          nodes = incoming;
          break;
        case "transition":
          if (item.transition.to === null) nodes.delete(item.transition.nodeUuid);
          // null: the node is deleted; keep it until its deletion arrives.
          else if (item.node && !isOlder(item.node, nodes.get(item.node.uuid))) nodes.set(item.node.uuid, item.node);
          break;
        case "bookmark":
          break;
      }
      cursor = item.cursor;
    },
  };
}

function isOlder(node: WatchedNode<unknown>, known: WatchedNode<unknown> | undefined): boolean {
  return known !== undefined && node.revision < known.revision;
}
