/** Parses the value that a step of a driver returned: plugins are not type-checked when they are loaded. */
import { isRecord } from "../runtime/json-values.ts";
import type { DiskAccount, DriverErrorKind, Json, StepResult } from "./driver.ts";

/** A step returned a value that is not a `StepResult`. */
export class InvalidStepResultError extends Error {
  override readonly name = "InvalidStepResultError";

  /** May contain secrets: mask it before it is shown. */
  readonly value: unknown;

  /** `what`: the value, in words. */
  constructor(what: string, value: unknown) {
    super(`The driver returned ${what}`);
    this.value = value;
  }
}

/** Throws an `InvalidStepResultError` for any other value. An absent output or memo is null. */
export function parseStepResult(value: unknown): StepResult {
  if (typeof value !== "object" || value === null)
    throw new InvalidStepResultError(`${typeof value} in place of a result`, value);
  const { kind, output, seconds, callback, memo, reason, retryable, retried, away, errorKind, atRest } =
    value as Record<string, unknown>;
  switch (kind) {
    case "done":
      if (!isJson(output)) throw new InvalidStepResultError("an output that is not JSON or is too large", value);
      return { kind, ...(output !== undefined && { output }) };
    case "wait": {
      const onCallback = callback === true;
      if (!isSeconds(seconds) && !(onCallback && (seconds === undefined || seconds === null)))
        throw new InvalidStepResultError("a wait without seconds and without a callback", value);
      if (!isJson(memo))
        throw new InvalidStepResultError(
          "a memo that is not JSON, is too large, or has characters that cannot be stored",
          value,
        );
      return {
        kind,
        ...(isSeconds(seconds) && { seconds }),
        ...(onCallback && { callback: true }),
        memo: memo ?? null,
      };
    }
    case "failed":
      if (typeof reason !== "string") throw new InvalidStepResultError("a failure without a reason", value);
      return {
        kind,
        reason,
        retryable: retryable === true,
        ...(retried === true && { retried }),
        ...(away === true && { away }),
        ...(typeof errorKind === "string" && { errorKind: errorKind as DriverErrorKind }),
        ...(atRest === true && { atRest }),
      };
    default:
      throw new InvalidStepResultError(`a result of kind ${JSON.stringify(kind)}`, value);
  }
}

function isSeconds(value: unknown): value is number {
  return typeof value === "number" && value >= 0;
}

/** Undefined counts, because it stands for null. */
function isJson(value: unknown): value is Json | undefined {
  if (value === undefined) return true;
  try {
    return JSON.stringify(value) !== undefined;
  } catch {
    return false;
  }
}

/** The disks in the output of a step that declares `erases`, or what is wrong with that output, as a clause. */
export function parseDiskAccount(output: unknown): readonly DiskAccount[] | { readonly flaw: string } {
  const disks = isRecord(output) ? output["disks"] : undefined;
  if (!Array.isArray(disks)) return { flaw: "its output has no list `disks`, the account of every disk that it saw" };
  const flawed = disks.findIndex((disk) => !isDiskAccount(disk));
  if (flawed < 0) return disks;
  const needs = "a `path`, `id` or `name`, `erased` as a boolean, and a `reason` if it was not erased";
  return { flaw: `entry ${flawed} of \`disks\` in its output is not a disk, which has ${needs}` };
}

function isDiskAccount(disk: unknown): disk is DiskAccount {
  if (!isRecord(disk)) return false;
  const isText = (name: string) => typeof disk[name] === "string" && disk[name].trim() !== "";
  const hasName = isText("path") || isText("id") || isText("name");
  return hasName && typeof disk["erased"] === "boolean" && (disk["erased"] || isText("reason"));
}
