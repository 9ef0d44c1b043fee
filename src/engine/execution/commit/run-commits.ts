/**
 * Writes the claims, results and step logs of the runner through the group commit. After the claim, a write is stored
 * only if the fence is unchanged. While the database is unavailable, results are kept in memory and retried: an outage
 * fails no operation.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Log } from "../../../log.ts";
import { isDatabaseUnavailable } from "../../../store/postgres/connection-errors.ts";
import type { AttemptRow } from "../../../store/runs/attempts.ts";
import { createClaimReader } from "../claim/claim.ts";
import type { ClaimReads } from "../claim/claim.ts";
import { FencedError, RELEASE, isClaimedBy, openContext } from "../claim/claimed-run.ts";
import type { ClaimedRun, RunContext, RunDirective, RunEnvironment } from "../claim/claimed-run.ts";
import { GroupCommit } from "./group-commit.ts";
import type { Change, GroupCommitParts } from "./group-commit.ts";
import { StepLog } from "../boundary/step-log.ts";

const RETRY_MS = 500;
const WARN_EVERY_MS = 10_000;

interface RunCommitsParts extends Omit<GroupCommitParts<ClaimReads>, "read"> {
  readonly environment: RunEnvironment;
  readonly log: Log;
}

export class RunCommits {
  readonly #groupCommit: GroupCommit<ClaimReads>;
  readonly #environment: RunEnvironment;
  readonly #log: Log;
  /** Runs whose result is not stored yet. */
  readonly #unstored = new Set<string>();
  #warnedAt = Number.NEGATIVE_INFINITY;
  #isReleased = false;

  constructor({ environment, log, ...parts }: RunCommitsParts) {
    this.#groupCommit = new GroupCommit({ ...parts, read: createClaimReader(parts) });
    this.#environment = environment;
    this.#log = log;
  }

  get isReleased(): boolean {
    return this.#isReleased;
  }

  /** From now on every write is rejected with a `FencedError`. */
  release(): void {
    this.#isReleased = true;
  }

  /** Stores a claim; it is not retried. */
  async claim(runId: string, change: Change<ClaimReads, RunDirective>): Promise<RunDirective> {
    if (this.#isReleased) throw new FencedError();
    return (await this.#groupCommit.run(runId, change, { needsReads: true })) ?? RELEASE;
  }

  /** Stores a result and the rest of the step log, and returns how the run continues. */
  async settle(
    claimed: ClaimedRun,
    stepLog: StepLog | null,
    change: (context: RunContext) => Promise<RunDirective> | RunDirective,
  ): Promise<RunDirective> {
    await stepLog?.end();
    try {
      for (;;) {
        try {
          const directive = await this.#write(claimed, async (ledger) => {
            await stepLog?.store(ledger);
            // A copy, because the change may run again. Interrupts were requested since the claim.
            return change(openContext(this.#environment, ledger, { ...claimed, run: ledger.run }));
          });
          return directive ?? RELEASE;
        } catch (error) {
          if (!isDatabaseUnavailable(error) || this.#isReleased) throw error;
          this.#unstored.add(claimed.run.id);
          this.#warnUnavailable(error);
          await delay(RETRY_MS);
        }
      }
    } finally {
      this.#unstored.delete(claimed.run.id);
    }
  }

  /** The log of one entry of a step. */
  stepLog(claimed: ClaimedRun, attempt: AttemptRow): StepLog {
    const write = async (change: Change<ClaimReads, void>) => void (await this.#write(claimed, change));
    return new StepLog({ log: this.#log, write }, attempt);
  }

  async #write<Result>(claimed: ClaimedRun, change: Change<ClaimReads, Result>): Promise<Result | null> {
    if (this.#isReleased) throw new FencedError();
    return this.#groupCommit.run(claimed.run.id, async (ledger, reads) => {
      if (!isClaimedBy(claimed, ledger.run)) throw new FencedError();
      return change(ledger, reads);
    });
  }

  /** One line for all results that wait. */
  #warnUnavailable(error: unknown): void {
    if (performance.now() - this.#warnedAt < WARN_EVERY_MS) return;
    this.#warnedAt = performance.now();
    this.#log.warn({ err: error, results: this.#unstored.size }, "database unavailable; storing results is retried");
  }
}
