/**
 * Which steps a request chooses in place of the automatic ones: a list of its own, or a runbook's. A runbook is read when
 * the request is accepted; from then on the operation has the list itself, whatever becomes of the runbook.
 */
import type { Refusal } from "../../errors.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { VerbOptions } from "../../store/records.ts";
import { runbookByName } from "../../store/runbooks.ts";
import { lengthFlaws } from "./plan.ts";
import { POWER_STEPS, reservedFlaws } from "./reserved-steps.ts";

/** What is wrong with the choice of a request, before any node is looked at. */
export function choiceFlaws(options: VerbOptions): Refusal[] {
  const { steps, runbook } = options;
  const both: Refusal[] =
    steps && runbook !== undefined
      ? [{ code: "INVALID_INPUT", message: "Give either steps or a runbook, not both.", path: ["input", "runbook"] }]
      : [];
  return [...both, ...(steps ? lengthFlaws(steps, ["input", "steps"]) : []), ...powerFlaws(options)];
}

/** A change of power is a reserved step, so its time is checked as that step's argument. */
function powerFlaws({ powerAction, softTimeoutSeconds }: VerbOptions): Refusal[] {
  if (powerAction === undefined || softTimeoutSeconds === undefined) return [];
  const flaws = reservedFlaws({
    interface: "power",
    name: POWER_STEPS[powerAction],
    args: { timeoutSeconds: softTimeoutSeconds },
  });
  return flaws.map(({ what }) => ({
    code: "INVALID_INPUT",
    message: `Of the power action ${powerAction}: ${what}`,
    path: ["input", "timeoutSeconds"],
  }));
}

/** The options with the runbook's steps in place. Options that hold steps already, as those of a restart do, stay. */
export async function withRunbookSteps(
  reader: Reader,
  options: VerbOptions,
): Promise<{ readonly options: VerbOptions } | { readonly refusals: readonly Refusal[] }> {
  const { steps, runbook } = options;
  if (runbook === undefined || steps) return { options };
  const found = await runbookByName(reader, runbook);
  if (found) return { options: { ...options, steps: found.steps } };
  return {
    refusals: [
      {
        code: "NOT_FOUND",
        message: `There is no runbook ${runbook}; the query runbooks lists those there are.`,
        missing: [runbook],
        path: ["input", "runbook"],
      },
    ],
  };
}

/** Where in a request its list of steps stands. */
export function choicePath({ runbook }: VerbOptions): readonly string[] {
  return runbook === undefined ? ["input", "steps"] : ["input", "runbook", "steps"];
}
