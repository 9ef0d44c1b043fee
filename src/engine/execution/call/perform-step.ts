/**
 * Performs one entry of a step: calls the driver, limits its time, and turns the result into an outcome. Nothing is
 * stored here. A driver may throw, hang, return an invalid result or ignore its signal; each has an outcome.
 *
 * Modes:
 * - running: left when the call ends, at the deadline, when `cancel` fires, or when `abandon` fires.
 * - ending, after the deadline or `cancel`: the signal has fired, and the call has `graceMs` to end. Until then nothing
 *   else may begin on the machine. What the call returns now is ignored.
 * - ended: the signal fires, so that nothing that the call has left behind, such as a change of power, continues.
 */
import { mustNotBeCut } from "../../../lifecycle/touches.ts";
import type { PowerState, StepResult } from "../../../drivers/driver.ts";
import { Deadline, leftUntil, onHold, whenOver } from "../../../drivers/deadline.ts";
import { HeartbeatLostError } from "../../../drivers/isolation/protocol.ts";
import type { AnyDriver } from "../../../drivers/interfaces.ts";
import type { DriverTry, JsonObject, PlannedStep, StoredJson } from "../../../store/records.ts";
import { MASK } from "../../../store/secrets/secrets.ts";
import { isJsonObject } from "../../input/variables.ts";
import { ENGINE_INTERFACE, isReservedWait } from "../../plans/reserved-steps.ts";
import { CallTimeoutError } from "./call-deadline.ts";
import { declaredStep, stepCall } from "./driver-call.ts";
import type { StepBasis } from "./driver-call.ts";
import { acceptResult, faultOf, isDriverError, isWithoutEffect, storableReason } from "./driver-result.ts";
import type { Fault } from "./driver-result.ts";
import { nodeMedia } from "./node-media.ts";
import { CROWDED_SECONDS, CrowdedError, paceOf } from "./patience.ts";
import type { TroubledSlot } from "./patience.ts";
import { nodePower, runPowerStep } from "./power-call.ts";
import type { SeenPower } from "./power-call.ts";

/**
 * `powerState`: the power as the step saw it last; null if it did not look. `tries`: calls of interfaces for which the
 * node names several drivers. `heldMs`: for how long the entry waited before its driver was called, which is not time
 * of the step.
 */
export type StepOutcome = StepEnd & {
  readonly powerState: PowerState | null;
  readonly tries?: readonly DriverTry[];
  readonly heldMs?: number;
};

type StepEnd =
  | {
      readonly kind: "done";
      /** Secret members are masked. */
      readonly output: StoredJson;
      /** The members that other nodes can take, secrets included; absent if the step has none. */
      readonly given?: JsonObject;
      /** The step has a verify part, which is still to run. */
      readonly toVerify: boolean;
    }
  | { readonly kind: "wait"; readonly seconds: number; readonly onCallback: boolean; readonly memo: StoredJson }
  | ({ readonly kind: "failed"; readonly ignoredSignal: boolean } & Fault)
  /** `ignoredSignal`: it did not end in time, and may still be running. */
  | { readonly kind: "aborted"; readonly ignoredSignal: boolean };

/**
 * The driver's process ended itself because this one was paused for longer than a lease lasts. The outcome is unknown,
 * and the next holder of the run finds out.
 */
type StepLost = { readonly kind: "lost"; readonly reason: string };

export interface StepRequest extends StepBasis {
  /** Fires when the step is to be cancelled. */
  readonly cancel: AbortSignal;
  /** Fires when the step is not waited for any longer, although it must not be cancelled. */
  readonly abandon: AbortSignal;
  /** How long the call may take to end after its signal fired. */
  readonly graceMs: number;
  /** For a machine that gives no answer. */
  readonly troubled?: TroubledSlot;
}

export async function performStep(request: StepRequest): Promise<StepOutcome | StepLost> {
  const { machine, step, part, about, deadline } = request;
  const tries: DriverTry[] = [];
  const run = async () => {
    const seen: SeenPower = { state: null };
    const outcome = await runStep({ ...request, tries }, seen);
    const heldMs = deadline instanceof Deadline ? deadline.heldMs : 0;
    return outcome.kind === "lost" ? outcome : { ...outcome, powerState: seen.state, tries, heldMs };
  };
  if (!about || !machine.observer) return run();
  const name = `${step.interface}.${step.name}`;
  const observed = { ...about, node: machine.node.name, step: name, driver: step.driver, part };
  return machine.observer.step(observed, run);
}

async function runStep(request: StepRequest, seen: SeenPower): Promise<StepEnd | StepLost> {
  const { step, cancel, abandon, graceMs, deadline } = request;
  const end = new AbortController();
  const signal = AbortSignal.any([cancel, end.signal]);
  const call = callStep(request, signal, seen);
  const timers: NodeJS.Timeout[] = [];
  /** The outcome of a call whose signal has fired: when it has ended, or its grace period is over. */
  const ending = (outcome: (ignoredSignal: boolean) => StepEnd) =>
    new Promise<StepEnd>((resolve) => {
      void call.then(() => resolve(outcome(false)));
      timers.push(setTimeout(() => resolve(outcome(true)), graceMs));
    });
  const aborted = (ignoredSignal: boolean): StepEnd => ({ kind: "aborted", ignoredSignal });
  const overdue = Promise.withResolvers<StepEnd>();
  const stopClock = whenOver(deadline, () => {
    end.abort(new CallTimeoutError("The step's time is over."));
    const reason = `${step.interface}.${step.name} did not end within ${step.timeoutSeconds} s`;
    overdue.resolve(
      ending((ignoredSignal) => ({
        kind: "failed",
        code: "TIMEOUT",
        reason: ignoredSignal ? `${reason} and may still be running` : reason,
        retryable: true,
        ignoredSignal,
      })),
    );
  });
  const cancelled = whenAborted(cancel).then(() => ending(aborted));
  const abandoned = whenAborted(abandon).then(() => aborted(true));
  // After its signal fired the result is ignored. The driver may have seen the deadline pass before this process did.
  const ended = call.then((outcome) =>
    signal.aborted || (outcome.kind === "failed" && leftUntil(deadline) <= 0) ? new Promise<never>(() => {}) : outcome,
  );
  void ended.then(() => end.abort(new Error("The step has ended.")));
  try {
    return await Promise.race([cancelled, abandoned, overdue.promise, ended]);
  } finally {
    stopClock();
    for (const timer of timers) clearTimeout(timer);
  }
}

function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** Calls the step. Never rejects: an error of the driver is an outcome. */
async function callStep(request: StepRequest, signal: AbortSignal, seen: SeenPower): Promise<StepEnd | StepLost> {
  const { redactor } = request.machine;
  try {
    const result = acceptResult(await enterStep(request, signal, seen), redactor);
    if (result.kind === "failed") return { ...result, ignoredSignal: false };
    if (result.kind === "wait") return result;
    const toVerify = request.part === "RUN" && declaredStep(request)?.step.verify !== undefined;
    return { ...withGiven(request, result.output), kind: "done", toVerify };
  } catch (error) {
    if (error instanceof HeartbeatLostError) return { kind: "lost", reason: error.message };
    if (error instanceof CrowdedError) {
      request.stepLog.line(error.message);
      return askAgain(request, CROWDED_SECONDS);
    }
    if (error instanceof StaleRevisionError)
      return {
        kind: "failed",
        code: "STALE_REVISION",
        reason: error.message,
        retryable: false,
        ignoredSignal: false,
        ...(isFirstEntry(request) && { atRest: true }),
      };
    // The machine may still be at it, and could not be asked.
    const isPoll = !isFirstEntry(request) && request.callback === null;
    if (isPoll && mustNotBeCut(request.step) && isDriverError(error) && error.retryable) {
      request.stepLog.line(storableReason(error.message, redactor));
      return askAgain(request, ASK_AGAIN_SECONDS);
    }
    const atRest = isFirstEntry(request) && isWithoutEffect(error);
    const fault = { ...faultOf(error, redactor), ...(atRest && { atRest }) };
    return { kind: "failed", ...fault, ignoredSignal: false };
  }
}

/** Separates what other nodes can take of an output, and masks its secrets, here and in what the step says later. */
function withGiven(
  { step: { outputs }, part, machine: { redactor } }: StepRequest,
  output: StoredJson,
): { readonly output: StoredJson; readonly given?: JsonObject } {
  if (!outputs || part === "VERIFY" || !isJsonObject(output)) return { output };
  const entries = Object.entries(output);
  const given = Object.fromEntries(entries.filter(([name, value]) => outputs.names.includes(name) && value !== null));
  const isSecret = (name: string) => outputs.secret.includes(name);
  redactor.hide(entries.flatMap(([name, value]) => (isSecret(name) && typeof value === "string" ? [value] : [])));
  return { output: Object.fromEntries(entries.map(([name, value]) => [name, isSecret(name) ? MASK : value])), given };
}

/** Delay before a machine is asked again that must not be cut and could not be asked. */
const ASK_AGAIN_SECONDS = 10;

function askAgain({ memo }: StepRequest, seconds: number): StepEnd {
  return { kind: "wait", seconds, onCallback: false, memo };
}

/** The engine's own steps run here, the others in their driver. */
async function enterStep(request: StepRequest, signal: AbortSignal, seen: SeenPower): Promise<unknown> {
  const { step, part, troubled, deadline } = request;
  await onHold(deadline, request.confirm);
  if (step.interface === ENGINE_INTERFACE) return enterReserved(request);
  if (step.interface === "power")
    return runPowerStep({ ...request, ...(troubled && { patience: troubled }) }, signal, seen);
  const declared = declaredStep(request);
  if (!declared) throw new Error(`Driver "${step.driver}" no longer has a step ${step.interface}.${step.name}.`);
  requireRevision(step, declared.driver);
  if (isFirstEntry(request) && paceOf(request.machine, declared.driver) === "FAILING") troubled?.onLate();
  // A step holds a slot already, so the calls of power that it makes itself wait for none.
  const nested = { ...request, lane: "NESTED" } as const;
  const access = {
    power: nodePower(nested, signal, seen),
    media: nodeMedia(nested, signal),
    agent: request.agent(signal),
  };
  const call = await onHold(deadline, () => stepCall({ ...request, lane: "STEP" }, declared, signal, access));
  if (part !== "VERIFY") return declared.step.run(call);
  // A newer version of the driver may have no verify part.
  return declared.step.verify ? declared.step.verify(call) : DONE;
}

class StaleRevisionError extends Error {}

/** Throws unless the driver would run the files that were planned. */
function requireRevision({ interface: name, name: step, revision }: PlannedStep, driver: AnyDriver): void {
  const found = revision === undefined ? undefined : driver.revision?.();
  if (found === revision) return;
  throw new StaleRevisionError(
    `${name}.${step} was planned with revision ${revision} of what driver ${driver.name} runs, which is ${found ?? "unknown"} on this replica. Restart the node to work with it.`,
  );
}

/** Nothing was done on the machine, and nothing is reported to the step: it can be entered again. */
function isFirstEntry({ part, memo, callback }: StepRequest): boolean {
  return part === "RUN" && memo === null && callback === null;
}

const DONE = { kind: "done" } as const satisfies StepResult;

/** The reserved wait. A hold never gets here, because it is parked when it begins. */
function enterReserved({ step, memo }: StepRequest): StepResult {
  if (!isReservedWait(step)) throw new Error(`There is no reserved step ${step.name}.`);
  const seconds = step.args["seconds"];
  return memo === null ? { kind: "wait", seconds: typeof seconds === "number" ? seconds : 0, memo: "waited" } : DONE;
}
