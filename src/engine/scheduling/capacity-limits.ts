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

/** The limit that a run waits for before it enters a phase, the phase's first; null if there is no limit. */
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

/** The configured limits, and those for which runs still wait: phases first, then controllers, by name. */
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
