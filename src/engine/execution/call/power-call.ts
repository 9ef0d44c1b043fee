/** The power of a node: read and set through the driver that it takes `power` from, within a step or outside of one. */
import type { BootOptions, NodePower, PowerAction, PowerState, StepResult } from "../../../drivers/driver.ts";
import { Deadline, leftUntil } from "../../../drivers/deadline.ts";
import { INTERFACES, stepsOf } from "../../../drivers/interfaces.ts";
import type { InterfaceName } from "../../../drivers/interfaces.ts";
import { HeartbeatLostError } from "../../../drivers/isolation/protocol.ts";
import type { Log } from "../../../log.ts";
import { mustNotBeCut } from "../../../lifecycle/touches.ts";
import type { BootDeviceName } from "../../../lifecycle/verbs.ts";
import type { BootModeName } from "../../../lifecycle/verbs.ts";
import { BOOT_STEP, DRIVER_BOOT_DEVICE, isVerification, powerChangeOf } from "../../plans/reserved-steps.ts";
import type { DriverTry } from "../../../store/records.ts";
import { CallTimeoutError, withDeadline } from "./call-deadline.ts";
import type { CallBasis, StepBasis } from "./driver-call.ts";
import { faultOf, isTimeout } from "./driver-result.ts";
import type { Fault } from "./driver-result.ts";
import { DriverChain } from "./interface-call.ts";
import type { Machine } from "./machine.ts";
import { LateAnswerError, ReadingPatience } from "./patience.ts";

/** The power as it was read or set last; null if neither. */
export interface SeenPower {
  state: PowerState | null;
  /** The driver that read it last. */
  readBy?: string | null;
}

/** The node's power interface. It notes in `seen` what it reads and sets. */
export function nodePower(basis: CallBasis, signal: AbortSignal, seen: SeenPower): NodePower {
  const { machine } = basis;
  const chain = new DriverChain(basis, signal);
  const read = async () => {
    const found = await chain.call({
      interface: "power",
      name: "power read",
      isRead: true,
      isShort: true,
      function:
        ({ power }) =>
        async (call) => {
          const state: unknown = await power.read(call);
          if (state !== "ON" && state !== "OFF" && state !== "UNKNOWN")
            throw new Error(`The driver read the power as ${JSON.stringify(state)}, which is not a power state.`);
          seen.state = state;
          return state;
        },
    });
    seen.readBy = chain.answeredBy("power");
    return found;
  };
  return {
    read,
    async set(action) {
      const wanted: PowerState = action === "ON" || action === "REBOOT" ? "ON" : "OFF";
      if (action === "REBOOT" || (await read()) !== wanted) {
        // Cancelled during the read: nothing waits for the change any more.
        signal.throwIfAborted();
        basis.patience?.commit?.();
        await chain.call({
          interface: "power",
          name: `power set ${action.toLowerCase().replaceAll("_", " ")}`,
          function: ({ power }) => power.set && (async (call) => power.set?.(call, action)),
        });
        seen.state = wanted;
      }
      if (machine.lastSet) machine.lastSet.power = wanted;
    },
    async setBootDevice(device, { persistent = false, mode, other, url }: Partial<BootOptions> = {}) {
      basis.patience?.commit?.();
      await chain.call({
        interface: "power",
        name: "power boot device",
        function: ({ power }) =>
          power.setBootDevice &&
          (async (call) => {
            const options = { persistent, ...(mode && { mode }), ...(other && { other }), ...(url && { url }) };
            await power.setBootDevice?.(call, device, options);
          }),
      });
    },
  };
}

// ---- within a step

const DONE = { kind: "done" } as const satisfies StepResult;

/** Runs one of the engine's power steps. `basis.patience` bounds its reads. */
export async function runPowerStep(
  basis: StepBasis & Pick<CallBasis, "patience">,
  signal: AbortSignal,
  seen: SeenPower,
): Promise<StepResult> {
  const { step } = basis;
  const power = nodePower({ ...basis, lane: "STEP" }, signal, seen);
  const change = powerChangeOf(step);
  if (isVerification(step)) await power.read();
  else if (step.name === BOOT_STEP) {
    const { device, persistent, mode } = step.args;
    await power.setBootDevice(DRIVER_BOOT_DEVICE[device as BootDeviceName], {
      persistent: persistent === true,
      ...(typeof mode === "string" && { mode: mode as BootModeName }),
    });
  } else if (change === "SOFT_OFF" || change === "SOFT_REBOOT") {
    const result = await softPowerOff(basis, signal, power);
    if (change === "SOFT_REBOOT") await power.set("ON");
    return result;
  } else if (change) await power.set(change);
  else throw new Error(`There is no power step ${step.name}.`);
  return DONE;
}

/**
 * Asks the operating system to shut down, and cuts the power if that takes too long; the output then says `forced`. The
 * system's timeout counts from the beginning of the attempt. The rest of the step's time is for cutting the power.
 */
async function softPowerOff(
  basis: StepBasis & Pick<CallBasis, "patience">,
  signal: AbortSignal,
  power: NodePower,
): Promise<StepResult> {
  const { machine, step, deadline, stepLog, log, about } = basis;
  const seconds = step.args["timeoutSeconds"];
  const until =
    typeof seconds === "number"
      ? new Deadline(leftUntil(deadline) - (step.timeoutSeconds - seconds) * 1000, deadline)
      : deadline;
  let forced = false;
  try {
    await withDeadline(until, signal, (softSignal) =>
      nodePower({ ...basis, lane: "STEP", deadline: until }, softSignal, { state: null }).set("SOFT_OFF"),
    );
  } catch (error) {
    if (signal.aborted || !(error instanceof CallTimeoutError || isTimeout(error))) throw error;
    forced = (await power.read()) !== "OFF";
    const text = forced
      ? `Node ${machine.node.name} did not shut down in time; its power is cut.`
      : `Node ${machine.node.name} shut down at the last moment.`;
    log.info({ ...about, node: machine.node.name }, text);
    stepLog.line(text);
  }
  // Does nothing if the power is off already.
  await power.set("OFF");
  return forced ? { kind: "done", output: { forced } } : DONE;
}

// ---- outside of a step

type PowerSetting = Pick<CallBasis, "deadline" | "lane" | "confirm" | "kill" | "log"> & {
  /** Cancels the call. */
  readonly end?: AbortSignal;
};

/** Sets a node's power. Returns the state that it has then. */
export async function setPower(
  machine: Machine,
  action: PowerAction,
  { end = new AbortController().signal, ...how }: PowerSetting,
): Promise<PowerState> {
  const seen: SeenPower = { state: null };
  await withDeadline(how.deadline, end, (signal) => nodePower({ machine, ...how }, signal, seen).set(action));
  return seen.state ?? "UNKNOWN";
}

/** The power of a node as its BMC reports it, or why there is no report. */
export type PowerReading =
  | {
      readonly state: PowerState;
      /** Absent: it was set, not read. */
      readonly driver?: string | null;
      /** The machine does nothing that must not be cut, as it reports. Asked only of a node that is MACHINE_BUSY. */
      readonly isIdle?: true;
    }
  | Omit<Fault, "retryable">;

export interface ReadingTime {
  /** Of the call; held while it waits for a slot. */
  readonly deadline: Deadline;
  /** Of the wait and the call together. */
  readonly all: Date;
  /** Collects the calls if the node names several drivers. */
  readonly tries?: DriverTry[];
  /** Ends with the patience, so that the next node is read. */
  readonly isBackground?: boolean;
  readonly patienceMs?: number;
}

/** A machine with many tasks and drives is read in many requests. */
const ACTIVITY_MS = 60_000;

/**
 * Whether the machine reports that it does nothing that must not be cut; false without an answer, and if the node takes
 * such steps from another driver, of whose work this one knows nothing.
 */
async function readsIdle(basis: CallBasis, cancel: AbortSignal): Promise<boolean> {
  const { composition } = basis.machine;
  const deadline = new Deadline(ACTIVITY_MS);
  try {
    const { activity, reporter } = await withDeadline(deadline, cancel, async (signal) => {
      const chain = new DriverChain({ ...basis, deadline }, signal);
      const found: unknown = await chain.call({
        interface: "power",
        name: "power read activity",
        isRead: true,
        function: ({ power }) => power.readActivity && (async (call) => power.readActivity?.(call)),
      });
      return { activity: found, reporter: chain.answeredBy("power") };
    });
    const isOfOther = (name: InterfaceName) => {
      const driver = composition.giver(name);
      return driver && driver.name !== reporter && stepsOf(driver, name)?.steps.some(mustNotBeCut);
    };
    return activity === null && !INTERFACES.some(isOfOther);
  } catch (error) {
    if (error instanceof HeartbeatLostError || cancel.aborted) throw error;
    return false;
  }
}

/** If more of the call's time is left than this, in ms, its end says nothing about the BMC. */
const TIME_LEFT_MS = 1_000;

/** Reads a node's power. NO_SLOT: it got no slot, or got it too late. */
export async function readPower(
  machine: Machine,
  { deadline, all, tries, isBackground = false, patienceMs }: ReadingTime,
  cancel: AbortSignal,
  log: Log,
): Promise<PowerReading | "NO_SLOT"> {
  const isTroubled = machine.node.powerProblem !== null;
  const seen: SeenPower = { state: null };
  const patience = new ReadingPatience(isBackground, patienceMs);
  const basis: CallBasis = {
    machine,
    deadline,
    lane: isTroubled ? "TROUBLED" : "READING",
    log,
    ...(tries && { tries }),
    ...(!isTroubled && { patience }),
  };
  try {
    const state = await withDeadline(all, cancel, (until) =>
      withDeadline(deadline, until, (signal) => nodePower(basis, signal, seen).read()),
    );
    const isIdle = machine.node.faultKind === "MACHINE_BUSY" && (await readsIdle(basis, cancel));
    return { state, driver: seen.readBy ?? null, ...(isIdle && { isIdle }) };
  } catch (error) {
    if (error instanceof HeartbeatLostError) return "NO_SLOT";
    const isOver = leftUntil(all) <= 0;
    if (error instanceof LateAnswerError || (patience.isLate && isOver))
      return { code: "TIMEOUT", reason: patience.lateReason, failureKind: "TIMEOUT" };
    if (isOver && leftUntil(deadline) > TIME_LEFT_MS) return "NO_SLOT";
    if (error instanceof CallTimeoutError) return { code: "TIMEOUT", reason: "the BMC did not answer in time" };
    const { retryable: _, ...fault } = faultOf(error, machine.redactor);
    return fault;
  }
}
