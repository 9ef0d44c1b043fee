/**
 * The stream of transitions: from a cursor, or after a snapshot, then live, without a gap and without a repetition.
 *
 * Modes of a stream: waiting (until it is its turn to be given a snapshot), snapshot (all matching nodes as of one position),
 * replay (from the cursor to the head), live. Each goes over into the next by itself. It ends with a reset when the cursor is
 * not good, when what comes next is not kept any more, when a snapshot was not taken in time, or when the process is
 * leaving. Whatever it does, it says something every ten seconds.
 */
import type { Database } from "../store/postgres/database.ts";
import { nodeTest } from "../store/node-filter.ts";
import { nodeCondition } from "../store/node-filter.ts";
import type { NodeFilter } from "../store/node-filter.ts";
import type { NodeRow } from "../store/nodes.ts";
import { newestPosition, oldestPosition, transitionsAfter } from "../store/transitions.ts";
import type { TransitionFilter, TransitionRow } from "../store/transitions.ts";
import { pulled } from "./pull.ts";
import type { Patience } from "./pull.ts";
import type { Claim, Snapshot } from "./snapshots.ts";
import type { Tail } from "./tail.ts";

/** Why a stream ended. */
export const RESET_REASONS = {
  CURSOR_EXPIRED:
    "The cursor is older than the retained log, or not from this log (like HTTP 410 of a Kubernetes watch).",
  TOO_SLOW: "The client read so slowly that the next items are no longer kept.",
  ACCESS_CHANGED: "The credential expired or lost its scope.",
  SHUTTING_DOWN: "The process is shutting down; subscribe again at once with the last cursor.",
} as const;
export type ResetReason = keyof typeof RESET_REASONS;

export type NodeStreamItem =
  | { readonly kind: "snapshot"; readonly position: number; readonly node: NodeRow }
  | { readonly kind: "transition"; readonly position: number; readonly row: TransitionRow }
  | {
      readonly kind: "bookmark";
      readonly position: number;
      readonly at: Date;
      readonly snapshotComplete: boolean;
      readonly caughtUp: boolean;
    }
  | { readonly kind: "reset"; readonly position: number; readonly reason: ResetReason };

export interface NodeStreamRequest {
  readonly filter?: NodeFilter | undefined;
  /** Position of the last item seen; absent: from now on. */
  readonly after?: number | undefined;
  readonly snapshot: boolean;
}

const BATCH = 100;
/** A stream is never silent for longer. */
const BOOKMARK_MS = 10_000;
/** Positions that one statement of a filtered stream looks through, so that none takes long. */
const WINDOW = 10_000;
/** A snapshot is held for its reader so long; one that is still not through then is TOO_SLOW. */
const SNAPSHOT_HELD_MS = 300_000;
/** Where a reader is that has been given nothing yet: before the first transition. */
const NOWHERE = 0;

export function nodeStream(
  parts: { readonly database: Database; readonly tail: Tail },
  request: NodeStreamRequest,
): AsyncIterableIterator<NodeStreamItem> {
  const { database, tail } = parts;
  const filter = transitionFilter(request.filter);
  const choose = transitionChoice(tail, request.filter);
  let cursor: number | null = null;
  /** What was there when the stream began; it may be ahead of what the tail has seen. */
  let goal = 0;
  let claim: Claim | null = null;
  let snapshot: { readonly nodes: readonly NodeRow[]; at: number } | null = null;
  let failure: { readonly error: unknown } | null = null;
  let snapshotTimer: NodeJS.Timeout | undefined;
  let tooSlow = false;
  let caughtUp = false;
  let over = false;
  let spokeAt = performance.now();

  const bookmark = (
    position: number,
    marks: { readonly snapshotComplete?: boolean; readonly caughtUp?: boolean } = {},
  ): NodeStreamItem => ({
    kind: "bookmark",
    position,
    at: new Date(),
    snapshotComplete: marks.snapshotComplete ?? false,
    caughtUp: marks.caughtUp ?? false,
  });
  const newestSeen = () => Math.max(tail.head, goal);
  const end = (position: number, reason: ResetReason): readonly NodeStreamItem[] => {
    over = true;
    tail.onReset(reason);
    return [{ kind: "reset", position, reason }];
  };

  /** Asks for a snapshot the first time; items of it come when it is there. */
  function awaitSnapshot(patience: Patience): readonly NodeStreamItem[] {
    if (failure) throw failure.error;
    if (claim) return [];
    claim = tail.snapshot(request.filter);
    claim.taken.then(
      (taken) => {
        if (claim) hold(taken);
        patience.wake();
      },
      (error: unknown) => {
        failure = { error };
        patience.wake();
      },
    );
    return [];
  }

  function hold({ position, nodes }: Snapshot): void {
    cursor = position;
    snapshot = { nodes, at: 0 };
    if (nodes.length > BATCH) snapshotTimer = setTimeout(letGoOfSnapshot, SNAPSHOT_HELD_MS).unref();
  }

  async function begin(): Promise<readonly NodeStreamItem[]> {
    const newest = await newestPosition(database.reader);
    if (request.after === undefined) {
      cursor = newest;
      caughtUp = true;
      return [bookmark(cursor, { caughtUp: true })];
    }
    const oldest = await oldestPosition(database.reader);
    if (request.after > newest || request.after < oldest - 1) return end(oldest - 1, "CURSOR_EXPIRED");
    cursor = request.after;
    goal = newest;
    return [];
  }

  function snapshotItems(): readonly NodeStreamItem[] {
    if (!snapshot || cursor === null) return [];
    const position = cursor;
    const page = snapshot.nodes.slice(snapshot.at, snapshot.at + BATCH);
    snapshot.at += BATCH;
    const complete = snapshot.at >= snapshot.nodes.length;
    if (complete) release();
    const items: NodeStreamItem[] = page.map((node) => ({ kind: "snapshot", position, node }));
    return complete ? [...items, bookmark(position, { snapshotComplete: true })] : items;
  }

  function letGoOfSnapshot(): void {
    release();
    tooSlow = true;
  }

  function release(): void {
    snapshot = null;
    clearTimeout(snapshotTimer);
    claim?.release();
    claim = null;
  }

  /** Matching rows after the cursor, which moves over those that do not match as well. */
  async function advance(from: number): Promise<readonly NodeStreamItem[]> {
    const head = newestSeen();
    if (from >= head) return [];
    const recent = head > tail.head ? null : tail.recent(from, BATCH);
    const rows = recent
      ? choose
        ? await choose(recent)
        : recent
      : await readTable(from, filter ? Math.min(head, from + WINDOW) : head);
    if (rows === null) return end((await oldestPosition(database.reader)) - 1, "TOO_SLOW");
    if (recent) cursor = recent.at(-1)?.position ?? head;
    return rows.map((row) => ({ kind: "transition", position: row.position, row }));
  }

  /** Matching rows up to a position, from the table; null when some that come first are not kept any more. */
  async function readTable(from: number, until: number): Promise<readonly TransitionRow[] | null> {
    const rows = await transitionsAfter(database.reader, {
      after: from,
      until,
      limit: BATCH,
      ...(filter && { filter }),
    });
    // Positions have no holes, so what follows the cursor at once shows that nothing is missing; otherwise we ask.
    if (rows[0]?.position !== from + 1 && (await oldestPosition(database.reader)) > from + 1) return null;
    cursor = rows.length < BATCH ? until : (rows.at(-1)?.position ?? until);
    return rows;
  }

  return pulled(
    tail.onAdvance,
    async (patience: Patience) => {
      for (;;) {
        if (over || patience.left) return [];
        if (tooSlow) return end((await oldestPosition(database.reader)) - 1, "TOO_SLOW");
        const items = snapshot
          ? snapshotItems()
          : cursor !== null
            ? await advance(cursor)
            : request.snapshot
              ? awaitSnapshot(patience)
              : await begin();
        if (items.length > 0) {
          spokeAt = performance.now();
          return items;
        }
        const silence = performance.now() - spokeAt;
        if (cursor === null) {
          if (tail.closed) return end(NOWHERE, "SHUTTING_DOWN");
          if (silence < BOOKMARK_MS) await patience.wait(BOOKMARK_MS - silence);
          else {
            spokeAt = performance.now();
            return [bookmark(NOWHERE)];
          }
          continue;
        }
        const isBehind = cursor < newestSeen();
        if (!isBehind && !caughtUp) {
          caughtUp = true;
          spokeAt = performance.now();
          return [bookmark(cursor, { caughtUp: true })];
        }
        if (!isBehind && tail.closed) return end(cursor, "SHUTTING_DOWN");
        if (silence >= BOOKMARK_MS) {
          spokeAt = performance.now();
          return [bookmark(cursor)];
        }
        if (!isBehind) await patience.wait(BOOKMARK_MS - silence);
      }
    },
    release,
  );
}

/** By id alone the log itself can tell, also of nodes that are deleted; anything else is asked of the nodes as they are. */
function transitionFilter(filter: NodeFilter | undefined): TransitionFilter | undefined {
  if (!filter) return undefined;
  const ids = idsAlone(filter);
  if (ids) return { nodeIds: ids };
  const nodes = nodeCondition(filter);
  return nodes && { nodes };
}

/** The same of rows that the ring holds: by id from the row itself, otherwise by facts that all streams share. Null: all of them. */
function transitionChoice(
  tail: Tail,
  filter: NodeFilter | undefined,
): ((rows: readonly TransitionRow[]) => readonly TransitionRow[] | Promise<readonly TransitionRow[]>) | null {
  if (!filter || !nodeCondition(filter)) return null;
  const ids = idsAlone(filter);
  if (ids) {
    const wanted = new Set(ids);
    return (rows) => rows.filter(({ nodeId }) => wanted.has(nodeId));
  }
  const matches = nodeTest(filter);
  return async (rows) => {
    const facts = await tail.facts(rows);
    return rows.filter((_row, index) => {
      const node = facts[index];
      return node != null && matches(node);
    });
  };
}

function idsAlone(filter: NodeFilter): readonly string[] | undefined {
  const { ids, ...rest } = filter;
  return Object.values(rest).every((value) => value === undefined) ? ids : undefined;
}
