/** What a run waits for: as data for programs, as a sentence for people. */
import { waitingOf } from "../../lifecycle/waiting.ts";
import type { Waiting } from "../../lifecycle/waiting.ts";
import type { RunRow } from "../../store/runs.ts";
import { builder } from "../base/builder.ts";
import type { Context } from "../base/context.ts";
import { WaitReasonEnum } from "../base/enums.ts";
import { RunRef } from "../base/refs.ts";
import { AttemptRef, stepName, stepsOf } from "./run.ts";

const WaitingRef = builder.objectRef<Waiting & { readonly run: RunRow }>("Waiting").implement({
  description: "What an unfinished run waits for.",
  fields: (t) => ({
    reason: t.field({ type: WaitReasonEnum, description: "What it is.", resolve: ({ reason }) => reason }),
    description: t.exposeString("description", {
      description: "The same as a sentence for people, with what to do about it where there is something.",
    }),
    since: t.field({
      type: "DateTime",
      description: "Since when it waits.",
      resolve: ({ run }) => run.waitingSince ?? run.createdAt,
    }),
    until: t.expose("until", {
      type: "DateTime",
      nullable: true,
      description:
        "When it goes on at the latest: the next try, the end of the time of silence, of a pause. Null: somebody, or another run, ends it.",
    }),
    waitFor: t.string({
      nullable: true,
      description: "The limit that it waits for, as in `phase:clean` or `controller:10.0.0.7`.",
      resolve: ({ run }) => run.waitFor,
    }),
    position: t.int({
      nullable: true,
      description:
        "Its place among the runs that wait for the same, from 1: for a place below a limit, or for their turn in its operation. Null for what is nobody's turn.",
      resolve: ({ run }, _args, { load }) => load.waitingPosition.load(run.id),
    }),
    lastAttempts: t.field({
      type: [AttemptRef],
      description:
        "The tries so far of the step that it waits in, oldest first; none where it waits between two steps.",
      resolve: async ({ run }, _args, context) => [...((await stepsOf(run, context))[run.position]?.attempts ?? [])],
    }),
  }),
});

async function waiting(run: RunRow, { load }: Context): Promise<(Waiting & { readonly run: RunRow }) | null> {
  // At work, as most are: nothing is read for those.
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
    description: "What it waits for; null when it is at work or has ended.",
    resolve: (run, _args, context) => waiting(run, context),
  }),
);

builder.objectField(RunRef, "waitReason", (t) =>
  t.field({
    type: WaitReasonEnum,
    nullable: true,
    description: "What it waits for, in one word; `waiting` tells more.",
    resolve: async (run, _args, context) => (await waiting(run, context))?.reason ?? null,
  }),
);
