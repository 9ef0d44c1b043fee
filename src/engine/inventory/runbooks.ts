/**
 * Runbooks: named lists of steps of one phase. Their form is checked here. Whether a node can run them is checked when
 * they are used, because drivers and the site's policy change.
 */
import { randomUUID } from "node:crypto";
import { RefusalError, invalidInput, notFound } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import {
  deleteRunbook as removeRunbook,
  insertRunbook,
  lockRunbook,
  runbookByName,
  updateRunbook as changeRunbook,
} from "../../store/runbooks.ts";
import type { RunbookRow } from "../../store/runbooks.ts";
import type { StepChoice } from "../../store/records.ts";
import { recordPendingChanges } from "../../store/log/changes.ts";
import { readSite } from "../../store/site.ts";
import type { EngineContext } from "../context.ts";
import { changedFields } from "../input/changed-fields.ts";
import { requireFreeName, requireNone, requireRevision } from "../input/edits.ts";
import { nameFlaw } from "../input/name-rules.ts";
import { DESCRIPTION_LENGTH_MAX, textFlaws } from "../input/size-limits.ts";
import { stepScopeFlaws } from "../plans/step-scopes.ts";
import { formFlaws, lengthFlaws } from "../plans/step-selection.ts";
import { editOf } from "../audit/edits.ts";
import { stepLabel } from "../plans/plan.ts";
import type { Caller, Transaction } from "../transaction.ts";

interface NewRunbook {
  readonly name: string;
  readonly description?: string | undefined;
  /** By default `clean`. */
  readonly phase?: RunbookRow["phase"];
  readonly steps: readonly StepChoice[];
}

/** A change of one runbook. An absent member stays. */
interface RunbookChange {
  readonly ifRevision?: number | undefined;
  readonly name?: string | undefined;
  /** Null removes it. */
  readonly description?: string | null | undefined;
  readonly steps?: readonly StepChoice[] | undefined;
}

export type RunbookEdited = { readonly runbookId: string | null; readonly refusals: readonly Refusal[] };

const STEP_NAME = /^[a-z][a-z0-9_]{0,99}$/;

export async function createRunbook(context: EngineContext, caller: Caller, given: NewRunbook): Promise<RunbookEdited> {
  return editRunbook(context, caller, given, async (transaction) => {
    const id = randomUUID();
    const { name, description = null, phase = "clean", steps } = given;
    requireFreeName("A runbook", await runbookByName(transaction.tx, name));
    await insertRunbook(transaction.tx, { id, name, description, phase, steps });
    transaction.audit(caller, { targets: [name], edits: editOf(name, null, { description, phase, steps }) });
    return id;
  });
}

/** Operations that were requested with the runbook keep the steps that it had then. */
export async function updateRunbook(
  context: EngineContext,
  caller: Caller,
  name: string,
  change: RunbookChange,
): Promise<RunbookEdited> {
  return editRunbook(context, caller, change, async (transaction) => {
    const { ifRevision, ...fields } = change;
    const runbook = await lockKnown(transaction, name, ifRevision);
    const changed = changedFields<RunbookRow>(runbook, fields);
    const found = fields.name === undefined ? undefined : await runbookByName(transaction.tx, fields.name);
    requireFreeName("A runbook", found, runbook.id);
    if (changed) await changeRunbook(transaction.tx, runbook.id, changed);
    transaction.audit(caller, {
      targets: [runbook.name],
      edits: editOf(runbook.name, runbook, { ...runbook, ...changed }),
    });
    return runbook.id;
  });
}

export async function deleteRunbook(
  context: EngineContext,
  caller: Caller,
  name: string,
  ifRevision: number | undefined,
): Promise<RunbookEdited> {
  return editRunbook(context, caller, {}, async (transaction) => {
    const runbook = await lockKnown(transaction, name, ifRevision);
    await removeRunbook(transaction.tx, runbook.id);
    transaction.audit(caller, { targets: [runbook.name] });
    return null;
  });
}

/** Checks what is given, then carries out a change, which returns the id of the runbook; null if there is none left. */
async function editRunbook(
  { transact }: EngineContext,
  caller: Caller,
  given: RunbookChange,
  change: (transaction: Transaction) => Promise<string | null>,
): Promise<RunbookEdited> {
  requireNone(flawsOf(given));
  return transact(async (transaction) => {
    const { policy } = await readSite(transaction.tx);
    requireNone(stepScopeFlaws(caller, given.steps ?? [], { ...policy, path: ["input", "steps"] }));
    const runbookId = await change(transaction);
    await recordPendingChanges(transaction.tx);
    return { runbookId, refusals: [] };
  });
}

function flawsOf({ name, description, steps }: RunbookChange): Refusal[] {
  return [
    ...nameFlaw(name, ["input", "name"]),
    ...textFlaws("description", description, DESCRIPTION_LENGTH_MAX),
    ...(steps
      ? [
          ...lengthFlaws(steps, ["input", "steps"]),
          ...steps.flatMap((step, index) => stepFlaws(step, ["input", "steps", String(index)])),
        ]
      : []),
  ];
}

function stepFlaws(step: StepChoice, path: readonly string[]): Refusal[] {
  if (!STEP_NAME.test(step.name)) {
    const message = `Invalid step name ${JSON.stringify(step.name)}: use lower-case letters, digits and underscores; begin with a letter.`;
    return [invalidInput(message, [...path, "name"])];
  }
  return formFlaws(step, path, `Step ${stepLabel(step)}`);
}

async function lockKnown(transaction: Transaction, name: string, ifRevision: number | undefined): Promise<RunbookRow> {
  const runbook = await lockRunbook(transaction.tx, name);
  if (!runbook) throw new RefusalError([notFound(`There is no runbook ${name}.`, [name], ["input", "runbook"])]);
  requireRevision(`Runbook ${name}`, runbook.revision, ifRevision);
  return runbook;
}
