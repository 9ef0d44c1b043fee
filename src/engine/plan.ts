/**
 * From a route and a node's drivers to the list of steps. Pure but for the schemas of arguments, which may be
 * asynchronous. What is planned is what runs: the plan is stored with the run and never changes.
 *
 * Order within a phase: priority descending, then by interface (vendor first, clean last), then as declared
 * (semantics.md, section 5; the order of interfaces is Ironic's).
 */
import type { Refusal } from "../errors.ts";
import type { LegPhase, Route } from "../lifecycle/verbs.ts";
import type { DriverPhase, PowerAction } from "../drivers/driver.ts";
import { INTERFACE_OF_PHASE, stepsOf } from "../drivers/registry.ts";
import type { AnyDriver, AnyStep, Composition, InterfaceName } from "../drivers/registry.ts";
import type { JsonObject, Plan, PlannedStep } from "../store/records.ts";

/** A step asked for by name, in place of the automatic list. */
export interface StepWish {
  readonly interface: InterfaceName;
  readonly name: string;
  readonly args: JsonObject;
}

export interface PlanRequest {
  readonly nodeName: string;
  readonly route: Route;
  readonly composition: Composition;
  /** Replaces the automatic clean list. */
  readonly cleanSteps?: readonly StepWish[] | undefined;
  readonly powerAction?: PowerAction | undefined;
}

export type PlanVerdict = { readonly plan: Plan } | { readonly refusals: readonly Refusal[] };

const INTERFACE_ORDER = ["vendor", "power", "management", "firmware", "deploy", "bios", "raid", "inspect", "clean"];

/** Seconds (semantics.md, section 13). */
const POWER_TIMEOUT = 60;
const SOFT_OFF_TIMEOUT = 600;
const VERIFY_TIMEOUT = 60;

/** Name of the engine's own step for each power action. */
export const POWER_STEPS: Readonly<Record<PowerAction, string>> = { ON: "power_on", OFF: "power_off", SOFT_OFF: "soft_power_off", REBOOT: "reboot" };

const POWER_TITLES: Readonly<Record<PowerAction, string>> = {
  ON: "Power on",
  OFF: "Power off",
  SOFT_OFF: "Shut the system down, then power off",
  REBOOT: "Power off, then on",
};

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
  switch (phase) {
    case "verify":
      return { steps: [ownStep(request.composition, leg, phase, { name: "verify", title: "Check power and credentials", timeoutSeconds: VERIFY_TIMEOUT, idempotent: true })] };
    case "power": {
      const action = request.powerAction ?? "OFF";
      const timeoutSeconds = action === "SOFT_OFF" ? SOFT_OFF_TIMEOUT : POWER_TIMEOUT;
      return { steps: [ownStep(request.composition, leg, phase, { name: POWER_STEPS[action], title: POWER_TITLES[action], timeoutSeconds, idempotent: action !== "REBOOT" })] };
    }
    case "inspect":
    case "deploy":
    case "undeploy":
      return automatic(request, phase, leg);
    case "clean":
      return request.cleanSteps ? explicit(request, request.cleanSteps, leg) : automatic(request, phase, leg);
  }
}

/** A step that the engine itself runs, through the node's power interface. */
function ownStep(
  composition: Composition,
  leg: number,
  phase: LegPhase,
  step: Pick<PlannedStep, "name" | "title" | "timeoutSeconds" | "idempotent">,
): PlannedStep {
  return {
    ...step,
    leg,
    phase,
    interface: "power",
    driver: composition.giver("power")?.name ?? "",
    args: {},
    priority: 0,
    interruptible: "ALWAYS",
    supportsAbort: true,
    retries: 0,
    backoffSeconds: 0,
    reaches: null,
    kept: false,
  };
}

async function automatic({ nodeName, composition }: PlanRequest, phase: DriverPhase, leg: number): Promise<Found> {
  const name = INTERFACE_OF_PHASE[phase];
  const driver = composition.giver(name);
  const offered = driver && stepsOf(driver, name);
  if (!driver || !offered) return { steps: [] };
  const steps: PlannedStep[] = [];
  const refusals: Refusal[] = [];
  for (const step of offered.steps) {
    if (step.phase !== phase || step.priority <= 0) continue;
    const checked = await checkArgs(nodeName, name, step, {});
    if ("refusals" in checked) refusals.push(...checked.refusals);
    else steps.push(planned(driver, name, step, leg, checked.args, offered.supportsAbort));
  }
  return refusals.length > 0 ? { refusals } : { steps: inOrder(steps) };
}

async function explicit({ nodeName, composition }: PlanRequest, wishes: readonly StepWish[], leg: number): Promise<Found> {
  const steps: PlannedStep[] = [];
  const refusals: Refusal[] = [];
  for (const [index, wish] of wishes.entries()) {
    const driver = composition.giver(wish.interface);
    const offered = driver && stepsOf(driver, wish.interface);
    const step = offered?.steps.find(({ name, phase }) => name === wish.name && phase === "clean");
    if (!driver || !offered || !step) {
      const known = offered?.steps.filter(({ phase }) => phase === "clean").map(({ name }) => name) ?? [];
      refusals.push({
        code: "INVALID_INPUT",
        message: `Node ${nodeName} has no clean step ${wish.interface}.${wish.name}; it has ${known.join(", ") || "none there"}.`,
        path: ["input", "steps", String(index), "name"],
      });
      continue;
    }
    const checked = await checkArgs(nodeName, wish.interface, step, wish.args, ["input", "steps", String(index), "args"]);
    if ("refusals" in checked) refusals.push(...checked.refusals);
    else steps.push(planned(driver, wish.interface, step, leg, checked.args, offered.supportsAbort));
  }
  return refusals.length > 0 ? { refusals } : { steps };
}

function planned(driver: AnyDriver, name: InterfaceName, step: AnyStep, leg: number, args: JsonObject, supportsAbort: boolean): PlannedStep {
  return {
    leg,
    phase: step.phase,
    interface: name,
    name: step.name,
    title: step.title,
    driver: driver.name,
    args,
    priority: step.priority,
    interruptible: step.interruptible,
    supportsAbort,
    idempotent: step.idempotent,
    timeoutSeconds: step.timeoutSeconds,
    retries: step.retries?.times ?? 0,
    backoffSeconds: step.retries?.backoffSeconds ?? 0,
    reaches: step.reaches ?? null,
    kept: false,
  };
}

function inOrder(steps: readonly PlannedStep[]): readonly PlannedStep[] {
  return steps.toSorted((a, b) => b.priority - a.priority || INTERFACE_ORDER.indexOf(a.interface) - INTERFACE_ORDER.indexOf(b.interface));
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
