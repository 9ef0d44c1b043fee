/**
 * Patience with BMCs: every call of a controller is made here, within its circuit (drivers/circuits.ts), at its pace.
 *
 * A short read is first asked briefly. If there is no prompt answer, it steps aside: its patience decides in which lane
 * it is made again, with its whole time, or ends it. A controller that is known to be slow has the whole time at once.
 * For steps, see `TroubledSlots`; for readings, see `ReadingPatience`.
 */
import { Deadline, leftUntil } from "../../../drivers/deadline.ts";
import type { DriverErrorKind } from "../../../drivers/driver.ts";
import { HeartbeatLostError } from "../../../drivers/isolation/protocol.ts";
import { controllerOf } from "../../../drivers/registry.ts";
import type { AnyDriver } from "../../../drivers/interfaces.ts";
import type { Answer, Circuit, Circuits, Controller, Pace } from "../../../drivers/circuits.ts";
import type { Lane } from "../../../drivers/isolation/lanes.ts";
import { messageOf } from "../../../errors.ts";
import { cutTo } from "../../../runtime/text.ts";
import { CallTimeoutError } from "./call-deadline.ts";
import { isDriverError } from "./driver-result.ts";
import { observeCall } from "./machine.ts";
import type { Machine } from "./machine.ts";

/** How long a machine may take for a short read at first. */
const PATIENCE_MS = 5_000;
/** An answer that took more than this share of the patience is slow. */
const SLOW_SHARE = 0.7;
const REASON_LENGTH_MAX = 500;

/** How a short read goes on with a machine that does not answer promptly. */
export interface Patience {
  /** How long a read may take at first. */
  readonly ms: number;
  /** Whether a controller that is failing already needs `onLate` before the read. */
  readonly isStrict: boolean;
  /** There was no prompt answer. Returns the lane in which the read is made with its whole time; throws to end it. */
  onLate(): Lane;
  /** The machine was changed: it is called until the end now. */
  commit?(): void;
}

/** The machine gave no answer in the time that a prompt one needs, and its call was ended. */
export class LateAnswerError extends Error {}

// ---- calls of controllers

interface ControllerCall<Result> {
  readonly driver: AnyDriver;
  /** For metrics. */
  readonly name: string;
  readonly deadline: Date;
  readonly lane: Lane;
  /** The step waits for the controller already, so that its circuit does not bar the call. */
  readonly isAwaited: boolean | undefined;
  /** Of a short read. Absent: it may take its whole time. */
  readonly patience: Patience | undefined;
  readonly signal: AbortSignal;
  /** Makes the call with this time, in this lane. */
  readonly make: (limit: Date, lane: Lane) => Promise<Result>;
}

/** Makes a call of a node's driver if its circuit lets it pass, and notes what it found out about the controller. */
export async function callController<Result>(machine: Machine, call: ControllerCall<Result>): Promise<Result> {
  const { circuits } = machine;
  const controller = circuitKey(call.driver, machine.node);
  const open = call.isAwaited ? null : circuits.enter(controller);
  if (open) throw circuitError(open);
  try {
    const { result, isSlow } = await observeCall(machine, call.driver, call.name, () =>
      callAtItsPace(circuits, controller, call),
    );
    circuits.note(controller, isSlow ? "ANSWERED_SLOWLY" : "ANSWERED");
    return result;
  } catch (error) {
    circuits.note(controller, answerIn(error, call.signal, machine));
    throw error;
  }
}

async function callAtItsPace<Result>(
  circuits: Circuits,
  controller: Controller,
  { deadline, lane, patience, signal, make }: ControllerCall<Result>,
): Promise<{ readonly result: Result; readonly isSlow: boolean }> {
  const pace = circuits.paceOf(controller);
  if (!patience) return { result: await make(deadline, lane), isSlow: pace === "SLOW" };
  if (pace === "FAILING" && patience.isStrict)
    return { result: await make(deadline, patience.onLate()), isSlow: false };
  const takesAll = pace === "SLOW" || leftUntil(deadline) <= patience.ms;
  const first = takesAll ? deadline : new Deadline(patience.ms, deadline);
  const before = leftUntil(first);
  try {
    const result = await make(first, lane);
    return { result, isSlow: before - leftUntil(first) > patience.ms * SLOW_SHARE };
  } catch (error) {
    if (takesAll || signal.aborted || kindOf(error) !== "TIMEOUT") throw error;
  }
  circuits.noteLate(controller);
  return { result: await make(deadline, patience.onLate()), isSlow: true };
}

/** Evidence of a failure about the controller. */
function answerIn(error: unknown, signal: AbortSignal, { redactor }: Machine): Answer {
  if (error instanceof LateAnswerError) return "NOTHING";
  const reason = cutTo(redactor.text(messageOf(error)), REASON_LENGTH_MAX);
  if (error instanceof CallTimeoutError || signal.reason instanceof CallTimeoutError)
    return { kind: "TIMEOUT", reason };
  if (signal.aborted || error instanceof HeartbeatLostError) return "NOTHING";
  const kind = kindOf(error);
  if (kind === "UNREACHABLE" || kind === "TIMEOUT")
    return { kind, reason, away: isDriverError(error) && error.away === true };
  return kind === "AUTHENTICATION" || kind === "REFUSED" || kind === "UNSUPPORTED" ? "ANSWERED" : "NOTHING";
}

export function kindOf(error: unknown): DriverErrorKind | null {
  if (error instanceof CallTimeoutError || error instanceof LateAnswerError) return "TIMEOUT";
  return isDriverError(error) ? error.kind : null;
}

/** The open circuit of a node's driver; null while calls pass. */
export function circuitOf(
  { circuits }: Pick<Machine, "circuits">,
  driver: AnyDriver,
  node: Pick<Machine["node"], "id" | "settings">,
): Circuit | null {
  return circuits.circuitOf(circuitKey(driver, node));
}

/** The pace of a node's driver. */
export function paceOf({ circuits, node }: Pick<Machine, "circuits" | "node">, driver: AnyDriver): Pace {
  return circuits.paceOf(circuitKey(driver, node));
}

/** Identifies the circuit of a node's driver. Secrets take no part in it. */
function circuitKey(driver: AnyDriver, node: Pick<Machine["node"], "id" | "settings">): Controller {
  let controller: string | null = null;
  try {
    controller = controllerOf(driver, node.settings[driver.name] ?? {});
  } catch {
    // The driver needs a secret to name its controller; the node then has a circuit of its own.
  }
  if (controller !== null) return { driver: driver.name, controller };
  return { driver: driver.name, controller: node.id, settings: JSON.stringify(node.settings[driver.name] ?? {}) };
}

function circuitError({ driver, controller, failures, reason, away, nextProbeAt }: Circuit): Error {
  const message = `Controller ${controller} of driver ${driver} has not answered ${failures} times in a row: ${reason} It is tried again from ${nextProbeAt.toISOString()} on.`;
  return Object.assign(new Error(message), { name: "DriverError", kind: "UNREACHABLE", retryable: true, away });
}

// ---- steps

/** How long a run without a slot is parked. */
export const CROWDED_SECONDS = 5;
/** Share of the process's runs. */
const SHARE = 0.25;

/** All slots are taken. Nothing was changed on the machine. */
export class CrowdedError extends LateAnswerError {}

/** For one entry of a step. `onLate` takes a slot for the rest of it, and throws a `CrowdedError` if none is free. */
export interface TroubledSlot extends Patience {
  release(): void;
}

/**
 * Bounds the runs of this process whose machines give no answer: they may hold only a share of its runs at a time, so
 * that many dead BMCs do not delay the work on other nodes. A run without a slot is parked and tries again.
 */
export class TroubledSlots {
  readonly #max: number;
  readonly #patienceMs: number;
  #taken = 0;

  /** `concurrency`: runs at the same time. */
  constructor(concurrency: number, patienceMs = PATIENCE_MS) {
    this.#max = Math.max(1, Math.floor(concurrency * SHARE));
    this.#patienceMs = patienceMs;
  }

  slot(): TroubledSlot {
    let isTaken = false;
    let isCommitted = false;
    return {
      ms: this.#patienceMs,
      isStrict: true,
      onLate: () => {
        if (!isTaken && this.#taken >= this.#max && !isCommitted)
          throw new CrowdedError("The BMC gave no answer in time, and other BMCs without an answer hold all slots.");
        if (!isTaken) this.#taken += 1;
        isTaken = true;
        return "STEP";
      },
      commit() {
        isCommitted = true;
      },
      release: () => {
        if (isTaken) this.#taken -= 1;
        isTaken = false;
      },
    };
  }
}

// ---- readings

/**
 * Of one reading of a node's power, which goes on in the lane of nodes without an answer. One of the background ends,
 * so that the next node is read; its next reading has its whole time.
 */
export class ReadingPatience implements Patience {
  readonly ms: number;
  readonly isStrict = false;
  readonly lateReason: string;
  isLate = false;
  readonly #isBackground: boolean;

  constructor(isBackground: boolean, ms = PATIENCE_MS) {
    this.ms = ms;
    this.lateReason = `the BMC did not answer within ${ms / 1000} s`;
    this.#isBackground = isBackground;
  }

  onLate(): Lane {
    this.isLate = true;
    if (this.#isBackground) throw new LateAnswerError(this.lateReason);
    return "TROUBLED";
  }
}
