/** The present work of a run, or its end, in one line. */
import { withLocalTimes } from "./numbers.ts";

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
    currentStep === null || finishedAt !== null || state === "QUEUED"
      ? null
      : [
          currentStep.title,
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
