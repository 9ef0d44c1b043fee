/**
 * A watcher's position in the log, across its connections. Checks each item from the server: drops duplicates, detects
 * gaps, and determines where the next connection resumes. Pure: no clock, no connection.
 *
 * Modes:
 * - beginning: no cursor; the next connection requests a snapshot. Left when the snapshot is complete.
 * - following: the next connection resumes after the cursor. Left on CURSOR_EXPIRED.
 */
import type { Proof } from "./filter.ts";
import { WatchError } from "./items.ts";
import type { BeginReason, StreamItem, Transition, WatchItem, WatchedNode } from "./items.ts";

export interface Position {
  /** Arguments of the next subscription, and the `begin` item to emit before it; null: none. */
  connect(): { readonly after: string | null; readonly snapshot: boolean; readonly begin: BeginReason | null };
  /** The item to emit; null for a duplicate. Throws a `WatchError` if items are missing before it. */
  take(item: Exclude<StreamItem, { __typename: "StreamReset" }>): WatchItem<object> | null;
  /** The server ended the stream with this code. */
  reset(code: string): void;
}

/** A position of at most 15 digits, so that a number represents it exactly, and the identity of the log. */
const CURSOR = /^(\d{1,15})(-[0-9a-z]+)?$/;

export function createPosition(proof: Proof, after: string | null): Position {
  let cursor = after;
  let position = after === null ? null : read(after);
  let reason: BeginReason = "START";
  /** The newest sequence number of each node; used only for the proof SEQUENCES. */
  const sequences = new Map<string, number>();

  /** Throws if positions up to `upTo` are missing and the proof is POSITIONS. */
  function checkGap(upTo: number): void {
    if (proof === "POSITIONS" && position !== null && upTo > position)
      throw new WatchError(
        "GAP",
        upTo === position + 1 ? `Position ${upTo} is missing.` : `Positions ${position + 1} to ${upTo} are missing.`,
      );
  }

  function moveTo(reached: string, at: number): void {
    cursor = reached;
    position = at;
  }

  function checkSequence({ nodeUuid, nodeName, sequence, to }: Transition): void {
    if (proof !== "SEQUENCES") return;
    const last = sequences.get(nodeUuid);
    if (last !== undefined && sequence !== last + 1)
      throw new WatchError("GAP", `Node ${nodeName} has transition ${sequence} after ${last}.`);
    if (to === null) sequences.delete(nodeUuid);
    else sequences.set(nodeUuid, sequence);
  }

  return {
    connect() {
      if (cursor !== null) return { after: cursor, snapshot: false, begin: null };
      const begin = reason;
      reason = "SNAPSHOT_BROKEN";
      sequences.clear();
      return { after: null, snapshot: true, begin };
    },
    take(item) {
      switch (item.__typename) {
        case "NodeSnapshot":
          if (cursor !== null || item.node === null)
            throw new WatchError("GAP", "The server sent a snapshot that was not requested.");
          if (proof === "SEQUENCES") sequences.set(item.node.uuid, item.node.transitionCount);
          return { kind: "node", node: item.node };
        case "Transition": {
          const { __typename, node, ...transition } = item;
          const at = read(item.cursor);
          if (position === null)
            throw new WatchError("GAP", "The server sent transitions before the snapshot was complete.");
          if (at <= position) return null;
          checkGap(at - 1);
          checkSequence(transition);
          moveTo(item.cursor, at);
          return {
            kind: "transition",
            cursor: item.cursor,
            transition,
            node: node === undefined ? nodeAfter(transition) : node,
          };
        }
        case "StreamBookmark": {
          const at = read(item.cursor);
          if (position === null) {
            if (!item.snapshotComplete) return null;
            moveTo(item.cursor, at);
            return { kind: "complete", cursor: item.cursor };
          }
          if (at < position) return null;
          // A bookmark states that every earlier item was sent.
          checkGap(at);
          moveTo(item.cursor, at);
          return { kind: "bookmark", cursor: item.cursor, live: item.caughtUp };
        }
      }
    },
    reset(code) {
      if (code !== "CURSOR_EXPIRED") return;
      cursor = null;
      position = null;
      reason = "CURSOR_EXPIRED";
    },
  };
}

/** The default fields of a node, derived from its transition. */
function nodeAfter({ nodeUuid, nodeName, nodeRevision, to, sequence }: Transition): WatchedNode | null {
  return to === null
    ? null
    : { uuid: nodeUuid, name: nodeName, state: to, transitionCount: sequence, revision: nodeRevision };
}

/** The position of a cursor. */
function read(cursor: string): number {
  const position = CURSOR.exec(cursor)?.[1];
  if (position === undefined) throw new WatchError("REFUSED", `${JSON.stringify(cursor)} is not a cursor of a stream.`);
  return Number(position);
}
