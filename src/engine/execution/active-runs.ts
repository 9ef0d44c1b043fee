/**
 * The runs that this process executes, and the signals by which an interrupt or a release reaches their steps. Requests are
 * read from the database once a second, and at once after a notification.
 */
import type { Log } from "../../log.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { Notifier } from "../../store/postgres/notifier.ts";
import type { PlannedStep } from "../../store/records.ts";
import { interruptsOf } from "../../store/runs.ts";
import type { ClaimedRun } from "./claimed-run.ts";

export interface StepSignals {
  /** Fires when the step is to be cancelled. */
  readonly cancel: AbortSignal;
  /** Fires when the step is not waited for any longer, although it must not be cancelled. */
  readonly abandon: AbortSignal;
}

interface ActiveRun {
  readonly fence: number;
  readonly cancel: AbortController;
  readonly abandon: AbortController;
  /** Resolves when the execution of the run has ended, with or without an error. */
  readonly ended: Promise<void>;
  /** Of the step that was entered last; null before the first. */
  readonly interruptible: PlannedStep["interruptible"] | null;
}

const POLL_MS = 1_000;
const AFTER_NOTIFICATION_MS = 100;

export interface ActiveRunsParts {
  readonly reader: Reader;
  readonly notifier: Notifier;
  readonly log: Log;
}

export class ActiveRuns {
  readonly #runs = new Map<string, ActiveRun>();
  readonly #parts: ActiveRunsParts;
  readonly #poll: NodeJS.Timeout;
  readonly #unsubscribe: () => void;
  #soon: NodeJS.Timeout | undefined;
  #isReleased = false;

  constructor(parts: ActiveRunsParts) {
    this.#parts = parts;
    this.#poll = setInterval(() => this.checkInterrupts(), POLL_MS);
    this.#unsubscribe = parts.notifier.subscribe(() => {
      this.#soon ??= setTimeout(() => {
        this.#soon = undefined;
        this.checkInterrupts();
      }, AFTER_NOTIFICATION_MS);
    });
  }

  /** Resolves when the run is not executed by this process. */
  async whenIdle(runId: string): Promise<void> {
    await this.#runs.get(runId)?.ended;
  }

  /** Keeps the run until its execution has ended. */
  async track(runId: string, execution: Promise<void>): Promise<void> {
    const ending = execution.finally(() => this.#runs.delete(runId));
    this.#runs.set(runId, {
      fence: 0,
      cancel: new AbortController(),
      abandon: new AbortController(),
      ended: ending.catch(() => {}),
      interruptible: null,
    });
    await ending;
  }

  /** Notes that the run enters a step, so that an interrupt finds it. */
  enterStep({ run, fence }: ClaimedRun, { interruptible }: PlannedStep): StepSignals {
    const { ended } = this.#runs.get(run.id) ?? { ended: Promise.resolve() };
    const active = { fence, cancel: new AbortController(), abandon: new AbortController(), ended, interruptible };
    if (this.#isReleased) active.abandon.abort();
    this.#runs.set(run.id, active);
    return { cancel: active.cancel.signal, abandon: active.abandon.signal };
  }

  /** Reads the requested interrupts, and signals the steps that they concern. */
  checkInterrupts(): void {
    this.#signalInterrupted().catch((error: unknown) =>
      this.#parts.log.warn({ err: error }, "reading requested interrupts failed"),
    );
  }

  async #signalInterrupted(): Promise<void> {
    const ids = [...this.#runs].filter(([, { interruptible }]) => interruptible !== null).map(([id]) => id);
    for (const { id, interrupt, fence, overdue } of await interruptsOf(this.#parts.reader, ids)) {
      const active = this.#runs.get(id);
      if (!active || active.interruptible === null) continue;
      if (fence > active.fence || (interrupt === "ABORT" && active.interruptible === "ALWAYS"))
        active.cancel.abort(new Error("The step was aborted."));
      else if (overdue) active.abandon.abort();
    }
  }

  /** Cancels the steps of all runs, and waits for none of them. */
  release(): void {
    this.#isReleased = true;
    for (const { cancel, abandon } of this.#runs.values()) {
      cancel.abort(new Error("The process is shutting down."));
      abandon.abort();
    }
  }

  close(): void {
    clearInterval(this.#poll);
    clearTimeout(this.#soon);
    this.#unsubscribe();
  }
}
