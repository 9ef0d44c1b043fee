/** All that the page follows, over one WebSocket. A stream goes on over any loss of the connection. */
import { WatchError, connect, followChanges, followRunLog } from "ostler-client";
import type { ItemsView, ListPage, Store, TypedDocument, ValueView } from "ostler-client";
import { useCallback, useMemo, useSyncExternalStore } from "react";
import { REQUESTS } from "../../requests.ts";
import type { Answers } from "../../requests.ts";
import { queryClient } from "./queries.ts";
import { RequestError, request } from "./request.ts";
import type { RequestName, Variables } from "./request.ts";
import { currentToken, entries } from "./session.ts";
import { createSignal } from "./signal.ts";
import { PROBLEMS } from "../words/attention.ts";

export type NodeRow = NonNullable<Answers["nodeChanges"]["item"]["node"]>;
export type OperationRow = NonNullable<Answers["operationChanges"]["item"]["operation"]>;
export type ClusterRow = NonNullable<Answers["clusterChanges"]["item"]["cluster"]>;
export type RunRow = NonNullable<Answers["runChanges"]["item"]["run"]>;
export type Attention = Answers["attentionChanges"]["item"];
export type AttentionGroup = Attention["groups"][number];

export const connection = connect({ url: "/graphql", token: () => currentToken() ?? undefined });

let connections = 0;
let reading: ReturnType<typeof setTimeout> | undefined;
// The rights of another connection may be others, also in answers that were read once. One that is closed at once is
// not worth it.
connection.subscribe(() => {
  clearTimeout(reading);
  if (connection.getSnapshot().state !== "connected") return;
  connections += 1;
  if (connections > 1) reading = setTimeout(() => void queryClient.invalidateQueries(), STABLE_MS);
});

entries.subscribe(() => {
  connection.renew();
  void queryClient.invalidateQueries();
});

const documentOf = <Item>(query: string): TypedDocument<{ readonly item: Item }, Variables> =>
  ({ toString: () => query }) as TypedDocument<{ readonly item: Item }, Variables>;
const NODES = documentOf<{ readonly node: NodeRow }>(REQUESTS.nodeChanges);
const OPERATIONS = documentOf<{ readonly operation: OperationRow }>(REQUESTS.operationChanges);
const CLUSTERS = documentOf<{ readonly cluster: ClusterRow }>(REQUESTS.clusterChanges);
const RUNS = documentOf<{ readonly run: RunRow }>(REQUESTS.runChanges);
const ATTENTION = documentOf<Attention>(REQUESTS.attentionChanges);

/** A view of 10,000 nodes costs the page some 15 ms: eight of them a second are an eighth of its time. */
const VIEW_MS = 125;
/** More than a screen, and quick. */
const FIRST_PAGE = 100;
/** With the fields of a row it costs less than a request may (docs/limits.md). */
const PAGE = 800;
const STABLE_MS = 200;
/** A list that could not be read because of the connection is read again. */
const AGAIN_MS = 5_000;
/** The service has no larger pages of runs. */
const RUN_PAGE = 100;

/** Nodes that match: first pages, which cost the service a fraction of a snapshot of the stream, then every change. */
export function followNodes(filter: object | null): Store<ItemsView<NodeRow>> {
  return followChanges(connection, NODES, { filter }, { throttleMs: VIEW_MS, pages: () => pagesOf(filter) });
}

async function* pagesOf(filter: object | null): AsyncGenerator<ListPage<NodeRow>> {
  let page = readPage("fleetPage", { filter, first: FIRST_PAGE });
  for (;;) {
    const { asOf, nodes, pageInfo } = (await page).nodes;
    // While a page is shown, the service works on the next one.
    if (pageInfo.hasNextPage) {
      page = readPage("fleetPage", { filter, first: PAGE, after: pageInfo.endCursor });
      page.catch(() => {});
    }
    yield { asOf, rows: nodes };
    if (!pageInfo.hasNextPage) return;
  }
}

/** Ends a stream whose pages cannot be read, as its own refusal does. */
async function readPage<Name extends RequestName>(name: Name, variables: Variables): Promise<Answers[Name]> {
  return request(name, variables).catch((error: unknown) => {
    if (!(error instanceof RequestError) || error.isPassing) throw error;
    throw new WatchError(error.message, { code: error.code });
  });
}

/** The same, read once: for filters that the service does not follow. */
export function readNodes(filter: object): Store<ItemsView<NodeRow>> {
  const { get, set, subscribe } = createSignal<ItemsView<NodeRow>>(UNREAD);
  async function read(): Promise<void> {
    try {
      for await (const { rows } of pagesOf(filter))
        set({ ...get(), error: null, items: new Map([...get().items, ...rows.map((row) => [row.id, row] as const)]) });
      set({ ...get(), isWhole: true });
    } catch (error) {
      set({ ...get(), error: error as Error });
      if (!(error instanceof WatchError)) setTimeout(() => void read(), AGAIN_MS);
    }
  }
  let isRead = false;
  return {
    getSnapshot: get,
    subscribe(listener) {
      if (!isRead || get().error) void read();
      isRead = true;
      return subscribe(listener);
    },
  };
}

const UNREAD: ItemsView<NodeRow> = { items: new Map(), isWhole: false, isLive: false, error: null };

/** Every node. The page follows it as long as it is open. */
export const fleet = followNodes(null);

export const UNFINISHED = ["QUEUED", "RUNNING", "ABORTING", "STOPPING"];
export const running: Store<ItemsView<OperationRow>> = followChanges(connection, OPERATIONS, {
  filter: { states: UNFINISHED },
});
export const clusters: Store<ItemsView<ClusterRow>> = followChanges(connection, CLUSTERS, {});
const followAttention = (kinds: readonly string[], nodesMax: number): Store<ValueView<Attention>> =>
  followChanges(connection, ATTENTION, { kinds, nodesMax });
export const attention = followAttention(PROBLEMS, 20);
/** The service has the largest groups first: clusters with many new nodes would leave no place for a failure. */
export const pending = followAttention(["PENDING_CHANGES"], 3);

export const useStore = <View>(store: Store<View>): View => usePart(store, (view) => view);

/** The component is rendered again only if this part of the view is another one. */
export function usePart<View, Part>(store: Store<View>, part: (view: View) => Part): Part {
  const entry = useSyncExternalStore(entries.subscribe, entries.get);
  const subscribe = useCallback((listener: () => void) => store.subscribe(listener), [store, entry]);
  return useSyncExternalStore(subscribe, () => part(store.getSnapshot()));
}

/** One operation, also after it has ended. `id`: its global ID or UUID. */
export function useOperation(id: string): {
  readonly view: ItemsView<OperationRow>;
  readonly row: OperationRow | null;
} {
  const view = useStore(
    useMemo(() => followChanges(connection, OPERATIONS, { filter: { ids: [id] } }), [id]) as Store<
      ItemsView<OperationRow>
    >,
  );
  return { view, row: [...view.items.values()].find((row) => row.id === id || row.uuid === id) ?? null };
}

/** The runs of an operation: first pages, then every change. `id`: its global ID; null: there is none. */
export function useRunsOfOperation(id: string | null): ItemsView<RunRow> {
  return useStore(
    useMemo(
      (): Store<ItemsView<RunRow>> =>
        id === null
          ? { getSnapshot: () => NO_RUNS, subscribe: () => () => {} }
          : followChanges(connection, RUNS, { operation: id }, { pages: () => runPagesOf(id) }),
      [id],
    ),
  );
}

const NO_RUNS: ItemsView<RunRow> = { items: new Map(), isWhole: true, isLive: true, error: null };

async function* runPagesOf(id: string): AsyncGenerator<ListPage<RunRow>> {
  let variables: Variables = { id, first: RUN_PAGE };
  for (;;) {
    const runs = (await readPage("runPage", variables)).operation?.runs;
    if (!runs) throw new WatchError("The operation does not exist any longer.");
    yield { asOf: runs.asOf, rows: runs.nodes };
    if (!runs.pageInfo.hasNextPage) return;
    variables = { id, first: RUN_PAGE, after: runs.pageInfo.endCursor };
  }
}

/** The runs of a node. */
export function useRunsOfNode(name: string): ItemsView<RunRow> {
  return useStore(useMemo((): Store<ItemsView<RunRow>> => followChanges(connection, RUNS, { node: { name } }), [name]));
}

export function useRunLog(id: string) {
  return useStore(useMemo(() => followRunLog(connection, id), [id]));
}
