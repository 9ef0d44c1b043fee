/**
 * A run in the hands of this process, and what may be written about it: every function here works inside a transaction
 * that holds the run locked and has found its fence unchanged.
 */
import { randomUUID } from "node:crypto";
import type { ErrorCode } from "../errors.ts";
import type { NodeEvent } from "../lifecycle/node-states.ts";
import type { Wish } from "../lifecycle/operation-states.ts";
import type { PowerState } from "../drivers/driver.ts";
import { insertInventory, updateNode } from "../store/nodes.ts";
import type { NodeMove, NodeRow } from "../store/nodes.ts";
import type { Failure, JsonObject, Plan, PlannedStep } from "../store/records.ts";
import { attemptsOf } from "../store/attempts.ts";
import { lockRun } from "../store/runs.ts";
import type { LockedRun, RunRow } from "../store/runs.ts";
import { stepLabel } from "./plan.ts";
import { ENGINE, stageOnEntering } from "./begin.ts";
import type { Machine } from "./step.ts";
import { move } from "./transition.ts";
import type { Work } from "./transition.ts";

export interface Held {
  /** As it was when it was last locked. */
  readonly run: LockedRun;
  readonly fence: number;
  readonly plan: Plan;
  readonly machine: Machine;
  /** As far as this process has moved it. */
  node: NodeRow;
  leg: number;
  position: number;
}

/** Somebody else holds the run by now: nothing of what we wanted to write counts. */
export class Fenced extends Error {}

/** Why something failed, before it is a record. */
export interface Fault {
  readonly code: ErrorCode;
  readonly reason: string;
  readonly retryable: boolean;
}

/** The run, locked, or `Fenced`. */
export async function lockHeld(work: Work, held: Held) {
  const run = await lockRun(work.tx, held.run.id);
  if (!run || run.finishedAt || run.fence !== held.fence) throw new Fenced();
  return run;
}

/** Enters the legs up to `leg`, those without steps included. */
export async function enterLegs(work: Work, held: Held, leg: number): Promise<void> {
  while (held.leg < leg) {
    held.leg += 1;
    for (const event of held.plan.legs[held.leg]?.enter ?? []) await moveHeld(work, held, event, {}, stageOnEntering(held.plan, held.leg));
  }
}

/** Takes the node along one edge. */
export async function moveHeld(work: Work, held: Held, event: NodeEvent, why: { readonly actor?: string; readonly reason?: string | null } = {}, change: NodeMove = {}): Promise<void> {
  const { run, node, plan } = held;
  const state = await move(
    work,
    [node.id],
    node.state,
    event,
    {
      actor: why.actor ?? ENGINE,
      reason: why.reason ?? null,
      target: run.target,
      operationId: run.operationId,
      step: stepLabel(plan.steps[held.position]),
      runIds: new Map([[node.id, run.id]]),
    },
    change,
  );
  held.node = { ...node, ...change, state };
}

/** What a step or its undoing saw of the power, and what it left it as: that is what is wanted of it from now on. */
export async function notePower(work: Work, held: Held, power: PowerState): Promise<void> {
  const { node, machine } = held;
  const seen = node.powerState === power && node.powerReadAt !== null ? {} : { powerState: power, powerReadAt: new Date() };
  const wantedPower = machine.lastSet?.power ?? node.wantedPower;
  const powerProblem = power === "UNKNOWN" ? node.powerProblem : null;
  if (!("powerState" in seen) && wantedPower === node.wantedPower && powerProblem === node.powerProblem) return;
  const change = { ...seen, wantedPower, powerProblem };
  await updateNode(work.tx, node.id, change);
  held.node = { ...node, ...change };
}

export async function noteStage(work: Work, held: Held, stage: NodeRow["stage"]): Promise<void> {
  await updateNode(work.tx, held.node.id, { stage });
  held.node = { ...held.node, stage };
}

const MODEL_LENGTH_MAX = 255;

/** With the last inspect step of a leg the outputs of all of them become the inventory. A text `model` in it is the node's. */
export async function noteInventory(work: Work, held: Held, position: number): Promise<void> {
  const { plan, run, node } = held;
  const leg = plan.steps[position]?.leg;
  if (plan.steps[position + 1]?.leg === leg) return;
  const outputs = (await attemptsOf(work.tx, [run.id])).filter(({ step, state }) => state === "SUCCEEDED" && plan.steps[step]?.leg === leg).map(({ output }) => output);
  const data: JsonObject = Object.assign({}, ...outputs.filter((output): output is JsonObject => typeof output === "object" && output !== null && !Array.isArray(output)));
  await insertInventory(work.tx, { id: randomUUID(), nodeId: node.id, runId: run.id, data });
  const model = typeof data["model"] === "string" ? data["model"].trim().slice(0, MODEL_LENGTH_MAX) : "";
  if (model === "" || model === node.model) return;
  await updateNode(work.tx, node.id, { model });
  held.node = { ...node, model };
}

/**
 * What is wanted of a run. Of its operation's wishes only a stop counts: an abort is recorded on each run that it concerns, and
 * the operation is read beside the run, not under its lock, so that its abort may have been taken back by now. A clean-up
 * run is a consequence of its operation's stop, so that stop is not for it.
 */
export function wishOf(run: Pick<RunRow, "wish" | "purpose">, operationWish: Wish | null): Wish | null {
  if (run.wish !== null || run.purpose === "CLEAN_UP") return run.wish;
  return operationWish === "STOP" ? "STOP" : null;
}

export function describe({ node }: Held, step: PlannedStep, reason: string): string {
  const sentence = /[.!?]$/.test(reason) ? reason : `${reason}.`;
  return `Node ${node.name}: ${stepLabel(step)} failed: ${sentence}`;
}

export function failureOf({ node }: Held, step: PlannedStep | undefined, fault: Fault): Failure {
  return { code: fault.code, message: fault.reason, step: stepLabel(step), nodeId: node.id, nodeName: node.name, at: new Date().toISOString(), retryable: fault.retryable };
}
