/** The present work of a run, or its end, in one line. */
import { withLocalTimes } from "./numbers.ts";
import { sentenceCase } from "./states.ts";

interface Run {
  readonly state: string;
  readonly purpose: string;
  readonly failure: { readonly message: string } | null;
  readonly waiting: { readonly description: string } | null;
  readonly abortPendingAfterStep: string | null;
  readonly finishedAt: string | null;
  readonly currentStep: {
    readonly title: string;
    readonly progressPercent: number | null;
    readonly progressMessage: string | null;
  } | null;
}

interface Purpose {
  readonly purpose: string;
  readonly operation: { readonly kind: string };
}

/** `Commission`, `Clean-up after commission`. */
export function runName({ purpose, operation: { kind } }: Purpose): string {
  return purpose === "CLEAN_UP" ? `Clean-up after ${sentenceCase(kind).toLowerCase()}` : sentenceCase(kind);
}

/** The run that explains a node: the newest, but the work before a clean-up that succeeded. `runs`: newest first. */
export function explainingRun<Row extends Pick<Run, "purpose" | "state">>(runs: readonly Row[]): Row | undefined {
  return runs.find(({ purpose, state }) => purpose !== "CLEAN_UP" || state !== "SUCCEEDED") ?? runs[0];
}

export function runText({
  state,
  purpose,
  failure,
  waiting,
  abortPendingAfterStep,
  currentStep,
  finishedAt,
}: Run): string {
  const step =
    currentStep === null || state === "QUEUED" || (finishedAt !== null && state !== "STOPPED")
      ? null
      : [
          state === "STOPPED" ? `Before: ${currentStep.title}` : currentStep.title,
          currentStep.progressPercent === null ? null : `${currentStep.progressPercent} %`,
          currentStep.progressMessage,
        ]
          .filter((part) => part !== null)
          .join(", ");
  return [
    purpose === "CLEAN_UP" ? "Clean-up" : null,
    failure?.message ?? null,
    step,
    waiting && withLocalTimes(waiting.description),
    abortPendingAfterStep === null ? null : `Abort after ${abortPendingAfterStep}`,
  ]
    .filter((part) => part !== null)
    .join(" · ");
}

/** A node that was cleaned up has two runs. */
export function nodeCountOf(runs: readonly { readonly nodeName: string }[]): number {
  return new Set(runs.map(({ nodeName }) => nodeName)).size;
}
