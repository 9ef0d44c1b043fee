/** Lists of steps in requests, and runbooks: stored lists with a name. */
import type { RunbookEdited } from "../../../engine/inventory/runbooks.ts";
import type { JsonObject, StepChoice } from "../../../store/records.ts";
import { allRunbooks, runbookByName, runbooksByIds } from "../../../store/runbooks.ts";
import type { RunbookRow } from "../../../store/runbooks.ts";
import { builder, given, needs } from "../../base/builder.ts";
import { addMutation } from "../../base/mutation.ts";
import type { Context } from "../../base/context.ts";
import { globalId, keyOf, uuidOrNone } from "../../base/ids.ts";
import { payloadType, refusalFields } from "../../base/payload.ts";
import { DriverInterfaceEnum } from "../../base/enums.ts";

export const StepInput = builder.inputType("StepInput", {
  description: "Step with its arguments.",
  fields: (t) => ({
    interface: t.field({
      type: DriverInterfaceEnum,
      description:
        "Interface that provides the step; POWER or ENGINE for reserved steps. By default CLEAN; DEPLOY in deployNodes and in a runbook for DEPLOY.",
    }),
    name: t.string({ required: true, description: "Name of the step in its interface." }),
    args: t.field({
      type: "JSON",
      description:
        "Arguments, checked against `StepDefinition.argsSchema` or `ReservedStep.argsSchema` before any work starts.",
    }),
  }),
});

/** A list of steps as the engine takes it; undefined if none was given. */
export function stepChoices(
  steps: readonly (typeof StepInput.$inferInput)[] | null | undefined,
  usual: "clean" | "deploy" = "clean",
): StepChoice[] | undefined {
  return steps?.map(({ interface: from, name, args }) => ({
    interface: from ?? usual,
    name,
    args: (args ?? {}) as JsonObject,
  }));
}

const RunbookStepRef = builder.objectRef<StepChoice>("RunbookStep").implement({
  description: "Step of a runbook, with its arguments.",
  fields: (t) => ({
    interface: t.field({
      type: DriverInterfaceEnum,
      description: "Interface that provides the step.",
      resolve: (step) => step.interface,
    }),
    name: t.exposeString("name", { description: "Name of the step in its interface." }),
    args: t.expose("args", { type: "JSON", description: "Arguments of the step." }),
  }),
});

const RunbookPhaseEnum = builder.enumType("RunbookPhase", {
  description: "Phase whose automatic steps the steps of a runbook replace.",
  values: {
    CLEAN: { value: "clean", description: "For `cleanNodes`." },
    DEPLOY: { value: "deploy", description: "For `deployNodes`." },
  } as const,
});

export const RunbookRef = builder.objectRef<RunbookRow>("Runbook");
builder.objectType(RunbookRef, {
  description:
    "Named list of steps for `cleanNodes(runbook:)` or `deployNodes(runbook:)`. An operation runs the steps that the runbook has when the request is accepted.",
  fields: (t) => ({
    id: t.id({ description: "Global ID: opaque and stable.", resolve: ({ id }) => globalId("Runbook", id) }),
    name: t.exposeString("name", { description: "Unique name." }),
    description: t.string({
      description: "Purpose, in the operator's words; empty if none is given.",
      resolve: ({ description }) => description ?? "",
    }),
    phase: t.expose("phase", {
      type: RunbookPhaseEnum,
      description: "Phase that the steps are for. It never changes.",
    }),
    steps: t.expose("steps", {
      type: [RunbookStepRef],
      description: "Steps in the order in which they run.",
    }),
    revision: t.exposeInt("revision", {
      description: "Increases with every change. Send it as `ifRevision` to detect concurrent changes.",
    }),
    createdAt: t.expose("createdAt", { type: "DateTime", description: "Time of creation." }),
    updatedAt: t.expose("updatedAt", { type: "DateTime", description: "Time of the last change." }),
  }),
});

const RunbookRefInput = builder.inputType("RunbookRef", {
  description: "Reference to a runbook. Exactly one field.",
  isOneOf: true,
  fields: (t) => ({
    id: t.id({ description: "By global ID." }),
    name: t.string({ description: "By name, in any case." }),
  }),
});

type RunbookChoice = typeof RunbookRefInput.$inferInput;

async function findRunbook({ id, name }: RunbookChoice, { services }: Context): Promise<RunbookRow | null> {
  const { reader } = services.database;
  if (name != null) return (await runbookByName(reader, name)) ?? null;
  return (await runbooksByIds(reader, [uuidOrNone(keyOf("Runbook", id ?? ""))]))[0] ?? null;
}

/** An unknown runbook as the request named it. */
function textOf({ id, name }: RunbookChoice): string {
  return name ?? id ?? "";
}

builder.queryField("runbook", (t) =>
  t.field({
    type: RunbookRef,
    nullable: true,
    ...needs("READ"),
    description: "One runbook by ID or name; null if it does not exist.",
    args: { by: t.arg({ type: RunbookRefInput, required: true, description: "Reference to it by ID or name." }) },
    resolve: (_root, { by }, context) => findRunbook(by, context),
  }),
);

builder.queryField("runbooks", (t) =>
  t.field({
    type: [RunbookRef],
    ...needs("READ"),
    description: "All runbooks, sorted by name.",
    resolve: (_root, _args, { services }) => allRunbooks(services.database.reader),
  }),
);

// ---- mutations

/** The payload of a mutation after which the runbook exists. */
function runbookPayload(mutation: string) {
  return payloadType<RunbookEdited>(mutation, (t) => ({
    runbook: t.field({
      type: RunbookRef,
      nullable: true,
      description: "The runbook after the change; null if the request was refused.",
      resolve: async ({ runbookId }, _args, { services }) =>
        runbookId === null ? null : ((await runbooksByIds(services.database.reader, [runbookId]))[0] ?? null),
    }),
    ...refusalFields(t, "Every reason why the request was refused; empty if it succeeded."),
  }));
}

addMutation("createRunbook", {
  scope: "MANAGE",
  description: "Store a named list of steps for cleanNodes or deployNodes.",
  input: builder.inputType("CreateRunbookInput", {
    description: "Name and steps of a new runbook.",
    fields: (t) => ({
      name: t.string({
        required: true,
        description: "Unique name: 1–253 letters, digits, dots, dashes or underscores.",
      }),
      description: t.string({ description: "Purpose; at most 1000 characters." }),
      phase: t.field({
        type: RunbookPhaseEnum,
        required: true,
        defaultValue: "clean",
        description: "Phase that the steps are for.",
      }),
      steps: t.field({
        type: [StepInput],
        required: true,
        description:
          "Steps in the order in which they run, 1 to 100. They are checked against a node's drivers when the runbook is used.",
      }),
    }),
  }),
  argument: "The runbook.",
  payload: runbookPayload("createRunbook"),
  run: (input, engine, caller) =>
    engine.createRunbook(caller, {
      name: input.name,
      description: given(input.description),
      phase: input.phase,
      steps: stepChoices(input.steps, input.phase) ?? [],
    }),
});

addMutation("updateRunbook", {
  scope: "MANAGE",
  description: "Rename a runbook, or change its description or its steps.",
  input: builder.inputType("UpdateRunbookInput", {
    description: "Changes to a runbook. Omitted fields stay as they are.",
    fields: (t) => ({
      runbook: t.field({ type: RunbookRefInput, required: true, description: "Reference to it by ID or name." }),
      ifRevision: t.int({ description: "Refuse the request if the runbook has another revision." }),
      name: t.string({ description: "New unique name." }),
      description: t.string({ description: "New description; null removes it." }),
      steps: t.field({ type: [StepInput], description: "New steps; replaces the present ones." }),
    }),
  }),
  argument: "Changes to make.",
  payload: runbookPayload("updateRunbook"),
  run: async (input, engine, caller, context) => {
    const runbook = await findRunbook(input.runbook, context);
    return engine.updateRunbook(caller, runbook?.name ?? textOf(input.runbook), {
      ifRevision: given(input.ifRevision),
      name: given(input.name),
      description: input.description,
      steps: stepChoices(input.steps, runbook?.phase),
    });
  },
});

addMutation("deleteRunbook", {
  scope: "MANAGE",
  description: "Delete a runbook. Accepted operations keep its steps and continue.",
  input: builder.inputType("DeleteRunbookInput", {
    description: "Runbook to delete. Accepted operations keep its steps.",
    fields: (t) => ({
      runbook: t.field({ type: RunbookRefInput, required: true, description: "Reference to it by ID or name." }),
      ifRevision: t.int({ description: "Refuse the request if the runbook has another revision." }),
    }),
  }),
  argument: "Name of the runbook.",
  payload: payloadType<RunbookEdited>("deleteRunbook", (t) =>
    refusalFields(t, "Reasons why the request was refused; empty if the runbook was deleted."),
  ),
  run: async (input, engine, caller, context) => {
    const runbook = await findRunbook(input.runbook, context);
    const name = runbook?.name ?? textOf(input.runbook);
    return engine.deleteRunbook(caller, name, given(input.ifRevision));
  },
});
