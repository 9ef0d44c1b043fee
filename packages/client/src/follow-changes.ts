/** Streams as stores. Each follows from its first subscriber until the last one has left; the next one goes on. */
import { createChangeMap } from "./change-map.ts";
import type { ChangeItem } from "./change-map.ts";
import type { Connection } from "./connection.ts";
import { readSubscription } from "./documents.ts";
import { WatchError } from "./errors.ts";
import type { ItemOf, RowOf, TypedDocument } from "./documents.ts";
import { createStore } from "./store.ts";
import type { Store } from "./store.ts";
import { openStream } from "./stream.ts";

interface StreamView {
  /**
   * The view is what the service has, as far as can be known: the stream has caught up, and its connection is alive.
   * False at the start and after a connection loss; the view then stays as it was.
   */
  readonly isLive: boolean;
  /** Why the stream has ended; null while it continues. It continues after a connection loss. */
  readonly error: Error | null;
}

/** The objects of a stream of changes at one moment. */
export interface ItemsView<Row> extends StreamView {
  /** By global ID. */
  readonly items: ReadonlyMap<string, Row>;
  /** `items` has all objects that match. */
  readonly isWhole: boolean;
}

/** The newest answer of a stream of counts, or of what needs a person. */
export interface ValueView<Value> extends StreamView {
  /** Null until the first answer. */
  readonly value: Value | null;
}

export type ViewOf<Result> = [RowOf<ItemOf<Result>>] extends [never]
  ? ValueView<ItemOf<Result>>
  : ItemsView<RowOf<ItemOf<Result>>>;

/** The variables of a stream, but for those that say where it begins. */
export type VariablesOf<Variables> = Omit<Variables, "after" | "snapshot">;

/** All objects, page by page, in place of a snapshot of the stream. `asOf`: of the list with the same filter. */
export interface ListPage<Row> {
  readonly rows: readonly Row[];
  readonly asOf: string;
}

export interface FollowOptions<Result, Variables> {
  /** Minimum time between two views, in milliseconds. Default: 100. */
  readonly throttleMs?: number | undefined;
  /** Reads the objects with queries, which cost the service less than a snapshot of the stream. */
  readonly pages?: ((variables: VariablesOf<Variables>) => AsyncIterable<ListPage<RowOf<ItemOf<Result>>>>) | undefined;
  /** Shown until there is something to show. */
  readonly placeholder?: ViewOf<Result> | undefined;
}

const THROTTLE_MS = 100;

/** Follows a subscription of nodes, operations, runs, clusters, counts, or what needs a person. */
export function followChanges<Result, Variables>(
  connection: Connection,
  document: TypedDocument<Result, Variables>,
  variables: VariablesOf<Variables>,
  options: FollowOptions<Result, Variables> = {},
): Store<ViewOf<Result>> {
  const { throttleMs = THROTTLE_MS, pages, placeholder } = options;
  const { query, follows } = readSubscription(document);
  const kept = follows === "OBJECTS" ? keptItems(placeholder) : keptValue(placeholder);
  let error: Error | null = null;
  let isReading = pages !== undefined;

  async function readPages(list: AsyncIterable<ListPage<unknown>>, signal: AbortSignal): Promise<void> {
    const rows: unknown[] = [];
    let asOf: string | undefined;
    for await (const page of list) {
      if (signal.aborted) return;
      rows.push(...page.rows);
      // What has changed while the pages were read is repeated by the stream.
      asOf ??= page.asOf;
      kept.takeList(rows, asOf);
      changed();
    }
    isReading = false;
    error = null;
  }

  async function follow(signal: AbortSignal): Promise<void> {
    // React's strict mode subscribes, unsubscribes and subscribes at once; only the last one connects.
    await Promise.resolve();
    for (let tries = 0; pages && isReading && !signal.aborted; tries += 1)
      await readPages(pages(variables), signal).catch(async (cause: unknown) => {
        if (cause instanceof WatchError) throw cause;
        error = cause instanceof Error ? cause : new Error(String(cause));
        changed();
        await new Promise((resolve) => setTimeout(resolve, connection.pauseMs(tries)));
      });
    if (signal.aborted) return;
    const end = openStream(connection, query, {
      begin: () => ({ ...variables, ...kept.begin() }),
      take(item) {
        const wasLive = kept.isLive();
        kept.take(item);
        // A page waits for it, and it happens once for each connection.
        changed(kept.isLive() && !wasLive);
      },
      lost() {
        kept.lost();
        changed();
      },
      failed,
    });
    signal.addEventListener("abort", end);
  }

  function failed(cause: unknown): void {
    kept.lost();
    error = cause instanceof Error ? cause : new Error(String(cause));
    changed();
  }

  const look = () => ({ ...kept.view(), ...(isReading && { isWhole: false }), error }) as ViewOf<Result>;
  const { changed, ...store } = createStore(look, throttleMs, (signal) => {
    error = null;
    follow(signal).catch((cause: unknown) => !signal.aborted && failed(cause));
    signal.addEventListener("abort", kept.lost);
  });
  return store;
}

/** The state that a stream has brought. */
interface Kept {
  begin(): object;
  take(item: unknown): void;
  lost(): void;
  isLive(): boolean;
  takeList(rows: readonly unknown[], asOf: string): void;
  view(): object;
}

function keptItems(placeholder: Partial<ItemsView<unknown>> | undefined): Kept {
  const map = createChangeMap<{ readonly id: string }>();
  const before = placeholder?.items ?? new Map<string, unknown>();
  return {
    begin: () => map.begin(),
    take: (item) => map.take(item as ChangeItem<{ readonly id: string }>),
    lost: () => map.lost(),
    isLive: () => map.isLive,
    takeList: (rows, asOf) => map.takeList(rows as readonly { readonly id: string }[], asOf),
    view: () => ({
      items: map.cursor === null ? before : map.items,
      isWhole: map.cursor !== null,
      isLive: map.isLive,
    }),
  };
}

function keptValue(placeholder: Partial<ValueView<unknown>> | undefined): Kept {
  let value: unknown = placeholder?.value ?? null;
  let isLive = false;
  return {
    begin: () => ({}),
    take(answer) {
      isLive = !("code" in (answer as object));
      // A reset has no value.
      if (isLive) value = answer;
    },
    lost() {
      isLive = false;
    },
    isLive: () => isLive,
    takeList() {},
    view: () => ({ value, isLive }),
  };
}
