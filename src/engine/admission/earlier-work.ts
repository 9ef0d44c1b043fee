/**
 * The part of earlier work that a restart takes up, and whether the restart is accepted. Pure: the caller reads the
 * rows.
 */
import { nodeRefusal } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import type { NodeFacts } from "../../lifecycle/admission.ts";
import type { Stage } from "../../lifecycle/cluster-state.ts";
import { touchesOf } from "../../lifecycle/touches.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import type { Plan, PlannedStep } from "../../store/records.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import type { KnownNode } from "../input/node-selector.ts";
import { keysOf } from "../plans/plan.ts";
import { isReserved, isReservedPower, leavesOff } from "../plans/reserved-steps.ts";
import { routeFor } from "./plan-nodes.ts";
import type { EarlierWork } from "./submission.ts";

/** How much of the earlier work a restart keeps. */
export const RESTART_FROM = {
  STAGE:
    "Keep the stage reached: an installed operating system is not installed again. The steps of the unfinished stage run again, except for erasures that succeeded.",
  UNFINISHED_STEP: "Keep all steps that succeeded.",
  BEGINNING: "Keep nothing: all steps run again that are possible from the present state of the node.",
} as const;
export type RestartFrom = keyof typeof RESTART_FROM;

const RESTARTABLE = new Set(["STOPPED", "FAILED", "ABORTED", "UNDONE"]);

/** Whether a run has ended before its target, or was undone. */
export function isRestartable({ state }: Pick<RunRow, "state">): boolean {
  return RESTARTABLE.has(state);
}

/**
 * Why the newest work of a node cannot be taken up; null if it can. `isAnother`: the request named an operation, and
 * the work is not of this one.
 */
export function refusalOfRestart(
  { nodeId, name }: Pick<KnownNode, "nodeId" | "name">,
  node: NodeRow | undefined,
  run: RunRow | undefined,
  isAnother: boolean,
): Refusal | null {
  if (run && node && isRestartable(run) && !isAnother) return null;
  if (run?.finishedAt !== null)
    return nodeRefusal("NOTHING_TO_RESTART", nodeId, `Node ${name} has nothing to restart: ${whyNothing(node, run)}.`);
  const { operationId } = run;
  const busy = `Node ${name} is busy with operation ${operationId}. Stop it, or wait for its end, before you restart it.`;
  return nodeRefusal("BUSY", nodeId, busy, { operationId });
}

/** The work of a node that a restart without options finds, with what is known of it. */
interface EndedWork {
  readonly run: RunRow;
  /** A failure policy cleaned the node up afterwards. */
  readonly isCleanedUp: boolean;
  readonly plan: Plan;
  readonly operation: OperationRow;
  /** Indexes of the steps that succeeded. */
  readonly succeeded: ReadonlySet<number>;
}

/** Why the facts about a node do not allow a restart of its earlier work by default; null if they do. */
export function judgeRestart(node: NodeRow, facts: NodeFacts, work: EndedWork): Refusal | null {
  const { operation, isCleanedUp } = work;
  const earlier = earlierWorkOf(node, { ...work, from: isCleanedUp ? "BEGINNING" : "STAGE" });
  const found = routeFor(facts, operation, earlier);
  return "refusal" in found ? found.refusal : null;
}

/** The work that a restart continues, and what it keeps of it. */
export function earlierWorkOf(
  node: NodeRow,
  { run, plan, succeeded, from }: Pick<EndedWork, "run" | "plan" | "succeeded"> & { readonly from: RestartFrom },
): EarlierWork {
  const poweredOff = node.powerState === "OFF" || run.leftAs?.power === "OFF";
  return { run, plan, ...keptOf(from, plan, succeeded, { stage: node.stage, poweredOff }) };
}

function whyNothing(node: NodeRow | undefined, run: RunRow | undefined): string {
  if (!node) return "it was deleted";
  if (!run) return "nothing has run on it";
  return run.state === "SUCCEEDED" ? "its work succeeded" : `operation ${run.operationId} has run on it since`;
}

/** The first leg that a restart performs, and the steps that it keeps. */
function keptOf(
  from: RestartFrom,
  plan: Plan,
  succeeded: ReadonlySet<number>,
  { stage, poweredOff }: { readonly stage: Stage; readonly poweredOff: boolean },
): Pick<EarlierWork, "firstLeg" | "done"> {
  const isDone = (index: number) => succeeded.has(index) || plan.steps[index]?.kept === true;
  // Work on a system in service was not to install it, so it is never installed again.
  if (plan.inService && stage !== "NONE" && from !== "UNFINISHED_STEP")
    return { firstLeg: 0, done: keysWhere(plan, ({ kept }) => kept) };
  if (from === "BEGINNING") return { firstLeg: 0, done: new Set() };
  const deploy = plan.legs.findIndex(({ phase }) => phase === "deploy");
  const provisioned = plan.steps.findIndex(({ reaches }, index) => reaches === "PROVISIONED" && isDone(index));
  if (from === "UNFINISHED_STEP") {
    // Power that a list of steps switched off is meant to be off.
    const lastPower = plan.steps.findLast((step, index) => isDone(index) && isReservedPower(step));
    const lostPower = poweredOff && !(lastPower && leavesOff(lastPower));
    // Deploy steps still hold only if the system is still installed; later ones only if the machine still runs.
    const holds = (step: PlannedStep, index: number) =>
      isDone(index) &&
      !(lostPower && isReservedPower(step)) &&
      (step.phase !== "deploy" || provisioned < 0 || (stage !== "NONE" && (!poweredOff || index <= provisioned)));
    const unfinished = plan.steps.find((step, index) => !holds(step, index));
    return { firstLeg: unfinished?.leg ?? Math.max(0, plan.legs.length - 1), done: keysWhere(plan, holds) };
  }
  if (stage !== "PROVISIONED" || deploy < 0 || provisioned < 0) {
    // After an installation, the erased disks have contents again.
    const holds = (step: PlannedStep, index: number) => provisioned < 0 && isErasure(step) && isDone(index);
    return { firstLeg: 0, done: keysWhere(plan, holds) };
  }
  return { firstLeg: deploy, done: keysWhere(plan, (step, index) => step.leg === deploy && index <= provisioned) };
}

/** Whether a restart keeps the step because it erased disks, which takes hours and holds until something is written. */
function isErasure(step: PlannedStep): boolean {
  return step.phase === "clean" && !step.repeatOnRestart && touchesOf(step).includes("DISKS") && !isReserved(step);
}

function keysWhere(plan: Plan, fits: (step: PlannedStep, index: number) => boolean): ReadonlySet<string> {
  const keys = keysOf(plan);
  return new Set(plan.steps.flatMap((step, index) => (fits(step, index) ? (keys[index] ?? []) : [])));
}
