/**
 * One connection with one subscription. It does not use graphql-ws's own reconnection, which would repeat the original
 * request instead of resuming. A session ends once, with an `Ending`, after all received items were read.
 */
import { createClient } from "graphql-ws/client";
import { WatchError } from "./items.ts";
import type { StreamItem } from "./items.ts";
import { createQueue } from "./queue.ts";

export type Ending =
  /** A later connection can resume. */
  | { readonly kind: "broken"; readonly why: string }
  /** Too many items were waiting to be read. Resume when they were read. */
  | { readonly kind: "unread" }
  /** A retry cannot help. */
  | { readonly kind: "refused"; readonly error: WatchError };

export interface SessionOptions {
  /** Address of the WebSocket. */
  readonly url: string;
  readonly query: string;
  readonly variables: Record<string, unknown>;
  readonly token: string | (() => string | Promise<string>) | undefined;
  readonly webSocketImpl: unknown;
  /** Maximum number of unread items, not counting those of a snapshot. */
  readonly unreadMax: number;
  /** A connection without a message for this long counts as lost. */
  readonly silenceMs: number;
  /** Ends the session. */
  readonly signal: AbortSignal;
}

export interface Session {
  /** The next item, or the ending after the last one; null if the signal fired. */
  next(): Promise<{ readonly item: StreamItem } | { readonly ending: Ending } | null>;
  close(): void;
  /** Milliseconds from the first item to the end, or until now. */
  readonly heldMs: number;
}

/** The members of a WebSocket that are used here. */
interface Socket {
  readonly readyState: number;
  close(): void;
}

const CONNECTING = 0;
const ACKNOWLEDGE_MS = 10_000;
/**
 * Bad request, unauthorized, unacceptable subprotocol, subscriber exists, too many initialisations, internal protocol
 * error. Also 4403, except on an established connection: there the token has expired, and the next connection gets a
 * new one.
 */
const FATAL_CLOSE_CODES = new Set([4400, 4401, 4406, 4409, 4429, 4500]);
const FORBIDDEN = 4403;
const WRONG_TOKEN = "The token is missing or wrong. Pass the token of the service as `token`.";
/** Errors that a retry can resolve. */
const TRANSIENT_CODES = new Set<unknown>(["INTERNAL", "CAPACITY", "DATABASE_UNAVAILABLE"]);

export function openSession(options: SessionOptions): Session {
  const { url, token, silenceMs, unreadMax, signal } = options;
  const items = createQueue<StreamItem>();
  let ending: Ending | null = null;
  let wake: () => void = () => {};
  let acknowledged = false;
  let firstAt: number | null = null;
  let endedAt: number | null = null;
  let silence: ReturnType<typeof setTimeout> | undefined;
  let socket: Socket | null = null;
  const client = createClient({
    url,
    webSocketImpl: trackedWebSocket(options.webSocketImpl, (created) => void (socket = created)),
    retryAttempts: 0,
    connectionAckWaitTimeout: ACKNOWLEDGE_MS,
    connectionParams: async () =>
      token === undefined ? {} : { authorization: `Bearer ${typeof token === "string" ? token : await token()}` },
    on: {
      connected: () => void (acknowledged = true),
      // Also on close code 1000, after which graphql-ws would subscribe again automatically.
      closed: (event) => end(endingOf(event, acknowledged)),
    },
  });
  client.subscribe<{ readonly nodeTransitions: StreamItem }>(
    { query: options.query, variables: options.variables },
    {
      next({ data, errors }) {
        if (ending) return;
        restartSilenceTimer();
        firstAt ??= performance.now();
        if (errors || !data) return end(endingOf(errors ?? [], acknowledged));
        items.push(data.nodeTransitions);
        if (items.length > unreadMax && data.nodeTransitions.__typename !== "NodeSnapshot")
          return end({ kind: "unread" });
        wake();
      },
      error: (error) => end(endingOf(error, acknowledged)),
      complete: () => end({ kind: "broken", why: "the server completed the stream" }),
    },
  );
  restartSilenceTimer();
  const stop = () => end({ kind: "broken", why: "the watch ended" });
  signal.addEventListener("abort", stop);

  function restartSilenceTimer(): void {
    clearTimeout(silence);
    silence = setTimeout(() => end({ kind: "broken", why: `no message for ${silenceMs / 1_000} s` }), silenceMs);
  }

  function end(how: Ending): void {
    if (ending) return;
    ending = how;
    endedAt = performance.now();
    clearTimeout(silence);
    signal.removeEventListener("abort", stop);
    if (socket?.readyState === CONNECTING) socket.close();
    void Promise.resolve(client.dispose()).catch(() => {});
    wake();
  }

  return {
    async next() {
      for (;;) {
        if (signal.aborted) return null;
        const item = items.take();
        if (item) return { item };
        if (ending) return { ending };
        await new Promise<void>((resolve) => (wake = resolve));
      }
    },
    close: stop,
    get heldMs() {
      return firstAt === null ? 0 : (endedAt ?? performance.now()) - firstAt;
    },
  };
}

/** A WebSocket class that reports each instance, so that a socket that never opens can be closed. */
function trackedWebSocket(implementation: unknown, onCreate: (socket: Socket) => void) {
  const Implementation = (implementation ?? globalThis.WebSocket) as (new (...args: unknown[]) => Socket) | undefined;
  if (!Implementation)
    throw new WatchError(
      "REFUSED",
      "This environment has no WebSocket. Pass the one of the package `ws` as `webSocketImpl`.",
    );
  return class extends Implementation {
    constructor(...args: unknown[]) {
      super(...args);
      onCreate(this);
    }
  };
}

/** Classifies the end of a connection or of a subscription. */
function endingOf(cause: unknown, acknowledged: boolean): Ending {
  if (Array.isArray(cause)) {
    const errors = cause as readonly { readonly message: string; readonly extensions?: { readonly code?: unknown } }[];
    const why = errors.map(({ message }) => message).join(" ");
    return errors.every(({ extensions }) => TRANSIENT_CODES.has(extensions?.code))
      ? { kind: "broken", why }
      : { kind: "refused", error: new WatchError("REFUSED", why) };
  }
  if (
    typeof cause === "object" &&
    cause !== null &&
    "code" in cause &&
    "reason" in cause &&
    typeof cause.code === "number"
  ) {
    const { code, reason } = cause;
    const why = `the socket was closed with ${code}${reason === "" ? "" : `: ${String(reason)}`}`;
    if (code === FORBIDDEN && !acknowledged)
      return { kind: "refused", error: new WatchError("REFUSED", WRONG_TOKEN, code) };
    return FATAL_CLOSE_CODES.has(code)
      ? { kind: "refused", error: new WatchError("REFUSED", `The server rejects this client: ${why}.`, code) }
      : { kind: "broken", why };
  }
  const message = typeof cause === "object" && cause !== null && "message" in cause ? String(cause.message) : "";
  return { kind: "broken", why: message || "the server cannot be reached" };
}
