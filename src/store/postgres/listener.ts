/**
 * The connection that listens for notifications. It must lead to the server itself: a pooler in transaction mode gives
 * a LISTEN to another client. postgres.js listens again after a loss, but reports neither a pooler, nor a dead
 * connection, nor failed attempts. So a probe is sent at the start and every twenty seconds, and must come back.
 *
 * Modes:
 * - connecting: from the start or a loss, with backoff between attempts, until LISTEN succeeds.
 * - probing: a probe was sent. It leads to listening when the probe arrives, to connecting after a timeout.
 * - listening: notifications arrive. Each time this mode is entered from connecting, `onNotify("")` says that some may
 *   be missing. Every twenty seconds it leads to probing.
 *
 * `listenOn` returns when the first probe has arrived, and rejects if the first connection fails.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Sql } from "postgres";

export interface ListenerParts {
  /** Opens one connection. `onNotify` receives its payloads; `onClose` is called at its end. */
  connect(on: { onNotify(payload: string): void; onClose(): void }): Sql;
  /** Sends a notification as the service's others are sent. */
  notify(payload: string): Promise<void>;
  readonly channel: string;
  onNotify(payload: string): void;
  /** Called when the connection is lost, and after each failed attempt to reconnect. */
  onError(error: unknown): void;
  /** Timeout of a probe, and the time between two, in milliseconds. */
  readonly probeMs?: number;
  readonly everyMs?: number;
}

/** The server was reached, but notifications do not arrive. */
export class ListenerTimeoutError extends Error {
  constructor(seconds: number) {
    super(
      `LISTEN does not work: a notification did not come back within ${seconds} s. Behind a pooler in transaction mode, set OSTLER_LISTEN_URL to the server itself; if it is set, check that it leads to the same database as DATABASE_URL.`,
    );
    this.name = "ListenerTimeoutError";
  }
}

class ListenerLostError extends Error {
  readonly code = "CONNECTION_CLOSED";
  constructor() {
    super("The connection that listens for notifications was lost.");
    this.name = "ListenerLostError";
  }
}

const PROBE_MS = 5_000;
const EVERY_MS = 20_000;
/** Backoff before a reconnection: doubled after each failure, up to the maximum. */
const RETRY_MS = 250;
const RETRY_MAX_MS = 5_000;
/** Payloads with this prefix are probes. The value is shared by all releases. */
const PROBE = "proof:";

export async function listenOn(parts: ListenerParts): Promise<AsyncDisposable> {
  const listener = new Listener(parts);
  const ended = listener.run();
  await listener.ready;
  return {
    async [Symbol.asyncDispose]() {
      listener.end();
      await ended;
    },
  };
}

class Listener {
  readonly #parts: ListenerParts;
  readonly #ending = new AbortController();
  readonly #first = Promise.withResolvers<void>();
  /** Rejects when the listener ends. */
  readonly #over: Promise<never>;
  #isFirst = true;
  #failures = 0;

  constructor(parts: ListenerParts) {
    this.#parts = parts;
    const { signal } = this.#ending;
    this.#over = new Promise<never>((_, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason as Error)),
    );
    this.#over.catch(() => {});
  }

  /** Settles when the first probe has arrived, or the first connection has failed. */
  get ready(): Promise<void> {
    return this.#first.promise;
  }

  end(): void {
    this.#ending.abort();
  }

  async run(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      try {
        await this.#session();
      } catch (error) {
        if (signal.aborted) return;
        if (this.#isFirst) return this.#first.reject(error);
        this.#parts.onError(error);
        const backoff = Math.min(RETRY_MS * 2 ** this.#failures, RETRY_MAX_MS);
        await delay(backoff, undefined, { signal }).catch(() => {});
        this.#failures += 1;
      }
    }
  }

  /** Listens on one connection. Rejects when it is lost, with the reason. */
  async #session(): Promise<void> {
    const lost = Promise.withResolvers<never>();
    lost.promise.catch(() => {});
    const probes = new Map<string, () => void>();
    const sql = this.#parts.connect({
      onClose: () => lost.reject(new ListenerLostError()),
      onNotify: (payload) => {
        if (payload.startsWith(PROBE)) probes.get(payload)?.();
        else this.#parts.onNotify(payload);
      },
    });
    try {
      await Promise.race([this.#listen(sql, probes), lost.promise, this.#over]);
    } finally {
      await sql.end({ timeout: 0 });
    }
  }

  async #listen(sql: Sql, probes: Map<string, () => void>): Promise<never> {
    const { channel, onNotify, everyMs = EVERY_MS } = this.#parts;
    await sql.unsafe(`listen "${channel}"`);
    await this.#probe(probes);
    this.#isFirst = false;
    this.#failures = 0;
    this.#first.resolve();
    onNotify("");
    for (;;) {
      await delay(everyMs, undefined, { signal: this.#ending.signal, ref: false });
      await this.#probe(probes);
    }
  }

  /**
   * Rejects if a probe does not come back. One that could not be sent passes: it says nothing about this connection.
   */
  async #probe(probes: Map<string, () => void>): Promise<void> {
    const { notify, probeMs = PROBE_MS } = this.#parts;
    const payload = PROBE + randomUUID();
    const arrived = new Promise<boolean>((resolve) => void probes.set(payload, () => resolve(true)));
    try {
      // The timeout starts before the probe is sent: the connection that sends it may be dead as well.
      const timeout = delay(probeMs, false, { ref: false });
      const isSent = notify(payload).then(
        () => true,
        () => false,
      );
      if (!(await Promise.race([isSent.then((sent) => !sent || arrived), timeout])))
        throw new ListenerTimeoutError(probeMs / 1_000);
    } finally {
      probes.delete(payload);
    }
  }
}
