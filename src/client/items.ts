/** What a watcher is told, and what the server says of it: the words that the files of this room share. */

/** State before any transition: of a node in the snapshot, or as it is when a transition is told. */
export type WatchedNode<Fields = NodeFields> = Fields & {
  readonly uuid: string;
  /** The `sequence` of the node's newest transition. */
  readonly transitionCount: number;
  /** Increases with every change, a transition or not. */
  readonly revision: number;
};

/** What is known of a node unless more is asked for. */
export interface NodeFields {
  readonly name: string;
  readonly state: string;
}

export interface Transition {
  /** Position in the log: to go on from, in another process too. */
  readonly cursor: string;
  readonly nodeUuid: string;
  readonly nodeName: string;
  /** 1 for the node's registration, then up by one without holes. */
  readonly sequence: number;
  /** Revision of the node after it. */
  readonly nodeRevision: number;
  /** null: the node was registered. */
  readonly from: string | null;
  /** null: the node was deleted. */
  readonly to: string | null;
  readonly event: string;
  /** RFC 3339. */
  readonly at: string;
}

/**
 * Why what was known before counts no more: it is the beginning; the cursor was too old, or not of this log; or the
 * connection broke before the snapshot was whole.
 */
export type BeginReason = "START" | "CURSOR_EXPIRED" | "SNAPSHOT_BROKEN";

export type WatchItem<Fields = NodeFields, More = unknown> =
  /** Forget the nodes that you knew: all that match follow. */
  | { readonly kind: "begin"; readonly reason: BeginReason }
  /** One of them. It has no cursor, because nobody can go on from the middle of a snapshot. */
  | { readonly kind: "node"; readonly node: WatchedNode<Fields> }
  /** These were all, as of the cursor. */
  | { readonly kind: "complete"; readonly cursor: string }
  /** `node` is the node as it is when this is told; null: it has been deleted by then. */
  | {
      readonly kind: "transition";
      readonly cursor: string;
      readonly transition: Transition & More;
      readonly node: WatchedNode<Fields> | null;
    }
  /** Everything up to the cursor has been told. `live`: all that had happened when the stream began. */
  | { readonly kind: "bookmark"; readonly cursor: string; readonly live: boolean };

/** An item of the subscription, as `watchNodes` asks for it. */
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

/** What cannot be waited out. */
export class WatchError extends Error {
  override readonly name = "WatchError";
  /** GAP: something was not told. REFUSED: the server takes this client, or this request, not at all. */
  readonly code: "GAP" | "REFUSED";
  /** How the socket was closed, if that was it. */
  readonly closeCode: number | null;

  constructor(code: "GAP" | "REFUSED", message: string, closeCode: number | null = null) {
    super(message);
    this.code = code;
    this.closeCode = closeCode;
  }
}
