/**
 * Calls a function of an interface of a node: with the first driver that the node names for it, and after a failure
 * that says nothing about the machine with the next one. A driver that the machine has answered is the last one.
 */
import { Deadline, leftUntil } from "../../../drivers/deadline.ts";
import type { Call } from "../../../drivers/driver.ts";
import type { AnyDriver, FunctionInterface } from "../../../drivers/interfaces.ts";
import { unsupported } from "../../../drivers/driver-error.ts";
import { messageOf } from "../../../errors.ts";
import type { DriverTry } from "../../../store/records.ts";
import { cutTo } from "../../../runtime/text.ts";
import { CallTimeoutError, withDeadline } from "./call-deadline.ts";
import { driverCall } from "./driver-call.ts";
import type { CallBasis } from "./driver-call.ts";
import { isDriverError } from "./driver-result.ts";
import type { Machine } from "./machine.ts";
import { LateAnswerError, callController, kindOf } from "./patience.ts";

/** A call of a function that each driver of an interface may have. */
export interface InterfaceCall<Result> {
  readonly interface: FunctionInterface;
  /** For records, metrics and messages, such as `power set on`. */
  readonly name: string;
  /** A read has no effect, so that the next driver can be tried after a timeout too. */
  readonly isRead?: true;
  /** A read of a few requests, to which a sound machine answers promptly. */
  readonly isShort?: true;
  /** Servers of registered images among those of the URLs that it passes. */
  readonly imageServers?: readonly string[];
  /** Undefined: the driver does not have the function. */
  readonly function: (driver: AnyDriver) => ((call: Call<unknown>) => Promise<Result>) | undefined;
}

const REASON_LENGTH_MAX = 500;

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

  /** Throws the error of the driver that was tried last, or of one that may answer later where that one never will. */
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
        if (!(isAway(failure) && kindOf(error) === "UNSUPPORTED")) failure = error;
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
    const { deadline, lane, patience, isAwaited } = this.#basis;
    // A read leaves the drivers after it their share of the time.
    const limit = request.isRead && left > 1 ? new Deadline(leftUntil(deadline) / left, deadline) : deadline;
    return callController(machine, {
      driver,
      name: request.name,
      deadline: limit,
      lane,
      isAwaited,
      patience: request.isShort && patience,
      signal: this.#signal,
      make: (until, inLane) => {
        const { imageServers } = request;
        const call = (signal: AbortSignal) =>
          work(driverCall({ ...this.#basis, deadline: until, lane: inLane, imageServers }, driver, signal));
        return until === deadline ? call(this.#signal) : withDeadline(until, this.#signal, call);
      },
    });
  }
}

function isAway(error: unknown): boolean {
  return isDriverError(error) && error.away === true;
}

/** Whether a failure leaves the machine as it was, so that another driver may be tried. */
function leavesMachine(error: unknown, isRead = false): boolean {
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
