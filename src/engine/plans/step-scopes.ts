/** Scopes that the arguments of a request for work demand, beyond that of its verb. */
import type { Refusal } from "../../errors.ts";
import { includesScope } from "../../lifecycle/scopes.ts";
import type { Access, Scope } from "../../lifecycle/scopes.ts";
import type { SitePolicy, StepChoice, VerbOptions } from "../../store/records.ts";
import { stepLabel } from "./plan.ts";

/** The rights of the caller; they name no subject, because callers with equal rights share events. */
type Rights = Pick<Access, "scope"> & Partial<Pick<Access, "roles">>;

/** The flaws of what a caller may not ask for: `force`, chosen steps, and steps for which the site demands more. */
export function scopeFlaws(
  caller: Rights,
  { force, runbook, steps }: VerbOptions,
  { stepScopes = [] }: Pick<SitePolicy, "stepScopes">,
): Refusal[] {
  const isChosen = steps !== undefined && runbook === undefined;
  return [
    ...(force && !includesScope(caller.scope, "MANAGE")
      ? [forbidden("force", "MANAGE", { caller, path: ["input", "force"] })]
      : []),
    ...(isChosen && !includesScope(caller.scope, "MANAGE")
      ? [forbidden("A list of steps", "MANAGE", { caller, path: ["input", "steps"] })]
      : stepScopeFlaws(caller, steps ?? [], { stepScopes, path: ["input", isChosen ? "steps" : "runbook"] })),
  ];
}

/** The flaws of steps for which the site demands a scope that the caller lacks. */
export function stepScopeFlaws(
  caller: Rights,
  steps: readonly StepChoice[],
  { stepScopes = [], path }: Pick<SitePolicy, "stepScopes"> & { readonly path: readonly string[] },
): Refusal[] {
  const labels = new Set(steps.map(stepLabel));
  return stepScopes
    .filter((one) => labels.has(one.step) && !includesScope(caller.scope, one.scope))
    .map((one) => forbidden(`The step ${one.step}`, one.scope, { caller, path }));
}

function forbidden(
  what: string,
  needed: Scope,
  { caller: { scope, roles = [] }, path }: { readonly caller: Rights; readonly path: readonly string[] },
): Refusal {
  const of = roles.length === 0 ? "" : ` of the role ${roles.join(", ")}`;
  const message = `${what} requires the scope ${needed}. The credential${of} has ${scope ?? "none"}.`;
  return { code: "FORBIDDEN", message, path };
}
