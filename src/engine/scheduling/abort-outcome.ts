/**
 * The results of an abort: the error of its run and node, and the condition of a machine that nothing is known about.
 */
import { sentence } from "../../runtime/text.ts";
import type { Failure, LeftAs } from "../../store/records.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { ENGINE } from "./start-runs.ts";
import { newFailure } from "../input/failures.ts";

/** Whether a caller has aborted the run. The end of a stop's time is recorded as an abort by the engine. */
export function isAbortedByCaller({ interrupt, interruptBy }: Pick<RunRow, "interrupt" | "interruptBy">): boolean {
  return interrupt === "ABORT" && interruptBy !== ENGINE;
}

/** The condition of a machine that nothing is known about. */
export const UNKNOWN_CONDITION: LeftAs = {
  power: "UNKNOWN",
  disksTouched: true,
  firmwareTouched: true,
  networkAttached: true,
  tearDownError: null,
};

/** When an abort took effect, seen from the step that the run had reached. */
type AbortMoment = "before" | "at" | "after";

/** The error of a run and its node after an abort. */
export function abortedFailure(
  { nodeId, nodeName }: Pick<RunRow, "nodeId" | "nodeName">,
  { by, reason }: { readonly by: string | null; readonly reason: string | null },
  { step, moment }: { readonly step: string | null; readonly moment: AbortMoment },
): Failure {
  const where = step === null ? "" : ` ${moment} ${step}`;
  const why = reason === null ? "" : `: ${reason}`;
  const cause = `aborted by ${by ?? ENGINE}${where}${sentence(why)}`;
  return newFailure({ code: "ABORTED", message: `Node ${nodeName} was ${cause}`, cause, step, nodeId, nodeName });
}
