/**
 * Claims due runs in batches, and has them executed.
 *
 * Modes:
 * - claiming: as long as batches come back full. Entered at the start and by `poke`.
 * - waiting: until `poke` (a notification, a time that this replica knows of, an execution that ended) or the poll.
 * - resting: claims no more runs. Entered by `rest`, never left. Running executions continue.
 * - stopped: `stop` waits, for a limited time, until running executions have ended, and releases the other runs.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Log } from "../../log.ts";
import type { Observer } from "../../observer.ts";
import { startPeriodic } from "../../runtime/periodic.ts";
import { withTimeout } from "../../runtime/timeout.ts";
import { PRIORITY, claimDueRuns, releaseClaims, reviveLostRuns } from "../../store/runs/run-claims.ts";
import type { Claim } from "../../store/runs/run-claims.ts";
import type { Notifier } from "../../store/postgres/notifier.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { AMNESTY_SECONDS } from "./leases.ts";
import type { Leases } from "./leases.ts";

const POLL_MS = 2_000;
/** Commits notify often; one claim answers all notifications within this time. */
const DEBOUNCE_MS = 20;
/** Time between two looks for runs whose replica has died. */
const LOST_EVERY_MS = 2_000;
const RENEW_EVERY_MS = 3_000;
/** The smallest batch that is worth a statement. */
const BATCH_MIN = 8;
/** Ending runs that are executed in addition to `concurrency`: stuck runs must not keep others from ending. */
const ENDINGS_MAX = 4;
/** Time between two looks for ending runs while `concurrency` is reached. */
const ENDINGS_EVERY_MS = 1_000;
/** Pause before a run is claimed again whose execution has failed. */
const AFTER_FAILURE_SECONDS = 1;
/** How long each part of the stop may take. */
const STOP_MS = 1_000;
/** The largest delay of a timer in Node. */
const DELAY_MAX_MS = 2 ** 31 - 1;

interface ClaimLoopParts {
  readonly reader: Reader;
  readonly leases: Leases;
  readonly notifier: Notifier;
  readonly log: Log;
  readonly observer: Observer;
  /** Maximum of runs at the same time. */
  readonly concurrency: number;
  /** Called before anything that is due by the database's clock is claimed. */
  readonly checkClock: () => Promise<void>;
}

export class ClaimLoop {
  readonly #parts: ClaimLoopParts;
  readonly #unsubscribe: () => void;
  readonly #executions = new Set<Promise<void>>();
  #execute: (claim: Claim) => Promise<void> = async () => {};
  #renewal: { stop(): void } | undefined;
  #loop: Promise<void> = Promise.resolve();
  #poke = () => {};
  #isResting = false;
  #areReleased = false;
  #lostAt = 0;
  #endingsAt = 0;

  constructor(parts: ClaimLoopParts) {
    this.#parts = parts;
    this.#unsubscribe = parts.notifier.subscribe(() => this.poke(), DEBOUNCE_MS);
  }

  /** `execute`: executes a run until it ends or parks. */
  start(execute: (claim: Claim) => Promise<void>): void {
    const { leases, log, observer } = this.#parts;
    this.#execute = execute;
    this.#renewal = startPeriodic(
      RENEW_EVERY_MS,
      () => leases.renew(),
      (error) => {
        observer.claimFailed("lease");
        log.warn({ err: error }, "leases could not be renewed; trying again");
      },
    );
    this.#loop = this.#claimLoop();
  }

  /** Claims now. */
  poke(): void {
    this.#poke();
  }

  /** Claims when a time is over. */
  pokeIn(seconds: number): void {
    setTimeout(() => this.poke(), Math.min(seconds * 1000 + 2, DELAY_MAX_MS)).unref();
  }

  rest(): void {
    this.#isResting = true;
    this.poke();
  }

  /**
   * Waits up to `graceMs` for running executions. `release` makes sure that this replica no longer acts on the other
   * runs, which are then released; without it their leases expire. Returns whether all executions ended.
   */
  async stop(graceMs: number, release?: () => Promise<void>): Promise<boolean> {
    const { reader, leases, notifier, log } = this.#parts;
    this.rest();
    this.#unsubscribe();
    // No wait is unlimited, because a lost connection never answers.
    await withTimeout(STOP_MS, this.#loop).catch(() => log.warn("the claim of runs did not end while it was stopped"));
    const all = Promise.all(this.#executions).then(() => true);
    const ended = await withTimeout(graceMs, all).catch(() => false);
    if (!ended && release) {
      this.#areReleased = true;
      const { claims } = leases;
      await release();
      await withTimeout(STOP_MS, releaseClaims(reader, claims, { isClean: true, afterSeconds: 0 })).catch(
        (error: unknown) => log.warn({ err: error }, "running work could not be released; its leases will expire"),
      );
      notifier.notify();
    }
    this.#renewal?.stop();
    return ended;
  }

  async #claimLoop(): Promise<void> {
    const { log, observer, leases, checkClock } = this.#parts;
    while (!this.#isResting) {
      let poked = false;
      let more = false;
      const pause = new Promise<void>((resolve) => {
        this.#poke = () => {
          poked = true;
          resolve();
        };
      });
      // Runs that share a transaction end in the same turn of the event loop; one claim fills their places.
      await nextTurn();
      try {
        await checkClock();
        leases.noteAnswer();
        more = await this.#claim();
      } catch (error) {
        observer.claimFailed("claim");
        log.warn({ err: error }, "runs could not be claimed; trying again");
      }
      if (more || poked || this.#isResting) continue;
      const timer = setTimeout(this.#poke, POLL_MS);
      await pause;
      clearTimeout(timer);
    }
  }

  /** Claims what may be claimed now. Returns whether there may be more. */
  async #claim(): Promise<boolean> {
    const { reader, leases, concurrency } = this.#parts;
    const now = performance.now();
    if (now >= this.#lostAt && leases.mayExpire) {
      this.#lostAt = now + LOST_EVERY_MS;
      const except = leases.claims.map(({ id }) => id);
      await reviveLostRuns(reader, { except, upSeconds: AMNESTY_SECONDS });
    }
    const more = await this.#take(concurrency, (limit) => claimDueRuns(reader, { limit }));
    if (now < this.#endingsAt || leases.claims.length < concurrency) return more;
    this.#endingsAt = now + ENDINGS_EVERY_MS;
    return this.#take(concurrency + ENDINGS_MAX, (limit) =>
      claimDueRuns(reader, { limit, priorityMin: PRIORITY.ending }),
    );
  }

  /** Claims runs for half of the free capacity, so that other replicas get some. */
  async #take(max: number, claim: (limit: number) => Promise<readonly Claim[]>): Promise<boolean> {
    const free = max - this.#parts.leases.claims.length;
    if (free <= 0) return false;
    const asked = performance.now();
    const limit = Math.min(free, Math.max(Math.ceil(free / 2), BATCH_MIN));
    const claims = await claim(limit);
    for (const one of claims) this.#begin(one, asked);
    return claims.length === limit && limit < free;
  }

  #begin(claim: Claim, heldAt: number): void {
    const { reader, leases, log, observer } = this.#parts;
    const runId = claim.id;
    leases.hold(claim, heldAt);
    observer.inHand("run", 1);
    const execution = this.#execute(claim)
      .catch(async (error: unknown) => {
        if (this.#areReleased) return;
        observer.claimFailed("run");
        log.error({ err: error, runId }, "the execution of a run failed; trying again");
        await releaseClaims(reader, [claim], { isClean: false, afterSeconds: AFTER_FAILURE_SECONDS });
        this.pokeIn(AFTER_FAILURE_SECONDS);
      })
      .catch((error: unknown) => log.error({ err: error, runId }, "a run could not be released; its lease will expire"))
      .finally(() => {
        leases.drop(claim);
        this.#executions.delete(execution);
        observer.inHand("run", -1);
        this.poke();
      });
    this.#executions.add(execution);
  }
}
