/**
 * Calls a function of an interface of a node: with the first driver that the node names for it, and after a failure
 * that says nothing about the machine with the next one. A driver that the machine has answered is the last one.
 */
import { Deadline, leftUntil } from "../../drivers/deadline.ts";
import type { Call, DriverErrorKind } from "../../drivers/driver.ts";
import { HeartbeatLostError } from "../../drivers/isolation/protocol.ts";
import { controllerOf } from "../../drivers/registry.ts";
import type { AnyDriver, FunctionInterface } from "../../drivers/interfaces.ts";
import type { Circuit, Controller, Pace } from "../../drivers/circuits.ts";
import type { Lane } from "../../drivers/isolation/lanes.ts";
import { unsupported } from "../../drivers/version-1.ts";
import { messageOf } from "../../errors.ts";
import type { DriverTry } from "../../store/records.ts";
import { cutTo } from "../../runtime/text.ts";
import { CallTimeoutError, withDeadline } from "./call-deadline.ts";
import { driverCall, observeCall } from "./driver-call.ts";
import type { CallBasis } from "./driver-call.ts";
import { isDriverError } from "./driver-result.ts";
import type { Machine } from "./machine.ts";

/** A call of a function that each driver of an interface may have. */
export interface InterfaceCall<Result> {
  readonly interface: FunctionInterface;
  /** For records, metrics and messages, such as `power set on`. */
  readonly name: string;
  /** A read has no effect, so that the next driver can be tried after a timeout too. */
  readonly isRead: boolean;
  /** A read of a few requests, to which a sound machine answers promptly. */
  readonly isShort?: true;
  /** Servers of registered images among those of the URLs that it passes. */
  readonly imageServers?: readonly string[];
  /** Undefined: the driver does not have the function. */
  readonly function: (driver: AnyDriver) => ((call: Call<unknown>) => Promise<Result>) | undefined;
}

const REASON_LENGTH_MAX = 500;
/** An answer that took more than this share of the patience is slow. */
const SLOW_SHARE = 0.7;

/** The machine gave no answer in the time that a prompt one needs, and its call was ended. */
export class LateAnswerError extends Error {}

/** The drivers of one entry of a step, or of one call outside of a step. */
export class DriverChain {
  readonly #basis: CallBasis;
  readonly #signal: AbortSignal;
  /** Index of the driver that answered last, by interface: the next call begins with it. */
  readonly #first = new Map<FunctionInterface, number>();

  constructor(basis: CallBasis, signal: AbortSignal) {
    this.#basis = basis;
    this.#signal = signal;
  }

  /** Throws the error of the driver that was tried last. */
  async call<Result>(request: InterfaceCall<Result>): Promise<Result> {
    const { machine, tries } = this.#basis;
    const drivers = machine.composition.givers(request.interface);
    if (drivers.length === 0)
      throw unsupported(`No driver of node ${machine.node.name} has a ${request.interface} interface.`);
    let failure: unknown;
    for (let index = this.#first.get(request.interface) ?? 0; index < drivers.length; index += 1) {
      const driver = drivers[index] as AnyDriver;
      try {
        const result = await this.#callOne(driver, request, drivers.length - index);
        this.#first.set(request.interface, index);
        if (drivers.length > 1) tries?.push(tryOf(machine, request, driver, null));
        return result;
      } catch (error) {
        if (drivers.length > 1) tries?.push(tryOf(machine, request, driver, error));
        failure = error;
        if (this.#signal.aborted || !leavesMachine(error, request.isRead)) throw error;
      }
    }
    throw failure;
  }

  /** The driver that answered the last call of an interface; null if none did. */
  answeredBy(name: FunctionInterface): string | null {
    const index = this.#first.get(name);
    return index === undefined ? null : (this.#basis.machine.composition.givers(name)[index]?.name ?? null);
  }

  async #callOne<Result>(driver: AnyDriver, request: InterfaceCall<Result>, left: number): Promise<Result> {
    const { machine } = this.#basis;
    const work = request.function(driver);
    if (!work) throw unsupported(`Driver "${driver.name}" cannot ${request.name}.`);
    await this.#basis.confirm?.();
    const { circuits } = machine;
    const controller = circuitKey(driver, machine.node);
    const open = circuits.enter(controller);
    if (open) throw circuitError(open);
    try {
      const { result, isSlow } = await observeCall(machine, driver, request.name, () =>
        this.#limited(driver, request, work, { left, controller }),
      );
      circuits.note(controller, isSlow ? "ANSWERED_SLOWLY" : "ANSWERED");
      return result;
    } catch (error) {
      circuits.note(controller, this.#answerIn(error));
      throw error;
    }
  }

  /** A read leaves the drivers after it their share of the time. */
  async #limited<Result>(
    driver: AnyDriver,
    { isRead, isShort, imageServers }: Pick<InterfaceCall<Result>, "isRead" | "isShort" | "imageServers">,
    work: (call: Call<unknown>) => Promise<Result>,
    { left, controller }: { readonly left: number; readonly controller: Controller },
  ): Promise<{ readonly result: Result; readonly isSlow: boolean }> {
    const { deadline, lane, patience } = this.#basis;
    const { circuits } = this.#basis.machine;
    const pace = circuits.paceOf(controller);
    const whole = isRead && left > 1 ? new Deadline(leftUntil(deadline) / left, deadline) : deadline;
    const make = (limit: Date, inLane: Lane) => {
      const call = (signal: AbortSignal) =>
        work(driverCall({ ...this.#basis, deadline: limit, lane: inLane, imageServers }, driver, signal));
      return limit === deadline ? call(this.#signal) : withDeadline(limit, this.#signal, call);
    };
    if (!patience || isShort !== true) return { result: await make(whole, lane), isSlow: pace === "SLOW" };
    if (pace === "FAILING" && patience.isStrict) return { result: await make(whole, patience.onLate()), isSlow: false };
    const takesAll = pace === "SLOW" || leftUntil(whole) <= patience.ms;
    const first = takesAll ? whole : new Deadline(patience.ms, whole);
    const before = leftUntil(first);
    try {
      const result = await make(first, lane);
      return { result, isSlow: before - leftUntil(first) > patience.ms * SLOW_SHARE };
    } catch (error) {
      if (takesAll || this.#signal.aborted || kindOf(error) !== "TIMEOUT") throw error;
    }
    circuits.noteLate(controller);
    return { result: await make(whole, patience.onLate()), isSlow: true };
  }

  /** Evidence of a failure about the controller. */
  #answerIn(error: unknown): Parameters<Machine["circuits"]["note"]>[1] {
    if (error instanceof LateAnswerError) return "NOTHING";
    const reason = cutTo(this.#basis.machine.redactor.text(messageOf(error)), REASON_LENGTH_MAX);
    if (error instanceof CallTimeoutError || this.#signal.reason instanceof CallTimeoutError)
      return { kind: "TIMEOUT", reason };
    if (this.#signal.aborted || error instanceof HeartbeatLostError) return "NOTHING";
    const kind = kindOf(error);
    if (kind === "UNREACHABLE" || kind === "TIMEOUT") return { kind, reason };
    return kind === "AUTHENTICATION" || kind === "REFUSED" || kind === "UNSUPPORTED" ? "ANSWERED" : "NOTHING";
  }
}

/** Whether a failure leaves the machine as it was, so that another driver may be tried. */
function leavesMachine(error: unknown, isRead: boolean): boolean {
  if (error instanceof LateAnswerError) return true;
  if (error instanceof CallTimeoutError) return isRead;
  if (!isDriverError(error)) return false;
  switch (error.kind) {
    case "UNREACHABLE":
    case "UNSUPPORTED":
      return true;
    case "TIMEOUT":
      return isRead || error.withoutEffect === true;
    default:
      return false;
  }
}

function kindOf(error: unknown): DriverErrorKind | null {
  if (error instanceof CallTimeoutError || error instanceof LateAnswerError) return "TIMEOUT";
  return isDriverError(error) ? error.kind : null;
}

function tryOf(
  { redactor }: Machine,
  { interface: of, name }: Pick<InterfaceCall<unknown>, "interface" | "name">,
  driver: AnyDriver,
  error: unknown,
): DriverTry {
  const made = { interface: of, call: name, driver: driver.name, at: new Date().toISOString() };
  if (error === null) return { ...made, kind: null, error: null };
  const text = cutTo(redactor.text(messageOf(error)), REASON_LENGTH_MAX);
  return { ...made, kind: kindOf(error) ?? "OTHER", error: text };
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

function circuitError({ driver, controller, failures, reason, nextProbeAt }: Circuit): Error {
  const message = `Controller ${controller} of driver ${driver} has not answered ${failures} times in a row: ${reason} It is tried again from ${nextProbeAt.toISOString()} on.`;
  return Object.assign(new Error(message), { name: "DriverError", kind: "UNREACHABLE", retryable: true });
}
