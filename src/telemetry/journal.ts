/**
 * What happens, as lines of the log: one for each operation that is accepted and that ends, each step that fails, each run
 * that is taken over or lost to another process. Steps that go well are told at level debug.
 */
import { noopObserver } from "../observer.ts";
import type { Observer, StepAbout } from "../observer.ts";
import type { Log } from "../log.ts";

export function createJournal(log: Log): Observer {
  return {
    ...noopObserver,
    async step(about, work) {
      const began = performance.now();
      const answer = await work();
      if (answer.kind === "failed")
        log.warn({ ...shown(about), code: answer.code, reason: answer.reason, ms: since(began) }, "a step failed");
      else log.debug({ ...shown(about), outcome: answer.kind, ms: since(began) }, "a step came to its boundary");
      return answer;
    },
    async admission(about, work, endOf) {
      const began = performance.now();
      const answer = await work();
      const { operationId, nodes, codes, replayed } = endOf(answer);
      const refused = Object.fromEntries(
        [...Map.groupBy(codes, (code) => code)].map(([code, alike]) => [code, alike.length]),
      );
      const line = { operationId, ...about, nodes, ...(codes.length > 0 && { refused }), ms: since(began) };
      if (operationId !== null && !replayed) log.info(line, "an operation was accepted");
      else log.debug(line, "a request was answered");
      return answer;
    },
    runClaimed(run, { takenOver }) {
      if (takenOver) log.warn(run, "a run was taken over from a process that had let go of it");
    },
    runEnded: ({ operationId, runId, node, purpose }, state) =>
      log.debug({ operationId, runId, node, purpose, state }, "a run has ended"),
    operationEnded: ({ createdAt, ...operation }) =>
      log.info({ ...operation, seconds: (Date.now() - createdAt.getTime()) / 1_000 }, "an operation has ended"),
    fenced: (run) => log.warn(run, "another process has taken over the run; what this one had done is thrown away"),
  };
}

function shown({ operationId, runId, node, step, driver, attempt, part }: StepAbout) {
  return { operationId, runId, node, step, driver, attempt, ...(part !== "RUN" && { part }) };
}

function since(began: number): number {
  return Math.round(performance.now() - began);
}
