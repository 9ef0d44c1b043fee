/** The reason why a run waits: as data for programs and as a sentence for people. */
import { waitingOf } from "../../lifecycle/waiting.ts";
import type { Waiting } from "../../lifecycle/waiting.ts";
import type { RunRow } from "../../store/runs.ts";
import { builder } from "../base/builder.ts";
import type { Context } from "../base/context.ts";
import { WaitReasonEnum } from "../base/enums.ts";
import { RunRef } from "../base/refs.ts";
import { AttemptRef, stepName, stepsOf } from "./step.ts";

const WaitingRef = builder.objectRef<Waiting & { readonly run: RunRow }>("Waiting").implement({
  description: "Reason why an unfinished run waits.",
  fields: (t) => ({
    reason: t.field({ type: WaitReasonEnum, description: "Reason as a code.", resolve: ({ reason }) => reason }),
    description: t.exposeString("description", {
      description: "Reason as a sentence for people, with what to do about it if anything can be done.",
    }),
    since: t.field({
      type: "DateTime",
      description: "Start of the wait.",
      resolve: ({ run }) => run.waitingSince ?? run.createdAt,
    }),
    until: t.expose("until", {
      type: "DateTime",
      nullable: true,
      description:
        "Latest end of the wait: the next attempt, the callback timeout, or the end of a pause. Null if an operator or another run ends it.",
    }),
    waitFor: t.string({
      nullable: true,
      description:
        "Capacity limit that the run waits for, such as `phase:clean` or `controller:10.0.0.7`; null for other reasons.",
      resolve: ({ run }) => run.waitFor,
    }),
    position: t.int({
      nullable: true,
      description:
        "Position in the queue of runs that wait for the same slot or for their start in the operation, from 1. Null if there is no queue.",
      resolve: ({ run }, _args, { load }) => load.waitingPosition.load(run.id),
    }),
    lastAttempts: t.field({
      type: [AttemptRef],
      description:
        "Attempts so far of the step in which the run waits, oldest first; empty if it waits between two steps.",
      resolve: async ({ run }, _args, context) => [...((await stepsOf(run, context))[run.position]?.attempts ?? [])],
    }),
  }),
});

async function waiting(run: RunRow, { load }: Context): Promise<(Waiting & { readonly run: RunRow }) | null> {
  // Most runs are running or ended; skip the reads for them.
  if (run.finishedAt !== null || (run.state === "RUNNING" && run.startedAt !== null)) return null;
  const [operation, plan] = await Promise.all([load.operation.load(run.operationId), load.plan.load(run.planHash)]);
  if (!operation) return null;
  const step = plan?.steps[run.position];
  const holdReason = step?.args["reason"];
  const found = waitingOf({
    ...run,
    operation,
    step: step ? stepName(step) : null,
    holdReason: typeof holdReason === "string" ? holdReason : null,
  });
  return found && { ...found, run };
}

builder.objectField(RunRef, "waiting", (t) =>
  t.field({
    type: WaitingRef,
    nullable: true,
    description: "What the run waits for; null if it is running or has ended.",
    resolve: (run, _args, context) => waiting(run, context),
  }),
);

builder.objectField(RunRef, "waitReason", (t) =>
  t.field({
    type: WaitReasonEnum,
    nullable: true,
    description: "Reason why the run waits, as a code; null if it does not. `waiting` has more detail.",
    resolve: async (run, _args, context) => (await waiting(run, context))?.reason ?? null,
  }),
);
