/**
 * The stream of transitions: from a cursor, or after a snapshot, then live, without a gap and without a repetition.
 *
 * Modes of a stream: snapshot (all matching nodes as of one position), replay (from the cursor to the head), live. Each
 * goes over into the next by itself. It ends with a reset when the cursor is no longer good or the process is leaving.
 */
import type { Database } from "../store/database.ts";
import { nodeCondition, nodesAfterName } from "../store/nodes.ts";
import type { NodeFilter, NodeRow } from "../store/nodes.ts";
import { newestPosition, oldestPosition, transitionsAfter } from "../store/transitions.ts";
import type { TransitionFilter, TransitionRow } from "../store/transitions.ts";
import { pulled } from "./pull.ts";
import type { Patience } from "./pull.ts";
import type { Tail } from "./tail.ts";

/** Why a stream ended. */
export const RESET_REASONS = {
  CURSOR_EXPIRED: "The cursor is older than what is kept, or not of this log (like HTTP 410 of a Kubernetes watch).",
  TOO_SLOW: "The client read too slowly.",
  ACCESS_CHANGED: "The credential expired or lost its scope.",
  SHUTTING_DOWN: "The process is going down; subscribe again at once, with the last cursor.",
} as const;
export type ResetReason = keyof typeof RESET_REASONS;

export type NodeStreamItem =
  | { readonly kind: "snapshot"; readonly position: number; readonly node: NodeRow }
  | { readonly kind: "transition"; readonly position: number; readonly row: TransitionRow }
  | { readonly kind: "bookmark"; readonly position: number; readonly at: Date; readonly snapshotComplete: boolean; readonly caughtUp: boolean }
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
const SNAPSHOT_PAGE = 1_000;

export function nodeStream(parts: { readonly database: Database; readonly tail: Tail }, request: NodeStreamRequest): AsyncIterableIterator<NodeStreamItem> {
  const { database, tail } = parts;
  const filter = transitionFilter(request.filter);
  let cursor: number | null = null;
  /** What was there when the stream began; it may be ahead of what the tail has seen. */
  let goal = 0;
  let snapshot: { readonly nodes: readonly NodeRow[]; at: number } | null = null;
  let caughtUp = false;
  let over = false;
  let spokeAt = Date.now();

  const bookmark = (position: number, marks: { readonly snapshotComplete?: boolean; readonly caughtUp?: boolean } = {}): NodeStreamItem => ({
    kind: "bookmark",
    position,
    at: new Date(),
    snapshotComplete: marks.snapshotComplete ?? false,
    caughtUp: marks.caughtUp ?? false,
  });
  const newestSeen = () => Math.max(tail.head, goal);
  const end = (position: number, reason: ResetReason): readonly NodeStreamItem[] => {
    over = true;
    return [{ kind: "reset", position, reason }];
  };

  async function begin(): Promise<readonly NodeStreamItem[]> {
    if (request.snapshot) {
      const taken = await takeSnapshot(database, request.filter);
      cursor = taken.position;
      snapshot = { nodes: taken.nodes, at: 0 };
      return snapshotItems();
    }
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
    if (complete) snapshot = null;
    const items: NodeStreamItem[] = page.map((node) => ({ kind: "snapshot", position, node }));
    return complete ? [...items, bookmark(position, { snapshotComplete: true })] : items;
  }

  /** Matching rows after the cursor, which moves over those that do not match as well. */
  async function advance(from: number): Promise<readonly NodeStreamItem[]> {
    const head = newestSeen();
    if (from >= head) return [];
    const rows = (filter || head > tail.head ? null : tail.recent(from, BATCH)) ?? (await transitionsAfter(database.reader, { after: from, until: head, limit: BATCH, ...(filter && { filter }) }));
    cursor = rows.length < BATCH ? Math.max(head, rows.at(-1)?.position ?? 0) : (rows.at(-1)?.position ?? head);
    return rows.map((row) => ({ kind: "transition", position: row.position, row }));
  }

  return pulled(tail.onAdvance, async (patience: Patience) => {
    for (;;) {
      if (over || patience.left) return [];
      const items = snapshot ? snapshotItems() : cursor === null ? await begin() : await advance(cursor);
      if (items.length > 0) {
        spokeAt = Date.now();
        return items;
      }
      if (cursor === null || cursor < newestSeen()) continue;
      if (!caughtUp) {
        caughtUp = true;
        spokeAt = Date.now();
        return [bookmark(cursor, { caughtUp: true })];
      }
      if (tail.closed) return end(cursor, "SHUTTING_DOWN");
      const silence = Date.now() - spokeAt;
      if (silence >= BOOKMARK_MS) {
        spokeAt = Date.now();
        return [bookmark(cursor)];
      }
      await patience.wait(BOOKMARK_MS - silence);
    }
  });
}

/** Every matching node and the position they are as of. */
async function takeSnapshot(database: Database, filter: NodeFilter | undefined): Promise<{ readonly position: number; readonly nodes: readonly NodeRow[] }> {
  return database.snapshot(async (reader) => {
    const position = await newestPosition(reader);
    const nodes: NodeRow[] = [];
    for (;;) {
      const page = await nodesAfterName(reader, filter, nodes.at(-1)?.name ?? null, SNAPSHOT_PAGE);
      nodes.push(...page);
      if (page.length < SNAPSHOT_PAGE) return { position, nodes };
    }
  });
}

/** By id alone the log itself can tell, also of nodes that are deleted; anything else is asked of the nodes as they are. */
function transitionFilter(filter: NodeFilter | undefined): TransitionFilter | undefined {
  if (!filter) return undefined;
  const { ids, ...rest } = filter;
  const onlyIds = ids !== undefined && Object.values(rest).every((value) => value === undefined);
  if (onlyIds) return { nodeIds: ids };
  const nodes = nodeCondition(filter);
  return nodes && { nodes };
}
