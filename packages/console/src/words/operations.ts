/** Operations and their waves, in few words. */
import { durationText, plural } from "./numbers.ts";
import { sentenceCase } from "./states.ts";

interface Operation {
  readonly kind: string;
  readonly totalCount: number;
  readonly cluster: { readonly name: string } | null;
}

/** `Commission turin`, `Inspect 12 nodes`. */
export function operationName({ kind, totalCount, cluster }: Operation): string {
  return `${sentenceCase(kind)} ${cluster?.name ?? plural(totalCount, "node")}`;
}

interface Rollout {
  readonly state: string;
  readonly wave: number;
  readonly waves: number;
}

/** `wave 2 of 3, halted`. */
export function waveText({ state, wave, waves }: Rollout): string {
  const now = state === "RUNNING" || state === "ENDED" ? "" : `, ${sentenceCase(state).toLowerCase()}`;
  return `wave ${wave} of ${waves}${now}`;
}

/** Why a request for waves would be refused or do nothing; null if it may be sent. */
export function wavesRefusal(
  mutation: "haltWaves" | "resumeWaves" | "advanceWaves",
  { state, wave, waves }: Rollout,
): string | null {
  const isHalted = state === "HALTED";
  if (mutation === "haltWaves") return isHalted ? "The waves are halted." : null;
  if (mutation === "resumeWaves") return isHalted ? null : "The waves are not halted.";
  return wave >= waves && !isHalted ? "This is the last wave." : null;
}

interface Unfinished {
  readonly etaSeconds: number | null;
  readonly runCounts: readonly { readonly state: string; readonly count: number }[];
}

/** The estimate does not know for how long runs in a queue wait for slots of the service. */
export function leftText({ etaSeconds, runCounts }: Unfinished): string {
  const isQueued = runCounts.some(({ state, count }) => state === "QUEUED" && count > 0);
  return `${isQueued ? "at least" : "about"} ${durationText(etaSeconds ?? 0)} left`;
}

interface Ended {
  readonly finishedAt: string | null;
}

/** Why an operation cannot be stopped or aborted now; null if it may be. */
export function interruptRefusal(
  { finishedAt, interrupt }: Ended & { readonly interrupt: string | null },
  verb: "stop" | "abort",
): string | null {
  if (finishedAt !== null) return "The operation has ended.";
  if (interrupt === "ABORT") return "An abort is under way.";
  return interrupt === "STOP" && verb === "stop" ? "A stop is under way." : null;
}

/** Why an operation cannot be restarted now; null if it may be. */
export function restartRefusal({ finishedAt, runCounts }: Ended & Pick<Unfinished, "runCounts">): string | null {
  if (finishedAt === null) return "It has not ended. Stop it first, or restart its failed nodes below.";
  const states = ["STOPPED", "FAILED", "ABORTED", "UNDONE"];
  const isUnfinished = runCounts.some(({ state, count }) => count > 0 && states.includes(state));
  return isUnfinished ? null : "Every node has reached its target.";
}
