/**
 * The one connection that listens. It must be the server's own: a pooler that shares connections out by transactions gives
 * a LISTEN to whoever comes next. So what is sent has to come back, at the start and then every twenty seconds: what does not
 * shows a pooler, or a connection that has died without a word.
 *
 * postgres.js listens again by itself after a loss, but notices neither of the two, and says nothing of what it tries.
 *
 * Modes: connecting (again and again), proving (sent, and not come back yet), listening. The first way to listening
 * is what `listen` waits for; later ones tell with "" that notifications may have been missed.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Sql } from "postgres";

export interface ListenerParts {
  /** Opens one connection. `onNotify` is told what comes on it, `onClose` its end. */
  connect(on: { onNotify(payload: string): void; onClose(): void }): Sql;
  /** Sends a notification by the way that all others take. */
  notify(payload: string): Promise<void>;
  readonly channel: string;
  onNotify(payload: string): void;
  /** Called when the connection is lost, and when it could not be made again. */
  onError(error: unknown): void;
  /** How long a proof may take to come back, and how often there is one, in milliseconds. */
  readonly proofMs?: number;
  readonly everyMs?: number;
}

/** The server was reached, and notifications are not. */
export class ListenerTimeoutError extends Error {
  constructor(seconds: number) {
    super(
      `LISTEN does not work: a notification did not come back within ${seconds} s. Behind a pooler in transaction mode, set OSTLER_LISTEN_URL to the server itself; where it is set, see that it leads to the same database as DATABASE_URL.`,
    );
    this.name = "Deaf";
  }
}

class Lost extends Error {
  readonly code = "CONNECTION_CLOSED";
  constructor() {
    super("The connection that listens was lost.");
    this.name = "Lost";
  }
}

const PROOF_MS = 5_000;
const EVERY_MS = 20_000;
/** Before a lost connection is made again; twice as long after each failure, up to the most. */
const RETRY_MS = 250;
const RETRY_MAX_MS = 5_000;
const PROOF = "proof:";

export async function listenOn(parts: ListenerParts): Promise<AsyncDisposable> {
  const { channel, onNotify, onError, proofMs = PROOF_MS, everyMs = EVERY_MS } = parts;
  const ending = new AbortController();
  const over = new Promise<never>((_, reject) =>
    ending.signal.addEventListener("abort", () => reject(ending.signal.reason as Error)),
  );
  over.catch(() => {});
  const first = Promise.withResolvers<void>();
  let isFirst = true;
  let failures = 0;

  /** Listens on one connection until it is lost. Throws the reason. */
  async function session(): Promise<void> {
    const lost = Promise.withResolvers<never>();
    lost.promise.catch(() => {});
    const proofs = new Map<string, () => void>();
    const sql = parts.connect({
      onClose: () => lost.reject(new Lost()),
      onNotify(payload) {
        if (!payload.startsWith(PROOF)) return onNotify(payload);
        proofs.get(payload)?.();
      },
    });
    /** Whether what was sent came back; true as well when it could not be sent, which says nothing of this connection. */
    const prove = async () => {
      const proof = PROOF + randomUUID();
      const back = new Promise<boolean>((known) => void proofs.set(proof, () => known(true)));
      try {
        // Counted from before it is sent, since the connection that it is sent on may be one that died without a word.
        const late = delay(proofMs, false, { ref: false });
        const isSent = parts.notify(proof).then(
          () => true,
          () => false,
        );
        return await Promise.race([isSent.then((sent) => !sent || back), late]);
      } finally {
        proofs.delete(proof);
      }
    };
    const work = async (): Promise<never> => {
      await sql.unsafe(`listen "${channel}"`);
      if (!(await prove())) throw new ListenerTimeoutError(proofMs / 1_000);
      isFirst = false;
      failures = 0;
      first.resolve();
      onNotify("");
      for (;;) {
        await delay(everyMs, undefined, { signal: ending.signal, ref: false });
        if (!(await prove())) throw new ListenerTimeoutError(proofMs / 1_000);
      }
    };
    try {
      await Promise.race([work(), lost.promise, over]);
    } finally {
      await sql.end({ timeout: 0 });
    }
  }

  async function keep(): Promise<void> {
    while (!ending.signal.aborted) {
      try {
        await session();
      } catch (error) {
        if (ending.signal.aborted) return;
        if (isFirst) return first.reject(error);
        onError(error);
        await delay(Math.min(RETRY_MS * 2 ** failures, RETRY_MAX_MS), undefined, { signal: ending.signal }).catch(
          () => {},
        );
        failures += 1;
      }
    }
  }

  const kept = keep();
  await first.promise;
  return {
    async [Symbol.asyncDispose]() {
      ending.abort();
      await kept;
    },
  };
}
