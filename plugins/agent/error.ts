/** The error of this driver, and what it needs to know of the errors of others. */
import type { DriverError, DriverErrorKind, StepResult } from "../../src/drivers/driver.ts";

/** Thrown by functions of this driver. The engine recognizes it by its name, as the contract requires. */
export class AgentError extends Error implements DriverError {
  override readonly name = "DriverError";
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;
  readonly away: boolean;

  constructor(kind: DriverErrorKind, message: string, { retryable = false, away = false } = {}) {
    super(message);
    this.kind = kind;
    this.retryable = retryable;
    this.away = away;
  }
}

/** A failure before anything was begun, that another attempt does not repair. */
export function refused(reason: string): StepResult {
  return { kind: "failed", reason, retryable: false, errorKind: "REFUSED", atRest: true };
}

/** The failure of the BMC's driver while the agent was booted: no task was assigned yet. Throws other errors. */
export function unbooted(error: unknown): StepResult {
  if (!(error instanceof Error && error.name === "DriverError" && "kind" in error)) throw error;
  return {
    kind: "failed",
    reason: error.message,
    ...passing(error),
    errorKind: error.kind as DriverErrorKind,
    atRest: true,
  };
}

/** Whether an error is a driver's report that a machine lacks the ability. */
export function isUnsupported(error: unknown): boolean {
  return error instanceof Error && error.name === "DriverError" && "kind" in error && error.kind === "UNSUPPORTED";
}

/** Whether an error is a refusal that another attempt does not change. */
export function isRefusedForGood(error: unknown): boolean {
  return error instanceof Error && "kind" in error && error.kind === "REFUSED" && !passing(error).retryable;
}

/** Whether an error is a refusal of a BMC that serves, and that another attempt may change. */
export function isRefusedForNow(error: unknown): boolean {
  return (
    error instanceof Error &&
    "kind" in error &&
    error.kind === "REFUSED" &&
    passing(error).retryable &&
    !passing(error).away
  );
}

/** Whether an error is a driver's, and not that its BMC does not serve now. */
export function isFailureOfDriver(error: unknown): boolean {
  return error instanceof Error && error.name === "DriverError" && !passing(error).away;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Whether a failure may pass. */
function passing(error: Error): { readonly retryable: boolean; readonly away: boolean } {
  return {
    retryable: "retryable" in error && error.retryable === true,
    away: "away" in error && error.away === true,
  };
}
