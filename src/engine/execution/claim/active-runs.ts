/**
 * The runs that this process executes, and the signals by which an interrupt or a release reaches their steps. Requests
 * are read from the database once a second, and at once after a notification.
 */
import { cancels } from "../../../lifecycle/interrupts.ts";
import type { PlannedStep } from "../../../store/records.ts";
import type { Claim } from "../../../store/runs/run-claims.ts";
import { interruptsOf } from "../../../store/runs/runs.ts";
import type { EngineParts } from "../../context.ts";
import type { ClaimedRun } from "./claimed-run.ts";

/** The signals of a step. */
interface StepSignals<Signal = AbortSignal> {
  /** Fires when the step is to be cancelled. */
  readonly cancel: Signal;
  /** Fires when the step is not waited for any longer, although it must not be cancelled. */
  readonly abandon: Signal;
  /** Fires when an abort is forced, after `cancel`: the node may have other work from now on. */
  readonly kill: Signal;
}

interface ActiveStep extends StepSignals<AbortController>, Pick<PlannedStep, "interruptible"> {}

interface ActiveRun {
  readonly fence: number;
  /** Resolves when the execution of the run has ended, with or without an error. */
  readonly ended: Promise<void>;
  /** The step that was entered last; null before the first. */
  readonly step: ActiveStep | null;
}

const POLL_MS = 1_000;
const AFTER_NOTIFICATION_MS = 100;
/** How long a canceled step is waited for when the time of a stop is over. */
const OVERDUE_GRACE_MS = 1_000;

type ActiveRunsParts = Pick<EngineParts, "database" | "notifier" | "log">;

export class ActiveRuns {
  readonly #runs = new Map<string, ActiveRun>();
  readonly #parts: ActiveRunsParts;
  readonly #poll: NodeJS.Timeout;
  readonly #unsubscribe: () => void;
  #isReleased = false;

  constructor(parts: ActiveRunsParts) {
    this.#parts = parts;
    this.#poll = setInterval(() => this.checkInterrupts(), POLL_MS);
    this.#unsubscribe = parts.notifier.subscribe(() => this.checkInterrupts(), AFTER_NOTIFICATION_MS);
  }

  /** Resolves when the run is not executed by this process. */
  async whenIdle(runId: string): Promise<void> {
    await this.#runs.get(runId)?.ended;
  }

  /** Keeps the run until its execution has ended. */
  async track({ id: runId, fence }: Claim, execution: Promise<void>): Promise<void> {
    const ending = execution.finally(() => this.#runs.delete(runId));
    this.#runs.set(runId, { fence, ended: ending.catch(() => {}), step: null });
    await ending;
  }

  /** Notes that the run enters a step, so that an interrupt finds it. */
  enterStep({ run, fence }: ClaimedRun, { interruptible }: Pick<PlannedStep, "interruptible">): StepSignals {
    const { ended = Promise.resolve() } = this.#runs.get(run.id) ?? {};
    const [cancel, abandon, kill] = [new AbortController(), new AbortController(), new AbortController()];
    if (this.#isReleased) abandon.abort();
    this.#runs.set(run.id, { fence, ended, step: { interruptible, cancel, abandon, kill } });
    return { cancel: cancel.signal, abandon: abandon.signal, kill: kill.signal };
  }

  /** Reads the requested interrupts, and signals the steps that they concern. */
  checkInterrupts(): void {
    this.#signalInterrupted().catch((error: unknown) =>
      this.#parts.log.warn({ err: error }, "reading requested interrupts failed"),
    );
  }

  async #signalInterrupted(): Promise<void> {
    const asked = new Map(this.#runs);
    const ids = [...asked].flatMap(([id, { step }]) => (step ? [id] : []));
    for (const { id, interrupt, interruptMode, fence, overdue } of await interruptsOf(
      this.#parts.database.reader,
      ids,
    )) {
      const active = this.#runs.get(id);
      // The run is in its next step by now, which the answer may not concern.
      if (!active?.step || active !== asked.get(id)) continue;
      const { interruptible, cancel, abandon, kill } = active.step;
      const isAborted = interrupt === "ABORT" && cancels(interruptMode, interruptible);
      if (fence > active.fence || isAborted) cancel.abort(new Error("The step was aborted."));
      if (interrupt === "ABORT" && interruptMode === "FORCE") kill.abort(new Error("The abort was forced."));
      // A step that was canceled gets a moment to end.
      if (overdue) setTimeout(() => abandon.abort(), isAborted ? OVERDUE_GRACE_MS : 0).unref();
    }
  }

  /** Cancels the steps of all runs, and waits for none of them. */
  release(): void {
    this.#isReleased = true;
    for (const { step } of this.#runs.values()) {
      step?.cancel.abort(new Error("The process is shutting down."));
      step?.abandon.abort();
    }
  }

  close(): void {
    clearInterval(this.#poll);
    this.#unsubscribe();
  }
}
