/**
 * Gates, and the other ways in which a script waits. A scripted step waits at a gate until a test opens it, so that the
 * test decides when the step continues and needs no sleep. Gates live in this process; control a script from outside by
 * `stuck`.
 */
import { setTimeout as delay } from "node:timers/promises";

interface Gate {
  readonly opened: Promise<void>;
  open(): void;
  /** Names of the waiting nodes, in the order of arrival. */
  readonly waiting: string[];
  readonly arrivals: Set<() => void>;
}

const gates = new Map<string, Gate>();

function gate(name: string): Gate {
  const existing = gates.get(name);
  if (existing) return existing;
  const { promise, resolve } = Promise.withResolvers<void>();
  const created: Gate = { opened: promise, open: resolve, waiting: [], arrivals: new Set() };
  gates.set(name, created);
  return created;
}

/** Releases all waiting steps, and those that arrive later. */
export function openGate(name: string): void {
  gate(name).open();
}

/** Waits at a gate; rejects when the signal fires. */
export async function passGate(name: string, node: string, signal: AbortSignal | null): Promise<void> {
  const at = gate(name);
  at.waiting.push(node);
  for (const notify of at.arrivals) notify();
  await untilOrAborted(at.opened, signal);
}

/** Resolves with the names of the nodes when `count` of them have arrived at a gate. */
export async function arrivedAt(name: string, count: number): Promise<readonly string[]> {
  const at = gate(name);
  while (at.waiting.length < count) {
    await new Promise<void>((resolve) => {
      const notify = () => {
        at.arrivals.delete(notify);
        resolve();
      };
      at.arrivals.add(notify);
    });
  }
  return [...at.waiting];
}

/** Settles with `promise`, or rejects with the signal's reason. */
export async function untilOrAborted(promise: Promise<void>, signal: AbortSignal | null): Promise<void> {
  if (signal === null) return promise;
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** Waits, or rejects with the signal's reason; leaves no timer. */
export async function pause(milliseconds: number, signal: AbortSignal | null): Promise<void> {
  await delay(milliseconds, undefined, signal ? { signal } : {}).catch(() => signal?.throwIfAborted());
}
