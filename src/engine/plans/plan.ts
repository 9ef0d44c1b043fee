/**
 * From a route and a node's drivers to a list of steps. Pure, except for the schemas of arguments, which may be
 * asynchronous. The plan is stored with the run and never changes; exactly its steps run.
 */
import { outputsOf } from "../../drivers/variables.ts";
import { messageOf } from "../../errors.ts";
import type { Refusal, Refused } from "../../errors.ts";
import type { LegPhase, PowerChange, Route } from "../../lifecycle/verbs.ts";
import type { DriverPhase } from "../../drivers/driver.ts";
import type { AddressRules } from "../../drivers/address-settings.ts";
import { setsPower } from "../../drivers/registry.ts";
import type { Composition } from "../../drivers/registry.ts";
import type { JsonObject, Plan, PlannedStep, StepChoice, VerbOptions } from "../../store/records.ts";
import { catalogueOf, checkArgs, issueText } from "./catalogue.ts";
import type { ArgumentIssue, CatalogueBasis, CatalogueEntry } from "./catalogue.ts";
import {
  BOOT_STEP,
  BOOT_TITLE,
  ENGINE_INTERFACE,
  HOLD_STEP,
  HOLD_TITLE,
  POWER_STEPS,
  POWER_TITLES,
  SOFT_OFF_TIMEOUT,
  VERIFY_STEP,
  WAIT_STEP,
  isReserved,
  powerChangeOf,
  shutsDown,
} from "./reserved-steps.ts";
import { formFlaws, stepFlaw } from "./step-selection.ts";

export interface PlanRequest extends CatalogueBasis {
  readonly nodeName: string;
  readonly route: Route;
  /** The rules for addresses in the arguments of the chosen list; absent: none. */
  readonly rules?: AddressRules;
  /** The node is in maintenance: its machine may be broken, and is cleaned only if it answers. */
  readonly inMaintenance?: boolean;
  /** Replaces the automatic list of one phase. */
  readonly chosen?: ChosenList | undefined;
  /** Options of a change of power or boot device. */
  readonly options?: Pick<VerbOptions, "powerAction" | "softTimeoutSeconds" | "bootDevice">;
}

export interface ChosenList {
  readonly phase: LegPhase;
  readonly steps: readonly StepChoice[];
  /** The runbook that has the steps; absent or null: none. */
  readonly runbook?: string | null;
  /** Path of the list in the request; absent if the request does not contain it. */
  readonly path?: readonly string[] | undefined;
}

type PlanVerdict = { readonly plan: Plan } | Refused;

/** Seconds (docs/rules/timeouts.md). */
const POWER_TIMEOUT = 60;
/** With a BMC that restarts. */
const VERIFY_TIMEOUT = 360;
/** Added to the duration of a reserved wait, which would otherwise time out at its end. */
const WAIT_MARGIN = 60;
/** Holds never time out: this is longer than the life of a machine, and its date fits every database. */
const HOLD_TIMEOUT = 100 * 365 * 86_400;

export async function planSteps(request: PlanRequest): Promise<PlanVerdict> {
  const { route, composition, chosen, inMaintenance = false } = request;
  const ofLegs = await Promise.all(
    route.legs.map(async ({ phase }, leg): Promise<Found> => {
      const found = await stepsOfLeg(request, { leg, phase });
      if (!inMaintenance || phase !== "clean" || "refusals" in found || found.steps.length === 0) return found;
      const before = route.legs[leg - 1];
      const at = before ? { leg: leg - 1, phase: before.phase } : { leg, phase };
      return { steps: [verification(composition, at, PATIENT), ...found.steps] };
    }),
  );
  const planned = joined(ofLegs);
  if ("refusals" in planned) return planned;
  const { legs, finish, bestEffort } = route;
  const isChosen = chosen?.phase === "deploy" && legs.some(({ phase }) => phase === "deploy");
  const keepsPower = !setsPower(composition);
  return {
    plan: {
      legs,
      finish,
      bestEffort,
      ...(inMaintenance && { inMaintenance }),
      ...(isChosen && { chosen: { runbook: chosen.runbook ?? null } }),
      ...(keepsPower && { keepsPower }),
      steps: withOneInstaller(planned.steps),
    },
  };
}

/** Of several drivers that deploy, the one whose step is the first to reach PROVISIONED installs the system. */
function withOneInstaller(steps: readonly PlannedStep[]): readonly PlannedStep[] {
  const installer = steps.find(({ reaches }) => reaches !== null)?.driver;
  return steps.map((step) => (step.driver === installer || step.reaches === null ? step : { ...step, reaches: null }));
}

/** A BMC that restarts is not one that is broken. */
const PATIENT = { retries: 3, backoffSeconds: 20 } as const;

function verification(composition: Composition, leg: Leg, retries: Partial<typeof PATIENT> = {}): PlannedStep {
  return engineStep(leg, powerOwner(composition), {
    name: VERIFY_STEP,
    title: "Check power and credentials",
    timeoutSeconds: VERIFY_TIMEOUT,
    ...retries,
  });
}

type Found = { readonly steps: readonly PlannedStep[] } | Refused;

/** The steps of all, or all refusals. */
function joined(all: readonly Found[]): Found {
  const refusals = all.flatMap((one) => ("refusals" in one ? one.refusals : []));
  return refusals.length > 0 ? { refusals } : { steps: all.flatMap((one) => ("steps" in one ? one.steps : [])) };
}

/** A leg of the route: its index and its phase. */
type Leg = Pick<PlannedStep, "leg" | "phase">;

async function stepsOfLeg(request: PlanRequest, leg: Leg): Promise<Found> {
  const { composition, chosen } = request;
  if (chosen?.phase === leg.phase) return chosenSteps(request, chosen, leg);
  switch (leg.phase) {
    case "verify":
      return { steps: [verification(composition, leg)] };
    case "power":
      return { steps: [stepOfVerb(request, leg)] };
    default:
      return automaticSteps(request, leg.phase, leg.leg);
  }
}

/** A step that the engine performs. */
function engineStep(
  leg: Leg,
  owner: Pick<PlannedStep, "interface" | "driver">,
  step: Pick<PlannedStep, "name" | "title" | "timeoutSeconds"> &
    Partial<Pick<PlannedStep, "args" | "idempotent" | "retries" | "backoffSeconds">>,
): PlannedStep {
  return {
    args: {},
    idempotent: true,
    retries: 0,
    backoffSeconds: 0,
    ...step,
    ...owner,
    ...leg,
    priority: 0,
    interruptible: "ALWAYS",
    supportsAbort: true,
    reaches: null,
    touches: [],
    kept: false,
  };
}

function powerOwner(composition: Composition): Pick<PlannedStep, "interface" | "driver"> {
  return { interface: "power", driver: composition.giver("power")?.name ?? "" };
}

/** The only step of a change of power or boot device. */
function stepOfVerb({ composition, options = {} }: PlanRequest, leg: Leg): PlannedStep {
  const { powerAction = "OFF", softTimeoutSeconds, bootDevice } = options;
  return bootDevice
    ? bootStep(composition, leg, bootDevice)
    : powerStep(composition, leg, powerAction, softTimeoutSeconds);
}

function powerStep(
  composition: Composition,
  leg: Leg,
  change: PowerChange,
  softTimeoutSeconds = SOFT_OFF_TIMEOUT,
): PlannedStep {
  const waits = shutsDown(change);
  const changes = change === "SOFT_REBOOT" ? 2 : 1;
  return engineStep(leg, powerOwner(composition), {
    name: POWER_STEPS[change],
    title: POWER_TITLES[change],
    timeoutSeconds: (waits ? softTimeoutSeconds : 0) + changes * POWER_TIMEOUT,
    idempotent: change !== "REBOOT" && change !== "SOFT_REBOOT",
    args: waits ? { timeoutSeconds: softTimeoutSeconds } : {},
  });
}

function bootStep(composition: Composition, leg: Leg, { device, persistent = false, mode }: JsonObject): PlannedStep {
  return engineStep(leg, powerOwner(composition), {
    name: BOOT_STEP,
    title: BOOT_TITLE,
    timeoutSeconds: POWER_TIMEOUT,
    args: { device: device ?? null, persistent, ...(mode != null && { mode }) },
  });
}

// ---- automatic steps

async function automaticSteps(request: PlanRequest, phase: DriverPhase, leg: number): Promise<Found> {
  // A node that is inspected in place, in service, is not restarted.
  const isInPlace = phase === "inspect" && request.route.legs[leg]?.enter.length === 0;
  const runs = ({ off, driver }: CatalogueEntry) => off === null && (!isInPlace || driver.inspect?.withoutReboot);
  const found = catalogueOf(request, phase)
    .filter(runs)
    .map(async (entry): Promise<Found> => {
      const checked = await checkArgs(entry.step, {});
      if ("args" in checked) return driverStep(request.nodeName, entry, leg, checked.args);
      return { refusals: [needsArguments(request.nodeName, entry, checked.issues)] };
    });
  return joined(await Promise.all(found));
}

/** The refusal for a step that has a priority but cannot run without arguments. */
function needsArguments(
  nodeName: string,
  { driver, interface: name, step, priority }: CatalogueEntry,
  issues: readonly ArgumentIssue[],
): Refusal {
  const label = `${name}.${step.name}`;
  const why = `Node ${nodeName} cannot run ${label} of driver ${driver.name} automatically, although its priority is ${priority}: it needs arguments (${issues.map(issueText).join("; ")}).`;
  return { code: "INVALID_INPUT", message: `${why} Set its priority to 0 with updateSite, and request it by name.` };
}

function driverStep(nodeName: string, entry: CatalogueEntry, leg: number, args: JsonObject): Found {
  const { driver, interface: name, step } = entry;
  try {
    const revision = driver.revision?.();
    return { steps: [{ ...plannedStep(entry, leg, args), ...(revision !== undefined && { revision }) }] };
  } catch (error) {
    const message = `Node ${nodeName} cannot run ${name}.${step.name} of driver ${driver.name}: ${messageOf(error)}`;
    return { refusals: [{ code: "UNSUPPORTED_BY_DRIVER", message }] };
  }
}

function plannedStep(
  { driver, interface: name, step, supportsAbort, priority }: CatalogueEntry,
  leg: number,
  args: JsonObject,
): PlannedStep {
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
    ...(step.worksAlone && { worksAlone: true }),
    ...(step.repeatOnRestart && { repeatOnRestart: true }),
    ...(step.erases && { erases: true }),
    ...(step.outputs && { outputs: outputsOf(step.outputs) }),
    kept: false,
  };
}

// ---- chosen steps

async function chosenSteps(request: PlanRequest, { steps: choices, path }: ChosenList, leg: Leg): Promise<Found> {
  const found = choices.map((choice, index) => chosenStep(request, choice, leg, path && [...path, String(index)]));
  return joined(await Promise.all(found));
}

async function chosenStep(
  request: PlanRequest,
  choice: StepChoice,
  leg: Leg,
  path: readonly string[] | undefined,
): Promise<Found> {
  const where = `Step ${stepLabel(choice)} on node ${request.nodeName}`;
  const flaws = formFlaws(choice, path, where);
  if (flaws.length > 0) return { refusals: flaws };
  const invalid = (at: readonly string[], what: string) => ({ refusals: [stepFlaw(where, path, at, what)] });
  if (isReserved(choice)) {
    const owner = request.composition.giver("power");
    const givers = request.composition.givers("power");
    if (choice.name === BOOT_STEP && !givers.some(({ power }) => power.setBootDevice))
      return invalid(["name"], `driver ${owner?.name ?? "none"} cannot set the boot device.`);
    if (powerChangeOf(choice) && !setsPower(request.composition))
      return invalid(["name"], `driver ${owner?.name ?? "none"} cannot change the power.`);
    return { steps: [reservedStepOf(request, choice, leg)] };
  }
  const { phase } = leg;
  const offers = phase === "verify" || phase === "power" ? [] : catalogueOf(request, phase);
  const entry = offers.find(({ interface: name, step }) => name === choice.interface && step.name === choice.name);
  if (!entry) {
    const known = offers.map(({ interface: name, step }) => `${name}.${step.name}`).join(", ") || "none";
    return invalid(["name"], `its drivers offer no such ${phase} step; they offer ${known}.`);
  }
  if (entry.off === "FORBIDDEN")
    return invalid(["name"], "the site's policy forbids it. Leave it out, or change the policy with updateSite.");
  const checked = await checkArgs(entry.step, choice.args, request.rules);
  if ("args" in checked) return driverStep(request.nodeName, entry, leg.leg, checked.args);
  return joined(checked.issues.map((issue) => invalid(["args", ...issue.at], `${issueText(issue)}.`)));
}

/** A reserved step, whose form has been checked. */
function reservedStepOf(
  { composition }: PlanRequest,
  { interface: from, name, args }: StepChoice,
  leg: Leg,
): PlannedStep {
  const change = powerChangeOf({ name });
  if (change) return powerStep(composition, leg, change, Number(args["timeoutSeconds"] ?? SOFT_OFF_TIMEOUT));
  if (name === BOOT_STEP) return bootStep(composition, leg, args);
  const owner = { interface: ENGINE_INTERFACE, driver: "ostler" };
  if (name === HOLD_STEP) {
    const reason = args["reason"] ?? null;
    return engineStep(leg, owner, {
      name,
      title: HOLD_TITLE,
      timeoutSeconds: HOLD_TIMEOUT,
      args: reason === null ? {} : { reason },
    });
  }
  if (name !== WAIT_STEP) throw new Error(`The plan has no step for the reserved step ${from}.${name}.`);
  const seconds = Number(args["seconds"]);
  return engineStep(leg, owner, {
    name,
    title: `Wait ${seconds} s`,
    timeoutSeconds: seconds + WAIT_MARGIN,
    args: { seconds },
  });
}

// ---- plans that exist

/** The plan of a restart: a fresh plan whose steps are marked as kept if their keys (`keysOf`) are in `done`. */
export function keepSteps(plan: Plan, done: ReadonlySet<string>): Plan {
  const keys = keysOf(plan);
  return {
    ...plan,
    steps: plan.steps.map((step, index) => (done.has(keys[index] ?? "") ? { ...step, kept: true } : step)),
  };
}

/** The step that installs a system; undefined if the plan keeps the installed system or deploys nothing. */
export function installStepOf({ steps }: Plan): PlannedStep | undefined {
  return steps.find(({ kept, reaches }) => !kept && reaches === "PROVISIONED");
}

/** Keys of the deploy steps that have led to the installed system of a node at stage PROVISIONED. */
export function installedSteps(plan: Plan): ReadonlySet<string> {
  const installs = plan.steps.findIndex(({ reaches }) => reaches === "PROVISIONED");
  return new Set(keysOf(plan).filter((_, index) => index <= installs && plan.steps[index]?.phase === "deploy"));
}

/**
 * The key of each step, by which two plans are compared: `phase interface.name`, with a number if a list contains a
 * step, such as a reboot, several times.
 */
export function keysOf(plan: Plan): readonly string[] {
  const seen = new Map<string, number>();
  return plan.steps.map(({ phase, interface: from, name }) => {
    const key = `${phase} ${from}.${name}`;
    const number = (seen.get(key) ?? 0) + 1;
    seen.set(key, number);
    return number === 1 ? key : `${key} ${number}`;
  });
}

/** Index of the first step from `from` on that is to be performed; the number of steps if there is none. */
export function nextPosition(plan: Plan, from: number): number {
  const found = plan.steps.findIndex((step, index) => index >= from && !step.kept);
  return found < 0 ? plan.steps.length : found;
}

/** `interface.name`, the name of a step in records and for users. */
export function stepLabel(step: Pick<PlannedStep, "interface" | "name"> | undefined): string | null {
  return step ? `${step.interface}.${step.name}` : null;
}
