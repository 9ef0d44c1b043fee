/**
 * Log lines for events: one for each operation that is accepted or ends, each failed step, and each run that is taken
 * over from or by another replica. Successful steps are logged at level debug.
 */
import { noopObserver } from "../observer.ts";
import type { Observer, StepAbout } from "../observer.ts";
import type { Log } from "../log.ts";

export function createJournal(log: Log): Observer {
  return {
    ...noopObserver,
    async step(about, work) {
      const startedAtMs = performance.now();
      const answer = await work();
      if (answer.kind === "failed")
        log.warn(
          { ...fieldsOf(about), code: answer.code, reason: answer.reason, ms: since(startedAtMs) },
          "step failed",
        );
      else log.debug({ ...fieldsOf(about), outcome: answer.kind, ms: since(startedAtMs) }, "step ended");
      return answer;
    },
    async admission(about, work, endOf) {
      const startedAtMs = performance.now();
      const answer = await work();
      const { operationId, nodes, codes, replayed } = endOf(answer);
      const refused = Object.fromEntries(
        [...Map.groupBy(codes, (code) => code)].map(([code, alike]) => [code, alike.length]),
      );
      const line = { operationId, ...about, nodes, ...(codes.length > 0 && { refused }), ms: since(startedAtMs) };
      if (operationId !== null && !replayed) log.info(line, "operation accepted");
      else log.debug(line, "request answered");
      return answer;
    },
    runClaimed(run, { takenOver }) {
      if (takenOver) log.warn(run, "run taken over from a replica whose lease expired");
    },
    runEnded: ({ operationId, runId, node, purpose }, state) =>
      log.debug({ operationId, runId, node, purpose, state }, "run ended"),
    operationEnded: ({ createdAt, ...operation }) =>
      log.info({ ...operation, seconds: (Date.now() - createdAt.getTime()) / 1_000 }, "operation ended"),
    fenced: (run) => log.warn(run, "another replica has taken over the run; this replica discards its result"),
  };
}

function fieldsOf({ operationId, runId, node, step, driver, attempt, part }: StepAbout) {
  return { operationId, runId, node, step, driver, attempt, ...(part !== "RUN" && { part }) };
}

function since(startedAtMs: number): number {
  return Math.round(performance.now() - startedAtMs);
}
