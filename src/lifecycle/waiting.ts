/** What an unfinished run waits for, in one word and in a sentence. Pure: from where the run stands, and its operation. */
import type { RunState } from "./operation-states.ts";
import type { WaveState } from "./waves.ts";

export const WAIT_REASONS = {
  TIME: "The step waits for a time.",
  CALLBACK: "The step waits for a callback of the machine, until a timeout.",
  RETRY: "The step failed and waits for its next attempt.",
  HOLD: "The run is on hold until `unhold`.",
  CAPACITY_PHASE: "The run waits for a slot of the site's limit for a phase.",
  CAPACITY_CONTROLLER: "The run waits for a slot of the site's limit for a management controller.",
  MAX_PARALLEL: "The run waits for a slot of its operation's `maxParallel`.",
  WAVE: "The wave of the node has not started.",
  WAVE_HALTED: "The waves of the operation are halted until `resumeWaves`.",
  CONCURRENCY: "The run waits for a replica with free capacity (OSTLER_CONCURRENCY).",
  PAUSED_BY_MAINTENANCE: "The node is in maintenance; the next step starts when maintenance ends.",
} as const;

export type WaitingFor = keyof typeof WAIT_REASONS;

export interface WaitingFacts {
  readonly state: RunState;
  /** Why it is parked, as it is stored. */
  readonly waitReason: "TIME" | "CALLBACK" | "RETRY" | "HOLD" | "CAPACITY" | "MAINTENANCE" | null;
  /** The limit that it waits for, as in `phase:clean` or `controller:10.0.0.7`. */
  readonly waitFor: string | null;
  readonly wakeAt: Date | null;
  /** When a process first took it up. */
  readonly startedAt: Date | null;
  readonly wave: number;
  /** `interface.name` of the step that it is at. */
  readonly step: string | null;
  /** Of a hold: why. */
  readonly holdReason: string | null;
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
  /** When it ends by itself, at the latest; null: somebody or something else ends it. */
  readonly until: Date | null;
  /** A sentence for people. */
  readonly description: string;
}

/** Null: it does not wait, it has ended or is at work. */
export function waitingOf(facts: WaitingFacts): Waiting | null {
  const reason = reasonOf(facts);
  return reason && { reason, until: untilOf(reason, facts), description: describe(reason, facts) };
}

function reasonOf({ state, waitReason, waitFor, startedAt, wave, operation }: WaitingFacts): WaitingFor | null {
  switch (state) {
    case "QUEUED":
      if (waitFor !== null) return limitKind(waitFor);
      if (operation.waveState === "HALTED") return "WAVE_HALTED";
      return wave > operation.wave ? "WAVE" : "MAX_PARALLEL";
    case "WAITING":
    case "HOLDING":
      if (waitReason === "CAPACITY") return limitKind(waitFor ?? "");
      return waitReason === "MAINTENANCE" ? "PAUSED_BY_MAINTENANCE" : waitReason;
    case "RUNNING":
      return startedAt === null ? "CONCURRENCY" : null;
    case "SUCCEEDED":
    case "FAILED":
    case "ABORTED":
    case "STOPPED":
      return null;
  }
}

function limitKind(waitFor: string): "CAPACITY_PHASE" | "CAPACITY_CONTROLLER" {
  return waitFor.startsWith("controller:") ? "CAPACITY_CONTROLLER" : "CAPACITY_PHASE";
}

function untilOf(reason: WaitingFor, { wakeAt, operation }: WaitingFacts): Date | null {
  if (reason === "WAVE") return operation.waveState === "PAUSED" ? operation.waveUntil : null;
  return reason === "TIME" || reason === "CALLBACK" || reason === "RETRY" ? wakeAt : null;
}

function describe(reason: WaitingFor, facts: WaitingFacts): string {
  const { waitFor, wakeAt, wave, operation } = facts;
  const step = facts.step ?? "Its step";
  const at = wakeAt === null ? "soon" : `at ${wakeAt.toISOString()}`;
  const limited = (waitFor ?? "").replace(/^[a-z]+:/, "");
  switch (reason) {
    case "TIME":
      return `${step} asked to be entered again ${at}.`;
    case "CALLBACK":
      return `${step} waits for the machine to call back${wakeAt === null ? "" : `, until ${wakeAt.toISOString()}`}.`;
    case "RETRY":
      return `${step} failed and is tried again ${at}.`;
    case "HOLD":
      return `It is held${facts.holdReason === null ? "" : ` (${facts.holdReason})`} until somebody lifts it with \`unhold\`.`;
    case "CAPACITY_PHASE":
      return `As many nodes as the site allows are in phase ${limited}; it goes on when one of them leaves it.`;
    case "CAPACITY_CONTROLLER":
      return `As many nodes of controller ${limited} as the site allows are worked on; it goes on when one of them has ended.`;
    case "MAX_PARALLEL":
      return operation.maxParallel === null
        ? "It begins when its turn comes."
        : `Its operation works on ${operation.maxParallel} ${operation.maxParallel === 1 ? "node" : "nodes"} at the same time; it begins when one of them has ended.`;
    case "WAVE":
      return `It is in wave ${wave + 1}, and ${waveStanding(operation)}.`;
    case "WAVE_HALTED":
      return `The waves of its operation are halted${operation.waveReason === null ? "" : ` (${withoutStop(operation.waveReason)})`}${(operation.waveReason ?? "").includes("resumeWaves") ? "" : "; go on with `resumeWaves`"}.`;
    case "CONCURRENCY":
      return "It has its turn; it is taken up as soon as a process has room for another node.";
    case "PAUSED_BY_MAINTENANCE":
      return "Its node is in maintenance; it goes on when that is cleared.";
  }
}

function waveStanding({ wave, waveState, waveUntil }: WaitingFacts["operation"]): string {
  if (waveState === "PAUSED")
    return `wave ${wave + 2} begins ${waveUntil === null ? "after a pause" : `at ${waveUntil.toISOString()}`}`;
  if (waveState === "AWAITING") return `wave ${wave + 2} begins when somebody asks for it with \`advanceWaves\``;
  return `wave ${wave + 1} is under way`;
}

function withoutStop(sentence: string): string {
  return sentence.replace(/\.$/, "");
}
