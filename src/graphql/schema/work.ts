/** Mutations of unfinished or ended work: abort, stop, restart, and what undoes an abort or a hold. */
import { builder, given, needs } from "../base/builder.ts";
import { callerOf } from "../base/context.ts";
import { AbortModeEnum, RestartFromEnum } from "../base/enums.ts";
import { NodeWorkPayloadRef } from "./node-work.ts";
import { WorkSelectorInput, workSelector } from "./selectors.ts";
import { termFields, termsOf } from "./verb-terms.ts";

const AbortInput = builder.inputType("AbortInput", {
  description: "Work to abort, and how.",
  fields: (t) => ({
    work: t.field({ type: WorkSelectorInput, required: true, description: "Operation or nodes whose work is meant." }),
    mode: t.field({
      type: AbortModeEnum,
      required: true,
      defaultValue: "NOW",
      description: "What to do on nodes where the running step must not be interrupted.",
    }),
    powerOff: t.boolean({
      description: "Whether to power the nodes off. By default, nodes in cleaning or deployment are powered off.",
    }),
    reason: t.string({ description: "Reason for the request; stored with the transitions." }),
  }),
});

builder.mutationField("abort", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Give up work now; nodes end in a failed state. Each node has its own result: accepted, or refused with NOTHING_RUNNING, NOT_INTERRUPTIBLE or UNSUPPORTED_BY_DRIVER.",
    args: { input: t.arg({ type: AbortInput, required: true, description: "Work to abort, and how." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.abort(callerOf(context), {
        ...workOf(input),
        mode: input.mode,
        powerOff: given(input.powerOff),
      }),
  }),
);

const StopInput = builder.inputType("StopInput", {
  description: "Work to stop gracefully.",
  fields: (t) => ({
    work: t.field({
      type: WorkSelectorInput,
      required: true,
      description:
        "Operation or nodes whose work to stop. For an operation, or a cluster that an operation was requested for, the whole operation stops.",
    }),
    timeoutSeconds: t.float({
      description:
        "Seconds that running steps may take to end before they fail with STOP_TIMEOUT, 1 to 86400. Default 600.",
    }),
    reason: t.string({ description: "Reason for the request; stored with the transitions." }),
  }),
});

builder.mutationField("stop", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Stop work gracefully: running steps end, no further step starts, and nodes with remaining work end STOPPED, from where they can be restarted. Stopping work that has ended returns it as it ended.",
    args: { input: t.arg({ type: StopInput, required: true, description: "Operation or nodes whose work is meant." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.stop(callerOf(context), {
        ...workOf(input),
        timeoutSeconds: given(input.timeoutSeconds),
      }),
  }),
);

const RestartInput = builder.inputType("RestartInput", {
  description: "Stopped, failed or aborted work to restart, and terms.",
  fields: (t) => ({
    work: t.field({ type: WorkSelectorInput, required: true, description: "Operation or nodes whose work is meant." }),
    from: t.field({
      type: RestartFromEnum,
      required: true,
      defaultValue: "STAGE",
      description: "How much completed work to keep.",
    }),
    ...termFields(t),
  }),
});

builder.mutationField("restart", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Continue stopped, failed or aborted work in a new operation, with the present settings. Nodes whose work succeeded are not touched.",
    args: {
      input: t.arg({
        type: RestartInput,
        required: true,
        description: "Work to restart, how much of it to keep, and terms.",
      }),
    },
    resolve: (_root, { input }, context) =>
      context.services.engine.restart(callerOf(context), {
        ...termsOf(input),
        work: workSelector(input.work),
        from: input.from,
      }),
  }),
);

const WorkInput = builder.inputType("WorkInput", {
  description: "Unfinished work.",
  fields: (t) => ({
    work: t.field({ type: WorkSelectorInput, required: true, description: "Operation or nodes whose work is meant." }),
    reason: t.string({ description: "Reason for the request; stored with the transitions." }),
  }),
});

builder.mutationField("withdrawAbort", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Withdraw a pending abort: the step that it waits for ends, and the work continues. Refused if the abort has already started. Also withdraws a stop that was requested before the abort.",
    args: { input: t.arg({ type: WorkInput, required: true, description: "Work whose abort to withdraw." }) },
    resolve: (_root, { input }, context) => context.services.engine.withdrawAbort(callerOf(context), workOf(input)),
  }),
);

builder.mutationField("unhold", (t) =>
  t.field({
    type: NodeWorkPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description: "Release holds: runs that wait at the reserved step `hold` continue. Each node has its own result.",
    args: { input: t.arg({ type: WorkInput, required: true, description: "Work whose holds to release." }) },
    resolve: (_root, { input }, context) => context.services.engine.unhold(callerOf(context), workOf(input)),
  }),
);

function workOf({ work, reason }: typeof WorkInput.$inferInput) {
  return { work: workSelector(work), reason: given(reason) };
}
