/**
 * Follows nodes: all of them as they are, then every transition, in order and each once, over any break of the
 * connection. It comes back by itself, from where it was; what it cannot wait out, and what was not told, it throws.
 */
import { proofOf } from "./filter.ts";
import type { NodeFilter } from "./filter.ts";
import { WatchError } from "./items.ts";
import type { NodeFields, WatchItem } from "./items.ts";
import { createPosition } from "./position.ts";
import type { Position } from "./position.ts";
import { openSession } from "./session.ts";
import type { Ending, Session } from "./session.ts";

export interface WatchOptions {
  /** Address of the API, as in `https://ostler.example/graphql`; in a browser a path will do. */
  readonly url: string;
  /** The token, or where to get it: asked for at each connection. */
  readonly token?: string | (() => string | Promise<string>) | undefined;
  /** Which nodes; absent: all. */
  readonly filter?: NodeFilter | undefined;
  /** What to tell of a node, in GraphQL: `name state labels { key value }`. Absent: name and state, in the snapshot alone. */
  readonly nodeFields?: string | undefined;
  /** What to tell of a transition besides what is always told: `reason actor operation { uuid }`. */
  readonly transitionFields?: string | undefined;
  /** Go on after this cursor, which an earlier watcher told, in place of a snapshot. */
  readonly after?: string | undefined;
  /** Ends the iteration. */
  readonly signal?: AbortSignal | undefined;
  /** Where there is no global WebSocket: that of `ws`. */
  readonly webSocketImpl?: unknown;
  /** Told at each break, before the pause. */
  readonly onBreak?:
    | ((broken: { readonly why: string; readonly tries: number; readonly pauseMs: number }) => void)
    | undefined;
  /** Longest pause before the first try, and before any; each is random, up to twice as long as the one before, until a connection was good for something. */
  readonly firstPauseMs?: number | undefined;
  readonly longestPauseMs?: number | undefined;
  /** A server that says nothing for so long is gone; it promises a word every 15 seconds. */
  readonly silenceMs?: number | undefined;
  /** So many items may wait to be read before the connection is given up, and taken up when they have been. */
  readonly unreadMax?: number | undefined;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
const SILENCE_MS = 30_000;
const UNREAD_MAX = 10_000;
/** A connection that held for so long was a good one, although nothing happened. */
const HELD_MS = 10_000;

/**
 * Items until it is left, or its signal fires, which both end it at once. Throws a `WatchError`: GAP when something was
 * not told, REFUSED when the server takes this client or this request not at all.
 */
export function watchNodes<Fields = NodeFields, More = unknown>(
  options: WatchOptions,
): AsyncIterableIterator<WatchItem<Fields, More>> {
  const leave = new AbortController();
  const items = follow(
    options,
    options.signal ? AbortSignal.any([options.signal, leave.signal]) : leave.signal,
  ) as AsyncGenerator<WatchItem<Fields, More>>;
  return {
    next: () => items.next(),
    // A generator that waits would not hear it before its next item.
    return() {
      leave.abort();
      return items.return(undefined);
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

async function* follow(options: WatchOptions, left: AbortSignal): AsyncGenerator<WatchItem<object>> {
  const position = createPosition(proofOf(options.filter), options.after ?? null);
  let tries = 0;
  while (!left.aborted) {
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
      left,
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
    await pause(pauseMs, left);
  }
}

/**
 * What one connection tells, until it has ended (null: because the watcher left), and whether it was good for anything: it
 * moved the cursor on from `after`, or it held for a while. Half a snapshot does not count, and neither does a bookmark at
 * the cursor, which a server that breaks each time tells too.
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
      const told = position.take(next.item);
      if (told === null) continue;
      advanced ||= "cursor" in told && told.cursor !== after;
      yield told;
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
    throw new WatchError("REFUSED", `${url} is no address of an API: it begins with https, http, wss or ws.`);
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
