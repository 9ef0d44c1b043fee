/**
 * A reader of `nodeChanges` that can stop reading (stopping-reader.ts) and does what docs/changes.md says otherwise: it
 * keeps the nodes, and after a disconnect it subscribes again with its last cursor.
 */
import { openReader } from "../support/stopping-reader.ts";
import type { StoppingReader } from "../support/stopping-reader.ts";
import { FollowerState } from "./change-follower.ts";
import type { Followed, Item, Row } from "./change-follower.ts";
import type { Transport } from "./subscriber.ts";

/** How a connection of a stopped reader ended, once it read on; null if it did not end. */
export type Ending = number | "ended" | null;

export class ChangeReader {
  readonly transport: Transport;
  readonly followed: Followed;
  readonly state: FollowerState;
  /** Bytes of results. */
  bytes = 0;
  readonly #url: string;
  readonly #onRow: (row: Row) => void;
  #reader: StoppingReader | null = null;

  constructor(
    url: string,
    {
      transport,
      followed,
      onRow = () => {},
    }: {
      readonly transport: Transport;
      readonly followed: Followed;
      readonly onRow?: (row: Row) => void;
    },
  ) {
    this.#url = url;
    this.transport = transport;
    this.followed = followed;
    this.state = new FollowerState(followed);
    this.#onRow = onRow;
  }

  get title(): string {
    return `${this.followed.title} over ${this.transport}`;
  }

  /** Subscribes with the last cursor, or with a snapshot, and returns when the first item has come. */
  async open(): Promise<void> {
    const { subscription: query, variables } = this.followed;
    const body = { query, variables: { ...variables, ...this.state.begin() } };
    this.#reader = openReader(this.transport, this.#url, body, (text) => this.#take(text));
    await this.#reader.first;
  }

  stop(): void {
    this.#reader?.stop();
  }

  /** Reads on, over the same connection, until it has this position or the connection has ended. */
  async resume(position: number): Promise<Ending> {
    const reader = this.#reader;
    if (!reader) return "ended";
    reader.resume();
    const reached = new Promise<null>((resolve) => {
      this.#onPosition = () => {
        if (this.state.isLive && this.state.position >= position) resolve(null);
      };
      this.#onPosition();
    });
    return Promise.race([reached, reader.ended]);
  }

  /** As `resume`, and connects again after each end of a connection. Returns how the first one ended. */
  async catchUp(position: number): Promise<Ending> {
    const first = await this.resume(position);
    for (let ending = first; ending !== null; ending = await this.resume(position)) await this.open();
    return first;
  }

  end(): void {
    this.#reader?.end();
  }

  #onPosition = (): void => {};

  #take(text: string): void {
    this.bytes += text.length;
    const { data, errors } = JSON.parse(text) as { data?: { items: Item } | null; errors?: readonly unknown[] };
    if (errors) this.state.faults.push(JSON.stringify(errors));
    const item = data?.items;
    if (!item) return;
    this.state.take(item);
    if (item.row) this.#onRow(item.row);
    this.#onPosition();
  }
}
