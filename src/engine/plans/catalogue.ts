/**
 * The catalogue: the steps that a node's drivers offer for a phase, with the site's policy applied.
 *
 * Order within a phase: priority descending, then by group, or by interface for a step without one (vendor first, clean
 * last), then as declared (docs/rules/steps.md; the order is Ironic's, with storage after raid). A site may set other
 * priorities, forbid steps, and disable automatic cleaning.
 */
import type { DriverPhase, StepArgs } from "../../drivers/driver.ts";
import { addressProblems } from "../../drivers/address-settings.ts";
import type { AddressRules } from "../../drivers/address-settings.ts";
import { plainIssues, validate } from "../../drivers/issues.ts";
import { INTERFACE_OF_PHASE, stepsOf } from "../../drivers/interfaces.ts";
import type { AnyDriver, AnyStep, InterfaceName } from "../../drivers/interfaces.ts";
import type { Composition } from "../../drivers/registry.ts";
import type { JsonObject, SitePolicy, StepPolicy } from "../../store/records.ts";

/** The reason why a step of the catalogue does not run automatically. */
export const OFF_REASONS = {
  PRIORITY: "The declared priority is 0: the step runs only if requested by name.",
  SITE_PRIORITY: "The site's policy sets the priority to 0.",
  FORBIDDEN: "The site's policy forbids the step, even if requested by name.",
  CLEANING_OFF: "Automatic cleaning is disabled for the node or the site; `cleanNodes` runs the step anyway.",
} as const;
type OffReason = keyof typeof OFF_REASONS;

/** A step that a driver offers, with the settings of the node and the site applied. */
export interface CatalogueEntry {
  readonly driver: AnyDriver;
  readonly interface: InterfaceName;
  readonly step: AnyStep;
  readonly supportsAbort: boolean;
  /** The site's priority if it sets one, otherwise the declared one. */
  readonly priority: number;
  /** Null: the step runs automatically. */
  readonly off: OffReason | null;
}

export interface CatalogueBasis {
  readonly composition: Composition;
  readonly policy: SitePolicy;
  /** Whether automatic clean steps run on this node. */
  readonly automaticCleaning: boolean;
}

const GROUP_ORDER = [
  "vendor",
  "power",
  "management",
  "firmware",
  "deploy",
  "bios",
  "raid",
  "storage",
  "inspect",
  "clean",
];

/**
 * All steps of a phase: automatic ones in the order in which they run, then the others as declared. Of several drivers
 * that inspect, the steps of one come before those of the next.
 */
export function catalogueOf(
  { composition, policy, automaticCleaning }: CatalogueBasis,
  phase: DriverPhase,
): readonly CatalogueEntry[] {
  const name = INTERFACE_OF_PHASE[phase];
  const drivers = driversOf(composition, name);
  const entries = drivers.flatMap((driver) => entriesOf(driver, phase, { policy, automaticCleaning }));
  const place = (entry: CatalogueEntry) => ({ ...entry, group: entry.step.group });
  const turn = ({ driver }: CatalogueEntry) => (phase === "inspect" ? drivers.indexOf(driver) : 0);
  return [
    ...entries
      .filter(({ off }) => off === null)
      .toSorted((a, b) => turn(a) - turn(b) || runningOrder(place(a), place(b))),
    ...entries.filter(({ off }) => off !== null),
  ];
}

function driversOf(composition: Composition, name: "inspect" | "clean" | "deploy"): readonly AnyDriver[] {
  if (name === "inspect") return composition.inspectors;
  return name === "deploy" ? composition.givers(name) : [composition.giver(name) ?? []].flat();
}

function entriesOf(
  driver: AnyDriver,
  phase: DriverPhase,
  { policy, automaticCleaning }: Omit<CatalogueBasis, "composition">,
): readonly CatalogueEntry[] {
  const name = INTERFACE_OF_PHASE[phase];
  const offered = stepsOf(driver, name);
  if (!offered) return [];
  const isCleaningOff = phase === "clean" && !automaticCleaning;
  return offered.steps
    .filter((step) => step.phase === phase)
    .map((step): CatalogueEntry => {
      const sitePolicy = policyOn(policy, driver, `${name}.${step.name}`);
      const priority = sitePolicy.priority ?? step.priority;
      const off = offReason(sitePolicy, priority, isCleaningOff);
      return { driver, interface: name, step, supportsAbort: offered.supportsAbort, priority, off };
    });
}

type PolicyOnStep = Pick<StepPolicy, "priority" | "forbidden">;

function offReason(sitePolicy: PolicyOnStep, priority: number, isCleaningOff: boolean): OffReason | null {
  if (sitePolicy.forbidden) return "FORBIDDEN";
  if (priority <= 0) return sitePolicy.priority === undefined ? "PRIORITY" : "SITE_PRIORITY";
  return isCleaningOff ? "CLEANING_OFF" : null;
}

/** Which of two steps runs first: negative for `a`, 0 if the order of their declaration decides. */
export function runningOrder(a: StepPlace, b: StepPlace): number {
  const orderOf = ({ group, interface: name }: StepPlace) => GROUP_ORDER.indexOf(group ?? name);
  return b.priority - a.priority || orderOf(a) - orderOf(b);
}

interface StepPlace {
  readonly priority: number;
  readonly interface: string;
  readonly group?: string | undefined;
}

/** The site's policy for a step. Member by member, the policy for one driver outranks the one for all drivers. */
function policyOn(policy: SitePolicy, driver: AnyDriver, label: string): PolicyOnStep {
  const rules = (policy.steps ?? []).filter((rule) => rule.step === label);
  const own = rules.find((rule) => rule.driver === driver.name);
  const general = rules.find((rule) => rule.driver === undefined);
  const priority = own?.priority ?? general?.priority;
  const forbidden = own?.forbidden ?? general?.forbidden;
  return { ...(priority !== undefined && { priority }), ...(forbidden !== undefined && { forbidden }) };
}

function definedOnly(args: StepArgs): JsonObject {
  return Object.fromEntries(
    Object.entries(args).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

/** An invalid argument: its path, and the fault. */
export interface ArgumentIssue {
  readonly at: readonly string[];
  readonly what: string;
}

export function issueText({ at, what }: ArgumentIssue): string {
  return at.length === 0 ? what : `${at.join(".")}: ${what}`;
}

/**
 * Checks arguments against the step's declaration, and where its addresses lead. Returns them as the step gets them, or
 * every issue.
 */
export async function checkArgs(
  step: AnyStep,
  args: JsonObject,
  rules: AddressRules | null = null,
): Promise<{ readonly args: JsonObject } | { readonly issues: readonly ArgumentIssue[] }> {
  if (!step.args) {
    const surplus = Object.keys(args);
    return surplus.length === 0
      ? { args: {} }
      : { issues: surplus.map((key) => ({ at: [key], what: "this step takes no arguments" })) };
  }
  const result = await validate(step.args, args);
  const issues = result.issues
    ? plainIssues(step.args, args, result.issues)
    : rules
      ? await addressProblems(step.args, result.value, rules)
      : [];
  if (!result.issues && issues.length === 0) return { args: definedOnly(result.value) };
  return { issues: issues.map(({ path, message }) => ({ at: path, what: message })) };
}
