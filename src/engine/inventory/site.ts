/**
 * The site's policy: limits, automatic cleaning, and the priority or prohibition of single steps. A change is checked
 * as a whole against the loaded drivers, and applies to plans that are made from then on; stored plans stay. Limits
 * also apply to runs that wait already, so the slot scheduler is nudged.
 */
import { flawIf, invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { INTERFACES, stepsOf } from "../../drivers/interfaces.ts";
import type { AnyDriver, AnyStep } from "../../drivers/interfaces.ts";
import type { Registry } from "../../drivers/registry.ts";
import { includesScope } from "../../lifecycle/scopes.ts";
import { lockAllIdentities, nodesConcernedBy } from "../../store/nodes/node-identities.ts";
import type { SitePolicy, StepPolicy, StepScope } from "../../store/records.ts";
import { recordPendingChanges } from "../../store/log/changes.ts";
import { SECRETS } from "../../store/secrets/secrets.ts";
import { changeSite, lockSite, siteKey } from "../../store/site.ts";
import type { SiteRow } from "../../store/site.ts";
import { changedFields } from "../input/changed-fields.ts";
import { answerEdit, requireNone, requireRevision } from "../input/edits.ts";
import { sharedValues } from "../input/machine-identities.ts";
import { sizeFlaws, textFlaws } from "../input/size-limits.ts";
import { levelFlaws } from "../input/output-references.ts";
import { LIMITED_PHASES } from "../scheduling/capacity-limits.ts";
import { checkArgs, issueText } from "../plans/catalogue.ts";
import { installStepsLost } from "../plans/install-check.ts";
import type { EngineContext } from "../context.ts";
import { editOf } from "../audit/edits.ts";
import { findConflicts } from "./controller-conflicts.ts";
import { secretNames, variablesOverlay } from "./stored-variables.ts";
import type { Caller } from "../transaction.ts";

/** A change of the policy. An absent member stays, null removes it. A list replaces the whole present one. */
export type SiteChange = PolicyChange & {
  readonly ifRevision?: number | undefined;
  readonly phaseLimits?: readonly { readonly phase: string; readonly limit: number }[] | null | undefined;
  readonly steps?: readonly StepRule[] | null | undefined;
  /** Laid over the present ones; null removes a key. */
  readonly variables?: unknown;
};

type PolicyChange = {
  readonly [Member in Exclude<keyof SitePolicy, "phaseLimits" | "steps">]?: SitePolicy[Member] | null | undefined;
};

/** The policy for one step, as a request gives it. */
interface StepRule {
  readonly step: string;
  readonly driver?: string | null | undefined;
  readonly priority?: number | null | undefined;
  readonly forbidden?: boolean | null | undefined;
}

export type SiteEdited = { readonly done: boolean; readonly refusals: readonly Refusal[] };

/** Path of the variables in a request. */
const VARIABLES = ["input", "variables"];

const PRIORITY_MAX = 1_000_000;

export async function updateSite(
  context: Pick<EngineContext, "transact" | "registry" | "nudge" | "keyring">,
  caller: Caller,
  { variables: given, ...change }: SiteChange,
): Promise<SiteEdited> {
  const { transact, registry, nudge } = context;
  const edit = async (): Promise<SiteEdited> => {
    const rules = change.steps ?? [];
    requireNone([...limitFlaws(change), ...sharedFlaws(change), ...(await stepFlaws(registry, rules))]);
    requireNone(installFlaws(registry, rules));
    requireNone(levelFlaws(given, VARIABLES));
    requireNone(stepScopeFlaws(registry, change.stepScopes ?? []));
    return transact(async (transaction) => {
      if (change.sharedIdentities !== undefined) await lockAllIdentities(transaction.tx);
      const site = await lockSite(transaction.tx);
      requireRevision("The site's policy", site.revision, change.ifRevision);
      const policy = changedPolicy(site.policy, change);
      const laidOver = await variablesOverlay(transaction.tx, context, SECRETS.siteVariables, given);
      const variables = laidOver(siteKey(site), site.variables);
      requireNone(sizeFlaws("The variables together with those of the site", variables, VARIABLES, site.variables));
      const changed = changedFields<SiteRow>(site, { policy, variables });
      if (changed) {
        await changeSite(transaction.tx, changed, caller.actor);
        await recordPendingChanges(transaction.tx);
      }
      const [was, is] = [site, { ...site, ...changed }].map((one) => ({ ...one.policy, variables: one.variables }));
      const secret = secretNames(context, site.variables, variables);
      transaction.audit(caller, { targets: ["site"], edits: editOf("site", was ?? null, is ?? null, secret) });
      if (change.sharedIdentities !== undefined) {
        const values = [site.policy, policy].flatMap(sharedValues);
        await findConflicts(transaction.tx, await nodesConcernedBy(transaction.tx, values));
      }
      if (change.phaseLimits !== undefined || change.controllerLimit !== undefined) transaction.afterCommit(nudge);
      return { done: true, refusals: [] };
    });
  };
  return answerEdit(edit, { done: false, refusals: [] });
}

/** The policy with the change applied. */
function changedPolicy(policy: SitePolicy, change: SiteChange): SitePolicy {
  const { phaseLimits, steps } = change;
  const next = {
    ...change,
    ifRevision: undefined,
    phaseLimits: phaseLimits ? Object.fromEntries(phaseLimits.map(({ phase, limit }) => [phase, limit])) : phaseLimits,
    steps: steps ? steps.map(policyOf) : steps,
  };
  const merged = Object.entries({
    ...policy,
    ...Object.fromEntries(Object.entries(next).filter(([, value]) => value !== undefined)),
  });
  return Object.fromEntries(merged.filter(([, value]) => value !== null));
}

function policyOf({ step, driver, priority, forbidden }: StepRule): StepPolicy {
  return {
    step,
    ...(driver != null && { driver }),
    ...(priority != null && { priority }),
    ...(forbidden != null && { forbidden }),
  };
}

// ---- limits

/** 30 days. */
const DISAPPEARED_SECONDS_MAX = 2_592_000;

function limitFlaws({ phaseLimits, controllerLimit, disappearedTimeoutSeconds: seconds }: SiteChange): Refusal[] {
  const isLimit = (limit: number) => Number.isInteger(limit) && limit >= 1;
  const phases = (phaseLimits ?? []).map(({ phase }) => phase);
  const ofPhases = (phaseLimits ?? []).flatMap(({ phase, limit }, index) => {
    const path = ["input", "phaseLimits", String(index)];
    const unlimited = `The phase ${phase} cannot be limited; use one of ${LIMITED_PHASES.join(", ")}.`;
    const rule = "use a whole number of runs, 1 or more, or leave the phase out for no limit";
    return [
      ...flawIf(!LIMITED_PHASES.some((one) => one === phase), unlimited, [...path, "phase"]),
      ...flawIf(phases.indexOf(phase) < index, `The phase ${phase} is given twice.`, [...path, "phase"]),
      ...flawIf(!isLimit(limit), `Invalid limit of ${phase}: ${rule}.`, [...path, "limit"]),
    ];
  });
  const controller =
    "Invalid limit of a management controller: use a whole number of runs, 1 or more, or null for no limit.";
  const time = `Invalid time of waits for nodes that have disappeared: use a whole number of seconds from 1 to ${DISAPPEARED_SECONDS_MAX}, or null for no limit.`;
  const isTime = isLimit(seconds ?? 1) && (seconds ?? 1) <= DISAPPEARED_SECONDS_MAX;
  return [
    ...ofPhases,
    ...flawIf(!isLimit(controllerLimit ?? 1), controller, ["input", "controllerLimit"]),
    ...flawIf(!isTime, time, ["input", "disappearedTimeoutSeconds"]),
  ];
}

// ---- shared identities

const SHARED_IDENTITIES_MAX = 1_000;
const IDENTITY_LENGTH_MAX = 128;

function sharedFlaws({ sharedIdentities }: SiteChange): Refusal[] {
  const path = ["input", "sharedIdentities"];
  if ((sharedIdentities?.length ?? 0) > SHARED_IDENTITIES_MAX)
    return [invalidInput(`At most ${SHARED_IDENTITIES_MAX} values are stored; remove some.`, path)];
  return (sharedIdentities ?? []).flatMap((text, index) =>
    textFlaws("value", text, IDENTITY_LENGTH_MAX).map((flaw) => ({ ...flaw, path: [...path, String(index)] })),
  );
}

// ---- steps

/** The flaws of scopes of steps: of a step that no driver has, one given twice, and a scope that changes nothing. */
function stepScopeFlaws(registry: Registry, rules: readonly StepScope[]): Refusal[] {
  const offered = offersOf(registry);
  return rules.flatMap(({ step, scope }, index) => {
    const path = ["input", "stepScopes", String(index)];
    const isRepeated = rules.findIndex((one) => one.step === step) < index;
    const usual = `Every caller who may choose ${step} has ${scope}. Use MANAGE or ADMIN.`;
    return [
      ...labelFlaws(offered, step, null).map((message) => invalidInput(message, [...path, "step"])),
      ...flawIf(isRepeated, `The step ${step} is given twice.`, [...path, "step"]),
      ...flawIf(!includesScope(scope, "MANAGE"), usual, [...path, "scope"]),
    ];
  });
}

interface Offer {
  readonly driver: AnyDriver;
  readonly label: string;
  readonly step: AnyStep;
}

function offersOf(registry: Registry): Offer[] {
  return registry.drivers.flatMap((driver) =>
    INTERFACES.flatMap((name) =>
      (stepsOf(driver, name)?.steps ?? []).map((step): Offer => ({ driver, label: `${name}.${step.name}`, step })),
    ),
  );
}

async function stepFlaws(registry: Registry, rules: readonly StepRule[]): Promise<Refusal[]> {
  const flaws: Refusal[] = [];
  for (const [index, rule] of rules.entries()) flaws.push(...(await ruleFlaws(registry, rules, rule, index)));
  return flaws;
}

async function ruleFlaws(
  registry: Registry,
  rules: readonly StepRule[],
  rule: StepRule,
  index: number,
): Promise<Refusal[]> {
  const offers = offersOf(registry);
  const { step: label, driver, priority, forbidden } = rule;
  const flaws: Refusal[] = [];
  const invalid = (field: string, message: string) =>
    flaws.push(invalidInput(message, ["input", "steps", String(index), field]));
  if (driver != null && !registry.get(driver)) {
    const loaded = registry.drivers.map(({ name }) => name).join(", ") || "none";
    invalid("driver", `Driver ${driver} is not loaded (loaded: ${loaded}).`);
  } else {
    const offered = offers.filter((one) => driver == null || one.driver.name === driver);
    for (const message of labelFlaws(offered, label, driver)) invalid("step", message);
  }
  if (rules.findIndex((one) => one.step === label && (one.driver ?? null) === (driver ?? null)) < index)
    invalid("step", `The step ${label} of ${driver == null ? "every driver" : `driver ${driver}`} is given twice.`);
  if (priority == null && forbidden == null)
    invalid("step", `The step ${label} has neither a priority nor a prohibition; give it one of them.`);
  if (priority != null && !(Number.isInteger(priority) && priority >= 0 && priority <= PRIORITY_MAX))
    invalid(
      "priority",
      `Invalid priority of ${label}: use a whole number from 0 to ${PRIORITY_MAX}; 0 disables the step.`,
    );
  else if (priority != null && priority > 0)
    for (const message of await argumentFlaws(offers, rules, rule)) invalid("priority", message);
  return flaws;
}

/** Refuses a policy that leaves a driver without a step that installs a system: its nodes could not be deployed. */
function installFlaws(registry: Registry, rules: readonly StepRule[]): Refusal[] {
  const policy = { steps: rules.map(policyOf) };
  const lost = registry.drivers.flatMap((driver) =>
    installStepsLost(policy, driver).map((label) => ({ label, driver: driver.name })),
  );
  return rules.flatMap(({ step: label, driver, priority, forbidden }, index): Refusal[] => {
    if (!forbidden && priority !== 0) return [];
    const drivers = lost.filter((one) => one.label === label && (driver == null || one.driver === driver));
    if (drivers.length === 0) return [];
    const names = drivers.map((one) => one.driver).join(", ");
    const message = `The step ${label} cannot be forbidden or disabled: without it nothing would install a system on nodes of driver ${names}. Leave such a step of the driver enabled.`;
    return [invalidInput(message, ["input", "steps", String(index), "step"])];
  });
}

function labelFlaws(offers: readonly Offer[], label: string, driver: string | null | undefined): string[] {
  if (offers.some((one) => one.label === label)) return [];
  const known = [...new Set(offers.map((one) => one.label))].join(", ") || "none";
  const form = /^[^.]+\.[^.]+$/.test(label) ? "" : " A step is named interface.name.";
  return [
    `${driver == null ? "No loaded driver offers" : `Driver ${driver} does not offer`} a step ${label} (offered: ${known}).${form}`,
  ];
}

/** A step that needs arguments cannot run automatically, so it cannot have a priority. */
async function argumentFlaws(
  offers: readonly Offer[],
  rules: readonly StepRule[],
  { step: label, driver }: StepRule,
): Promise<string[]> {
  const hasOwnRule = (name: string) =>
    rules.some((one) => one.step === label && one.driver === name && one.priority != null);
  const concerned = offers.filter(
    (one) => one.label === label && (driver == null ? !hasOwnRule(one.driver.name) : one.driver.name === driver),
  );
  const checked = await Promise.all(concerned.map(async (one) => ({ ...one, result: await checkArgs(one.step, {}) })));
  return checked.flatMap(({ driver: { name }, result }) =>
    "issues" in result
      ? [
          `The step ${label} of driver ${name} cannot run automatically: it needs arguments (${result.issues.map(issueText).join("; ")}). Request it by name, in a list of steps or a runbook.`,
        ]
      : [],
  );
}
