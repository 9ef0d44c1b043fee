/**
 * The steps that a request chooses in place of the automatic ones: a list of its own, or a runbook's. The runbook is
 * read when the request is admitted; from then on the operation has the list itself, even if the runbook changes.
 */
import { flawIf, invalidInput } from "../../errors.ts";
import type { Refusal, Refused } from "../../errors.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import type { StepChoice, VerbOptions } from "../../store/records.ts";
import { runbookByName } from "../../store/runbooks.ts";
import { sizeFlaws } from "../input/size-limits.ts";
import { isJsonObject } from "../input/variables.ts";
import { POWER_STEPS, isReserved, reservedFlaws } from "./reserved-steps.ts";

const CHOICES_MAX = 100;

/** The phase whose automatic steps a list replaces, for the verbs that take one. */
export const PHASE_OF_LIST: Partial<Record<OperationKind, "clean" | "deploy">> = { CLEAN: "clean", DEPLOY: "deploy" };

/** The flaws of a choice that do not depend on any node. */
export function choiceFlaws(options: VerbOptions): Refusal[] {
  const { steps, runbook } = options;
  return [
    ...flawIf(Boolean(steps) && runbook !== undefined, "Give either steps or a runbook, not both.", [
      "input",
      "runbook",
    ]),
    ...(steps ? lengthFlaws(steps, ["input", "steps"]) : []),
    ...powerFlaws(options),
  ];
}

/** A change of power is a reserved step, so its timeout is checked as an argument of that step. */
function powerFlaws({ powerAction, softTimeoutSeconds }: VerbOptions): Refusal[] {
  if (powerAction === undefined || softTimeoutSeconds === undefined) return [];
  const flaws = reservedFlaws({
    interface: "power",
    name: POWER_STEPS[powerAction],
    args: { timeoutSeconds: softTimeoutSeconds },
  });
  return flaws.map(({ what }) => invalidInput(`Power action ${powerAction}: ${what}`, ["input", "timeoutSeconds"]));
}

/** The options with the steps of the runbook. Options that contain steps already, as those of a restart do, stay. */
export async function withRunbookSteps(
  reader: Reader,
  { kind, options }: { readonly kind: OperationKind; readonly options: VerbOptions },
): Promise<{ readonly options: VerbOptions } | Refused> {
  const { steps, runbook } = options;
  if (runbook === undefined || steps) return { options };
  const refuse = (code: Refusal["code"], message: string, more: Partial<Refusal> = {}) => ({
    refusals: [{ code, message, path: ["input", "runbook"], ...more }],
  });
  const found = await runbookByName(reader, runbook);
  if (!found) {
    const message = `There is no runbook ${runbook}. The query \`runbooks\` lists all of them.`;
    return refuse("NOT_FOUND", message, { missing: [runbook] });
  }
  const phase = PHASE_OF_LIST[kind];
  if (found.phase !== phase)
    return refuse(
      "INVALID_INPUT",
      `Runbook ${runbook} has ${found.phase} steps. ${kind} takes a runbook for ${phase}.`,
    );
  return { options: { ...options, steps: found.steps } };
}

/** Path of the list of steps in a request. */
export function choicePath({ runbook }: VerbOptions): readonly string[] {
  return runbook === undefined ? ["input", "steps"] : ["input", "runbook", "steps"];
}

/** The flaws of the length and size of a list of steps. */
export function lengthFlaws(steps: readonly StepChoice[], path: readonly string[]): Refusal[] {
  if (steps.length === 0) return [invalidInput("The list of steps is empty; name at least one step.", path)];
  if (steps.length > CHOICES_MAX)
    return [invalidInput(`A list has at most ${CHOICES_MAX} steps; this one has ${steps.length}.`, path)];
  return sizeFlaws("The list of steps, with their arguments,", steps, path);
}

/** The flaws of a chosen step that do not depend on the node. `where` begins the messages. */
export function formFlaws(choice: StepChoice, path: readonly string[] | undefined, where: string): Refusal[] {
  if (!isJsonObject(choice.args))
    return [stepFlaw(where, path, ["args"], "its arguments must be a JSON object, from name to value.")];
  return isReserved(choice) ? reservedFlaws(choice).map(({ at, what }) => stepFlaw(where, path, at, what)) : [];
}

/** A flaw of a chosen step, at a place below the step's. */
export function stepFlaw(
  where: string,
  path: readonly string[] | undefined,
  at: readonly string[],
  what: string,
): Refusal {
  return { code: "INVALID_INPUT", message: `${where}: ${what}`, ...(path && { path: [...path, ...at] }) };
}
