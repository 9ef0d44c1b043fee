/**
 * A machine reports back to a step that waits for it. The token in the path names the run and is good for one entry of
 * one step: it is made of the run's secret and the generation, which rises with every entry. So a report that comes too
 * late is told from one that was made before and from one that was made up; each is recorded and none is applied.
 */
import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import type { StoredJson } from "../../store/records.ts";
import { noteAnomaly } from "../../store/rejected-callbacks.ts";
import { attemptsUnderWay, updateAttempt } from "../../store/attempts.ts";
import { plansByHashes } from "../../store/plans.ts";
import { lockRun, updateRun } from "../../store/runs.ts";
import type { Anomaly } from "../../store/rejected-callbacks.ts";
import type { RunRow } from "../../store/runs.ts";
import { stepLabel } from "../plans/plan.ts";
import { isUuid } from "../input/node-selector.ts";
import type { EngineContext } from "../context.ts";
import type { Transaction } from "../transaction.ts";

/** `UNKNOWN`: there is no such run. All but `TAKEN` changed nothing. */
export type CallBackAnswer = "TAKEN" | Anomaly | "UNKNOWN";

type CallBackParts = Pick<EngineContext, "transact" | "queue" | "log">;

type Secret = Pick<RunRow, "id" | "callbackSecret">;

/** Whoever makes up reports shall not fill the database with them, nor the log. */
const ANOMALIES_MAX = 100;
/** Earlier tokens that are looked through to tell a late report from a forged one. */
const GENERATIONS_MAX = 10_000;

/** Where a machine may call back during one entry of a step: an opaque path below the service's address. */
export function callbackPath(run: Secret, generation: number): string {
  return `/callback/${run.id}.${mac(run, generation)}`;
}

function mac({ callbackSecret }: Secret, generation: number): string {
  return createHmac("sha256", callbackSecret).update(String(generation)).digest("base64url");
}

/** What is to be told in the service's log. */
interface Noted {
  readonly run: RunRow;
  readonly kind: Anomaly;
  readonly step: string | null;
  /** How many the run has by now. */
  readonly count: number;
}

export async function callBack(parts: CallBackParts, token: string, body: StoredJson): Promise<CallBackAnswer> {
  const [runId = "", given = ""] = token.split(".");
  if (!isUuid(runId)) return "UNKNOWN";
  const { answer, noted } = await parts.transact(
    async (work): Promise<{ readonly answer: CallBackAnswer; readonly noted?: Noted | null }> => {
      const run = await lockRun(work.tx, runId);
      if (!run) return { answer: "UNKNOWN" };
      const isOpen =
        run.finishedAt === null && run.openGeneration !== null && isEqual(given, mac(run, run.openGeneration));
      const attempt = isOpen ? (await attemptsUnderWay(work.tx, [run.id])).get(run.id) : undefined;
      if (!attempt || (attempt.state !== "RUNNING" && attempt.state !== "WAITING")) {
        const kind = kindOf(run, given);
        return { answer: kind, noted: await note(work, run, kind) };
      }
      // A body of null would look like no call-back at all.
      await updateAttempt(work.tx, attempt, { callback: body ?? {} });
      await updateRun(work.tx, run.id, { openGeneration: null });
      if (run.state === "WAITING" && run.waitReason === "CALLBACK") await parts.queue.wake(work, run.id);
      return { answer: "TAKEN" };
    },
  );
  if (noted) {
    const { run, kind, step, count } = noted;
    const rest = count < ANOMALIES_MAX ? "" : "; it has so many by now that further ones are not recorded";
    parts.log.warn(
      { node: run.nodeName, runId: run.id, operationId: run.operationId, step, kind },
      `a call-back to node ${run.nodeName} was not taken: ${MEANING[kind]}${rest}`,
    );
  }
  return answer;
}

const MEANING: Readonly<Record<Anomaly, string>> = {
  LATE: "it is late, the step has gone on or ended",
  DUPLICATE: "it was made before",
  FORGED: "its token was never given out",
};

/** Records it, unless the run has its fill of them. */
async function note(work: Transaction, run: RunRow, kind: Anomaly): Promise<Noted | null> {
  const step = stepLabel((await plansByHashes(work.tx, [run.planHash])).get(run.planHash)?.steps[run.position]);
  const count = await noteAnomaly(work.tx, { id: randomUUID(), runId: run.id, kind, step }, ANOMALIES_MAX);
  return count === null ? null : { run, kind, step, count };
}

function kindOf(run: RunRow, given: string): Anomaly {
  const isCurrent = run.generation > 0 && isEqual(given, mac(run, run.generation));
  // What is open still has not been taken: the step has failed meanwhile, and is tried again later under another token.
  if (isCurrent) return run.finishedAt === null && run.openGeneration === null ? "DUPLICATE" : "LATE";
  for (
    let generation = run.generation - 1;
    generation > 0 && run.generation - generation <= GENERATIONS_MAX;
    generation -= 1
  ) {
    if (isEqual(given, mac(run, generation))) return "LATE";
  }
  return "FORGED";
}

function isEqual(given: string, token: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(token)];
  return one.length === other.length && timingSafeEqual(one, other);
}
