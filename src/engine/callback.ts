/** A machine reports back to a step that waits for it. The token in the path is good for one wait of one run. */
import { lockRunByToken, attemptsUnderWay, updateAttempt, updateRun } from "../store/runs.ts";
import type { StoredJson } from "../store/records.ts";
import { isUuid } from "./select.ts";
import type { SubmitParts } from "./submit.ts";

/** `UNKNOWN`: no unfinished run has this token: it is forged, late, or has been used. Nothing was changed. */
export type CallBackAnswer = "TAKEN" | "UNKNOWN";

export async function callBack(parts: SubmitParts, token: string, body: StoredJson): Promise<CallBackAnswer> {
  if (!isUuid(token)) return "UNKNOWN";
  return parts.transact(async (work): Promise<CallBackAnswer> => {
    const run = await lockRunByToken(work.tx, token);
    const attempt = run && (await attemptsUnderWay(work.tx, [run.id])).get(run.id);
    if (!run || !attempt || (attempt.state !== "RUNNING" && attempt.state !== "WAITING")) return "UNKNOWN";
    // A body of null would look like no call-back at all.
    await updateAttempt(work.tx, attempt, { callback: body ?? {} });
    await updateRun(work.tx, run.id, { callbackToken: null });
    if (run.state === "WAITING" && run.waitReason === "CALLBACK") await parts.queue.wake(work, run.id);
    return "TAKEN";
  });
}
