/** Failures of work, as they are stored with runs, nodes and addresses of a discovery. */
import type { Failure } from "../../store/records.ts";

/** A failure of now. By default it is outside of a step and of a node, and a repetition may succeed. */
export function newFailure(failure: Pick<Failure, "code" | "message"> & Partial<Failure>): Failure {
  return { step: null, nodeId: null, nodeName: null, at: new Date().toISOString(), retryable: true, ...failure };
}
