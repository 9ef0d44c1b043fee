/**
 * Gates: a scripted step waits at one until it is opened, so that a test decides when it goes on and needs no sleep.
 * They live in the process; a script that is to be steered from outside uses `stuck` instead. Here too are the other ways
 * in which a script waits.
 */
import { setTimeout as delay } from "node:timers/promises";

interface Gate {
  readonly opened: Promise<void>;
  open(): void;
  /** Who waits, in the order of arrival. */
  readonly waiting: string[];
  readonly arrivals: Set<() => void>;
}

const gates = new Map<string, Gate>();

function gate(name: string): Gate {
  const known = gates.get(name);
  if (known) return known;
  const { promise, resolve } = Promise.withResolvers<void>();
  const made: Gate = { opened: promise, open: resolve, waiting: [], arrivals: new Set() };
  gates.set(name, made);
  return made;
}

/** Lets everybody through, now and later. */
export function openGate(name: string): void {
  gate(name).open();
}

/** Waits at a gate; rejects when the signal fires. */
export async function passGate(name: string, who: string, signal: AbortSignal | null): Promise<void> {
  const at = gate(name);
  at.waiting.push(who);
  for (const notice of at.arrivals) notice();
  await untilOrAborted(at.opened, signal);
}

/** Resolves when `count` have arrived at a gate; answers who. */
export async function arrivedAt(name: string, count: number): Promise<readonly string[]> {
  const at = gate(name);
  while (at.waiting.length < count) {
    await new Promise<void>((come) => {
      const notice = () => {
        at.arrivals.delete(notice);
        come();
      };
      at.arrivals.add(notice);
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

/** Waits so long, or rejects with the signal's reason; leaves no timer. */
export async function pause(milliseconds: number, signal: AbortSignal | null): Promise<void> {
  await delay(milliseconds, undefined, signal ? { signal } : {}).catch(() => signal?.throwIfAborted());
}
