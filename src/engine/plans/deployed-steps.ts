/** The deploy steps of a plan, and its secrets, in the form in which two deployments are compared. */
import { canonicalJson } from "../../runtime/canonical-json.ts";
import type { DeployedStep, Plan, StepChoice, StoredJson } from "../../store/records.ts";
import { stepLabel } from "./plan.ts";
import type { ChosenList } from "./plan.ts";

/** The deploy steps up to the one that reaches PROVISIONED, kept ones included, and those after it. */
export function deployedSteps({ steps }: Pick<Plan, "steps">): {
  readonly system: readonly DeployedStep[];
  readonly configuration: readonly DeployedStep[];
} {
  const own = steps.filter(({ phase }) => phase === "deploy");
  const installs = own.findIndex(({ reaches }) => reaches === "PROVISIONED");
  const all = own.map((step) => ({ step: stepLabel(step) ?? "", driver: step.driver, args: step.args }));
  return { system: all.slice(0, installs + 1), configuration: all.slice(installs + 1) };
}

/** The list by which the deploy steps of a plan were chosen; undefined if they are the automatic ones. */
export function chosenOf(plan: Pick<Plan, "steps" | "chosen">): ChosenList | undefined {
  const { system, configuration } = deployedSteps(plan);
  return plan.chosen && chosenList([...system, ...configuration], plan.chosen);
}

/** Deploy steps, as a request would choose them. */
export function chosenList(steps: readonly DeployedStep[], { runbook }: NonNullable<Plan["chosen"]>): ChosenList {
  const choices = steps.map(({ step, args }) => {
    const [from = "", name = ""] = step.split(".");
    return { interface: from as StepChoice["interface"], name, args };
  });
  return { phase: "deploy", steps: choices, runbook };
}

/** The digest of a secret variable. Equal values of two names differ. */
export function variableDigest(
  keys: { readonly digest: (text: string) => string },
  name: string,
  value: StoredJson,
): string {
  return keys.digest(canonicalJson([name, value]));
}
