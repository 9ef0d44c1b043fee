/** The state of all watched nodes, kept by the items of `watchNodes`. */
import type { NodeFields, WatchItem, WatchedNode } from "./items.ts";

export interface NodeMap<Fields> {
  /**
   * Nodes by UUID, as of `cursor`. While a new snapshot comes they are the old ones, so a reader never meets half of them.
   * Exact without a filter, and with one by `ids` alone; with any other a node that does not match any more, or has been
   * deleted, is not told, and stays until the next snapshot. From one snapshot to the next no node goes back to an older
   * revision, whatever a connection tells that comes after a break.
   */
  readonly nodes: ReadonlyMap<string, WatchedNode<Fields>>;
  /** null before the first snapshot is complete. */
  readonly cursor: string | null;
  /** To be called with each item, in order. */
  apply(item: WatchItem<Fields>): void;
}

export function createNodeMap<Fields = NodeFields>(): NodeMap<Fields> {
  let nodes = new Map<string, WatchedNode<Fields>>();
  let coming = new Map<string, WatchedNode<Fields>>();
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
          coming = new Map();
          return;
        case "node":
          coming.set(item.node.uuid, item.node);
          return;
        case "complete":
          nodes = coming;
          break;
        case "transition":
          if (item.transition.to === null) nodes.delete(item.transition.nodeUuid);
          // null: its deletion is on the way, until then it stays as it was.
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
