/** Requests to abort or stop work, whether runs on nodes or a discovery. */
import { flawIf } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import type { AbortEffect, AbortMode } from "../../lifecycle/interrupts.ts";
import type { Acceptance, NodeAnswer, SubmitAnswer } from "./answers.ts";
import { reasonFlaws } from "./size-limits.ts";
import type { WorkSelector } from "./work-selector.ts";

/** Members of every request to interrupt work. */
export interface InterruptRequest {
  readonly work: WorkSelector;
  /** Default BEST_EFFORT: one refused or unknown node must not keep the others running. */
  readonly acceptance?: Acceptance | undefined;
  readonly reason?: string | undefined;
  /** Nothing is written or locked, and the answer has a forecast. */
  readonly dryRun?: boolean | undefined;
}

export interface AbortRequest extends InterruptRequest {
  readonly mode?: AbortMode | undefined;
  /** Whether to power the node off. Absent: off after clean and deploy, otherwise unchanged. */
  readonly powerOff?: boolean | undefined;
}

/** The answer for one node of an abort. */
export interface AbortAnswer extends NodeAnswer {
  readonly effect?: AbortEffect | null;
  readonly afterStep?: string | null;
}

export interface AbortResult extends SubmitAnswer {
  readonly results: readonly AbortAnswer[];
}

export interface StopRequest extends InterruptRequest {
  /** How long running steps may continue, in seconds. */
  readonly timeoutSeconds?: number | undefined;
}

export function abortFlaws({ mode, reason }: AbortRequest): Refusal[] {
  const message = "An abort with mode FORCE requires a reason. It leaves the machine in an unknown condition.";
  const isUnfounded = mode === "FORCE" && (reason ?? "").trim() === "";
  return [...reasonFlaws(reason), ...flawIf(isUnfounded, message, ["input", "reason"])];
}

const STOP_TIMEOUT_SECONDS = 600;
const STOP_TIMEOUT_SECONDS_MAX = 86_400;

export function timeoutOf({ timeoutSeconds = STOP_TIMEOUT_SECONDS }: StopRequest): number {
  return timeoutSeconds;
}

export function stopFlaws(request: StopRequest): Refusal[] {
  const seconds = timeoutOf(request);
  const message = `Invalid timeoutSeconds: use 1–${STOP_TIMEOUT_SECONDS_MAX} seconds.`;
  const isOutside = !(seconds >= 1 && seconds <= STOP_TIMEOUT_SECONDS_MAX);
  return [...reasonFlaws(request.reason), ...flawIf(isOutside, message, ["input", "timeoutSeconds"])];
}
