/**
 * Turns the value that a driver returned, or the error that it threw, into data that may be stored: texts are masked
 * and shortened, values are checked.
 */
import { FAILURE_KINDS, messageOf } from "../../../errors.ts";
import type { ErrorCode, FailureKind } from "../../../errors.ts";
import type { DriverError, Json, StepResult } from "../../../drivers/driver.ts";
import { InvalidStepResultError, parseStepResult } from "../../../drivers/step-result.ts";
import type { StoredJson } from "../../../store/records.ts";
import { cutTo } from "../../../runtime/text.ts";
import { isStorable } from "../../../runtime/json-values.ts";
import type { Redactor } from "../../input/secret-redactor.ts";

/** Why something failed, before it is stored as a `Failure`. */
export interface Fault {
  readonly code: ErrorCode;
  readonly reason: string;
  readonly retryable: boolean;
  /** The driver has already tried again: the step is not retried. */
  readonly retried?: true;
  /** The controller does not serve now, and the step can be entered again. */
  readonly away?: boolean;
  /** As the driver classified it; absent if the failure is not a driver's. */
  readonly failureKind?: FailureKind;
  /** The machine does nothing for the step, as the driver says. */
  readonly atRest?: true;
}

type AcceptedResult =
  | { readonly kind: "done"; readonly output: StoredJson }
  | { readonly kind: "wait"; readonly seconds: number; readonly onCallback: boolean; readonly memo: StoredJson }
  | ({ readonly kind: "failed" } & Fault);

/** Limit of a wait for a callback that sets none: long enough for a boot or an agent that reports. */
const CALLBACK_WAIT_SECONDS = 1_800;
/** Characters of JSON of an output or a memo, which are for people and later steps and not for files. */
const OUTPUT_LENGTH_MAX = 256 * 1024;
const REASON_LENGTH_MAX = 2_000;
/** Characters of an invalid value that its failure quotes. */
const QUOTE_LENGTH_MAX = 200;

/** Checks a result. An invalid one is a failure that is not retryable. */
export function acceptResult(value: unknown, redactor: Redactor): AcceptedResult {
  try {
    return acceptedResult(value, parseStepResult(value), redactor);
  } catch (error) {
    if (error instanceof InvalidStepResultError) return { kind: "failed", ...faultOf(error, redactor) };
    throw error;
  }
}

function acceptedResult(value: unknown, result: StepResult, redactor: Redactor): AcceptedResult {
  switch (result.kind) {
    case "done": {
      const output = storable(result.output ?? null);
      if (output === undefined) throw new InvalidStepResultError("an output that is not JSON or is too large", value);
      return { kind: "done", output: redactor.json(output) };
    }
    case "wait": {
      const memo = storable(result.memo);
      const flaw = "a memo that is not JSON, is too large, or has characters that cannot be stored";
      if (memo === undefined || !isStorable(memo)) throw new InvalidStepResultError(flaw, value);
      const seconds = result.seconds ?? CALLBACK_WAIT_SECONDS;
      return { kind: "wait", seconds, onCallback: result.callback === true, memo };
    }
    case "failed":
      return {
        kind: "failed",
        code: "BACKEND_FAILED",
        reason: storableReason(result.reason, redactor),
        retryable: result.retryable,
        ...(result.retried === true && { retried: true }),
        ...(result.away && { away: true }),
        failureKind: failureKindOf(result.errorKind),
        ...(result.atRest === true && { atRest: true }),
      };
  }
}

/** The fault that an error of a driver stands for. */
export function faultOf(error: unknown, redactor: Redactor): Fault {
  const quote = error instanceof InvalidStepResultError ? quoted(error.value, redactor) : "";
  const reason = storableReason(messageOf(error), redactor) + quote;
  if (!isDriverError(error)) return { code: "BACKEND_FAILED", reason, retryable: false, failureKind: "OTHER" };
  return {
    code: isTimeout(error) ? "TIMEOUT" : "BACKEND_FAILED",
    reason,
    retryable: error.retryable,
    ...(error.away === true && { away: true }),
    failureKind: failureKindOf(error.kind),
  };
}

/** Whether an error of a driver says that its call has changed nothing on the machine. */
export function isWithoutEffect(error: unknown): boolean {
  return isDriverError(error) && (error.kind === "UNSUPPORTED" || error.withoutEffect === true);
}

/** Plugins are not type-checked when they are loaded. */
function failureKindOf(given: string | undefined): FailureKind {
  return FAILURE_KINDS.find((kind) => kind === given) ?? "OTHER";
}

/**
 * The beginning of a value that a driver returned, to append to a sentence about it; empty if JSON cannot represent it.
 */
export function quoted(value: unknown, redactor: Redactor): string {
  try {
    const text = redactor.text(JSON.stringify(value) ?? "");
    if (text === "") return "";
    return `: ${text.length > QUOTE_LENGTH_MAX ? `${cutTo(text, QUOTE_LENGTH_MAX)}…` : text}`;
  } catch {
    return "";
  }
}

export function isTimeout(error: unknown): boolean {
  return isDriverError(error) && error.kind === "TIMEOUT";
}

/** By name: a driver may have its own class. */
export function isDriverError(error: unknown): error is DriverError {
  return error instanceof Error && error.name === "DriverError";
}

/** A driver's text, masked and shortened. */
export function storableReason(text: string, redactor: Redactor): string {
  const masked = redactor.text(text);
  return masked.length > REASON_LENGTH_MAX ? `${cutTo(masked, REASON_LENGTH_MAX)}…` : masked;
}

/** A copy as JSON represents it; undefined if it is too large. */
function storable(value: Json): StoredJson | undefined {
  try {
    const text = JSON.stringify(value);
    if (text === undefined || text.length > OUTPUT_LENGTH_MAX) return undefined;
    return JSON.parse(text) as StoredJson;
  } catch {
    return undefined;
  }
}
