/**
 * Takes up what operations are due for: the end of a stop's time, of a pause between two waves, and of the time that
 * runs wait for nodes that have disappeared, and discoveries. One statement finds all of them, also what is due before
 * the next look. Two replicas may take up the same end, so its handler looks again under the operation's lock. A
 * discovery has a lease, as a run has, and no fence: only results of addresses without one are stored.
 */
import type { Log } from "../../log.ts";
import type { Observer } from "../../observer.ts";
import { startPeriodic } from "../../runtime/periodic.ts";
import { withTimeout } from "../../runtime/timeout.ts";
import type { DueOperation } from "../../store/operations/due-operations.ts";
import {
  claimDiscovery,
  dueOperations,
  releaseDiscovery,
  renewDiscoveries,
} from "../../store/operations/due-operations.ts";
import type { Reader } from "../../store/postgres/database.ts";

const LOOK_EVERY_MS = 500;
/** How far a look sees, in seconds: further than the next look. */
const AHEAD_SECONDS = 1;
const RENEW_EVERY_MS = 3_000;
/** Each discovery probes many addresses at the same time. */
const DISCOVERIES_MAX = 4;
const AFTER_FAILURE_SECONDS = 1;

/** Kinds with an end, unlike a discovery. */
export type DueEnd = Exclude<DueOperation["what"], "DISCOVERY">;

interface DueOperationsParts {
  readonly reader: Reader;
  readonly log: Log;
  readonly observer: Observer;
  /** Called before anything that is due by the database's clock is ended. */
  readonly checkClock: () => Promise<void>;
  /** Ends what is due, if it still is. */
  readonly end: (operationId: string, what: DueEnd) => Promise<void>;
  /** Works on a discovery; false if it is to be handed on unfinished. */
  readonly discover: (operationId: string) => Promise<boolean>;
}

export class DueOperations {
  readonly #parts: DueOperationsParts;
  /** Scheduled or under way, by operation and kind. */
  readonly #taken = new Map<string, NodeJS.Timeout>();
  readonly #underWay = new Set<Promise<void>>();
  readonly #discoveries = new Set<string>();
  #chores: readonly { stop(): void }[] = [];
  #isResting = false;

  constructor(parts: DueOperationsParts) {
    this.#parts = parts;
  }

  start(): void {
    const { reader } = this.#parts;
    const chore = (everyMs: number, failure: string, work: () => Promise<void>) =>
      startPeriodic(everyMs, work, (error) => this.#fail(error, failure));
    this.#chores = [
      chore(LOOK_EVERY_MS, "due operations could not be read; trying again", () => this.#look()),
      chore(RENEW_EVERY_MS, "leases of discoveries could not be renewed; trying again", async () => {
        if (this.#discoveries.size > 0) await renewDiscoveries(reader, [...this.#discoveries]);
      }),
    ];
  }

  /** Takes up nothing more. */
  rest(): void {
    this.#isResting = true;
    for (const timer of this.#taken.values()) clearTimeout(timer);
  }

  /** Waits up to `graceMs` for what is under way. Returns whether all of it ended. */
  async stop(graceMs: number): Promise<boolean> {
    this.rest();
    for (const chore of this.#chores) chore.stop();
    return withTimeout(
      graceMs,
      Promise.all(this.#underWay).then(() => true),
    ).catch(() => false);
  }

  async #look(): Promise<void> {
    if (this.#isResting) return;
    for (const { id, what, inMs } of await dueOperations(this.#parts.reader, AHEAD_SECONDS)) {
      const key = `${id}:${what}`;
      if (this.#isResting || this.#taken.has(key)) continue;
      if (what === "DISCOVERY" && this.#discoveries.size >= DISCOVERIES_MAX) continue;
      if (what === "DISCOVERY") this.#discoveries.add(id);
      const work = () => (what === "DISCOVERY" ? this.#discover(id) : this.#end(id, what));
      // A timer of Node may fire a millisecond early.
      const timer = setTimeout(() => this.#begin(key, id, work), inMs === 0 ? 0 : inMs + 2);
      this.#taken.set(key, timer);
    }
  }

  #begin(key: string, operationId: string, work: () => Promise<void>): void {
    const underWay = work()
      .catch((error: unknown) => this.#fail(error, "a due operation could not be continued; trying again", operationId))
      .finally(() => {
        this.#taken.delete(key);
        this.#discoveries.delete(operationId);
        this.#underWay.delete(underWay);
      });
    this.#underWay.add(underWay);
  }

  /** If the clock of the database was set, the times have been corrected before the handler looks at them. */
  async #end(id: string, what: DueEnd): Promise<void> {
    const { checkClock, end } = this.#parts;
    await checkClock();
    await end(id, what);
  }

  async #discover(id: string): Promise<void> {
    const { reader, observer, discover } = this.#parts;
    if (!(await claimDiscovery(reader, id))) return;
    observer.inHand("discovery", 1);
    let afterSeconds = AFTER_FAILURE_SECONDS;
    try {
      if (await discover(id)) return;
      afterSeconds = 0;
    } finally {
      observer.inHand("discovery", -1);
      await releaseDiscovery(reader, id, afterSeconds);
    }
  }

  #fail(error: unknown, message: string, operationId?: string): void {
    const { observer, log } = this.#parts;
    observer.claimFailed("operation");
    log.warn({ err: error, operationId }, message);
  }
}
