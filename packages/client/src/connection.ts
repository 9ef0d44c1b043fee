/**
 * One WebSocket for all streams of a program or page, over graphql-ws: opened with the first stream, closed after the
 * last one, and opened again after each loss. A connection that is cut without a word, or whose server is frozen, is
 * found within `pingMs` and `pongMs`.
 */
import { createClient } from "graphql-ws/client";
import type { Client } from "graphql-ws/client";
import { isForbidden, reasonOf } from "./errors.ts";
import { createStore } from "./store.ts";
import type { Store } from "./store.ts";

export interface ConnectOptions {
  /**
   * Address of the API, as in `https://ostler.example/graphql`; in a browser, a path is enough. A module that
   * also runs on a server may make a connection with a path: only a stream there fails.
   */
  readonly url: string;
  /** The token, or a function that returns it, called for each connection. Default: the session of the browser. */
  readonly token?: string | (() => string | undefined | Promise<string | undefined>) | undefined;
  /** The WebSocket class of the package `ws`, if there is no global one. */
  readonly webSocketImpl?: unknown;
  /** Backoff with jitter: upper bounds of the first pause and of any pause. The bound doubles at each attempt. */
  readonly firstPauseMs?: number | undefined;
  readonly longestPauseMs?: number | undefined;
  /** A connection counts as lost if it is not established in this time. */
  readonly connectMs?: number | undefined;
  /** Time from a sign of life of the service to the next ping. */
  readonly pingMs?: number | undefined;
  /** A connection counts as lost if nothing arrives for this long after a ping. */
  readonly pongMs?: number | undefined;
}

export interface ConnectionStatus {
  /**
   * `idle`: no stream needs it. `broken`: it is lost, and attempts to connect fail. `refused`: the token is missing or
   * wrong.
   */
  readonly state: "idle" | "connecting" | "connected" | "broken" | "refused";
  /** If it is broken: the last sign of life of the service. */
  readonly since: Date;
  /** Why it is broken or refused; null otherwise. */
  readonly why: string | null;
}

export interface Connection extends Store<ConnectionStatus> {
  /** For further requests over the same socket. Throws if the address or the environment does not allow one. */
  readonly client: Client;
  /** Connects again, with the token as it is then. The streams continue. */
  renew(): void;
  /** The pause before an attempt, in milliseconds. `tries`: number of attempts before that have failed. */
  pauseMs(tries: number): number;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
const PING_MS = 5_000;
const PONG_MS = 8_000;
const CONNECT_MS = 10_000;
/** A stream that follows another one keeps the socket. */
const IDLE_MS = 500;
const NORMAL_CLOSURE = 1000;

export function connect(options: ConnectOptions): Connection {
  const { token, pongMs = PONG_MS, firstPauseMs = FIRST_PAUSE_MS, longestPauseMs = LONGEST_PAUSE_MS } = options;
  if (URL.canParse(options.url)) socketUrl(options.url);
  let status: ConnectionStatus = { state: "idle", since: new Date(), why: null };
  const { changed, ...store } = createStore(() => status);
  let client: Client | undefined;
  let isTrying = false;
  let isAcknowledged = false;
  /** Of the present or the last connection. */
  let heardAt = 0;
  let waiting: { readonly timer: ReturnType<typeof setTimeout>; readonly ms: number } | null = null;

  function become(state: ConnectionStatus["state"], why: string | null = null, since = Date.now()): void {
    if (state === status.state) return;
    status = { state, since: new Date(since), why };
    changed();
  }

  function terminateAfter(ms: number): void {
    disarm();
    waiting = { ms, timer: setTimeout(() => client?.terminate(), ms) };
  }

  function disarm(): void {
    clearTimeout(waiting?.timer);
    waiting = null;
  }

  const pauseMs = (tries: number) => Math.random() * Math.min(longestPauseMs, firstPauseMs * 2 ** tries);

  async function pause(tries: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, pauseMs(tries)));
    isTrying = false;
    // graphql-ws does not try again, and reports nothing, if the last stream has ended meanwhile.
    setTimeout(() => isTrying || become("idle"));
  }

  const open = () =>
    createClient({
      url: socketUrl(options.url),
      webSocketImpl: webSocketOf(options.webSocketImpl),
      connectionParams: async () => credentials(typeof token === "function" ? await token() : token),
      lazyCloseTimeout: IDLE_MS,
      keepAlive: options.pingMs ?? PING_MS,
      retryAttempts: Infinity,
      retryWait: pause,
      // The token of an established connection may have expired; the next connection gets another one.
      shouldRetry: (cause) => !isForbidden(cause) || isAcknowledged,
      on: {
        connecting() {
          isTrying = true;
          isAcknowledged = false;
          terminateAfter(options.connectMs ?? CONNECT_MS);
          if (status.state !== "broken") become("connecting");
        },
        connected() {
          isAcknowledged = true;
          disarm();
          become("connected");
        },
        ping: (isReceived) => void (isReceived || terminateAfter(pongMs)),
        pong: (isReceived) => void (isReceived && disarm()),
        // A large snapshot may delay the pong.
        message() {
          heardAt = Date.now();
          if (isAcknowledged && waiting) terminateAfter(waiting.ms);
        },
        closed(event) {
          disarm();
          const { code } = event as { readonly code?: number };
          if (code === NORMAL_CLOSURE) become("idle");
          else if (isForbidden(event) && !isAcknowledged) become("refused", reasonOf(event));
          else become("broken", reasonOf(event), isAcknowledged ? heardAt : undefined);
        },
      },
    });
  return {
    ...store,
    get client() {
      return (client ??= open());
    },
    renew() {
      client?.terminate();
      become("idle");
    },
    pauseMs,
  };
}

const credentials = (token: string | undefined) => (token === undefined ? {} : { authorization: `Bearer ${token}` });

interface Socket {
  onmessage: unknown;
  addEventListener(type: "error", listener: () => void): void;
  close(code?: number, reason?: string): void;
}

/**
 * A WebSocket class whose sockets are silent after graphql-ws has given them up: the one of `ws` would throw errors
 * then, and deliver messages of the old connection.
 */
function webSocketOf(implementation: unknown): unknown {
  const Implementation = (implementation ?? globalThis.WebSocket) as (new (...args: unknown[]) => Socket) | undefined;
  if (!Implementation)
    throw new Error("This environment has no WebSocket. Pass the one of the package `ws` as `webSocketImpl`.");
  return class extends Implementation {
    constructor(...args: unknown[]) {
      super(...args);
      this.addEventListener("error", () => {});
    }

    override close(code?: number, reason?: string): void {
      // oxlint-disable-next-line unicorn/prefer-add-event-listener -- graphql-ws listens by this property
      this.onmessage = null;
      super.close(code, reason);
    }
  };
}

function socketUrl(url: string): string {
  const page = (globalThis as { readonly location?: { readonly href: string } }).location?.href;
  const address = URL.canParse(url, page) ? new URL(url, page) : null;
  if (!address || !/^(http|ws)s?:$/.test(address.protocol))
    throw new Error(
      `${url} is not the address of an API. Use a URL that begins with https, http, wss or ws; a path is enough in a browser.`,
    );
  return address.href.replace(/^http/, "ws");
}
