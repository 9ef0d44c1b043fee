/**
 * From a route and a node's drivers to the list of steps. Pure but for the schemas of arguments, which may be
 * asynchronous. What is planned is what runs: the plan is stored with the run and never changes.
 *
 * Order within a phase: priority descending, then by interface (vendor first, clean last), then as declared
 * (docs/rules.md, section Steps; the order of interfaces is Ironic's). A site may set other priorities, forbid steps, and switch
 * automatic cleaning off.
 */
import type { Refusal } from "../../errors.ts";
import type { LegPhase, Route } from "../../lifecycle/verbs.ts";
import type { DriverPhase, PowerAction } from "../../drivers/driver.ts";
import { plainIssues, validate } from "../../drivers/issues.ts";
import { INTERFACE_OF_PHASE, stepsOf } from "../../drivers/registry.ts";
import type { AnyDriver, AnyStep, Composition, InterfaceName } from "../../drivers/registry.ts";
import type { JsonObject, Plan, PlannedStep, SitePolicy, StepChoice, StepPolicy } from "../../store/records.ts";
import {
  ENGINE_INTERFACE,
  HOLD_STEP,
  POWER_STEPS,
  POWER_TITLES,
  SOFT_OFF_TIMEOUT,
  isReserved,
  reservedFlaws,
} from "./reserved-steps.ts";
import { sizeFlaws } from "../input/size-limits.ts";
import { isJsonObject } from "../input/variables.ts";

export interface PlanRequest {
  readonly nodeName: string;
  readonly route: Route;
  readonly composition: Composition;
  readonly policy: SitePolicy;
  /** Whether automatic clean steps run on this node. */
  readonly automaticCleaning: boolean;
  /** Replaces the automatic list of one phase. `path` leads to the list in the request; absent: the request does not hold it. */
  readonly chosen?:
    | { readonly phase: LegPhase; readonly steps: readonly StepChoice[]; readonly path?: readonly string[] | undefined }
    | undefined;
  readonly powerAction?: PowerAction | undefined;
  /** How long a soft power off waits for the system. */
  readonly softTimeoutSeconds?: number | undefined;
}

export type PlanVerdict = { readonly plan: Plan } | { readonly refusals: readonly Refusal[] };

const INTERFACE_ORDER = ["vendor", "power", "management", "firmware", "deploy", "bios", "raid", "inspect", "clean"];

/** Seconds (docs/rules.md, section Timeouts). */
const POWER_TIMEOUT = 60;
const VERIFY_TIMEOUT = 60;
/** A reserved wait lasts as long as it says; this is for the way there and back. */
const WAIT_MARGIN = 60;
/** Holds never time out: this is past the life of the machine, and a date that every database can hold. */
const HOLD_TIMEOUT = 100 * 365 * 86_400;
/** Steps in a list that somebody wrote. */
const CHOICES_MAX = 100;

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
  if (request.chosen?.phase === phase) return explicit(request, request.chosen, phase, leg);
  switch (phase) {
    case "verify":
      return {
        steps: [
          ownStep(leg, phase, powerOwner(request.composition), {
            name: "verify",
            title: "Check power and credentials",
            timeoutSeconds: VERIFY_TIMEOUT,
            idempotent: true,
          }),
        ],
      };
    case "power":
      return {
        steps: [powerStep(request.composition, leg, phase, request.powerAction ?? "OFF", request.softTimeoutSeconds)],
      };
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
  return {
    args: {},
    ...step,
    ...owner,
    leg,
    phase,
    priority: 0,
    interruptible: "ALWAYS",
    supportsAbort: true,
    retries: 0,
    backoffSeconds: 0,
    reaches: null,
    touches: [],
    kept: false,
  };
}

function powerOwner(composition: Composition): Pick<PlannedStep, "interface" | "driver"> {
  return { interface: "power", driver: composition.giver("power")?.name ?? "" };
}

function powerStep(
  composition: Composition,
  leg: number,
  phase: LegPhase,
  action: PowerAction,
  softTimeoutSeconds = SOFT_OFF_TIMEOUT,
): PlannedStep {
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
  PRIORITY: "The declared priority is 0: the step runs only if requested by name.",
  SITE_PRIORITY: "The site's policy sets the priority to 0.",
  FORBIDDEN: "The site's policy forbids the step, even if requested by name.",
  CLEANING_OFF: "Automatic cleaning is disabled for the node or the site; `cleanNodes` runs the step anyway.",
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
export function catalogueOf(
  { composition, policy, automaticCleaning }: Pick<PlanRequest, "composition" | "policy" | "automaticCleaning">,
  phase: DriverPhase,
): readonly CatalogueEntry[] {
  const name = INTERFACE_OF_PHASE[phase];
  const driver = composition.giver(name);
  const offered = driver && stepsOf(driver, name);
  if (!driver || !offered) return [];
  const entries = offered.steps
    .filter((step) => step.phase === phase)
    .map((step): CatalogueEntry => {
      const said = policyOn(policy, driver, name, step);
      const priority = said.priority ?? step.priority;
      const off = offReason({
        forbidden: said.forbidden ?? false,
        priority,
        isSites: said.priority !== undefined,
        isCleaningOff: phase === "clean" && !automaticCleaning,
      });
      return { driver, interface: name, step, supportsAbort: offered.supportsAbort, priority, off };
    });
  return [
    ...entries.filter(({ off }) => off === null).toSorted(runningOrder),
    ...entries.filter(({ off }) => off !== null),
  ];
}

function offReason({
  forbidden,
  priority,
  isSites,
  isCleaningOff,
}: {
  readonly forbidden: boolean;
  readonly priority: number;
  readonly isSites: boolean;
  readonly isCleaningOff: boolean;
}): OffReason | null {
  if (forbidden) return "FORBIDDEN";
  if (priority <= 0) return isSites ? "SITE_PRIORITY" : "PRIORITY";
  return isCleaningOff ? "CLEANING_OFF" : null;
}

/** Which of two steps runs first: negative for `a`, 0 where the order of their declaration decides. */
export function runningOrder(
  a: { readonly priority: number; readonly interface: string },
  b: { readonly priority: number; readonly interface: string },
): number {
  return b.priority - a.priority || INTERFACE_ORDER.indexOf(a.interface) - INTERFACE_ORDER.indexOf(b.interface);
}

/** What the site says of a step. Member by member its word on one driver outranks that on all. */
function policyOn(
  policy: SitePolicy,
  driver: AnyDriver,
  interfaceName: InterfaceName,
  step: AnyStep,
): Pick<StepPolicy, "priority" | "forbidden"> {
  const label = `${interfaceName}.${step.name}`;
  const said = (policy.steps ?? []).filter((one) => one.step === label);
  const own = said.find((one) => one.driver === driver.name);
  const general = said.find((one) => one.driver === undefined);
  const priority = own?.priority ?? general?.priority;
  const forbidden = own?.forbidden ?? general?.forbidden;
  return { ...(priority !== undefined && { priority }), ...(forbidden !== undefined && { forbidden }) };
}

async function automatic(request: PlanRequest, phase: DriverPhase, leg: number): Promise<Found> {
  const steps: PlannedStep[] = [];
  const refusals: Refusal[] = [];
  for (const entry of catalogueOf(request, phase).filter(({ off }) => off === null)) {
    const checked = await checkArgs(entry.step, {});
    if ("args" in checked) steps.push(planned(entry, leg, checked.args));
    else refusals.push(needsArguments(request.nodeName, entry, checked.issues));
  }
  return refusals.length > 0 ? { refusals } : { steps };
}

/** A step that somebody gave a priority though it cannot run without being told how. */
function needsArguments(
  nodeName: string,
  { driver, interface: name, step, priority }: CatalogueEntry,
  issues: readonly ArgumentIssue[],
): Refusal {
  const label = `${name}.${step.name}`;
  const why = `Node ${nodeName} cannot run ${label} of driver ${driver.name} by itself, though its priority is ${priority}: it needs arguments (${issues.map(issueText).join("; ")}).`;
  return { code: "INVALID_INPUT", message: `${why} Set its priority to 0 with updateSite, and ask for it by name.` };
}

// ---- chosen steps

/** Whether a list that somebody wrote may be so long, and so large. */
export function lengthFlaws(steps: readonly StepChoice[], path: readonly string[]): Refusal[] {
  if (steps.length === 0)
    return [{ code: "INVALID_INPUT", message: "An empty list of steps does nothing; name at least one step.", path }];
  if (steps.length > CHOICES_MAX)
    return [
      {
        code: "INVALID_INPUT",
        message: `A list has at most ${CHOICES_MAX} steps, and ${steps.length} were given.`,
        path,
      },
    ];
  return sizeFlaws("The list of steps, with their arguments,", steps, path);
}

/** What is wrong with a chosen step whatever the node. `where` begins the messages. */
export function formFlaws(choice: StepChoice, path: readonly string[] | undefined, where: string): Refusal[] {
  const invalid = (at: readonly string[], what: string): Refusal => ({
    code: "INVALID_INPUT",
    message: `${where}: ${what}`,
    ...(path && { path: [...path, ...at] }),
  });
  if (!isJsonObject(choice.args)) return [invalid(["args"], "its arguments are a JSON object, from name to value.")];
  return isReserved(choice) ? reservedFlaws(choice).map(({ at, what }) => invalid(at, what)) : [];
}

async function explicit(
  request: PlanRequest,
  { steps: choices, path }: NonNullable<PlanRequest["chosen"]>,
  phase: LegPhase,
  leg: number,
): Promise<Found> {
  const found = await Promise.all(
    choices.map((choice, index) => chosenStep(request, choice, phase, leg, path && [...path, String(index)])),
  );
  const refusals = found.flatMap((one) => ("refusals" in one ? one.refusals : []));
  return refusals.length > 0 ? { refusals } : { steps: found.flatMap((one) => ("steps" in one ? one.steps : [])) };
}

async function chosenStep(
  request: PlanRequest,
  choice: StepChoice,
  phase: LegPhase,
  leg: number,
  path: readonly string[] | undefined,
): Promise<Found> {
  const where = `Step ${stepLabel(choice)} on node ${request.nodeName}`;
  const flaws = formFlaws(choice, path, where);
  if (flaws.length > 0) return { refusals: flaws };
  if (isReserved(choice)) return { steps: [reserved(request, choice, phase, leg)] };
  const invalid = (at: readonly string[], what: string): Refusal => ({
    code: "INVALID_INPUT",
    message: `${where}: ${what}`,
    ...(path && { path: [...path, ...at] }),
  });
  const offers = phase === "verify" || phase === "power" ? [] : catalogueOf(request, phase);
  const entry = offers.find(({ interface: name, step }) => name === choice.interface && step.name === choice.name);
  if (!entry) {
    const known = offers.map(({ interface: name, step }) => `${name}.${step.name}`);
    return {
      refusals: [
        invalid(["name"], `its drivers offer no such ${phase} step; they offer ${known.join(", ") || "none"}.`),
      ],
    };
  }
  if (entry.off === "FORBIDDEN")
    return {
      refusals: [
        invalid(["name"], "the site's policy forbids it; leave it out, or change the policy with updateSite."),
      ],
    };
  const checked = await checkArgs(entry.step, choice.args);
  if ("args" in checked) return { steps: [planned(entry, leg, checked.args)] };
  return { refusals: checked.issues.map(({ at, what }) => invalid(["args", ...at], `${issueText({ at, what })}.`)) };
}

/** A reserved step whose form has been found good. */
function reserved(
  { composition }: PlanRequest,
  { interface: from, name, args }: StepChoice,
  phase: LegPhase,
  leg: number,
): PlannedStep {
  if (from === "power") {
    const action = (Object.keys(POWER_STEPS) as PowerAction[]).find((one) => POWER_STEPS[one] === name) ?? "OFF";
    return powerStep(composition, leg, phase, action, Number(args["timeoutSeconds"] ?? SOFT_OFF_TIMEOUT));
  }
  const owner = { interface: ENGINE_INTERFACE, driver: "ostler" };
  if (name === HOLD_STEP) {
    const reason = args["reason"] ?? null;
    return ownStep(leg, phase, owner, {
      name,
      title: "Hold until somebody lifts it",
      timeoutSeconds: HOLD_TIMEOUT,
      idempotent: true,
      args: reason === null ? {} : { reason },
    });
  }
  const seconds = Number(args["seconds"]);
  return ownStep(leg, phase, owner, {
    name,
    title: `Wait ${seconds} s`,
    timeoutSeconds: seconds + WAIT_MARGIN,
    idempotent: true,
    args: { seconds },
  });
}

function planned(
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
    kept: false,
  };
}

/** What is wrong with one argument: which, and what. */
export interface ArgumentIssue {
  readonly at: readonly string[];
  readonly what: string;
}

export function issueText({ at, what }: ArgumentIssue): string {
  return at.length === 0 ? what : `${at.join(".")}: ${what}`;
}

/** Checks arguments against the step's declaration; answers them as the step is to get them, or every flaw. */
export async function checkArgs(
  step: AnyStep,
  args: JsonObject,
): Promise<{ readonly args: JsonObject } | { readonly issues: readonly ArgumentIssue[] }> {
  if (!step.args) {
    const surplus = Object.keys(args);
    return surplus.length === 0
      ? { args: {} }
      : { issues: surplus.map((key) => ({ at: [key], what: "this step takes no arguments" })) };
  }
  const result = await validate(step.args, args);
  if (!result.issues) return { args: result.value };
  return {
    issues: plainIssues(step.args, args, result.issues).map(({ path, message }) => ({ at: path, what: message })),
  };
}

/**
 * The plan of a restart: a fresh plan, with the steps that need not be done again marked as kept. `done` holds the keys
 * (`keysOf`) of the steps that succeeded before.
 */
export function keepSteps(plan: Plan, done: ReadonlySet<string>): Plan {
  const keys = keysOf(plan);
  return {
    ...plan,
    steps: plan.steps.map((step, index) => (done.has(keys[index] ?? "") ? { ...step, kept: true } : step)),
  };
}

/**
 * What each step of a plan is known by from one plan to the next: `phase interface.name`, and its number among those of
 * the same name, because a list that somebody wrote may hold a step (a reboot, say) several times.
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

/** The first step from `from` on that is to be run; the number of steps when there is none. */
export function nextPosition(plan: Plan, from: number): number {
  const found = plan.steps.findIndex((step, index) => index >= from && !step.kept);
  return found < 0 ? plan.steps.length : found;
}

/** `interface.name`, as people and records name a step. */
export function stepLabel(step: Pick<PlannedStep, "interface" | "name"> | undefined): string | null {
  return step ? `${step.interface}.${step.name}` : null;
}
