/**
 * A run in the hands of this process, and what may be noted about it: every function here works on the ledger of a run that
 * is locked and whose fence was found unchanged.
 */
import { randomUUID } from "node:crypto";
import type { ErrorCode } from "../../errors.ts";
import type { NodeEvent } from "../../lifecycle/node-states.ts";
import type { PowerState } from "../../drivers/driver.ts";
import type { HeldNodeChange, NodeRow } from "../../store/nodes.ts";
import type { Failure, JsonObject, Plan, PlannedStep, StoredJson } from "../../store/records.ts";
import { latestOutputs } from "../../store/attempts.ts";
import type { LockedRun, RunRow } from "../../store/runs.ts";
import { nextPosition, stepLabel } from "../plans/plan.ts";
import { ENGINE, stageOnEntering } from "../scheduling/start-runs.ts";
import type { Ledger } from "./ledger.ts";
import { cutTo, sentence } from "../input/secret-redactor.ts";
import type { HeldJob } from "../jobs/leases.ts";
import type { Machine } from "./perform-step.ts";

export interface ClaimedRun {
  /** As it was when it was last locked. */
  readonly run: LockedRun;
  readonly fence: number;
  readonly job: HeldJob;
  readonly plan: Plan;
  readonly machine: Machine;
  /** As far as this process has moved it. */
  node: NodeRow;
  leg: number;
  position: number;
}

/** Somebody else holds the run by now: nothing of what we wanted to write counts. */
export class FencedError extends Error {}

/** Why something failed, before it is a record. */
export interface Fault {
  readonly code: ErrorCode;
  readonly reason: string;
  readonly retryable: boolean;
}

/** Whether this process holds a run still. */
export function isClaimedBy({ fence }: Pick<ClaimedRun, "fence">, run: RunRow): boolean {
  return run.finishedAt === null && run.fence === fence;
}

/** Enters the legs up to `leg`, those without steps included. */
export function enterLegs(ledger: Ledger, held: ClaimedRun, leg: number): void {
  while (held.leg < leg) {
    held.leg += 1;
    for (const event of held.plan.legs[held.leg]?.enter ?? [])
      moveClaimed(ledger, held, event, {}, stageOnEntering(held.plan, held.leg));
  }
}

/** Takes the node along one edge. */
export function moveClaimed(
  ledger: Ledger,
  held: ClaimedRun,
  event: NodeEvent,
  why: { readonly actor?: string; readonly reason?: string | null } = {},
  change: Omit<HeldNodeChange, "state"> = {},
): void {
  const { run, node, plan } = held;
  const because = {
    actor: why.actor ?? ENGINE,
    reason: why.reason ?? null,
    target: run.target,
    operationId: run.operationId,
    step: stepLabel(plan.steps[held.position]),
    runId: run.id,
  };
  held.node = { ...node, ...change, state: ledger.moveNode(node.state, event, because, change) };
}

/** Changes what is not the node's state. */
export function changeClaimed(ledger: Ledger, held: ClaimedRun, change: Omit<HeldNodeChange, "state">): void {
  ledger.changeNode(held.node.state, change);
  held.node = { ...held.node, ...change };
}

/** What a step or its undoing saw of the power, and what it left it as: that is what is wanted of it from now on. */
export function notePower(ledger: Ledger, held: ClaimedRun, power: PowerState): void {
  const { node, machine } = held;
  const seen =
    node.powerState === power && node.powerReadAt !== null ? {} : { powerState: power, powerReadAt: new Date() };
  const wantedPower = machine.lastSet?.power ?? node.wantedPower;
  const powerProblem = power === "UNKNOWN" ? node.powerProblem : null;
  if (!("powerState" in seen) && wantedPower === node.wantedPower && powerProblem === node.powerProblem) return;
  changeClaimed(ledger, held, { ...seen, wantedPower, powerProblem });
}

const MODEL_LENGTH_MAX = 255;

/**
 * With the last inspect step that a leg has to run, which has just put out `output`, the outputs of all of them become the
 * inventory: those as well that a run before this one has come to, and that are kept. A text `model` in it is the node's.
 */
export async function noteInventory(
  ledger: Ledger,
  held: ClaimedRun,
  position: number,
  output: StoredJson,
): Promise<void> {
  const { plan, run, node } = held;
  const leg = plan.steps[position]?.leg;
  if (plan.steps[nextPosition(plan, position + 1)]?.leg === leg) return;
  const labels = plan.steps.flatMap((step, index) =>
    step.leg === leg && index !== position ? [stepLabel(step) ?? ""] : [],
  );
  const others = labels.length === 0 ? [] : await latestOutputs(ledger.work.tx, run.id, labels);
  const outputs = plan.steps.map((step, index) =>
    index === position
      ? output
      : step.leg === leg
        ? others.find(({ label }) => label === stepLabel(step))?.output
        : null,
  );
  const data: JsonObject = Object.assign(
    {},
    ...outputs.filter((one): one is JsonObject => typeof one === "object" && one !== null && !Array.isArray(one)),
  );
  ledger.addInventory({ id: randomUUID(), nodeId: node.id, runId: run.id, data });
  const model = typeof data["model"] === "string" ? cutTo(data["model"].trim(), MODEL_LENGTH_MAX) : "";
  if (model !== "" && model !== node.model) changeClaimed(ledger, held, { model });
}

export function describe({ node }: ClaimedRun, step: PlannedStep, reason: string): string {
  return `Node ${node.name}: ${stepLabel(step)} failed: ${sentence(reason)}`;
}

export function failureOf({ node }: ClaimedRun, step: PlannedStep | undefined, fault: Fault): Failure {
  return {
    code: fault.code,
    message: fault.reason,
    step: stepLabel(step),
    nodeId: node.id,
    nodeName: node.name,
    at: new Date().toISOString(),
    retryable: fault.retryable,
  };
}
