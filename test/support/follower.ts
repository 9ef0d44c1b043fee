/** A reader of a stream of changes that keeps the objects of one filter, and is cut at any item. */
import type { ChangeStream, ChangeStreamItem } from "../../src/feed/change-stream.ts";
import type { ChangeCursor } from "../../src/store/log/changes.ts";
import { chance } from "../durability/lab.ts";
import type { Chance } from "../durability/lab.ts";

interface Followable {
  readonly id: string;
  readonly revision: number;
}

/** Where a stream begins; `elsewhere`: on a second replica. */
export interface Opening {
  readonly snapshot: boolean;
  readonly after?: ChangeCursor;
}

export class Follower<Row extends Followable> {
  readonly rows = new Map<string, Row>();
  readonly #open: (opening: Opening, elsewhere: boolean) => ChangeStream<Row, string>;
  readonly #random: Chance;
  #stream: ChangeStream<Row, string> | null = null;
  #cursor: ChangeCursor | null = null;
  cuts = 0;

  constructor(random: Chance, open: (opening: Opening, elsewhere: boolean) => ChangeStream<Row, string>) {
    // Numbers of its own: followers read at the same time, in an order that the seed does not determine.
    this.#random = chance(random.whole(0, 999_999));
    this.#open = open;
  }

  /** Follows until `isOver`, with breaks, on one replica or the other. `isCaughtUp`: by the last item of a stream. */
  async follow(isOver: (cursor: ChangeCursor, isCaughtUp: boolean) => boolean): Promise<void> {
    while (!this.#cursor || !isOver(this.#cursor, false)) {
      const isSnapshot = this.#cursor === null;
      const opening = this.#cursor ? { after: this.#cursor, snapshot: false } : { snapshot: true };
      // A new snapshot replaces what came of one that was cut.
      if (isSnapshot) this.rows.clear();
      let left = this.#random.whole(0, 3);
      this.#stream = this.#open(opening, this.cuts % 2 === 1);
      for await (const item of this.#stream) {
        this.#take(item, isSnapshot);
        left -= 1;
        const isCaughtUp = item.kind === "bookmark" && item.caughtUp;
        if (this.#cursor && (left < 0 || isOver(this.#cursor, isCaughtUp))) break;
      }
      this.cuts += 1;
    }
  }

  /**
   * Breaks the stream, also while it waits for an item. The next one has a bookmark at the newest position at least,
   * which a stream whose filter matches nothing sends after ten seconds otherwise.
   */
  cut(): void {
    void this.#stream?.return?.();
  }

  #take(item: ChangeStreamItem<Row, string>, isSnapshot: boolean): void {
    if (item.kind === "reset") throw new Error(`The stream ended: ${item.reason}.`);
    if (item.kind === "upserted") {
      const known = this.rows.get(item.row.id);
      if (item.row.revision < (known?.revision ?? 0)) throw new Error(`${item.row.id} went back.`);
      this.rows.set(item.row.id, item.row);
    }
    if (item.kind === "left") this.rows.delete(item.id);
    // An incomplete snapshot cannot be resumed.
    if (this.#cursor || !isSnapshot || (item.kind === "bookmark" && item.snapshotComplete)) this.#cursor = item.cursor;
  }
}

/** More changes than readers need to be cut as often as asked. */
const CHANGES_MAX = 4_000;

/**
 * Makes changes, and cuts all readers after each tenth, also while they wait. At least `least` changes, and more until
 * the first reader has been cut more than `cuts` times, however fast the changes are written.
 */
export async function changeAndCut(
  followers: readonly Pick<Follower<Followable>, "cut" | "cuts">[],
  { least, cuts }: { readonly least: number; readonly cuts: number },
  change: () => PromiseLike<unknown>,
): Promise<void> {
  const isCut = () => (followers[0]?.cuts ?? 0) > cuts;
  for (let made = 1; made <= least || (!isCut() && made <= CHANGES_MAX); made += 1) {
    await change();
    if (made % 10 === 0) for (const follower of followers) follower.cut();
  }
}
