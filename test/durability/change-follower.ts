/**
 * A client of a stream of changes, over WebSocket or server-sent events, that does what docs/changes.md says and
 * nothing more: it keeps objects by id, and resumes by its last cursor. Its connection can be cut at any time. It
 * reports everything that a correct stream cannot send.
 */
import { ask } from "../support/ask.ts";
import { subscribe } from "./subscriber.ts";
import type { Subscriber, Transport } from "./subscriber.ts";

/** A subscription, and the list that has the same objects. */
export interface Followed {
  readonly title: string;
  /** With `items:` as alias of the root field, and the variables `after` and `snapshot`. */
  readonly subscription: string;
  /** A page of the list as `list`, with the variable `page`. */
  readonly list: string;
  /** Variables of both. */
  readonly variables: Readonly<Record<string, unknown>>;
  /** Why an object must not leave; absent: it may. */
  readonly mayLeave?: (left: Left) => string | null;
}

export interface Row {
  readonly id: string;
  readonly name?: string;
  readonly revision?: number;
}

export interface Left {
  readonly id: string;
  readonly name?: string;
  readonly deleted?: boolean;
}

export interface Item extends Partial<Left> {
  readonly __typename: string;
  readonly cursor: string;
  readonly row?: Row;
  readonly snapshotComplete?: boolean;
  readonly caughtUp?: boolean;
  readonly code?: string;
}

export interface ListOf {
  readonly position: number;
  readonly rows: ReadonlyMap<string, Row>;
}

export interface ChangeFollower extends Subscriber {
  readonly title: string;
  readonly followed: Followed;
  readonly rows: ReadonlyMap<string, Row>;
  /** Items that a correct stream does not send. */
  readonly faults: readonly string[];
  readonly counts: { readonly items: number; readonly snapshots: number };
  /** Whether it has received everything up to a position, over its present connection. */
  hasCaughtUp(position: number): boolean;
  /** Whether the items of a snapshot are arriving. */
  readonly isInSnapshot: boolean;
  /**
   * Forgets everything, so that the next connection begins with a snapshot, and cuts that one after a share of the
   * objects that there are now.
   */
  startAgain(share: number, onCut: (isInSnapshot: boolean) => void): boolean;
}

const CURSOR = /^c(\d+)/;

/** The position of changes in a cursor, also in one of both logs. */
export function positionOf(cursor: string): number {
  return Number(CURSOR.exec(cursor.split("~").at(-1) ?? "")?.[1] ?? Number.NaN);
}

/** All objects of the list, as of a position at which nothing changes any more. */
export async function readList(url: string, { list, variables }: Followed): Promise<ListOf> {
  const rows = new Map<string, Row>();
  let position: number | null = null;
  for (let page: string | null = null; ;) {
    const answer: {
      readonly list: {
        readonly asOf: string;
        readonly nodes: readonly Row[];
        readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string | null };
      };
    } = await ask(url, list, { variables: { ...variables, page } });
    const { asOf, nodes, pageInfo } = answer.list;
    position ??= positionOf(asOf);
    for (const row of nodes) rows.set(row.id, row);
    if (!pageInfo.hasNextPage) return { position, rows };
    page = pageInfo.endCursor;
  }
}

export async function followChanges(url: string, transport: Transport, followed: Followed): Promise<ChangeFollower> {
  const state = new FollowerState(followed);
  const { cut, close } = await subscribe<{ readonly items: Item }>({
    url,
    transport,
    next: () => ({ query: followed.subscription, variables: { ...followed.variables, ...state.begin() } }),
    take({ items }) {
      if (state.take(items)) cut();
    },
    onFault: (message) => state.faults.push(message),
  });
  return {
    title: `${followed.title} over ${transport}`,
    followed,
    get rows() {
      return state.rows;
    },
    faults: state.faults,
    counts: state.counts,
    hasCaughtUp: (position) => state.isLive && state.position >= position,
    get isInSnapshot() {
      return state.cursor === null && state.rows.size > 0;
    },
    cut,
    startAgain(share, onCut) {
      state.startAgain(Math.floor(share * state.rows.size), onCut);
      return cut();
    },
    close,
  };
}

interface Beginning {
  readonly after: string | null;
  readonly snapshot: boolean;
}

/** The objects of a client, and the revisions that it has seen. */
export class FollowerState {
  rows = new Map<string, Row>();
  readonly faults: string[] = [];
  readonly counts = { items: 0, snapshots: 0 };
  /** Null until a snapshot is complete. */
  cursor: string | null = null;
  isLive = false;
  readonly #followed: Followed;
  /** Highest revision of each object that was ever received; infinite for a deleted one. */
  readonly #revisions = new Map<string, number>();
  #forgets = false;
  #cut: { left: number; readonly onCut: (isInSnapshot: boolean) => void } | null = null;

  constructor(followed: Followed) {
    this.#followed = followed;
  }

  get position(): number {
    return this.cursor === null ? -1 : positionOf(this.cursor);
  }

  begin(): Beginning {
    this.isLive = false;
    if (this.#forgets) this.cursor = null;
    this.#forgets = false;
    if (this.cursor === null) this.rows = new Map();
    return { after: this.cursor, snapshot: this.cursor === null };
  }

  startAgain(cutAfter: number, onCut: (isInSnapshot: boolean) => void): void {
    this.#forgets = true;
    this.#cut = { left: cutAfter, onCut };
  }

  /** Takes an item; returns whether the connection is to be cut now. */
  take(item: Item): boolean {
    const { row, id, cursor, code } = item;
    this.counts.items += 1;
    if (code !== undefined) {
      if (code !== "SHUTTING_DOWN") this.faults.push(`The stream was reset: ${code}.`);
      return false;
    }
    if (this.cursor !== null && !(positionOf(cursor) >= this.position))
      this.faults.push(`The cursor ${cursor} came after ${this.cursor}.`);
    if (row) this.#put(row);
    else if (id !== undefined) this.#remove({ ...item, id });
    if (this.cursor !== null || item.snapshotComplete === true) this.cursor = cursor;
    if (item.snapshotComplete === true) this.counts.snapshots += 1;
    if (item.caughtUp === true) this.isLive = true;
    return this.#isCutDue();
  }

  #put(row: Row): void {
    const { id, revision = 0 } = row;
    const newest = this.#revisions.get(id) ?? 0;
    if (newest === Infinity) this.faults.push(`${row.name ?? id} came back after it was deleted.`);
    else if (revision < newest) this.faults.push(`${row.name ?? id} went from revision ${newest} to ${revision}.`);
    this.#revisions.set(id, Math.max(newest, revision));
    this.rows.set(id, row);
  }

  #remove(left: Left): void {
    const fault = this.#followed.mayLeave?.(left) ?? null;
    if (fault !== null) this.faults.push(fault);
    if (left.deleted === true) this.#revisions.set(left.id, Infinity);
    this.rows.delete(left.id);
  }

  #isCutDue(): boolean {
    // Not before the connection that begins with the snapshot.
    if (!this.#cut || this.#forgets) return false;
    this.#cut.left -= 1;
    if (this.#cut.left >= 0) return false;
    this.#cut.onCut(this.cursor === null);
    this.#cut = null;
    return true;
  }
}
