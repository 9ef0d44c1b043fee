/** The reason why an unfinished run waits, as a code and a sentence. Pure: derived from the run and its operation. */
import type { RunState } from "./operation-states.ts";
import type { WaveState } from "./waves.ts";

export const WAIT_REASONS = {
  TIME: "The step waits for a time.",
  CALLBACK: "The step waits for a callback of the machine, until a timeout.",
  RETRY: "The step failed and waits for its next attempt.",
  HOLD: "The run is on hold until `releaseHolds`.",
  CAPACITY_PHASE: "The run waits for a slot of the site's limit for a phase.",
  CAPACITY_CONTROLLER: "The run waits for a slot of the site's limit for a management controller.",
  MAX_PARALLEL: "The run waits for a slot of its operation's `maxParallel`.",
  WAVE: "The wave of the node has not started.",
  GROUP: "The node's host group begins after nodes of other host groups that are not ACTIVE.",
  BUDGET: "Too few nodes of the host group would stay in service; the run starts when others have returned.",
  WAVE_HALTED: "The waves of the operation are halted until `resumeWaves`.",
  CONCURRENCY: "The run waits for a replica with free capacity (OSTLER_CONCURRENCY).",
  DISAPPEARED:
    "The step waits for a time, a callback or its next attempt, and monitoring has reported the node as disappeared.",
  ABORTING:
    "The run is ended by an abort, or by the failure of a step: the step is canceled and undone, and the power is set.",
  PAUSED_BY_MAINTENANCE: "The node is in maintenance; the next step starts when maintenance ends.",
} as const;

type WaitingFor = keyof typeof WAIT_REASONS;

export interface WaitingFacts {
  readonly state: RunState;
  /** An abort or a failure ends the run now; it does not wait for the end of the step. */
  readonly isAborting: boolean;
  /** Stored reason for which the run is parked. */
  readonly waitReason: "TIME" | "CALLBACK" | "RETRY" | "HOLD" | "CAPACITY" | "MAINTENANCE" | "CONCURRENCY" | null;
  /** The limit that it waits for, such as `phase:clean` or `controller:10.0.0.7`. */
  readonly waitFor: string | null;
  readonly wakeAt: Date | null;
  readonly wave: number;
  /** Why the node's host group holds the run, as a sentence; null if it does not. */
  readonly heldBy: { readonly reason: "GROUP" | "BUDGET"; readonly description: string } | null;
  /** The present step as `interface.name`. */
  readonly step: string | null;
  /** Reason of a hold. */
  readonly holdReason: string | null;
  readonly inMaintenance: boolean;
  /** Monitoring has reported the node as disappeared. */
  readonly hasDisappeared: boolean;
  /** When the wait for a node that has disappeared ends by the policy of the site; null: not by it. */
  readonly disappearedUntil: Date | null;
  readonly operation: {
    readonly wave: number;
    readonly waveState: WaveState | null;
    readonly waveReason: string | null;
    readonly waveUntil: Date | null;
    readonly maxParallel: number | null;
  };
}

export interface Waiting {
  readonly reason: WaitingFor;
  /** Latest automatic end of the wait; null if an operator or another run ends it. */
  readonly until: Date | null;
  /** A sentence for people. */
  readonly description: string;
}

/** Null if the run is running or has ended. */
export function waitingOf(facts: WaitingFacts): Waiting | null {
  const reason = reasonOf(facts);
  if (reason === null) return null;
  const found = { reason, until: untilOf(reason, facts), description: describe(reason, facts) };
  if (facts.inMaintenance && (reason === "TIME" || reason === "CALLBACK"))
    found.description += " Its timeout stands still, because the node is in maintenance.";
  if (!facts.hasDisappeared) return found;
  const isInVain = MACHINE_WAITS.has(reason);
  const ends = isInVain && !facts.inMaintenance ? facts.disappearedUntil : null;
  const end = ends ? `the run fails at ${ends.toISOString()} unless the node is seen again; abort it` : "abort the run";
  return {
    reason: isInVain ? "DISAPPEARED" : reason,
    until: ends && (found.until === null || ends < found.until) ? ends : found.until,
    description: `${found.description} Monitoring has reported the node as disappeared: ${end} if the node will not come back.`,
  };
}

/** Waits that the machine or time ends, and that are in vain if the machine is gone. */
const MACHINE_WAITS: ReadonlySet<OwnReason> = new Set(["TIME", "CALLBACK", "RETRY"]);

/** The reason that the run itself has. */
type OwnReason = Exclude<WaitingFor, "DISAPPEARED">;

function reasonOf(facts: WaitingFacts): OwnReason | null {
  const { state, isAborting, waitReason, waitFor, wave, operation } = facts;
  if (isAborting) return "ABORTING";
  switch (state) {
    case "QUEUED":
      if (waitFor !== null) return limitKind(waitFor);
      if (waitReason === "CONCURRENCY") return waitReason;
      if (operation.waveState === "HALTED") return "WAVE_HALTED";
      if (wave > operation.wave) return "WAVE";
      return facts.heldBy?.reason ?? "MAX_PARALLEL";
    case "WAITING":
    case "HOLDING":
      if (waitReason === "CAPACITY") return limitKind(waitFor ?? "");
      return waitReason === "MAINTENANCE" ? "PAUSED_BY_MAINTENANCE" : waitReason;
    case "RUNNING":
    case "SUCCEEDED":
    case "FAILED":
    case "ABORTED":
    case "STOPPED":
    case "UNDONE":
      return null;
  }
}

function limitKind(waitFor: string): "CAPACITY_PHASE" | "CAPACITY_CONTROLLER" {
  return waitFor.startsWith("controller:") ? "CAPACITY_CONTROLLER" : "CAPACITY_PHASE";
}

function untilOf(reason: OwnReason, { wakeAt, operation }: WaitingFacts): Date | null {
  if (reason === "WAVE") return operation.waveState === "PAUSED" ? operation.waveUntil : null;
  return reason === "TIME" || reason === "CALLBACK" || reason === "RETRY" ? wakeAt : null;
}

function describe(reason: OwnReason, facts: WaitingFacts): string {
  const { waitFor, wakeAt, wave, operation } = facts;
  const step = facts.step ?? "Its step";
  const at = wakeAt === null ? "soon" : `at ${wakeAt.toISOString()}`;
  const limited = (waitFor ?? "").replace(/^[a-z]+:/, "");
  switch (reason) {
    case "TIME":
      return `${step} waits and continues ${at}.`;
    case "CALLBACK":
      return `${step} waits for a callback of the machine${wakeAt === null ? "" : `, until ${wakeAt.toISOString()}`}.`;
    case "RETRY":
      return `${step} failed and will be retried ${at}.`;
    case "HOLD":
      return `The run is on hold${facts.holdReason === null ? "" : ` (${facts.holdReason})`}. Release the hold to go on.`;
    case "CAPACITY_PHASE":
      return `The site's limit for phase ${limited} is reached. The run continues when a node leaves this phase.`;
    case "CAPACITY_CONTROLLER":
      return `The site's limit for controller ${limited} is reached. The run continues when work on one of its nodes has ended.`;
    case "MAX_PARALLEL":
      return operation.maxParallel === null
        ? "The run waits for its start in the order of the request."
        : `The operation works on at most ${operation.maxParallel} ${operation.maxParallel === 1 ? "node" : "nodes"} at the same time. The run starts when one of them has ended.`;
    case "WAVE":
      return `The run is in wave ${wave + 1}; ${waveStanding(operation)}.`;
    case "GROUP":
    case "BUDGET":
      return facts.heldBy?.description ?? WAIT_REASONS[reason];
    case "WAVE_HALTED":
      return `The waves of the operation are halted${operation.waveReason === null ? "" : ` (${withoutStop(operation.waveReason)})`}${(operation.waveReason ?? "").includes("Resume the waves") ? "" : "; resume them to go on"}.`;
    case "CONCURRENCY":
      return "The run can start. It waits for a replica with free capacity.";
    case "ABORTING":
      return `The run is being ended: ${step} is canceled and undone, and the power is set. If that does not end, abort it by force.`;
    case "PAUSED_BY_MAINTENANCE":
      return "The node is in maintenance. The run continues when maintenance ends.";
  }
}

function waveStanding({ wave, waveState, waveUntil }: WaitingFacts["operation"]): string {
  if (waveState === "PAUSED")
    return `wave ${wave + 2} starts ${waveUntil === null ? "after a pause" : `at ${waveUntil.toISOString()}`}`;
  if (waveState === "AWAITING") return `wave ${wave + 2} starts when the waves are advanced`;
  return `wave ${wave + 1} is running`;
}

function withoutStop(sentence: string): string {
  return sentence.replace(/\.$/, "");
}
