/**
 * Ends waits for nodes that have disappeared, if the site limits them. The failure is stored as that of a step whose
 * process died before it had cleaned up the machine; the replica that claims the run carries out the rest.
 */
import { attemptsUnderWay, updateAttempt } from "../../store/runs/attempts.ts";
import { waitedTooLong } from "../../store/operations/due-operations.ts";
import type { Failure } from "../../store/records.ts";
import { PRIORITY, wakeRuns } from "../../store/runs/run-claims.ts";
import { lockUnfinishedRuns } from "../../store/runs/run-locks.ts";
import { updateRuns } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import type { EngineContext } from "../context.ts";
import { idsOf, nodeIdsOf } from "../input/ids.ts";
import { newFailure } from "../input/failures.ts";

/** Fails the runs of an operation that have waited for their nodes for too long. */
export async function disappearedTimeout({ transact }: EngineContext, operationId: string): Promise<void> {
  await transact(async ({ tx }) => {
    const locked = await lockUnfinishedRuns(tx, nodeIdsOf(await waitedTooLong(tx, operationId)));
    // Read again: a run may have continued, or its node come back, before the lock.
    const late = new Set(idsOf(await waitedTooLong(tx, operationId)));
    const runs = locked.filter(({ id }) => late.has(id));
    const attempts = await attemptsUnderWay(tx, idsOf(runs));
    for (const run of runs) {
      const attempt = attempts.get(run.id);
      const failure = failureOf(run, attempt?.label ?? null);
      await updateRuns(tx, run.id, { interruptFailure: failure });
      if (attempt?.finishedAt === null) await updateAttempt(tx, attempt, { part: "ABORT", failure });
    }
    await wakeRuns(tx, idsOf(runs), PRIORITY.ending);
  });
}

function failureOf({ nodeId, nodeName }: RunRow, step: string | null): Failure {
  const cause =
    "monitoring has reported the node as disappeared, and the time that the site lets its work wait is over";
  const message = `Node ${nodeName}: ${step ?? "its step"} failed: ${cause}. Check the machine, then restart the work.`;
  return newFailure({ code: "TIMEOUT", message, cause, step, nodeId, nodeName });
}
