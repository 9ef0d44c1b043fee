/**
 * The capacity limits of the site: a maximum of runs in a phase, and of runs on one management controller. Which limit
 * a run has to wait for, which slots it takes, and the state of all limits. A limit has a key, as in `phase:clean` or
 * `controller:10.0.0.7`. slot-scheduler.ts grants the slots.
 */
import type { LegPhase } from "../../lifecycle/verbs.ts";
import type { NewRun } from "../../store/runs/new-runs.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { LimitedPhase, Plan, SitePolicy } from "../../store/records.ts";

export const LIMITED_PHASES = [
  "verify",
  "inspect",
  "clean",
  "deploy",
  "undeploy",
] as const satisfies readonly LimitedPhase[];

/** The slots that a run takes while it performs the steps of a phase. */
export function slotsOf(
  phase: LegPhase | undefined,
  controller: string | null,
): { readonly slotPhase: LegPhase | null; readonly slotController: string | null } {
  return { slotPhase: phase ?? null, slotController: controller };
}

/**
 * The wait of a QUEUED run. `mayStart`: whether its wave and `maxParallel` allow it to start. A run that may start
 * waits for a slot if the site limits it, or else, with its slots taken, for a worker.
 */
export function waitOf(
  policy: SitePolicy,
  { controller }: Pick<NodeRow, "controller">,
  plan: Plan,
  { mayStart }: { readonly mayStart: boolean },
): Pick<NewRun, "waitReason" | "waitFor" | "slotPhase" | "slotController"> {
  const phase = plan.legs[0]?.phase;
  const waitFor = mayStart ? limitOn(policy, phase, controller) : null;
  if (mayStart && waitFor === null) return { waitReason: "CONCURRENCY", waitFor, ...slotsOf(phase, controller) };
  return { waitReason: null, waitFor, slotPhase: null, slotController: null };
}

/** The limits below which a run takes a slot before it enters a phase, the phase's first. */
export function limitsFor(phase: LegPhase | undefined, controller: string | null): readonly string[] {
  return [
    ...(phase === undefined ? [] : [phaseLimit(phase)]),
    ...(controller === null ? [] : [`${CONTROLLER}${controller}`]),
  ];
}

/** The limit that a run waits for before it enters a phase; null if there is no limit. */
export function limitOn(policy: SitePolicy, phase: LegPhase | undefined, controller: string | null): string | null {
  return limitsFor(phase, controller).find((key) => placesBelow(policy, key) !== null) ?? null;
}

const PHASE = "phase:";
const CONTROLLER = "controller:";

function phaseLimit(phase: string): string {
  return `${PHASE}${phase}`;
}

function isOfController(key: string): boolean {
  return key.startsWith(CONTROLLER);
}

/** The configured number of slots; null if there is no limit. */
export function placesBelow(policy: SitePolicy, key: string): number | null {
  const { controllerLimit, phaseLimits = {} } = policy;
  return (isOfController(key) ? controllerLimit : phaseLimits[key.slice(PHASE.length) as LimitedPhase]) ?? null;
}

/** Slots that are taken in phases and on controllers. */
export interface TakenSlots {
  readonly phases: ReadonlyMap<string, number>;
  readonly controllers: ReadonlyMap<string, number>;
}

/** The number of slots that are taken below each limit. */
export function takenBelow({ phases, controllers }: TakenSlots): Map<string, number> {
  return new Map([
    ...[...phases].map(([phase, count]) => [phaseLimit(phase), count] as const),
    ...[...controllers].map(([name, count]) => [`${CONTROLLER}${name}`, count] as const),
  ]);
}

/** The configured limits, and those for which runs still wait: phases first, then controllers, by name. */
export function limitsOf(policy: SitePolicy, slots: TakenSlots, waiting: ReadonlyMap<string, number>) {
  const taken = takenBelow(slots);
  const controllers = new Set([...taken.keys(), ...waiting.keys()].filter(isOfController));
  return [...LIMITED_PHASES.map(phaseLimit), ...[...controllers].toSorted()]
    .filter((key) => placesBelow(policy, key) !== null || waiting.has(key))
    .map((key) => ({
      key,
      phase: LIMITED_PHASES.find((phase) => phaseLimit(phase) === key) ?? null,
      controller: isOfController(key) ? key.slice(CONTROLLER.length) : null,
      places: placesBelow(policy, key),
      taken: taken.get(key) ?? 0,
      waiting: waiting.get(key) ?? 0,
    }));
}
