/** Carrying out an abort on the machine: the step's own `abort`, then the power, each bounded, and neither in the places of steps. */
import { messageOf } from "../../errors.ts";
import { touchedBy } from "../../lifecycle/touches.ts";
import { powersOffOnAbort } from "../../lifecycle/verbs.ts";
import { Deadline } from "../../drivers/deadline.ts";
import { WorkerUnresponsiveError } from "../../drivers/isolation/protocol.ts";
import type { PowerState } from "../../drivers/driver.ts";
import type { Log } from "../../log.ts";
import type { Database } from "../../store/postgres/database.ts";
import type { LeftAs } from "../../store/records.ts";
import { attemptsOf } from "../../store/attempts.ts";
import { runsByIds } from "../../store/runs.ts";
import type { AttemptRow } from "../../store/attempts.ts";
import type { ClaimedRun } from "./claimed-run.ts";
import { stepLabel } from "../plans/plan.ts";
import { abortStep, setPower } from "./perform-step.ts";
import type { StepBasis } from "./perform-step.ts";

export interface AbortMachineParts {
  readonly database: Database;
  readonly log: Log;
  /** How long each part of it may take. */
  readonly tearDownMs: number;
}

export interface Abort {
  readonly claimed: ClaimedRun;
  /** The attempt that the abort ends; null if no step was running. */
  readonly attempt: AttemptRow | null;
  /** How the step's `abort` is called; null if it must not be. */
  readonly call: StepBasis | null;
  /** Power as the step saw it last. */
  readonly power: PowerState | null;
  /** Rejects when this process does not hold the run any more. */
  confirm(): Promise<void>;
}

/** Answers what is left of the machine. Never throws for what the machine does, which is reported with the run; only for a run that was lost. */
export async function abortMachine(parts: AbortMachineParts, abort: Abort): Promise<LeftAs> {
  const { database, log, tearDownMs } = parts;
  const { claimed, attempt, call } = abort;
  const { run, machine, plan } = claimed;
  const errors: string[] = [];
  const deadline = () => new Deadline(tearDownMs);
  let power = abort.power ?? claimed.node.powerState;
  const begun = new Set((await attemptsOf(database.reader, [run.id])).map(({ step: index }) => index));
  // What the abort asked for came after the claim.
  const powerOff = (await runsByIds(database.reader, [run.id]))[0]?.powerOff ?? powersOffOnAbort(claimed.node.state);
  const step = attempt ? plan.steps[attempt.step] : undefined;
  await abort.confirm();
  if (call && step) {
    try {
      await abortStep({ ...call, deadline: deadline() });
    } catch (error) {
      if (error instanceof WorkerUnresponsiveError) throw error;
      errors.push(`${stepLabel(step)} could not be undone: ${machine.redactor.text(messageOf(error))}`);
    }
  }
  await abort.confirm();
  if (begun.size > 0 && powerOff) {
    try {
      power = await setPower(machine, "OFF", { deadline: deadline(), lane: "ENDING", confirm: abort.confirm, log });
    } catch (error) {
      if (error instanceof WorkerUnresponsiveError) throw error;
      power = "UNKNOWN";
      errors.push(`the power could not be cut: ${machine.redactor.text(messageOf(error))}`);
    }
  }
  const touched = touchedBy(plan.steps, begun);
  return {
    power,
    disksTouched: touched.has("DISKS"),
    firmwareTouched: touched.has("FIRMWARE"),
    networkAttached: touched.has("NETWORK"),
    tearDownError: errors.length > 0 ? errors.join("; ") : null,
  };
}
