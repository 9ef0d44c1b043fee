/**
 * The limits of the service: so many runs at work in a phase, so many on one management controller. Which of them a run has to
 * wait for, which places it takes, and what there is of both. A limit is known by its key, as in `phase:clean` or
 * `controller:10.0.0.7`. Turns below them are given by turns.ts.
 */
import type { LegPhase } from "../../lifecycle/verbs.ts";
import type { NewRun } from "../../store/new-runs.ts";
import type { NodeRow } from "../../store/nodes.ts";
import type { LimitedPhase, Plan, SitePolicy } from "../../store/records.ts";

export const LIMITED_PHASES = [
  "verify",
  "inspect",
  "clean",
  "deploy",
  "undeploy",
] as const satisfies readonly LimitedPhase[];

/** The places that a run takes of the service's limits while it is at work in a phase. */
export function slotsOf(
  phase: LegPhase | undefined,
  controller: string | null,
): { readonly slotPhase: LegPhase | null; readonly slotController: string | null } {
  return { slotPhase: phase ?? null, slotController: controller };
}

/** What becomes of a run that is made, or has its turn: it begins, or it is QUEUED, for its turn or for a limit of the service. */
export function waitOf(
  policy: SitePolicy,
  { controller }: Pick<NodeRow, "controller">,
  plan: Plan,
  { isInTurn }: { readonly isInTurn: boolean },
): Pick<NewRun, "state" | "waitFor" | "slotPhase" | "slotController"> {
  const phase = plan.legs[0]?.phase;
  const waitFor = isInTurn ? limitOn(policy, phase, controller) : null;
  if (isInTurn && waitFor === null) return { state: "RUNNING", waitFor, ...slotsOf(phase, controller) };
  return { state: "QUEUED", waitFor, slotPhase: null, slotController: null };
}

/** What a run has to wait for before it begins a phase, phase first; null: nothing limits it. */
export function limitOn(policy: SitePolicy, phase: LegPhase | undefined, controller: string | null): string | null {
  if (phase !== undefined && phase !== "power" && policy.phaseLimits?.[phase] !== undefined) return phaseLimit(phase);
  return controller !== null && policy.controllerLimit !== undefined ? controllerLimit(controller) : null;
}

const CONTROLLER = "controller:";

export function phaseLimit(phase: string): string {
  return `phase:${phase}`;
}

export function controllerLimit(controller: string): string {
  return `${CONTROLLER}${controller}`;
}

/** The limits there are, and those that somebody still waits for: phases first, then controllers, by name. */
export function limitsOf(
  policy: SitePolicy,
  taken: { readonly phases: ReadonlyMap<string, number>; readonly controllers: ReadonlyMap<string, number> },
  waiting: ReadonlyMap<string, number>,
) {
  const isWaitedFor = (key: string) => waiting.has(key);
  const phases = LIMITED_PHASES.filter(
    (phase) => policy.phaseLimits?.[phase] !== undefined || isWaitedFor(phaseLimit(phase)),
  );
  const atControllers = policy.controllerLimit === undefined ? [] : [...taken.controllers.keys()];
  const waitedFor = [...waiting.keys()].flatMap((key) =>
    key.startsWith(CONTROLLER) ? [key.slice(CONTROLLER.length)] : [],
  );
  const controllers = [...new Set([...atControllers, ...waitedFor])].toSorted();
  return [
    ...phases.map((phase) => ({
      key: phaseLimit(phase),
      phase,
      controller: null,
      places: policy.phaseLimits?.[phase] ?? null,
      taken: taken.phases.get(phase) ?? 0,
      waiting: waiting.get(phaseLimit(phase)) ?? 0,
    })),
    ...controllers.map((controller) => {
      const key = controllerLimit(controller);
      return {
        key,
        phase: null,
        controller,
        places: policy.controllerLimit ?? null,
        taken: taken.controllers.get(controller) ?? 0,
        waiting: waiting.get(key) ?? 0,
      };
    }),
  ];
}
