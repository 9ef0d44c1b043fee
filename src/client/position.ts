/**
 * Where a watcher stands in the log, over all its connections: it judges each item that the server sends. What was told
 * before is dropped, what is missing is found, and it says from where the next connection has to go on.
 *
 * Modes: beginning (no cursor; the next connection asks for a snapshot), and following (the next one goes on after the
 * cursor). Following begins with the end of the snapshot and ends with CURSOR_EXPIRED. Pure: no clock, no connection.
 */
import type { Proof } from "./filter.ts";
import { WatchError } from "./items.ts";
import type { BeginReason, StreamItem, Transition, WatchItem, WatchedNode } from "./items.ts";

export interface Position {
  /** What the next connection has to ask for, and what the watcher has to be told before it. */
  connect(): { readonly after: string | null; readonly snapshot: boolean; readonly begin: BeginReason | null };
  /** What to tell the watcher of an item; nothing, when it knows it. Throws when something is missing before it. */
  take(item: Exclude<StreamItem, { __typename: "StreamReset" }>): WatchItem<object> | null;
  /** The server ends the stream. */
  reset(code: string): void;
}

/** Positions of at most 15 digits: a number holds them. */
const CURSOR = /^\d{1,15}$/;

export function createPosition(proof: Proof, after: string | null): Position {
  let cursor = after === null ? null : read(after);
  let reason: BeginReason = "START";
  /** Of each node the newest number; kept only where it is the proof. */
  const sequences = new Map<string, number>();

  /** Throws when there is something up to a position that was not told, where positions prove it. */
  function checkHole(upTo: number): void {
    if (proof === "POSITIONS" && cursor !== null && upTo > cursor)
      throw new WatchError(
        "GAP",
        upTo === cursor + 1 ? `Position ${upTo} was not told.` : `Positions ${cursor + 1} to ${upTo} were not told.`,
      );
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
      if (cursor !== null) return { after: String(cursor), snapshot: false, begin: null };
      const begin = reason;
      reason = "SNAPSHOT_BROKEN";
      sequences.clear();
      return { after: null, snapshot: true, begin };
    },
    take(item) {
      switch (item.__typename) {
        case "NodeSnapshot":
          if (cursor !== null || item.node === null)
            throw new WatchError("GAP", "The server tells a snapshot that was not asked for.");
          if (proof === "SEQUENCES") sequences.set(item.node.uuid, item.node.transitionCount);
          return { kind: "node", node: item.node };
        case "Transition": {
          const { __typename, node, ...transition } = item;
          const at = read(item.cursor);
          if (cursor === null)
            throw new WatchError("GAP", "The server tells transitions before the snapshot is whole.");
          if (at <= cursor) return null;
          checkHole(at - 1);
          checkSequence(transition);
          cursor = at;
          return {
            kind: "transition",
            cursor: item.cursor,
            transition,
            node: node === undefined ? nodeAfter(transition) : node,
          };
        }
        case "StreamBookmark": {
          const at = read(item.cursor);
          if (cursor === null) {
            if (!item.snapshotComplete) return null;
            cursor = at;
            return { kind: "complete", cursor: item.cursor };
          }
          if (at < cursor) return null;
          // It says that everything up to it has been told.
          checkHole(at);
          cursor = at;
          return { kind: "bookmark", cursor: item.cursor, live: item.caughtUp };
        }
      }
    },
    reset(code) {
      if (code !== "CURSOR_EXPIRED") return;
      cursor = null;
      reason = "CURSOR_EXPIRED";
    },
  };
}

/** The fields that are told of a node where no others were asked for. */
function nodeAfter({ nodeUuid, nodeName, nodeRevision, to, sequence }: Transition): WatchedNode | null {
  return to === null
    ? null
    : { uuid: nodeUuid, name: nodeName, state: to, transitionCount: sequence, revision: nodeRevision };
}

function read(cursor: string): number {
  if (!CURSOR.test(cursor)) throw new WatchError("REFUSED", `${JSON.stringify(cursor)} is no cursor of a stream.`);
  return Number(cursor);
}
