/**
 * Executes claimed runs, each up to its next wait or its end.
 *
 *            claimRun                              transaction (claim.ts)
 *               │
 *               ▼
 *          RunDirective ◄──────────────────────┐
 *               │                              │
 *    ┌──────────┼──────────────┐               │
 *    ▼          ▼              ▼               │
 * RELEASE   ENTER_STEP    ABORT_MACHINE        │
 *          FORCE_POWER         │               │
 *               │              │               │
 *               ▼              ▼               │
 *          performStep    abortMachine         │   driver, no transaction
 *               │              │               │
 *               ▼              ▼               │
 *          settleStep     settleAbort ─────────┘   transaction (settle-step.ts)
 *               └──────────────────────────────┘
 *
 * Modes of a run:
 *
 * - claimed: this process has raised the fence, so an earlier holder can write no more. Entered by a claim (claims).
 *   Left at once by the directive of the claim.
 * - in a step: the driver is called outside of any transaction. Entered by ENTER_STEP. Left for committing by the
 *   outcome of the step, by its deadline, by an abort if the step is interruptible or another replica has claimed the
 *   run, and by the timeout of a stop. Left with an error, for a new claim, if the driver's process was lost.
 * - committing: one transaction, shared with other runs (group-commit.ts), checks the fence, ends the attempt, and
 *   begins the next step, parks the run, or ends it. It is retried while the database is unavailable. Left by its
 *   directive, or with a `FencedError` if another replica has claimed the run.
 * - changing the power, as a request has forced it while the step waits: as in a step, but the step is not entered.
 *   Entered by FORCE_POWER. Left for committing, which parks the run as before.
 * - aborting the machine: the driver's `abort` and the power, after an abort and after the final failure of a step.
 *   Entered by ABORT_MACHINE. Left for committing, which ends the run, or begins the next step of a best-effort plan.
 * - parked: the run waits in the database and no process holds it. Left when its time comes, or by a callback, a free
 *   slot, an interrupt, or the end of a hold or of maintenance: each makes it due, so that it is claimed again.
 * - released: this process writes nothing more about the run. Entered by RELEASE, by a `FencedError`, and by `release`
 *   at shutdown.
 */
import { randomUUID } from "node:crypto";
import { Deadline } from "../../drivers/deadline.ts";
import { HeartbeatLostError } from "../../drivers/isolation/protocol.ts";
import { userDataSecrets } from "../../drivers/secret-masking.ts";
import { macOwners } from "../../store/nodes/node-macs.ts";
import type { StoredJson } from "../../store/records.ts";
import { releaseClaims } from "../../store/runs/run-claims.ts";
import type { Claim } from "../../store/runs/run-claims.ts";
import { interruptsOf } from "../../store/runs/runs.ts";
import { SecretError, readable } from "../../store/secrets/keyring.ts";
import type { Leases } from "../claims/leases.ts";
import type { EngineParts } from "../context.ts";
import { abortMachine } from "./call/abort-machine.ts";
import { ActiveRuns } from "./claim/active-runs.ts";
import { callbackPath } from "./boundary/callback.ts";
import { claimRun } from "./claim/claim.ts";
import type { ClaimParts } from "./claim/claim.ts";
import { FencedError, RELEASE, isLeftAlone } from "./claim/claimed-run.ts";
import type { AbortMachine, ClaimedRun, EnterStep, ForcePower, RunDirective } from "./claim/claimed-run.ts";
import { createOwnershipCheck } from "./claim/ownership-check.ts";
import { performStep } from "./call/perform-step.ts";
import type { StepOutcome } from "./call/perform-step.ts";
import type { BindAgent, StepBasis } from "./call/driver-call.ts";
import { installationOf } from "./call/installation.ts";
import { imageServersOf } from "../images/image-servers.ts";
import { inventoryMacs } from "../input/machine-identities.ts";
import { withSecrets } from "../input/secret-redactor.ts";
import { RunCommits } from "./commit/run-commits.ts";
import { forcedPowerLine, settleForcedPower } from "./boundary/settle-power.ts";
import { settleAbort, settleStep } from "./boundary/settle-step.ts";
import type { StepLog } from "./boundary/step-log.ts";
import { TroubledSlots } from "./call/patience.ts";
import { UnacknowledgedClaims } from "./claim/unacknowledged-claims.ts";

interface RunnerParts extends EngineParts {
  readonly leases: Leases;
  readonly nudge: () => void;
  /** Makes this process claim due runs when a time is over. */
  readonly dueIn: (seconds: number) => void;
  readonly bindAgent: BindAgent;
  /** Maximum of runs at the same time. */
  readonly concurrency: number;
  /** How long a machine may take for a short read, in ms, before it counts as one that gives no answer. */
  readonly patienceMs?: number | undefined;
  /** How long a step may take to end after its signal fired, in ms. */
  readonly abortGraceMs: number;
  /** How long each part of the abort clean-up may take, in ms. */
  readonly abortCleanUpMs: number;
}

/** Pause before a run is claimed again whose driver was lost because this process was paused. */
const AFTER_PAUSE_SECONDS = 1;

export class Runner {
  readonly #parts: RunnerParts;
  readonly #activeRuns: ActiveRuns;
  readonly #commits: RunCommits;
  readonly #claimParts: ClaimParts;
  readonly #unacknowledged = new UnacknowledgedClaims();
  readonly #troubled: TroubledSlots;
  #isDraining = false;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
    const { registry, keyring, observer, nudge, abortGraceMs } = parts;
    this.#troubled = new TroubledSlots(parts.concurrency, parts.patienceMs);
    // Of an unreadable key: a run must end all the same, and its input then differs from every other.
    const digest = (text: string) => {
      const found = readable(() => keyring.digest(text));
      return found instanceof SecretError ? "" : found;
    };
    const isDraining = () => this.#isDraining;
    const environment = { replica: randomUUID(), nudge, digest, keyring, abortGraceMs, isDraining };
    this.#activeRuns = new ActiveRuns(parts);
    this.#commits = new RunCommits({ ...parts, environment });
    this.#claimParts = {
      ...environment,
      registry,
      observer,
      wasNeverEntered: (run, attempt) => this.#unacknowledged.hasBegun(run, attempt),
    };
  }

  /** Executes a claimed run. Resolves when it has ended, is parked or was released. */
  async run(claim: Claim): Promise<void> {
    // Twice in one process: the run was parked or released and is due again before its execution has ended, or its
    // lease expired and another process had it in between. Then the first execution is fenced; the second waits for it.
    await this.#activeRuns.whenIdle(claim.id);
    await this.#activeRuns.track(claim, this.#executeUnlessFenced(claim));
  }

  /** Looks at once whether an interrupt was requested for a run of this process. */
  checkInterrupts(): void {
    this.#activeRuns.checkInterrupts();
  }

  /** From now on runs are released between two steps. */
  drain(): void {
    this.#isDraining = true;
  }

  /** Releases all runs: cancels their steps, calls no machine, and writes nothing more. */
  release(): void {
    this.#commits.release();
    this.#activeRuns.release();
  }

  close(): void {
    this.#activeRuns.close();
  }

  async #executeUnlessFenced(claim: Claim): Promise<void> {
    try {
      await this.#executeRun(claim);
    } catch (error) {
      if (!(error instanceof FencedError)) throw error;
      if (!this.#commits.isReleased) this.#parts.observer.fenced({ runId: claim.id });
    }
  }

  /** The only place that interprets directives. */
  async #executeRun(claim: Claim): Promise<void> {
    let directive = await this.#claim(claim);
    for (;;) {
      switch (directive.kind) {
        case "ENTER_STEP":
          directive = await this.#enterStep(directive);
          break;
        case "FORCE_POWER":
          directive = await this.#forcePower(directive);
          break;
        case "ABORT_MACHINE":
          directive = await this.#abort(directive);
          break;
        case "RELEASE":
          return;
      }
    }
  }

  async #claim(claim: Claim): Promise<RunDirective> {
    let decided: RunDirective = RELEASE;
    try {
      const directive = await this.#commits.claim(claim.id, async (ledger, reads) => {
        decided = await claimRun(this.#claimParts, ledger, claim, reads);
        return decided;
      });
      this.#unacknowledged.forget(claim.id);
      return directive;
    } catch (error) {
      this.#unacknowledged.note(claim.id, decided);
      throw error;
    }
  }

  async #enterStep(entry: EnterStep): Promise<RunDirective> {
    const { claimed, step, attempt } = entry;
    const stepLog = this.#commits.stepLog(claimed, attempt);
    const outcome = await this.#perform(entry, stepLog);
    if (step.phase === "inspect" && outcome.kind === "done")
      await this.#noteTakenMacs(claimed, stepLog, outcome.output);
    return this.#commits.settle(claimed, stepLog, (context) => settleStep(context, entry, outcome));
  }

  async #forcePower(entry: ForcePower): Promise<RunDirective> {
    const stepLog = this.#commits.stepLog(entry.claimed, entry.attempt);
    const outcome = await this.#perform(entry, stepLog);
    stepLog.line(forcedPowerLine(entry.claimed, outcome));
    return this.#commits.settle(entry.claimed, stepLog, (context) => settleForcedPower(context, entry, outcome));
  }

  /** Calls the driver. Throws if its process was lost. */
  async #perform(entry: Omit<EnterStep, "kind">, stepLog: StepLog): Promise<StepOutcome> {
    const { claimed, step, attempt } = entry;
    // An abort does not cut a change of power beside a step that it waits for.
    const { cancel, abandon, kill } = this.#activeRuns.enterStep(claimed, claimed.plan.steps[attempt.step] ?? step);
    const troubled = this.#troubled.slot();
    const outcome = await performStep({
      ...this.#callOf(entry, stepLog),
      cancel,
      abandon,
      kill,
      troubled,
      graceMs: this.#parts.abortGraceMs,
    }).finally(() => troubled.release());
    if (outcome.kind !== "lost") return outcome;
    // If no other replica has claimed the run meanwhile, it is claimed again, as after a crash.
    await this.#ownershipCheck(claimed)();
    await this.#disown(claimed);
    throw new Error(outcome.reason);
  }

  /** MACs that another node has are not taken over, and the inspection does not fail: some are on many machines. */
  async #noteTakenMacs({ node }: ClaimedRun, stepLog: StepLog, output: StoredJson): Promise<void> {
    const { database, log } = this.#parts;
    const owners = await macOwners(database.reader, inventoryMacs(output)).catch(() => []);
    for (const { mac, nodeId, nodeName } of owners) {
      if (nodeId === node.id) continue;
      const text = `MAC address ${mac} of node ${node.name} stays with node ${nodeName}, which has it already. If it belongs to this machine, remove it there with updateNodes, and inspect this node again.`;
      stepLog.line(text);
      log.warn({ node: node.name, other: nodeName, mac }, text);
    }
  }

  async #abort(directive: AbortMachine): Promise<RunDirective> {
    const { claimed, attempt, ignoredSignal, undone } = directive;
    const planned = attempt && claimed.plan.steps[attempt.step];
    const stepLog = attempt && this.#commits.stepLog(claimed, attempt);
    // The driver's `abort` does not run beside a step that may still be running.
    const mayUndo = !undone && !isLeftAlone(directive) && !(ignoredSignal && planned?.interruptible !== "ALWAYS");
    const leftMs = this.#parts.abortCleanUpMs;
    const { generation } = claimed.run;
    const step =
      planned && stepLog && mayUndo
        ? this.#callOf({ claimed, step: planned, attempt, generation, leftMs }, stepLog)
        : null;
    const confirm = this.#ownershipCheck(claimed);
    const { cancel: end, kill } = this.#activeRuns.enterStep(claimed, { interruptible: "NEVER" });
    const calls = { step, end, kill, confirm };
    const aborted = await abortMachine(this.#parts, directive, calls).catch(async (error: unknown) => {
      if (error instanceof HeartbeatLostError) await this.#disown(claimed);
      throw error;
    });
    return this.#commits.settle(claimed, stepLog, (context) => settleAbort(context, directive, aborted));
  }

  /** The process was paused: the next claim of the run is not a recovery. */
  async #disown({ run, fence }: ClaimedRun): Promise<void> {
    const released = { isClean: true, afterSeconds: AFTER_PAUSE_SECONDS };
    await releaseClaims(this.#parts.database.reader, [{ id: run.id, fence }], released);
  }

  /** `leftMs` sets the deadline, because the stored one is by the database's clock, and this process's may be wrong. */
  #callOf(entry: Omit<EnterStep, "kind">, stepLog: StepLog): StepBasis {
    const { claimed, step, attempt, generation, leftMs } = entry;
    const { node } = claimed;
    const installation = installationOf(claimed, step);
    const redactor = withSecrets(claimed.machine.redactor, userDataSecrets(installation.userData));
    return {
      machine: { ...claimed.machine, redactor, node },
      step,
      part: attempt.part,
      deadline: new Deadline(leftMs),
      memo: attempt.memo,
      callback: attempt.callback,
      callbackPath: callbackPath(claimed.run.id, claimed.callbackKey, generation),
      attemptKey: `${attempt.runId}:${attempt.step}:${attempt.number}`,
      fence: claimed.fence,
      variables: claimed.variables,
      installation,
      agent: this.#parts.bindAgent({ node, runId: claimed.run.id, fence: claimed.fence, step, attempt }),
      imageServersOf: (urls) => imageServersOf(this.#parts.database.reader, this.#parts.registry, urls),
      confirm: this.#ownershipCheck(claimed),
      isAwaited: attempt.failure !== null,
      about: { operationId: claimed.run.operationId, runId: claimed.run.id, attempt: attempt.number },
      log: this.#parts.log,
      stepLog,
    };
  }

  #ownershipCheck({ run, fence }: ClaimedRun): () => Promise<void> {
    const { leases, database } = this.#parts;
    const fenceOf = async (id: string) => (await interruptsOf(database.reader, [id]))[0]?.fence;
    return createOwnershipCheck({ leases, fenceOf, isReleased: () => this.#commits.isReleased }, { id: run.id, fence });
  }
}
