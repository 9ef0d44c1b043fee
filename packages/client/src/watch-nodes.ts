/**
 * Watches nodes: a snapshot, then every transition, in order and exactly once, across connection losses. Reconnects and
 * resumes automatically. Throws on gaps and on failures that a retry cannot resolve.
 */
import { proofOf } from "./filter.ts";
import type { NodeFilter } from "./node-filter.ts";
import { WatchError } from "./items.ts";
import type { NodeFields, WatchItem } from "./items.ts";
import { createPosition } from "./position.ts";
import type { Position } from "./position.ts";
import { openSession } from "./session.ts";
import type { Ending, Session } from "./session.ts";

export interface WatchOptions {
  /** Address of the API, as in `https://ostler.example/graphql`; in a browser, a path is enough. */
  readonly url: string;
  /** The token, or a function that returns it, called for each connection. */
  readonly token?: string | (() => string | Promise<string>) | undefined;
  /** Nodes to watch; absent: all. */
  readonly filter?: NodeFilter | undefined;
  /** Fields of nodes, in GraphQL: `name state labels { key value }`. Default: name and state, in the snapshot only. */
  readonly nodeFields?: string | undefined;
  /** Additional fields of transitions: `reason actor operation { uuid }`. */
  readonly transitionFields?: string | undefined;
  /** Resumes after this cursor of an earlier watcher, without a snapshot. */
  readonly after?: string | undefined;
  /** Ends the iteration. */
  readonly signal?: AbortSignal | undefined;
  /** The WebSocket class of the package `ws`, if there is no global one. */
  readonly webSocketImpl?: unknown;
  /** Called at each connection loss, before the pause. */
  readonly onBreak?:
    | ((broken: { readonly why: string; readonly tries: number; readonly pauseMs: number }) => void)
    | undefined;
  /**
   * Backoff with jitter: upper bounds of the first pause and of any pause. The bound doubles at each attempt, and is
   * reset by a connection that made progress.
   */
  readonly firstPauseMs?: number | undefined;
  readonly longestPauseMs?: number | undefined;
  /** A connection without a message for this long counts as lost. The server sends one at least every 15 seconds. */
  readonly silenceMs?: number | undefined;
  /** Maximum number of unread items. Above it the connection is closed, and resumed when they were read. */
  readonly unreadMax?: number | undefined;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
const SILENCE_MS = 30_000;
const UNREAD_MAX = 10_000;
/** A connection that lasted this long counts as progress, even without items. */
const HELD_MS = 10_000;

/**
 * Iterates over items until the loop is left or the signal fires; both end it immediately. Throws a `WatchError`: GAP
 * if items are missing, REFUSED if the server rejects this client or this request.
 */
export function watchNodes<Fields = NodeFields, More = unknown>(
  options: WatchOptions,
): AsyncIterableIterator<WatchItem<Fields, More>> {
  const stop = new AbortController();
  const items = follow(
    options,
    options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal,
  ) as AsyncGenerator<WatchItem<Fields, More>>;
  return {
    next: () => items.next(),
    // A waiting generator would not process `return` before its next item.
    return() {
      stop.abort();
      return items.return(undefined);
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

async function* follow(options: WatchOptions, signal: AbortSignal): AsyncGenerator<WatchItem<object>> {
  const position = createPosition(proofOf(options.filter), options.after ?? null);
  let tries = 0;
  while (!signal.aborted) {
    const { begin, ...variables } = position.connect();
    if (begin !== null) yield { kind: "begin", reason: begin };
    const session = openSession({
      url: socketUrl(options.url),
      query: subscription(options),
      variables: { ...variables, filter: options.filter ?? null },
      token: options.token,
      webSocketImpl: options.webSocketImpl,
      unreadMax: options.unreadMax ?? UNREAD_MAX,
      silenceMs: options.silenceMs ?? SILENCE_MS,
      signal,
    });
    const { ending, advanced } = yield* read(session, position, variables.after);
    if (ending === null) return;
    if (ending.kind === "refused") throw ending.error;
    tries = advanced ? 0 : tries + 1;
    if (ending.kind === "unread") continue;
    const pauseMs =
      Math.random() *
      Math.min(
        options.longestPauseMs ?? LONGEST_PAUSE_MS,
        (options.firstPauseMs ?? FIRST_PAUSE_MS) * 2 ** Math.max(0, tries - 1),
      );
    options.onBreak?.({ why: ending.why, tries, pauseMs });
    await pause(pauseMs, signal);
  }
}

/**
 * Yields the items of one connection. Returns its ending (null: the watch ended), and whether it made progress: it
 * moved the cursor beyond `after`, or lasted for `HELD_MS`. An incomplete snapshot is not progress, and neither is a
 * bookmark at the cursor, which a server that fails each time sends too.
 */
async function* read(
  session: Session,
  position: Position,
  after: string | null,
): AsyncGenerator<WatchItem<object>, { readonly ending: Ending | null; readonly advanced: boolean }> {
  let advanced = false;
  try {
    for (;;) {
      const next = await session.next();
      if (next === null) return { ending: null, advanced };
      advanced ||= session.heldMs >= HELD_MS;
      if ("ending" in next) return { ending: next.ending, advanced };
      if (next.item.__typename === "StreamReset") {
        position.reset(next.item.code);
        return { ending: { kind: "broken", why: `the server ended the stream: ${next.item.code}` }, advanced };
      }
      const item = position.take(next.item);
      if (item === null) continue;
      advanced ||= "cursor" in item && item.cursor !== after;
      yield item;
    }
  } finally {
    session.close();
  }
}

function subscription({ nodeFields, transitionFields = "" }: WatchOptions): string {
  const node = (fields: string) => `node { uuid transitionCount revision ${fields} }`;
  return `subscription WatchNodes($filter: NodeFilter, $after: String, $snapshot: Boolean!) {
  nodeTransitions(filter: $filter, after: $after, snapshot: $snapshot) {
    __typename
    ... on NodeSnapshot { cursor ${node(nodeFields ?? "name state")} }
    ... on Transition { cursor nodeUuid nodeName sequence nodeRevision from to event at ${transitionFields} ${nodeFields === undefined ? "" : node(nodeFields)} }
    ... on StreamBookmark { cursor snapshotComplete caughtUp }
    ... on StreamReset { cursor code }
  }
}`;
}

function socketUrl(url: string): string {
  const page = (globalThis as { readonly location?: { readonly href: string } }).location?.href;
  const address = new URL(url, page);
  if (!/^(http|ws)s?:$/.test(address.protocol))
    throw new WatchError(
      "REFUSED",
      `${url} is not the address of an API. Use a URL that begins with https, http, wss or ws.`,
    );
  return address.href.replace(/^http/, "ws");
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
    if (signal.aborted) done();
  });
}
