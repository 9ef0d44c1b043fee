/**
 * One connection with one subscription on it: a socket of graphql-ws that does not come back by itself, because it would
 * ask again for what it asked for first. It is over once, for one of the reasons of `Ending`, after what had come was read.
 */
import { createClient } from "graphql-ws/client";
import { WatchError } from "./items.ts";
import type { StreamItem } from "./items.ts";
import { createQueue } from "./queue.ts";

export type Ending =
  /** It can be taken up again, after a while. */
  | { readonly kind: "broken"; readonly why: string }
  /** Too much had come that nobody read. Take it up again when it has been. */
  | { readonly kind: "unread" }
  /** Trying again would not help. */
  | { readonly kind: "refused"; readonly error: WatchError };

export interface SessionOptions {
  /** Address of the WebSocket. */
  readonly url: string;
  readonly query: string;
  readonly variables: Record<string, unknown>;
  readonly token: string | (() => string | Promise<string>) | undefined;
  readonly webSocketImpl: unknown;
  /** So many items may wait to be read, unless they are a snapshot's. */
  readonly unreadMax: number;
  /** A server that says nothing for so long is gone. */
  readonly silenceMs: number;
  /** Ends it. */
  readonly left: AbortSignal;
}

export interface Session {
  /** The next item; the ending, when there is none any more; null, when the signal fired. */
  next(): Promise<{ readonly item: StreamItem } | { readonly ending: Ending } | null>;
  close(): void;
  /** How long it told something, in milliseconds from its first item to its end, or up to now. */
  readonly heldMs: number;
}

/** What we use of a WebSocket, whosever it is. */
interface Socket {
  readonly readyState: number;
  close(): void;
}

const CONNECTING = 0;
const ACKNOWLEDGE_MS = 10_000;
/**
 * Bad request, unauthorized, subprotocol not acceptable, subscriber exists, too many initialisations, internal error of
 * the protocol. 4403 besides, unless the connection stood: then its token has run out, and a new one is asked for.
 */
const FATAL_CLOSE_CODES = new Set([4400, 4401, 4406, 4409, 4429, 4500]);
const FORBIDDEN = 4403;
/** Errors that are not the request's fault. */
const PASSING_CODES = new Set<unknown>(["INTERNAL", "CAPACITY"]);

export function openSession(options: SessionOptions): Session {
  const { url, token, silenceMs, unreadMax, left } = options;
  const items = createQueue<StreamItem>();
  let ending: Ending | null = null;
  let wake: () => void = () => {};
  let acknowledged = false;
  let firstAt: number | null = null;
  let endedAt: number | null = null;
  let silence: ReturnType<typeof setTimeout> | undefined;
  let socket: Socket | null = null;
  const hold = (made: Socket) => void (socket = made);

  const Implementation = (options.webSocketImpl ?? globalThis.WebSocket) as
    | (new (...args: unknown[]) => Socket)
    | undefined;
  if (!Implementation)
    throw new WatchError("REFUSED", "There is no WebSocket here; give that of `ws` as `webSocketImpl`.");
  /** Keeps hold of the socket, so that one which never opens can be closed. */
  class Held extends Implementation {
    constructor(...args: unknown[]) {
      super(...args);
      hold(this);
    }
  }

  const client = createClient({
    url,
    webSocketImpl: Held,
    retryAttempts: 0,
    connectionAckWaitTimeout: ACKNOWLEDGE_MS,
    connectionParams: async () =>
      token === undefined ? {} : { authorization: `Bearer ${typeof token === "string" ? token : await token()}` },
    on: {
      connected: () => void (acknowledged = true),
      // Also at 1000, which graphql-ws would take as a reason to subscribe again by itself.
      closed: (event) => end(endingOf(event, acknowledged)),
    },
  });
  client.subscribe<{ readonly nodeTransitions: StreamItem }>(
    { query: options.query, variables: options.variables },
    {
      next({ data, errors }) {
        if (ending) return;
        listen();
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
  listen();
  const leave = () => end({ kind: "broken", why: "it was left" });
  left.addEventListener("abort", leave);

  function listen(): void {
    clearTimeout(silence);
    silence = setTimeout(() => end({ kind: "broken", why: `nothing came for ${silenceMs / 1_000} s` }), silenceMs);
  }

  function end(how: Ending): void {
    if (ending) return;
    ending = how;
    endedAt = performance.now();
    clearTimeout(silence);
    left.removeEventListener("abort", leave);
    if (socket?.readyState === CONNECTING) socket.close();
    void Promise.resolve(client.dispose()).catch(() => {});
    wake();
  }

  return {
    async next() {
      for (;;) {
        if (left.aborted) return null;
        const item = items.take();
        if (item) return { item };
        if (ending) return { ending };
        await new Promise<void>((resolve) => (wake = resolve));
      }
    },
    close: leave,
    get heldMs() {
      return firstAt === null ? 0 : (endedAt ?? performance.now()) - firstAt;
    },
  };
}

/** What the end of a connection, or of a subscription, means. */
function endingOf(cause: unknown, acknowledged: boolean): Ending {
  if (Array.isArray(cause)) {
    const errors = cause as readonly { readonly message: string; readonly extensions?: { readonly code?: unknown } }[];
    const why = errors.map(({ message }) => message).join(" ");
    return errors.every(({ extensions }) => PASSING_CODES.has(extensions?.code))
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
    const fatal = FATAL_CLOSE_CODES.has(code) || (code === FORBIDDEN && !acknowledged);
    return fatal
      ? { kind: "refused", error: new WatchError("REFUSED", `The server refuses this client: ${why}.`, code) }
      : { kind: "broken", why };
  }
  const message = typeof cause === "object" && cause !== null && "message" in cause ? String(cause.message) : "";
  return { kind: "broken", why: message || "the server cannot be reached" };
}
