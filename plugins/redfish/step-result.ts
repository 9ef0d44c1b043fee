/** Ends a step with its result, or with the reason of its failure. The reason of a signal is thrown. */
import type { StepCall, StepResult } from "../../src/drivers/driver.ts";
import { RedfishError } from "./error.ts";

export async function asResult(
  call: Pick<StepCall<unknown>, "log">,
  work: () => Promise<StepResult>,
): Promise<StepResult> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RedfishError)) throw error;
    call.log(error.message);
    return failureOf(error);
  }
}

/** `atRest`: the machine was asked for nothing. */
export function failureOf({ message, retryable, kind, away }: RedfishError, atRest = false): StepResult {
  return { kind: "failed", reason: message, retryable, away, errorKind: kind, ...(atRest && { atRest }) };
}
