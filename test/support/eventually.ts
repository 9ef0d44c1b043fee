/** Waiting for something to become true, without sleeping longer than it takes and never without end. */
import { setTimeout as delay } from "node:timers/promises";

const EVERY_MS = 20;
const WITHIN_MS = 30_000;

/**
 * Asks until the answer is neither undefined nor false, and gives it. Throws, with what was waited for, when that takes
 * too long.
 */
export async function eventually<T>(
  what: string,
  ask: () => Promise<T | undefined | false> | T | undefined | false,
  withinMs = WITHIN_MS,
): Promise<T> {
  const until = Date.now() + withinMs;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    if (Date.now() > until) throw new Error(`Waited ${withinMs / 1000} s in vain: ${what}.`);
    await delay(EVERY_MS);
  }
}
