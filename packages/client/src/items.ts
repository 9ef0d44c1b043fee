/** Items that a watcher emits, and items of the server's stream. */
import type { NodeState } from "./node-state.ts";

/** A node: in a snapshot, or in its current state when a transition is delivered. */
export type WatchedNode<Fields = NodeFields> = Fields & {
  readonly uuid: string;
  /** The `sequence` of the node's newest transition. */
  readonly transitionCount: number;
  /** Increases with every change, a transition or not. */
  readonly revision: number;
};

/** Default fields of a node. */
export interface NodeFields {
  readonly name: string;
  readonly state: NodeState;
}

export interface Transition {
  /** Position in the log; another process can resume after it. */
  readonly cursor: string;
  readonly nodeUuid: string;
  readonly nodeName: string;
  /** 1 for the node's registration, then increasing by one without gaps. */
  readonly sequence: number;
  /** Revision of the node after the transition. */
  readonly nodeRevision: number;
  /** null: the node was registered. */
  readonly from: NodeState | null;
  /** null: the node was deleted. */
  readonly to: NodeState | null;
  readonly event: string;
  /** RFC 3339. */
  readonly at: string;
}

/**
 * Why a new snapshot follows: the watch starts; the cursor was too old or belongs to another log; or the connection was
 * lost before the snapshot was complete.
 */
export type BeginReason = "START" | "CURSOR_EXPIRED" | "SNAPSHOT_BROKEN";

export type WatchItem<Fields = NodeFields, More = unknown> =
  /** A snapshot follows: discard all known nodes. */
  | { readonly kind: "begin"; readonly reason: BeginReason }
  /** A node of the snapshot. It has no cursor: a watch cannot resume in the middle of a snapshot. */
  | { readonly kind: "node"; readonly node: WatchedNode<Fields> }
  /** The snapshot is complete, as of the cursor. */
  | { readonly kind: "complete"; readonly cursor: string }
  /** `node`: the node's current state when the transition is delivered; null if it is deleted by then. */
  | {
      readonly kind: "transition";
      readonly cursor: string;
      readonly transition: Transition & More;
      readonly node: WatchedNode<Fields> | null;
    }
  /** All items up to the cursor were delivered. `live`: including everything that happened before the stream began. */
  | { readonly kind: "bookmark"; readonly cursor: string; readonly live: boolean };

/** An item of the subscription that `watchNodes` requests. */
export type StreamItem =
  | { readonly __typename: "NodeSnapshot"; readonly cursor: string; readonly node: WatchedNode<object> | null }
  | (Transition & { readonly __typename: "Transition"; readonly node?: WatchedNode<object> | null })
  | {
      readonly __typename: "StreamBookmark";
      readonly cursor: string;
      readonly snapshotComplete: boolean;
      readonly caughtUp: boolean;
    }
  | { readonly __typename: "StreamReset"; readonly cursor: string; readonly code: string };

/** A failure that a retry cannot resolve. */
export class WatchError extends Error {
  override readonly name = "WatchError";
  /** GAP: items are missing. REFUSED: the server rejects this client or this request. */
  readonly code: "GAP" | "REFUSED";
  /** Close code of the WebSocket, if its closure is the reason. */
  readonly closeCode: number | null;

  constructor(code: "GAP" | "REFUSED", message: string, closeCode: number | null = null) {
    super(message);
    this.code = code;
    this.closeCode = closeCode;
  }
}
