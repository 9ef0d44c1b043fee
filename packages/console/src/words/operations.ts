/** Operations and their waves, in few words. */
import { plural } from "./numbers.ts";
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

/** Why an operation cannot be stopped or aborted now; null if it may be. */
export function interruptRefusal(
  { finishedAt, interrupt }: { readonly finishedAt: string | null; readonly interrupt: string | null },
  verb: "stop" | "abort",
): string | null {
  if (finishedAt !== null) return "The operation has ended.";
  if (interrupt === "ABORT") return "An abort is under way.";
  return interrupt === "STOP" && verb === "stop" ? "A stop is under way." : null;
}

/** Why nothing of an operation can be restarted now; null if something may be. */
export function restartRefusal({
  finishedAt,
  runCounts,
}: {
  readonly finishedAt: string | null;
  readonly runCounts: readonly { readonly state: string; readonly count: number }[];
}): string | null {
  const has = (states: readonly string[]) => runCounts.some(({ state, count }) => count > 0 && states.includes(state));
  if (has(["STOPPED", "FAILED", "ABORTED", "UNDONE"])) return null;
  return finishedAt === null ? "No node has stopped or failed yet." : "Every node has reached its target.";
}
