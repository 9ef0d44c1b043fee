/** Parses what a driver returned or threw. Drivers are not trusted: texts are masked and shortened, values are checked. */
import { messageOf } from "../../errors.ts";
import type { ErrorCode } from "../../errors.ts";
import type { DriverError } from "../../drivers/driver.ts";
import type { StoredJson } from "../../store/records.ts";
import { cutTo } from "../../runtime/text.ts";
import { isStorable } from "../../runtime/json-values.ts";
import type { Redactor } from "../input/secret-redactor.ts";

/** Why something failed, before it is stored as a `Failure`. */
export interface Fault {
  readonly code: ErrorCode;
  readonly reason: string;
  readonly retryable: boolean;
}

export type ParsedStepResult =
  | { readonly kind: "done"; readonly output: StoredJson }
  | { readonly kind: "wait"; readonly seconds: number; readonly onCallback: boolean; readonly memo: StoredJson }
  | ({ readonly kind: "failed" } & Fault);

/** Limit of a wait for a callback that sets none: long enough for a boot or an agent that reports. */
const CALLBACK_WAIT_SECONDS = 1_800;
/** Characters of JSON of an output or a memo, which are for people and later steps and not for files. */
const OUTPUT_LENGTH_MAX = 256 * 1024;
const REASON_LENGTH_MAX = 2_000;

export function parseStepResult(result: unknown, redactor: Redactor): ParsedStepResult {
  const invalid = (what: string): ParsedStepResult => ({
    kind: "failed",
    code: "BACKEND_FAILED",
    reason: storableReason(`The driver returned ${what}`, redactor),
    retryable: false,
  });
  if (typeof result !== "object" || result === null) return invalid(`${typeof result} in place of a result`);
  const given = result as Record<string, unknown>;
  switch (given["kind"]) {
    case "done": {
      const output = storable(given["output"]);
      if (output === undefined) return invalid("an output that is not JSON or is too large");
      return { kind: "done", output: redactor.json(output) };
    }
    case "wait": {
      const onCallback = given["callback"] === true;
      const seconds = given["seconds"] ?? (onCallback ? CALLBACK_WAIT_SECONDS : undefined);
      const memo = storable(given["memo"]);
      if (typeof seconds !== "number" || !(seconds >= 0))
        return invalid("a wait without seconds and without a callback");
      if (memo === undefined || !isStorable(memo))
        return invalid("a memo that is not JSON, is too large, or has characters that cannot be stored");
      return { kind: "wait", seconds, onCallback, memo };
    }
    case "failed":
      if (typeof given["reason"] !== "string") return invalid("a failure without a reason");
      return {
        kind: "failed",
        code: "BACKEND_FAILED",
        reason: storableReason(given["reason"], redactor),
        retryable: given["retryable"] === true,
      };
    default:
      return invalid(`a result of kind ${JSON.stringify(given["kind"])}`);
  }
}

/** The fault that an error of a driver stands for. */
export function faultOf(error: unknown, redactor: Redactor): Fault {
  const reason = storableReason(messageOf(error), redactor);
  if (!isDriverError(error)) return { code: "BACKEND_FAILED", reason, retryable: false };
  return {
    code: isTimeout(error) || error.kind === "UNREACHABLE" ? "TIMEOUT" : "BACKEND_FAILED",
    reason,
    retryable: error.retryable,
  };
}

export function isTimeout(error: unknown): boolean {
  return isDriverError(error) && error.kind === "TIMEOUT";
}

/** By name: a driver may have its own class. */
function isDriverError(error: unknown): error is DriverError {
  return error instanceof Error && error.name === "DriverError";
}

/** A driver's text, masked and shortened. */
export function storableReason(text: string, redactor: Redactor): string {
  const masked = redactor.text(text);
  return masked.length > REASON_LENGTH_MAX ? `${cutTo(masked, REASON_LENGTH_MAX)}…` : masked;
}

/** The value as JSON; undefined if it is not JSON or is too large. An absent value is null. */
function storable(value: unknown): StoredJson | undefined {
  if (value === undefined) return null;
  try {
    const text = JSON.stringify(value);
    if (text === undefined || text.length > OUTPUT_LENGTH_MAX) return undefined;
    return JSON.parse(text) as StoredJson;
  } catch {
    return undefined;
  }
}
