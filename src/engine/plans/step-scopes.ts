/** Scopes that the arguments of a request for work demand, beyond that of its verb. */
import type { Refusal } from "../../errors.ts";
import { includesScope } from "../../lifecycle/scopes.ts";
import type { Scope } from "../../lifecycle/scopes.ts";
import type { SitePolicy, StepChoice, VerbOptions } from "../../store/records.ts";
import { stepLabel } from "./plan.ts";

/** The flaws of what a caller may not ask for: `force`, chosen steps, and steps for which the site demands more. */
export function scopeFlaws(
  scope: Scope | null,
  { force, runbook, steps }: VerbOptions,
  { stepScopes = [] }: Pick<SitePolicy, "stepScopes">,
): Refusal[] {
  const isChosen = steps !== undefined && runbook === undefined;
  return [
    ...(force && !includesScope(scope, "MANAGE") ? [forbidden("force", "MANAGE", ["input", "force"])] : []),
    ...(isChosen && !includesScope(scope, "MANAGE")
      ? [forbidden("A list of steps", "MANAGE", ["input", "steps"])]
      : stepScopeFlaws(scope, steps ?? [], { stepScopes, path: ["input", isChosen ? "steps" : "runbook"] })),
  ];
}

/** The flaws of steps for which the site demands a scope that the caller lacks. */
export function stepScopeFlaws(
  scope: Scope | null,
  steps: readonly StepChoice[],
  { stepScopes = [], path }: Pick<SitePolicy, "stepScopes"> & { readonly path: readonly string[] },
): Refusal[] {
  const labels = new Set(steps.map(stepLabel));
  return stepScopes
    .filter((one) => labels.has(one.step) && !includesScope(scope, one.scope))
    .map((one) => forbidden(`The step ${one.step}`, one.scope, path));
}

function forbidden(what: string, needed: Scope, path: readonly string[]): Refusal {
  const message = `${what} requires the scope ${needed}, which the caller does not have.`;
  return { code: "FORBIDDEN", message, path };
}
