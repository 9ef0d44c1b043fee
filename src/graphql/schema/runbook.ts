/** Steps that somebody chooses, and runbooks: named lists of them. */
import type { RunbookEdited } from "../../engine/inventory/runbooks.ts";
import type { JsonObject, StepChoice } from "../../store/records.ts";
import { allRunbooks, runbookById, runbookByName } from "../../store/runbooks.ts";
import type { RunbookRow } from "../../store/runbooks.ts";
import { QueryRef, builder, given, needs } from "../base/builder.ts";
import { callerOf } from "../base/context.ts";
import { DriverInterfaceEnum } from "../base/enums.ts";
import { UserErrorRef } from "../base/errors.ts";

export const StepInput = builder.inputType("StepInput", {
  description: "One step, with its arguments.",
  fields: (t) => ({
    interface: t.field({
      type: DriverInterfaceEnum,
      description:
        "Interface that offers it; POWER and ENGINE for the reserved steps. Absent: CLEAN, and DEPLOY in a deployment.",
    }),
    name: t.string({ required: true, description: "Name of the step, as its interface calls it." }),
    args: t.field({
      type: "JSON",
      description:
        "Its arguments, checked against `StepDefinition.argsSchema` or `ReservedStep.argsSchema` before anything starts.",
    }),
  }),
});

/** What the engine makes of a list of steps; undefined where none was given. */
export function stepChoices(
  steps:
    | readonly {
        readonly interface?: StepChoice["interface"] | null | undefined;
        readonly name: string;
        readonly args?: unknown;
      }[]
    | null
    | undefined,
  usual: "clean" | "deploy" = "clean",
): StepChoice[] | undefined {
  return steps?.map(({ interface: from, name, args }) => ({
    interface: from ?? usual,
    name,
    args: (args ?? {}) as JsonObject,
  }));
}

const RunbookStepRef = builder.objectRef<StepChoice>("RunbookStep").implement({
  description: "A step, with the arguments it is run with.",
  fields: (t) => ({
    interface: t.field({
      type: DriverInterfaceEnum,
      description: "Interface that offers it.",
      resolve: (step) => step.interface,
    }),
    name: t.exposeString("name", { description: "Name of the step, as its interface calls it." }),
    args: t.field({ type: "JSON", description: "Its arguments.", resolve: ({ args }) => args }),
  }),
});

const RunbookRef = builder.objectRef<RunbookRow>("Runbook").implement({
  description:
    "Named list of clean steps, for `cleanNodes(runbook:)`. What it is when a request is accepted is what runs.",
  fields: (t) => ({
    name: t.exposeString("name", { description: "Unique name." }),
    description: t.exposeString("description", {
      nullable: true,
      description: "What it is for, in the operator's words.",
    }),
    steps: t.field({
      type: [RunbookStepRef],
      description: "Its steps, in the order in which they run.",
      resolve: ({ steps }) => [...steps],
    }),
    revision: t.exposeInt("revision", { description: "Increases with every change; send it back as `ifRevision`." }),
    createdAt: t.expose("createdAt", { type: "DateTime", description: "When it was created." }),
    updatedAt: t.expose("updatedAt", { type: "DateTime", description: "When it was last changed." }),
  }),
});

builder.queryField("runbook", (t) =>
  t.field({
    type: RunbookRef,
    nullable: true,
    ...needs("READ"),
    description: "One runbook; null if it does not exist.",
    args: { name: t.arg.string({ required: true, description: "Which runbook." }) },
    resolve: async (_root, { name }, { services }) => (await runbookByName(services.database.reader, name)) ?? null,
  }),
);

builder.queryField("runbooks", (t) =>
  t.field({
    type: [RunbookRef],
    ...needs("READ"),
    description: "All runbooks, by name.",
    resolve: (_root, _args, { services }) => allRunbooks(services.database.reader),
  }),
);

// ---- mutations

const CreateRunbookInput = builder.inputType("CreateRunbookInput", {
  description: "A new runbook.",
  fields: (t) => ({
    name: t.string({
      required: true,
      description: "Unique name: letters, digits, dot, dash, underscore; at most 253.",
    }),
    description: t.string({ description: "What it is for; at most 1000 characters." }),
    steps: t.field({
      type: [StepInput],
      required: true,
      description:
        "Its steps, in the order in which they are to run: 1 to 100. Whether a node has them is checked when the runbook is used.",
    }),
  }),
});

const UpdateRunbookInput = builder.inputType("UpdateRunbookInput", {
  description: "Change a runbook. An omitted field stays.",
  fields: (t) => ({
    runbook: t.string({ required: true, description: "Name of the runbook." }),
    ifRevision: t.int({ description: "Refuse if the runbook has another revision by now." }),
    name: t.string({ description: "New name." }),
    description: t.string({ description: "New description; null takes it away." }),
    steps: t.field({ type: [StepInput], description: "New steps, all of them." }),
  }),
});

const DeleteRunbookInput = builder.inputType("DeleteRunbookInput", {
  description: "Delete a runbook. Operations that were asked for with it have its steps.",
  fields: (t) => ({
    runbook: t.string({ required: true, description: "Name of the runbook." }),
    ifRevision: t.int({ description: "Refuse if the runbook has another revision by now." }),
  }),
});

const RunbookPayloadRef = builder.objectRef<RunbookEdited>("RunbookPayload").implement({
  description: "Answer to a change of a runbook.",
  fields: (t) => ({
    runbook: t.field({
      type: RunbookRef,
      nullable: true,
      description: "The runbook as it is now, null after a deletion or a refusal.",
      resolve: async ({ runbookId }, _args, { services }) =>
        runbookId === null ? null : ((await runbookById(services.database.reader, runbookId)) ?? null),
    }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Why the request was refused, every flaw of it; empty when it was carried out.",
      resolve: ({ refusals }) => [...refusals],
    }),
    query: t.field({ type: QueryRef, description: "Root query, to read on in the same request.", resolve: () => ({}) }),
  }),
});

builder.mutationField("createRunbook", (t) =>
  t.field({
    type: RunbookPayloadRef,
    nullable: true,
    ...needs("MANAGE"),
    description: "Keep a list of steps under a name, to be run by cleanNodes.",
    args: { input: t.arg({ type: CreateRunbookInput, required: true, description: "The runbook." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.createRunbook(callerOf(context), {
        name: input.name,
        description: given(input.description),
        steps: stepChoices(input.steps) ?? [],
      }),
  }),
);

builder.mutationField("updateRunbook", (t) =>
  t.field({
    type: RunbookPayloadRef,
    nullable: true,
    ...needs("MANAGE"),
    description: "Rename a runbook, or change its description or its steps.",
    args: { input: t.arg({ type: UpdateRunbookInput, required: true, description: "The change." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.updateRunbook(callerOf(context), input.runbook, {
        ifRevision: given(input.ifRevision),
        name: given(input.name),
        description: input.description,
        steps: stepChoices(input.steps),
      }),
  }),
);

builder.mutationField("deleteRunbook", (t) =>
  t.field({
    type: RunbookPayloadRef,
    nullable: true,
    ...needs("MANAGE"),
    description: "Delete a runbook. Operations that were asked for with it have its steps, and go on.",
    args: { input: t.arg({ type: DeleteRunbookInput, required: true, description: "Which runbook." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.deleteRunbook(callerOf(context), input.runbook, given(input.ifRevision)),
  }),
);
