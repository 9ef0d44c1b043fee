/**
 * From a route and a node's drivers to the list of steps. Pure but for the schemas of arguments, which may be
 * asynchronous. What is planned is what runs: the plan is stored with the run and never changes.
 *
 * Order within a phase: priority descending, then by interface (vendor first, clean last), then as declared
 * (semantics.md, section 5; the order of interfaces is Ironic's). A site may set other priorities, forbid steps, and switch
 * automatic cleaning off.
 */
import type { Refusal } from "../errors.ts";
import type { LegPhase, Route } from "../lifecycle/verbs.ts";
import type { DriverPhase, PowerAction } from "../drivers/driver.ts";
import { INTERFACE_OF_PHASE, stepsOf } from "../drivers/registry.ts";
import type { AnyDriver, AnyStep, Composition, InterfaceName } from "../drivers/registry.ts";
import type { JsonObject, Plan, PlannedStep, SitePolicy, StepChoice, StepPolicy } from "../store/records.ts";

export interface PlanRequest {
  readonly nodeName: string;
  readonly route: Route;
  readonly composition: Composition;
  readonly policy: SitePolicy;
  /** Whether automatic clean steps run on this node. */
  readonly automaticCleaning: boolean;
  /** Replaces the automatic list of one phase. */
  readonly chosen?: { readonly phase: LegPhase; readonly steps: readonly StepChoice[] } | undefined;
  readonly powerAction?: PowerAction | undefined;
  /** How long a soft power off waits for the system. */
  readonly softTimeoutSeconds?: number | undefined;
}

export type PlanVerdict = { readonly plan: Plan } | { readonly refusals: readonly Refusal[] };

const INTERFACE_ORDER = ["vendor", "power", "management", "firmware", "deploy", "bios", "raid", "inspect", "clean"];

/** Seconds (semantics.md, section 13). */
const POWER_TIMEOUT = 60;
export const SOFT_OFF_TIMEOUT = 600;
const VERIFY_TIMEOUT = 60;
/** A reserved wait lasts as long as it says; this is for the way there and back. */
const WAIT_MARGIN = 60;
const WAIT_SECONDS_MAX = 30 * 86_400;
const HOLD_REASON_MAX = 1_000;
/** Holds never time out: this is past the life of the machine, and a date that every database can hold. */
const HOLD_TIMEOUT = 100 * 365 * 86_400;

/** Name of the engine's own step for each power action. */
export const POWER_STEPS: Readonly<Record<PowerAction, string>> = { ON: "power_on", OFF: "power_off", SOFT_OFF: "soft_power_off", REBOOT: "reboot" };

const POWER_TITLES: Readonly<Record<PowerAction, string>> = {
  ON: "Power on",
  OFF: "Power off",
  SOFT_OFF: "Shut the system down, then power off",
  REBOOT: "Power off, then on",
};

/** Interface of the reserved steps that no driver has a part in. */
export const ENGINE_INTERFACE = "engine";
export const WAIT_STEP = "wait";
export const HOLD_STEP = "hold";

export function isHold(step: Pick<PlannedStep, "interface" | "name">): boolean {
  return step.interface === ENGINE_INTERFACE && step.name === HOLD_STEP;
}

export function isReservedWait(step: Pick<PlannedStep, "interface" | "name">): boolean {
  return step.interface === ENGINE_INTERFACE && step.name === WAIT_STEP;
}

export async function planSteps(request: PlanRequest): Promise<PlanVerdict> {
  const { route } = request;
  const steps: PlannedStep[] = [];
  const refusals: Refusal[] = [];
  for (const [leg, { phase }] of route.legs.entries()) {
    const found = await stepsOfLeg(request, phase, leg);
    if ("refusals" in found) refusals.push(...found.refusals);
    else steps.push(...found.steps);
  }
  if (refusals.length > 0) return { refusals };
  return { plan: { legs: route.legs, finish: route.finish, bestEffort: route.bestEffort, steps } };
}

type Found = { readonly steps: readonly PlannedStep[] } | { readonly refusals: readonly Refusal[] };

async function stepsOfLeg(request: PlanRequest, phase: LegPhase, leg: number): Promise<Found> {
  if (request.chosen?.phase === phase) return explicit(request, request.chosen.steps, phase, leg);
  switch (phase) {
    case "verify":
      return { steps: [ownStep(leg, phase, powerOwner(request.composition), { name: "verify", title: "Check power and credentials", timeoutSeconds: VERIFY_TIMEOUT, idempotent: true })] };
    case "power":
      return { steps: [powerStep(request.composition, leg, phase, request.powerAction ?? "OFF", request.softTimeoutSeconds)] };
    default:
      return automatic(request, phase, leg);
  }
}

/** A step that the engine itself runs. */
function ownStep(
  leg: number,
  phase: LegPhase,
  owner: Pick<PlannedStep, "interface" | "driver">,
  step: Pick<PlannedStep, "name" | "title" | "timeoutSeconds" | "idempotent"> & { readonly args?: JsonObject },
): PlannedStep {
  return { args: {}, ...step, ...owner, leg, phase, priority: 0, interruptible: "ALWAYS", supportsAbort: true, retries: 0, backoffSeconds: 0, reaches: null, touches: [], kept: false };
}

function powerOwner(composition: Composition): Pick<PlannedStep, "interface" | "driver"> {
  return { interface: "power", driver: composition.giver("power")?.name ?? "" };
}

function powerStep(composition: Composition, leg: number, phase: LegPhase, action: PowerAction, softTimeoutSeconds = SOFT_OFF_TIMEOUT): PlannedStep {
  const isSoft = action === "SOFT_OFF";
  return ownStep(leg, phase, powerOwner(composition), {
    name: POWER_STEPS[action],
    title: POWER_TITLES[action],
    timeoutSeconds: isSoft ? softTimeoutSeconds + POWER_TIMEOUT : POWER_TIMEOUT,
    idempotent: action !== "REBOOT",
    args: isSoft ? { timeoutSeconds: softTimeoutSeconds } : {},
  });
}

// ---- the automatic list

/** Why a step of the catalogue does not run by itself. */
export const OFF_REASONS = {
  PRIORITY: "Its declared priority is 0: only when asked for by name.",
  SITE_PRIORITY: "The site's policy sets its priority to 0.",
  FORBIDDEN: "The site's policy forbids it, by name too.",
  CLEANING_OFF: "Automatic cleaning is switched off for the node or the site.",
} as const;
export type OffReason = keyof typeof OFF_REASONS;

/** A step that a driver offers, as a node and the site make of it. */
export interface CatalogueEntry {
  readonly driver: AnyDriver;
  readonly interface: InterfaceName;
  readonly step: AnyStep;
  readonly supportsAbort: boolean;
  /** The declared one, or the site's in its place. */
  readonly priority: number;
  /** Null: it runs by itself. */
  readonly off: OffReason | null;
}

/** All steps of a phase: those that run by themselves in their order, then the others as declared. */
export function catalogueOf({ composition, policy, automaticCleaning }: Pick<PlanRequest, "composition" | "policy" | "automaticCleaning">, phase: DriverPhase): readonly CatalogueEntry[] {
  const name = INTERFACE_OF_PHASE[phase];
  const driver = composition.giver(name);
  const offered = driver && stepsOf(driver, name);
  if (!driver || !offered) return [];
  const entries = offered.steps
    .filter((step) => step.phase === phase)
    .map((step): CatalogueEntry => {
      const said = policyOn(policy, driver, name, step);
      const priority = said.priority ?? step.priority;
      const off = said.forbidden ? "FORBIDDEN" : priority <= 0 ? (step.priority <= 0 && said.priority === undefined ? "PRIORITY" : "SITE_PRIORITY") : phase === "clean" && !automaticCleaning ? "CLEANING_OFF" : null;
      return { driver, interface: name, step, supportsAbort: offered.supportsAbort, priority, off };
    });
  const running = entries.filter(({ off }) => off === null).toSorted((a, b) => b.priority - a.priority || INTERFACE_ORDER.indexOf(a.interface) - INTERFACE_ORDER.indexOf(b.interface));
  return [...running, ...entries.filter(({ off }) => off !== null)];
}

/** What the site says of a step; its word on one driver outranks that on all. */
function policyOn(policy: SitePolicy, driver: AnyDriver, interfaceName: InterfaceName, step: AnyStep): Pick<StepPolicy, "priority" | "forbidden"> {
  const label = `${interfaceName}.${step.name}`;
  const said = (policy.steps ?? []).filter((one) => one.step === label && (one.driver === undefined || one.driver === driver.name));
  return said.find((one) => one.driver !== undefined) ?? said[0] ?? {};
}

async function automatic(request: PlanRequest, phase: DriverPhase, leg: number): Promise<Found> {
  const steps: PlannedStep[] = [];
  const refusals: Refusal[] = [];
  for (const entry of catalogueOf(request, phase).filter(({ off }) => off === null)) {
    const checked = await checkArgs(request.nodeName, entry.interface, entry.step, {});
    if ("refusals" in checked) refusals.push(...checked.refusals);
    else steps.push(planned(entry, leg, checked.args));
  }
  return refusals.length > 0 ? { refusals } : { steps };
}

// ---- chosen steps

async function explicit(request: PlanRequest, choices: readonly StepChoice[], phase: LegPhase, leg: number): Promise<Found> {
  const steps: PlannedStep[] = [];
  const refusals: Refusal[] = [];
  for (const [index, choice] of choices.entries()) {
    const path = ["input", "steps", String(index)];
    const found = choice.interface === "power" || choice.interface === ENGINE_INTERFACE ? reserved(request, choice, phase, leg, path) : await offeredStep(request, choice, phase, leg, path);
    if ("refusals" in found) refusals.push(...found.refusals);
    else steps.push(...found.steps);
  }
  return refusals.length > 0 ? { refusals } : { steps };
}

/** Steps that the service itself has, and that work in every list: power, wait, hold. */
function reserved({ composition }: PlanRequest, { interface: from, name, args }: StepChoice, phase: LegPhase, leg: number, path: readonly string[]): Found {
  const invalid = (message: string, field: "name" | "args"): Found => ({ refusals: [{ code: "INVALID_INPUT", message, path: [...path, field] }] });
  const surplus = (...known: readonly string[]) => Object.keys(args).filter((key) => !known.includes(key));
  const tooMany = (...known: readonly string[]) => {
    const keys = surplus(...known);
    return keys.length === 0 ? null : invalid(`The reserved step ${name} takes ${known.length === 0 ? "no arguments" : known.join(", ")}, and ${keys.join(", ")} was given.`, "args");
  };
  if (from === "power") {
    const action = (Object.keys(POWER_STEPS) as PowerAction[]).find((one) => POWER_STEPS[one] === name);
    if (!action) return invalid(`There is no reserved power step ${name}; there are ${Object.values(POWER_STEPS).join(", ")}.`, "name");
    const seconds = args["timeoutSeconds"] ?? SOFT_OFF_TIMEOUT;
    if (action === "SOFT_OFF" && !isSeconds(seconds, 1, 86_400)) return invalid("timeoutSeconds of soft_power_off is a number from 1 to 86400.", "args");
    return tooMany(...(action === "SOFT_OFF" ? ["timeoutSeconds"] : [])) ?? { steps: [powerStep(composition, leg, phase, action, seconds as number)] };
  }
  const owner = { interface: ENGINE_INTERFACE, driver: "ostler" };
  if (name === WAIT_STEP) {
    const seconds = args["seconds"];
    if (!isSeconds(seconds, 0, WAIT_SECONDS_MAX)) return invalid(`The reserved step wait takes seconds, a number from 0 to ${WAIT_SECONDS_MAX}.`, "args");
    return tooMany("seconds") ?? { steps: [ownStep(leg, phase, owner, { name, title: `Wait ${seconds} s`, timeoutSeconds: seconds + WAIT_MARGIN, idempotent: true, args: { seconds } })] };
  }
  if (name === HOLD_STEP) {
    const reason = args["reason"] ?? null;
    if (reason !== null && (typeof reason !== "string" || reason.length > HOLD_REASON_MAX)) return invalid(`The reason of a hold is a text of at most ${HOLD_REASON_MAX} characters.`, "args");
    return tooMany("reason") ?? { steps: [ownStep(leg, phase, owner, { name, title: "Hold until somebody lifts it", timeoutSeconds: HOLD_TIMEOUT, idempotent: true, args: reason === null ? {} : { reason } })] };
  }
  return invalid(`There is no reserved step ${name}; there are ${WAIT_STEP} and ${HOLD_STEP}.`, "name");
}

function isSeconds(value: unknown, least: number, most: number): value is number {
  return typeof value === "number" && value >= least && value <= most;
}

async function offeredStep(request: PlanRequest, choice: StepChoice, phase: LegPhase, leg: number, path: readonly string[]): Promise<Found> {
  const { nodeName } = request;
  const offers = phase === "verify" || phase === "power" ? [] : catalogueOf(request, phase);
  const entry = offers.find(({ interface: name, step }) => name === choice.interface && step.name === choice.name);
  if (!entry) {
    const known = offers.filter(({ interface: name }) => name === choice.interface).map(({ step }) => step.name);
    return { refusals: [{ code: "INVALID_INPUT", message: `Node ${nodeName} has no ${phase} step ${choice.interface}.${choice.name}; it has ${known.join(", ") || "none there"}.`, path: [...path, "name"] }] };
  }
  if (entry.off === "FORBIDDEN") {
    return { refusals: [{ code: "INVALID_INPUT", message: `Step ${choice.interface}.${choice.name} is forbidden by the site's policy; leave it out, or change the policy with updateSite.`, path: [...path, "name"] }] };
  }
  const checked = await checkArgs(nodeName, entry.interface, entry.step, choice.args, [...path, "args"]);
  return "refusals" in checked ? checked : { steps: [planned(entry, leg, checked.args)] };
}

function planned({ driver, interface: name, step, supportsAbort, priority }: CatalogueEntry, leg: number, args: JsonObject): PlannedStep {
  return {
    leg,
    phase: step.phase,
    interface: name,
    name: step.name,
    title: step.title,
    driver: driver.name,
    args,
    priority,
    interruptible: step.interruptible,
    supportsAbort,
    idempotent: step.idempotent,
    timeoutSeconds: step.timeoutSeconds,
    retries: step.retries?.times ?? 0,
    backoffSeconds: step.retries?.backoffSeconds ?? 0,
    reaches: step.reaches ?? null,
    touches: step.touches ?? null,
    kept: false,
  };
}

async function checkArgs(
  nodeName: string,
  interfaceName: string,
  step: AnyStep,
  args: JsonObject,
  path: readonly string[] = [],
): Promise<{ readonly args: JsonObject } | { readonly refusals: readonly Refusal[] }> {
  if (!step.args) {
    const surplus = Object.keys(args);
    if (surplus.length === 0) return { args: {} };
    return { refusals: [{ code: "INVALID_INPUT", message: `Step ${interfaceName}.${step.name} takes no arguments, and ${surplus.join(", ")} was given.`, path }] };
  }
  const result = await step.args["~standard"].validate(args);
  if (!result.issues) return { args: result.value };
  return {
    refusals: result.issues.map(({ message, path: at }) => ({
      code: "INVALID_INPUT",
      message: `Arguments of step ${interfaceName}.${step.name} for node ${nodeName}: ${message}.`,
      path: [...path, ...(at ?? []).map((part) => String(typeof part === "object" ? part.key : part))],
    })),
  };
}

/**
 * The plan of a restart: a fresh plan, with the steps that need not be done again marked as kept. `done` holds
 * `phase interface.name` of the steps that succeeded before.
 */
export function keepSteps(plan: Plan, done: ReadonlySet<string>): Plan {
  return { ...plan, steps: plan.steps.map((step) => (done.has(stepKey(step)) ? { ...step, kept: true } : step)) };
}

export function stepKey(step: Pick<PlannedStep, "phase" | "interface" | "name">): string {
  return `${step.phase} ${step.interface}.${step.name}`;
}

/** The first step from `from` on that is to be run; the number of steps when there is none. */
export function nextPosition(plan: Plan, from: number): number {
  const found = plan.steps.findIndex((step, index) => index >= from && !step.kept);
  return found < 0 ? plan.steps.length : found;
}

/** `interface.name`, as people and records name a step. */
export function stepLabel(step: Pick<PlannedStep, "interface" | "name"> | undefined): string | null {
  return step ? `${step.interface}.${step.name}` : null;
}
