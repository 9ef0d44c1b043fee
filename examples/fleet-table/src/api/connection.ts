/**
 * The connections of the page: queries and mutations over HTTP, every stream over one WebSocket. urql reads and follows
 * single values; nodes, operations and runs are followed by src/api/follow.ts over the same socket.
 */
import type { GraphQLFormattedError } from "graphql";
import { Client, fetchExchange, subscriptionExchange } from "urql";
import { createClient } from "graphql-ws";

const PATH = "/graphql";
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
const ACKNOWLEDGE_MS = 10_000;
const PING_MS = 10_000;
const PONG_MS = 5_000;
/** The service refuses the token of this page. */
const FORBIDDEN = 4403;
const TOKEN = "ostler-token";
const TRANSIENT = new Set<unknown>(["INTERNAL", "CAPACITY", "DATABASE_UNAVAILABLE"]);

export interface Connection {
  readonly state: "connecting" | "connected" | "broken" | "forbidden";
  readonly since: Date;
}

const listeners = new Set<() => void>();
let present: Connection = { state: "connecting", since: new Date() };
let pong: ReturnType<typeof setTimeout> | undefined;

export const connection = {
  getSnapshot: () => present,
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

function become(state: Connection["state"]): void {
  // Attempts to connect fail again and again while the service is down.
  if (state === present.state) return;
  present = { state, since: new Date() };
  for (const listener of listeners) listener();
}

/** Kept for this tab only; null if the service asks for none. */
function token(): string | null {
  return sessionStorage.getItem(TOKEN);
}

export function signIn(value: string): void {
  sessionStorage.setItem(TOKEN, value);
  location.reload();
}

export const socket = createClient({
  url: new URL(PATH, location.href).href.replace(/^http/, "ws"),
  connectionParams: () => ({ ...(token() !== null && { authorization: `Bearer ${token() ?? ""}` }) }),
  retryAttempts: Infinity,
  shouldRetry: () => present.state !== "forbidden",
  retryWait: (attempt) =>
    new Promise((resolve) =>
      setTimeout(resolve, Math.random() * Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** attempt)),
    ),
  connectionAckWaitTimeout: ACKNOWLEDGE_MS,
  keepAlive: PING_MS,
  on: {
    connected: () => become("connected"),
    closed: (event) => {
      clearTimeout(pong);
      const code = typeof event === "object" && event !== null && "code" in event ? event.code : null;
      become(code === FORBIDDEN ? "forbidden" : "broken");
    },
    // A connection that was cut without a word is found by the pong that does not come.
    ping: (received) => {
      if (!received) pong = setTimeout(() => socket.terminate(), PONG_MS);
    },
    pong: (received) => {
      if (received) clearTimeout(pong);
    },
  },
});

/** Whether the errors of a request may pass, so that it is worth repeating (docs/errors.md). */
export function isTransient(errors: unknown): boolean {
  return (
    Array.isArray(errors) && errors.some(({ extensions }: GraphQLFormattedError) => TRANSIENT.has(extensions?.["code"]))
  );
}

/** Without a cache: what is shown is followed, and not asked for again. */
export const client = new Client({
  url: PATH,
  preferGetMethod: false,
  fetchOptions: () => ({ headers: { ...(token() !== null && { authorization: `Bearer ${token() ?? ""}` }) } }),
  exchanges: [
    fetchExchange,
    subscriptionExchange({
      forwardSubscription: ({ query = "", variables = {} }) => ({
        subscribe: (sink) => ({
          unsubscribe: socket.subscribe(
            { query, variables: { ...variables } },
            { ...sink, next: ({ data = null, errors }) => sink.next({ data, ...(errors && { errors }) }) },
          ),
        }),
      }),
    }),
  ],
});
