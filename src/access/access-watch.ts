/**
 * Watches the access of callers for streams and sockets: each has one access from its start to its end, and is called
 * when that of its caller has changed, less or more, or the credential has ended. Those with the same credential and
 * access are one group, which is judged once, so that a change of the rules costs little while thousands watch.
 *
 * After a change all groups are judged, else those of which something expires. Nothing is looked at in between: a
 * thousand changes in a short time cost as much as one.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { accessKey, isRejection } from "./access.ts";
import type { Actor, Rejection } from "./access.ts";

/** Interval of looking for groups to judge, in milliseconds. */
const LOOK_MS = 250;
/** Watchers that are called in one turn of the event loop. */
const SLICE = 100;

/** The caller as of now, or why its credential has ended. */
export type Present = Actor | Rejection;
type Watcher = (present: Present) => void;

interface Group {
  readonly actor: Actor;
  readonly watchers: Set<Watcher>;
  /** When it is judged without a change of the rules, in milliseconds of the clock. */
  judgeAt: number;
}

export class AccessWatch {
  readonly #presentOf: (actor: Actor) => Present;
  readonly #groups = new Map<string, Group>();
  #hasChanged = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(presentOf: (actor: Actor) => Present) {
    this.#presentOf = presentOf;
  }

  /** The rules may be others. */
  changed(): void {
    this.#hasChanged = true;
  }

  /** Calls the watcher once, when the access is not that of the actor any more. Returns the function that ends this. */
  add(actor: Actor, watcher: Watcher): () => void {
    const key = JSON.stringify([actor.identity, accessKey(actor)]);
    // The rules may have changed since the caller was identified.
    const group = this.#groups.get(key) ?? { actor, watchers: new Set(), judgeAt: 0 };
    this.#groups.set(key, group);
    group.watchers.add(watcher);
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref();
    return () => {
      group.watchers.delete(watcher);
      if (group.watchers.size === 0 && this.#groups.get(key) === group) this.#remove(key);
    };
  }

  #remove(key: string): void {
    this.#groups.delete(key);
    if (this.#groups.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    const now = Date.now();
    const isDue = this.#hasChanged;
    this.#hasChanged = false;
    for (const [key, group] of this.#groups) {
      if (!isDue && group.judgeAt > now) continue;
      const present = this.#presentOf(group.actor);
      if (!isRejection(present) && accessKey(present) === accessKey(group.actor)) {
        group.judgeAt = present.expiresAt?.getTime() ?? Infinity;
        continue;
      }
      this.#remove(key);
      void callAll(group.watchers, present);
    }
  }
}

/** A watcher that leaves meanwhile is not called. */
async function callAll(watchers: ReadonlySet<Watcher>, present: Present): Promise<void> {
  let called = 0;
  for (const watcher of watchers) {
    watcher(present);
    called += 1;
    if (called % SLICE === 0) await nextTurn();
  }
}
