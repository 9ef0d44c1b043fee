/**
 * Performs one step: calls the driver, bounds it, and turns whatever comes of it into one of four outcomes. Nothing is
 * stored here, and a driver can do what it likes: throw, hang, return junk, ignore its signal. Each is an outcome.
 */
import { messageOf } from "../../errors.ts";
import type { ErrorCode } from "../../errors.ts";
import type {
  BootDevice,
  Call,
  Driver,
  DriverError,
  NodePower,
  PowerAction,
  PowerState,
  StepCall,
  StepResult,
} from "../../drivers/driver.ts";
import { Deadline, leftUntil, whenOver } from "../../drivers/deadline.ts";
import { dispatched } from "../../drivers/isolation/dispatch.ts";
import { validated } from "../../drivers/issues.ts";
import type { Lane } from "../../drivers/isolation/lanes.ts";
import { WorkerUnresponsiveError } from "../../drivers/isolation/protocol.ts";
import { findStep } from "../../drivers/registry.ts";
import type { AnyDriver, AnyStep, Composition, Registry } from "../../drivers/registry.ts";
import type { Log } from "../../log.ts";
import { noopObserver } from "../../observer.ts";
import type { Observer, StepAbout } from "../../observer.ts";
import type { NodeRow, Secrets } from "../../store/nodes.ts";
import type { JsonObject, PlannedStep, StoredJson } from "../../store/records.ts";
import type { AttemptRow } from "../../store/attempts.ts";
import { createRedactor, cutTo, isStorable } from "../input/secret-redactor.ts";
import type { Redactor } from "../input/secret-redactor.ts";
import { ENGINE_INTERFACE, POWER_STEPS, isReserved, isReservedWait } from "../plans/reserved-steps.ts";

export type StepOutcome =
  /** `toVerify`: the step has a verify part, which is still to come. */
  | {
      readonly kind: "done";
      readonly output: StoredJson;
      readonly toVerify: boolean;
      readonly powerState: PowerState | null;
    }
  | {
      readonly kind: "wait";
      readonly seconds: number;
      readonly onCallback: boolean;
      readonly memo: StoredJson;
      readonly powerState: PowerState | null;
    }
  | {
      readonly kind: "failed";
      readonly code: ErrorCode;
      readonly reason: string;
      readonly retryable: boolean;
      readonly powerState: PowerState | null;
    }
  | { readonly kind: "aborted"; readonly ignoredSignal: boolean; readonly powerState: PowerState | null };

/** Of a step whose process gave it up because this one was paused for as long as a lease lasts: whoever holds the run next finds out what became of it. */
export type StepLost = { readonly kind: "lost"; readonly reason: string };

/** A node with its drivers and settings: what any call to a driver is made of. */
export interface Machine {
  readonly node: NodeRow;
  readonly composition: Composition;
  readonly redactor: Redactor;
  /** The power that was last set through it, by a step or by its undoing; null: none was. */
  readonly lastSet?: { power: "ON" | "OFF" | null };
  /** Whom calls to the machine are told. Absent: nobody. */
  readonly observer?: Observer;
  settingsOf(driver: AnyDriver): unknown;
}

/** Opens a node for driving, or says in a sentence why it cannot be. */
export async function openMachine(
  registry: Registry,
  node: NodeRow,
  secrets: Secrets,
  observer: Observer = noopObserver,
): Promise<Machine | { readonly problem: string }> {
  const composed = registry.compose(node);
  if ("problem" in composed) return composed;
  const settings = new Map<string, unknown>();
  const redactor = createRedactor(Object.values(secrets).flatMap((fields) => Object.values(fields)));
  for (const driver of composed.composition.drivers) {
    const full = { ...node.settings[driver.name], ...secrets[driver.name] };
    const result = await validated(driver.settings, full);
    if (result.issues)
      return {
        problem: `its settings for driver "${driver.name}" do not fit that driver: ${reasonOf(result.issues.map(({ message }) => message).join("; "), redactor)}.`,
      };
    settings.set(driver.name, result.value);
  }
  return {
    node,
    composition: composed.composition,
    redactor,
    lastSet: { power: null },
    observer,
    settingsOf: (driver) => settings.get(driver.name),
  };
}

/** A step to be called, without how it may be ended. */
export type StepBasis = Omit<StepRequest, "cancel" | "abandon" | "graceMs">;

export interface StepRequest {
  readonly machine: Machine;
  readonly step: PlannedStep;
  /** Which part of the step is entered. */
  readonly part: AttemptRow["part"];
  readonly deadline: Date;
  readonly memo: StoredJson;
  readonly callback: StoredJson;
  readonly callbackPath: string;
  readonly attemptKey: string;
  readonly variables: JsonObject;
  /** Which entry of which run it is, for whoever watches. */
  readonly about?: Pick<StepAbout, "operationId" | "runId" | "attempt">;
  /** Asked before the machine is, and once more when the call has its process: rejects when this one does not hold the run any more. */
  confirm(): Promise<void>;
  /** Fires when the step is to be cancelled. */
  readonly cancel: AbortSignal;
  /** Fires when nobody waits for the step any longer, though it must not be cut: it is left to itself. */
  readonly abandon: AbortSignal;
  /** How long a step that was told to end may take to do so before it is left to itself. */
  readonly graceMs: number;
  readonly log: Log;
  readonly stepLog: StepOutput;
}

/** Takes the lines and the progress of a step, with secrets masked. */
export interface StepOutput {
  line(text: string): void;
  /** 0 to 100; the newest replaces the one before. */
  progress(percent: number, message: string | null): void;
}

/** How long a step waits for a call-back that does not say how long: for a boot, or an agent that reports. */
const SILENCE_SECONDS = 1_800;
/** Characters of JSON, of an output as of a memo: they are for people and later steps, not for files. */
const OUTPUT_LENGTH_MAX = 256 * 1024;
const REASON_LENGTH_MAX = 2_000;
const CALL_NAME_LENGTH_MAX = 60;

export async function performStep(request: StepRequest): Promise<StepOutcome | StepLost> {
  const { machine, step, part, about } = request;
  if (!about || !machine.observer) return performed(request);
  const told = { ...about, node: machine.node.name, step: `${step.interface}.${step.name}`, driver: step.driver, part };
  return machine.observer.step(told, () => performed(request));
}

async function performed(request: StepRequest): Promise<StepOutcome | StepLost> {
  const { step, machine, cancel, graceMs } = request;
  const power = { state: null as PowerState | null };
  const end = new AbortController();
  const signal = AbortSignal.any([cancel, end.signal]);
  const work = (async (): Promise<StepOutcome | StepLost> => {
    const outcome = outcomeOf(await enter(request, signal, power), machine.redactor, power);
    return outcome.kind === "done"
      ? { ...outcome, toVerify: request.part === "RUN" && declaredStep(request)?.step.verify !== undefined }
      : outcome;
  })().catch((error: unknown): StepOutcome | StepLost =>
    error instanceof WorkerUnresponsiveError
      ? { kind: "lost", reason: error.message }
      : { ...failureOf(error, machine.redactor), powerState: power.state },
  );
  const timers: NodeJS.Timeout[] = [];
  /** The outcome of a step that has been told to end: when it has, or has been given the time to. Until then nothing else may begin on the machine. */
  const ending = (outcome: (ignoredSignal: boolean) => StepOutcome) =>
    new Promise<StepOutcome>((give) => {
      void work.then(() => give(outcome(false)));
      timers.push(setTimeout(() => give(outcome(true)), graceMs));
    });
  const over = Promise.withResolvers<StepOutcome>();
  const calm = whenOver(request.deadline, () => {
    end.abort(new Error("The step's time is over."));
    const reason = `${step.interface}.${step.name} did not end within ${step.timeoutSeconds} s`;
    over.resolve(
      ending((ignoredSignal) => ({
        kind: "failed",
        code: "TIMEOUT",
        reason: ignoredSignal ? `${reason} and may still be running` : reason,
        retryable: true,
        powerState: power.state,
      })),
    );
  });
  const cut = new Promise<StepOutcome>((give) => {
    const onAbort = () =>
      give(ending((ignoredSignal) => ({ kind: "aborted", ignoredSignal, powerState: power.state })));
    if (cancel.aborted) onAbort();
    else cancel.addEventListener("abort", onAbort, { once: true });
  });
  const abandoned = new Promise<StepOutcome>((give) => {
    const leave = () => give({ kind: "aborted", ignoredSignal: true, powerState: power.state });
    if (request.abandon.aborted) leave();
    else request.abandon.addEventListener("abort", leave, { once: true });
  });
  // What a step answers that has been told to end counts no more. Its driver may have seen before us that its time is over.
  const ended = work.then((outcome) =>
    signal.aborted || (outcome.kind === "failed" && leftUntil(request.deadline) <= 0)
      ? new Promise<never>(() => {})
      : outcome,
  );
  // And what it has begun and left, a change of power say, is not to go on beside what comes next.
  void ended.then(() => end.abort(new Error("The step has ended.")));
  try {
    return await Promise.race([cut, abandoned, over.promise, ended]);
  } finally {
    calm();
    for (const timer of timers) clearTimeout(timer);
  }
}

/** Enters the step: the engine's own ones here, the others where their driver declares them. */
async function enter(request: StepRequest, signal: AbortSignal, power: { state: PowerState | null }): Promise<unknown> {
  await request.confirm();
  const { step, part } = request;
  if (step.interface === ENGINE_INTERFACE) return enterReserved(request);
  if (step.interface === "power")
    return enterPower(request, signal, powerOf({ ...request, lane: "STEP" }, signal, power));
  const declared = declaredStep(request);
  if (!declared) throw new Error(`Driver "${step.driver}" no longer has a step ${step.interface}.${step.name}.`);
  // A step holds a slot already: the calls of power that it makes itself wait for none.
  const nodePower = powerOf({ ...request, lane: "NESTED" }, signal, power);
  const given = stepCall({ ...request, lane: "STEP" }, declared.driver, signal, nodePower);
  if (part !== "VERIFY") return declared.step.run(given);
  // A newer version of the driver may look at nothing any more.
  return declared.step.verify ? declared.step.verify(given) : DONE;
}

const DONE = { kind: "done" } as const satisfies StepResult;

/** A hold never gets here: nobody is inside it. */
function enterReserved({ step, memo }: StepRequest): StepResult {
  if (!isReservedWait(step)) throw new Error(`There is no reserved step ${step.name}.`);
  const seconds = step.args["seconds"];
  return memo === null ? { kind: "wait", seconds: typeof seconds === "number" ? seconds : 0, memo: "waited" } : DONE;
}

async function enterPower(request: StepRequest, signal: AbortSignal, nodePower: NodePower): Promise<StepResult> {
  const { step } = request;
  const action = (Object.keys(POWER_STEPS) as PowerAction[]).find((name) => POWER_STEPS[name] === step.name);
  if (step.phase === "verify") await nodePower.read();
  else if (action === "SOFT_OFF") return softPowerOff(request, signal, nodePower);
  else if (action) await nodePower.set(action);
  else throw new Error(`There is no power action ${step.name}.`);
  return DONE;
}

/**
 * Asks the system to shut down, and cuts the power when that takes longer than it may; the output then says `forced`. The
 * system's time counts from the beginning of the attempt: what the step has besides is for the cut.
 */
async function softPowerOff(request: StepRequest, signal: AbortSignal, nodePower: NodePower): Promise<StepResult> {
  const { machine, step, deadline, stepLog, log, about } = request;
  const seconds = step.args["timeoutSeconds"];
  const until =
    typeof seconds === "number" ? new Deadline(leftUntil(deadline) - (step.timeoutSeconds - seconds) * 1000) : deadline;
  let forced = false;
  try {
    await withDeadline(until, signal, (patience) =>
      powerOf({ ...request, lane: "STEP", deadline: until }, patience, { state: null }).set("SOFT_OFF"),
    );
  } catch (error) {
    if (signal.aborted || !(error instanceof CallTimeoutError || isTimeout(error))) throw error;
    forced = (await nodePower.read()) !== "OFF";
    const text = forced
      ? `Node ${machine.node.name} did not shut down in time; its power is cut.`
      : `Node ${machine.node.name} shut down at the last moment.`;
    log.info({ ...about, node: machine.node.name }, text);
    stepLog.line(text);
  }
  // What is off already is left alone.
  await nodePower.set("OFF");
  return forced ? { kind: "done", output: { forced } } : DONE;
}

/** Calls the step's `abort`, if it has one; bounded by `deadline`. What the engine runs itself no driver can undo. */
export async function abortStep(request: StepBasis): Promise<void> {
  const declared = declaredStep(request);
  if (!declared?.step.abort) return;
  const { driver, step } = declared;
  const undo = async (signal: AbortSignal) =>
    step.abort?.(
      stepCall(
        { ...request, lane: "ENDING" },
        driver,
        signal,
        powerOf({ ...request, lane: "NESTED" }, signal, { state: null }),
      ),
    );
  await withDeadline(request.deadline, new AbortController().signal, undo);
}

/** A step as its driver declares it; undefined for the engine's own steps, and for one that the driver no longer has. */
function declaredStep({
  machine,
  step,
}: Pick<StepRequest, "machine" | "step">): { readonly driver: AnyDriver; readonly step: AnyStep } | undefined {
  if (isReserved(step) || step.phase === "verify" || step.phase === "power") return undefined;
  const driver = machine.composition.drivers.find(({ name }) => name === step.driver);
  const declared = driver && findStep(driver, step.phase, step.name);
  return driver && declared && { driver, step: declared };
}

/** How the power is set outside of a step: bounded by `deadline`, and ended by `end`. */
export type PowerSetting = Pick<CallBasis, "deadline" | "lane" | "confirm" | "log"> & { readonly end?: AbortSignal };

/** Sets a node's power outside of a step. Returns the state it is in then. */
export async function setPower(
  machine: Machine,
  action: PowerAction,
  { end = new AbortController().signal, ...how }: PowerSetting,
): Promise<PowerState> {
  const power = { state: null as PowerState | null };
  await withDeadline(how.deadline, end, (signal) => powerOf({ machine, ...how }, signal, power).set(action));
  return power.state ?? "UNKNOWN";
}

/** The power of a node as its BMC tells it, or why it does not. */
export type PowerReading = { readonly state: PowerState } | { readonly code: ErrorCode; readonly reason: string };

/** Bounds of a reading: of the call, held while it waits for a place, and of all of it. */
export interface ReadingTime {
  readonly deadline: Deadline;
  readonly all: Date;
}

/** A call that was cut with more than this of its time left tells nothing of its BMC, in ms. */
const SHORT_OF_MS = 1_000;

/** Reads a node's power outside any step; ended by `end`. NO_TURN: it had no place to be read in, or had it too late. */
export async function readPower(
  machine: Machine,
  { deadline, all }: ReadingTime,
  end: AbortSignal,
  log: Log,
): Promise<PowerReading | "NO_TURN"> {
  const patience = new AbortController();
  const calm = whenOver(all, () => patience.abort(new CallTimeoutError("there was no time left")));
  const lane = machine.node.powerProblem === null ? "READING" : "TROUBLED";
  try {
    return {
      state: await withDeadline(deadline, AbortSignal.any([end, patience.signal]), (signal) =>
        powerOf({ machine, deadline, lane, log }, signal, { state: null }).read(),
      ),
    };
  } catch (error) {
    if (patience.signal.aborted && leftUntil(deadline) > SHORT_OF_MS) return "NO_TURN";
    if (error instanceof WorkerUnresponsiveError) return "NO_TURN";
    if (error instanceof CallTimeoutError) return { code: "TIMEOUT", reason: "the BMC did not answer in time" };
    const { code, reason } = failureOf(error, machine.redactor);
    return { code, reason };
  } finally {
    calm();
  }
}

/** A call took longer than it may. Drivers know it by the name that the reason of `AbortSignal.timeout` has. */
export class CallTimeoutError extends Error {
  override readonly name = "TimeoutError";
}

/** Makes a call that ends with `end`, or with a `TimeOver` at the deadline, whether or not the driver heeds its signal. */
export async function withDeadline<T>(
  deadline: Date,
  end: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const clock = new AbortController();
  const calm = whenOver(deadline, () => clock.abort(new CallTimeoutError("it did not answer in time")));
  const signal = AbortSignal.any([end, clock.signal]);
  const over = Promise.withResolvers<never>();
  const leave = () => over.reject(signal.reason);
  over.promise.catch(() => {});
  if (signal.aborted) leave();
  else signal.addEventListener("abort", leave, { once: true });
  try {
    // A driver that fails at the deadline may have seen before us that it has passed.
    const done = work(signal).catch((error: unknown) =>
      leftUntil(deadline) > 0 ? Promise.reject(error) : over.promise,
    );
    done.catch(() => {});
    return await Promise.race([done, over.promise]);
  } finally {
    calm();
    // A signal that is made of others is kept for as long as anybody listens to it, though nobody else knows it.
    signal.removeEventListener("abort", leave);
  }
}

/** `stepLog`: within a step. */
type CallBasis = Pick<StepRequest, "machine" | "deadline" | "log"> &
  Partial<Pick<StepRequest, "stepLog" | "about" | "confirm">> & { readonly lane: Lane };

function call(basis: CallBasis, driver: AnyDriver, signal: AbortSignal): Call<unknown> {
  const { machine, deadline, log, stepLog, about, lane, confirm } = basis;
  const { id, name, powerState, labels } = machine.node;
  const given: Call<unknown> = {
    node: { id, name, powerState, labels },
    settings: machine.settingsOf(driver),
    signal,
    deadline,
    log: (message: unknown) => {
      const text = machine.redactor.text(String(message));
      log.debug({ ...about, node: name, driver: driver.name }, text);
      stepLog?.line(text);
    },
    timed: async (what: unknown, work) => toldOf(machine, driver, callName(what, machine.redactor), work),
  };
  return dispatched(given, { lane, confirm });
}

/** What a driver calls its call, fit to be told. */
export function callName(given: unknown, redactor: Redactor): string {
  return cutTo(redactor.text(String(given)), CALL_NAME_LENGTH_MAX);
}

function toldOf<T>(
  { node, observer = noopObserver }: Machine,
  driver: AnyDriver,
  name: string,
  work: () => Promise<T>,
): Promise<T> {
  return observer.call({ driver: driver.name, name, node: node.name }, work);
}

function stepCall(
  request: StepBasis & Pick<CallBasis, "lane">,
  driver: AnyDriver,
  signal: AbortSignal,
  power: NodePower,
): StepCall<unknown> {
  return {
    ...call(request, driver, signal),
    args: request.step.args,
    memo: request.memo,
    callback: request.callback,
    callbackPath: request.callbackPath,
    attemptKey: request.attemptKey,
    variables: request.variables,
    power,
    progress(percent, message) {
      const bound = Math.round(Math.min(100, Math.max(0, Number.isFinite(percent) ? percent : 0)));
      request.stepLog.progress(
        bound,
        typeof message === "string" ? cutTo(request.machine.redactor.text(message), 1000) : null,
      );
    },
  };
}

function powerOf(basis: CallBasis, signal: AbortSignal, seen: { state: PowerState | null }): NodePower {
  const driver = basis.machine.composition.giver("power") as Driver<unknown>;
  const given = call(basis, driver, signal);
  const told = async <T>(name: string, work: () => Promise<T>) => {
    await basis.confirm?.();
    return toldOf(basis.machine, driver, name, work);
  };
  const read = async () => {
    const state: unknown = await told("power read", () => driver.power.read(given));
    if (state !== "ON" && state !== "OFF" && state !== "UNKNOWN")
      throw new Error(`The driver read the power as ${JSON.stringify(state)}, which is no power state.`);
    seen.state = state;
    return state;
  };
  return {
    read,
    async set(action) {
      const wanted: PowerState = action === "ON" || action === "REBOOT" ? "ON" : "OFF";
      if (action === "REBOOT" || (await read()) !== wanted) {
        // Cut while the power was read: nobody waits for the change any more.
        signal.throwIfAborted();
        await told(`power set ${action.toLowerCase().replaceAll("_", " ")}`, () => driver.power.set(given, action));
        seen.state = wanted;
      }
      if (basis.machine.lastSet) basis.machine.lastSet.power = wanted;
    },
    async setBootDevice(device: BootDevice, options) {
      if (!driver.power.setBootDevice) throw new Error(`Driver "${driver.name}" cannot set the boot device.`);
      await told("power boot device", async () =>
        driver.power.setBootDevice?.(given, device, { persistent: options?.persistent ?? false }),
      );
    },
  };
}

/** Checks what a driver returned: it is not ours, so it is not trusted. */
function outcomeOf(result: unknown, redactor: Redactor, power: { readonly state: PowerState | null }): StepOutcome {
  const junk = (what: string): StepOutcome => ({
    kind: "failed",
    code: "BACKEND_FAILED",
    reason: reasonOf(`The driver returned ${what}`, redactor),
    retryable: false,
    powerState: power.state,
  });
  if (typeof result !== "object" || result === null) return junk(`${typeof result} in place of a result`);
  const given = result as Record<string, unknown>;
  switch (given["kind"]) {
    case "done": {
      const output = storable(given["output"]);
      return output === undefined
        ? junk("an output that is no JSON or is too large")
        : { kind: "done", output: redactor.json(output), toVerify: false, powerState: power.state };
    }
    case "wait": {
      const seconds = given["seconds"] ?? (given["callback"] === true ? SILENCE_SECONDS : undefined);
      const memo = storable(given["memo"]);
      if (typeof seconds !== "number" || !(seconds >= 0)) return junk("a wait without seconds and without a call-back");
      if (memo === undefined || !isStorable(memo))
        return junk("a memo that is no JSON, is too large, or has characters that cannot be stored");
      return { kind: "wait", seconds, onCallback: given["callback"] === true, memo, powerState: power.state };
    }
    case "failed":
      if (typeof given["reason"] !== "string") return junk("a failure without a reason");
      return {
        kind: "failed",
        code: "BACKEND_FAILED",
        reason: reasonOf(given["reason"], redactor),
        retryable: given["retryable"] === true,
        powerState: power.state,
      };
    default:
      return junk(`a result of kind ${JSON.stringify(given["kind"])}`);
  }
}

/** A driver's words as they are stored: fit to be shown, and no longer than people read. */
function reasonOf(text: string, redactor: Redactor): string {
  const fit = redactor.text(text);
  return fit.length > REASON_LENGTH_MAX ? `${cutTo(fit, REASON_LENGTH_MAX)}…` : fit;
}

/** A value as JSON holds it; undefined when it holds it not, or when it is too large. An absent value is null. */
function storable(value: unknown): StoredJson | undefined {
  if (value === undefined) return null;
  try {
    const text = JSON.stringify(value);
    if (text === undefined || text.length > OUTPUT_LENGTH_MAX) return undefined;
    return JSON.parse(text) as StoredJson;
  } catch {
    return undefined;
  }
}

/** Why a driver threw, fit to be stored. */
export function failureOf(
  error: unknown,
  redactor: Redactor,
): { readonly kind: "failed"; readonly code: ErrorCode; readonly reason: string; readonly retryable: boolean } {
  const reason = reasonOf(messageOf(error), redactor);
  if (!isDriverError(error)) return { kind: "failed", code: "BACKEND_FAILED", reason, retryable: false };
  return {
    kind: "failed",
    code: isTimeout(error) || error.kind === "UNREACHABLE" ? "TIMEOUT" : "BACKEND_FAILED",
    reason,
    retryable: error.retryable,
  };
}

function isDriverError(error: unknown): error is DriverError {
  return error instanceof Error && error.name === "DriverError";
}

function isTimeout(error: unknown): boolean {
  return isDriverError(error) && error.kind === "TIMEOUT";
}
