/**
 * Carries out an abort or a failure on the machine: the `abort` of the step, then the power off. Each has its own
 * deadline, and neither waits for a slot, because steps that hang may hold all of them. A machine that may still be at
 * a step that must not be cut is left alone, and so is its power (decision 0055).
 */
import { messageOf } from "../../../errors.ts";
import { touchedBy } from "../../../lifecycle/touches.ts";
import { isPoweredOffByAbort, powersOffOnAbort } from "../../../lifecycle/verbs.ts";
import { Deadline } from "../../../drivers/deadline.ts";
import { HeartbeatLostError } from "../../../drivers/isolation/protocol.ts";
import type { Reader } from "../../../store/postgres/database.ts";
import type { LeftAs } from "../../../store/records.ts";
import { attemptsOf } from "../../../store/runs/attempts.ts";
import { operationsByIds } from "../../../store/operations/operations.ts";
import { runsByIds } from "../../../store/runs/runs.ts";
import { readSite } from "../../../store/site.ts";
import { stepLabel } from "../../plans/plan.ts";
import type { EngineParts } from "../../context.ts";
import { withDeadline } from "./call-deadline.ts";
import { isLeftAlone } from "../claim/claimed-run.ts";
import type { AbortMachine, ClaimedRun } from "../claim/claimed-run.ts";
import { declaredStep, stepCall } from "./driver-call.ts";
import type { StepBasis } from "./driver-call.ts";
import { nodeMedia } from "./node-media.ts";
import { nodePower, setPower } from "./power-call.ts";

interface AbortMachineParts extends Pick<EngineParts, "database" | "log"> {
  /** How long each part may take. */
  readonly abortCleanUpMs: number;
}

/** How the machine is called. */
interface AbortCalls {
  /** How the step's `abort` is called; null if it must not be. */
  readonly step: StepBasis | null;
  /** Ends the calls: another process has claimed the run, or it has ended. */
  readonly end: AbortSignal;
  /** Fires when the abort is forced. */
  readonly kill: AbortSignal;
  /** Rejects if this process does not hold the run any more. */
  confirm(): Promise<void>;
}

export interface AbortedMachine {
  readonly left: LeftAs;
  /** Whether the power was not to be cut, and may still be. */
  readonly mayCutPower: boolean;
}

/**
 * Returns the condition of the machine. Throws only if the run was lost: errors of the machine are part of the result.
 */
export async function abortMachine(
  { database, log, abortCleanUpMs }: AbortMachineParts,
  directive: AbortMachine,
  { step: call, end, kill, confirm }: AbortCalls,
): Promise<AbortedMachine> {
  const { claimed, undone } = directive;
  const { run, machine, plan } = claimed;
  const mayBeWorking = isLeftAlone(directive);
  const errors: string[] = undone?.tearDownError ? [undone.tearDownError] : [];
  const deadline = () => new Deadline(abortCleanUpMs);
  let power = directive.power ?? claimed.node.powerState;
  const begun = new Set((await attemptsOf(database.reader, [run.id])).map(({ step: index }) => index));
  await confirm();
  if (call) {
    try {
      await abortStep({ ...call, deadline: deadline(), kill }, end);
    } catch (error) {
      if (error instanceof HeartbeatLostError) throw error;
      errors.push(`${stepLabel(call.step)} could not be undone: ${machine.redactor.text(messageOf(error))}`);
    }
  }
  await confirm();
  // Read now: an abort may have been accepted while the step was undone.
  const powerOff = !mayBeWorking && (await isPoweredOff(database.reader, claimed));
  if (begun.size > 0 && powerOff) {
    try {
      power = await setPower(machine, "OFF", { deadline: deadline(), lane: "ENDING", confirm, kill, log, end });
    } catch (error) {
      if (error instanceof HeartbeatLostError) throw error;
      power = "UNKNOWN";
      errors.push(`the power could not be cut: ${machine.redactor.text(messageOf(error))}`);
    }
  }
  const touched = touchedBy(plan.steps, begun);
  const left = {
    power,
    disksTouched: touched.has("DISKS"),
    firmwareTouched: touched.has("FIRMWARE"),
    networkAttached: touched.has("NETWORK"),
    mayBeWorking,
    tearDownError: errors.length > 0 ? errors.join("; ") : null,
  };
  return { left, mayCutPower: begun.size > 0 && !powerOff && !mayBeWorking && !plan.keepsPower };
}

/** Whether the power is to be off: as the abort chose, or after a failure as its request or the site chose. */
async function isPoweredOff(reader: Reader, claimed: ClaimedRun): Promise<boolean> {
  const {
    run: { id, operationId },
    node,
    plan,
  } = claimed;
  const phase = plan.legs[claimed.leg]?.phase;
  // Read again: the abort, and with it the choice of power, was requested after the claim.
  const [run] = await runsByIds(reader, [id]);
  const place = { ...plan, state: node.state, phase };
  if (run?.interrupt === "ABORT") return isPoweredOffByAbort(run.powerOff, place);
  if (plan.bestEffort || !powersOffOnAbort(place)) return false;
  const [operation] = await operationsByIds(reader, [operationId]);
  const chosen = operation?.options.powerOnFailure ?? (await readSite(reader)).policy.powerOnFailure;
  return chosen !== "LEAVE";
}

/** Calls the step's `abort`. The engine's own steps and steps that declare none have nothing to undo. */
async function abortStep(basis: StepBasis, end: AbortSignal): Promise<void> {
  const declared = declaredStep(basis);
  if (!declared?.step.abort) return;
  await withDeadline(basis.deadline, end, async (signal) => {
    const nested = { ...basis, lane: "NESTED" } as const;
    const access = {
      power: nodePower(nested, signal, { state: null }),
      media: nodeMedia(nested, signal),
      agent: basis.agent(signal),
    };
    await declared.step.abort?.(await stepCall({ ...basis, lane: "ENDING" }, declared, signal, access));
  });
}
