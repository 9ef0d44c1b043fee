/**
 * Driver `ipmi`: machines with an IPMI 2.0 BMC, through the program ipmitool. Power, boot device, event log,
 * and an inspection that does not affect a running system.
 *
 * ipmitool repeats a command whose reply is late, and a BMC can then execute it twice. So the driver uses no command
 * that has another effect the second time (`power cycle`, `power reset`): `set` reads the power, requests a state, and
 * reads again until the machine is in it. A reboot is off, wait, on, wait.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Call, DriverFactory, PowerAction, PowerState, Step, StepResult } from "../../src/drivers/driver.ts";
import { abilitiesOf } from "./abilities.ts";
import { readBootDevice, setBootDevice } from "./boot.ts";
import { ipmiDiscovery } from "./discover.ts";
import { clearEventLog, readEventLog } from "./event-log.ts";
import { IpmiError, beforeChange } from "./failure.ts";
import { healthOf, parseBmcInfo, parseFru, parseSensors } from "./inventory.ts";
import { createIpmitool, deadlinePassed, noIpmitool } from "./ipmitool.ts";
import type { Command, Ipmitool } from "./ipmitool.ts";
import { bmcName, controllerOf } from "../bmc-settings.ts";
import { ipmiSettings } from "./settings.ts";
import type { IpmiSettings } from "./settings.ts";
import { timeLeft } from "./time-left.ts";

type IpmiCall = Call<IpmiSettings>;

const POLL_FIRST_MILLISECONDS = 250;
const POLL_LONGEST_MILLISECONDS = 2000;
/**
 * Until a power change is requested again, which BMCs lose or refuse that are in the one before; at most this share of
 * the time that is left.
 */
const LOST_MILLISECONDS = 30_000;
const LOST_SHARE = 0.25;
/** Hundreds of sensors of a slow BMC take a minute or more. */
const SENSORS_SECONDS = 150;

const factory: DriverFactory<IpmiSettings> = ({ describing }) => {
  const ipmitool = describing ? noIpmitool : createIpmitool();
  return {
    contract: 2,
    name: "ipmi",
    version: "0.1.0",
    description: "Machines with an IPMI 2.0 BMC, through the program ipmitool.",
    permissions: ["PROGRAMS"],
    settings: ipmiSettings,
    power: {
      read: (call) => readPower(ipmitool, call),
      set: (call, action) => setPower(ipmitool, call, action),
      setBootDevice: (call, device, options) => setBootDevice(ipmitool, call, device, options),
      readBootDevice: (call) => readBootDevice(ipmitool, call),
    },
    inspect: {
      withoutReboot: true,
      supportsAbort: true,
      steps: [readInventory(ipmitool), readSensors(ipmitool), readEvents(ipmitool)],
    },
    clean: { supportsAbort: true, steps: [clearLogs(ipmitool)] },
    discover: ipmiDiscovery(ipmitool),
    abilities: (call) => abilitiesOf(ipmitool, call),
    controllerOf,
  };
};

export default factory;

async function readPower(ipmitool: Ipmitool, call: IpmiCall): Promise<PowerState> {
  const text = await ipmitool.run(call, {
    task: "report its power",
    words: ["chassis", "power", "status"],
    expect: /./,
  });
  const state = /Chassis Power is (on|off)\b/i.exec(text)?.[1]?.toUpperCase();
  return state === "ON" || state === "OFF" ? state : "UNKNOWN";
}

const ON: Target = { state: "ON", word: "on", task: "switch the machine on" };
const OFF: Target = { state: "OFF", word: "off", task: "switch the machine off" };
const SOFT_OFF: Target = { state: "OFF", word: "soft", task: "have the operating system shut down" };

interface Target {
  readonly state: "ON" | "OFF";
  readonly word: "on" | "off" | "soft";
  readonly task: string;
}

async function setPower(ipmitool: Ipmitool, call: IpmiCall, action: PowerAction): Promise<void> {
  const current = await readPower(ipmitool, call).catch((error: unknown) => {
    throw error instanceof IpmiError ? beforeChange(error) : error;
  });
  switch (action) {
    case "ON":
      return bringTo(ipmitool, call, ON, current);
    case "OFF":
      return bringTo(ipmitool, call, OFF, current);
    case "SOFT_OFF":
      return bringTo(ipmitool, call, SOFT_OFF, current);
    case "REBOOT":
      // After a crash between the two, this finds the machine off and continues from there.
      await bringTo(ipmitool, call, OFF, current);
      return bringTo(ipmitool, call, ON, "OFF");
  }
}

/** Requests a state unless the machine is in it, and returns when it is. */
async function bringTo(ipmitool: Ipmitool, call: IpmiCall, target: Target, current: PowerState): Promise<void> {
  if (current === target.state) return;
  const command: Command = {
    task: target.task,
    words: ["chassis", "power", target.word],
    expect: /^Chassis Power Control:/m,
  };
  const milliseconds = Math.min(LOST_MILLISECONDS, timeLeft(call) * LOST_SHARE);
  for (;;) {
    call.log(`BMC ${bmcName(call.settings)} is asked to ${target.task}.`);
    const refusal = await ipmitool.run(call, command).then(
      () => undefined,
      (error: unknown) => {
        // The command may have arrived although no reply did, and a BMC refuses what it is doing already.
        if (error instanceof IpmiError && error.kind === "TIMEOUT") return undefined;
        if (error instanceof IpmiError && error.kind === "REFUSED" && error.retryable) return error;
        throw error;
      },
    );
    const isLast = timeLeft(call) < 2 * milliseconds;
    const mayRepeat = refusal !== undefined || (target.word !== "soft" && !isLast);
    if (await waitFor(ipmitool, call, target, mayRepeat ? milliseconds : Infinity)) return;
    if (refusal && isLast) throw refusal;
  }
}

/**
 * Polls the power until it is as requested; false if it is not after the milliseconds. BMCs stop answering while power
 * changes, so a retryable failure does not end it.
 */
async function waitFor(
  ipmitool: Ipmitool,
  call: IpmiCall,
  target: { readonly state: PowerState; readonly task: string },
  milliseconds: number,
): Promise<boolean> {
  const end = performance.now() + milliseconds;
  let failure: unknown;
  for (let pause = POLL_FIRST_MILLISECONDS; ; pause = Math.min(pause * 2, POLL_LONGEST_MILLISECONDS)) {
    try {
      if ((await readPower(ipmitool, call)) === target.state) return true;
      failure = undefined;
    } catch (error) {
      if (!call.signal.aborted && !(error instanceof IpmiError && error.retryable)) throw error;
      failure = error;
    }
    // A signal that fires ends the pause early; the lines below check its reason.
    const left = Math.max(1, Math.min(pause, timeLeft(call), end - performance.now()));
    await sleep(left, undefined, { signal: call.signal }).catch(() => undefined);
    if (isPastDeadline(call)) throw deadlinePassed(call, target.task, failure);
    call.signal.throwIfAborted();
    if (performance.now() >= end) return false;
  }
}

/** True if the deadline has passed, by the clock or by the reason of the signal. */
function isPastDeadline(call: IpmiCall): boolean {
  const reason: unknown = call.signal.reason;
  return timeLeft(call) === 0 || (call.signal.aborted && reason instanceof Error && reason.name === "TimeoutError");
}

function readInventory(ipmitool: Ipmitool): Step<IpmiSettings> {
  return {
    name: "read_inventory",
    title: "Read manufacturer, model, serial numbers and BMC version",
    phase: "inspect",
    priority: 20,
    interruptible: "ALWAYS",
    timeoutSeconds: 90,
    idempotent: true,
    touches: [],
    retries: { times: 2, backoffSeconds: 10 },
    run: (call) =>
      asResult(call, async () => {
        const bmc = parseBmcInfo(
          await ipmitool.run(call, { task: "report its version", words: ["mc", "info"], expect: /IPMI Version/ }),
        );
        call.progress(50, "BMC version is read");
        const fru = await unlessRefused(call, ipmitool, {
          task: "report its FRU data",
          words: ["fru", "print", "0"],
          expect: / : /,
          acceptPartial: true,
        });
        return { ...parseFru(fru), bmc };
      }),
  };
}

function readSensors(ipmitool: Ipmitool): Step<IpmiSettings> {
  return {
    name: "read_sensors",
    title: "Read the sensors",
    phase: "inspect",
    priority: 10,
    interruptible: "ALWAYS",
    timeoutSeconds: 180,
    idempotent: true,
    touches: [],
    retries: { times: 2, backoffSeconds: 10 },
    run: (call) =>
      asResult(call, async () => {
        const text = await unlessRefused(call, ipmitool, {
          task: "report its sensors",
          words: ["-c", "sdr", "elist"],
          expect: /,/,
          acceptPartial: true,
          seconds: SENSORS_SECONDS,
        });
        const sensors = parseSensors(text);
        const health = healthOf(sensors);
        return { ...(health && { health }), sensors };
      }),
  };
}

function readEvents(ipmitool: Ipmitool): Step<IpmiSettings> {
  return {
    name: "read_event_log",
    title: "Read the newest entries of the event log",
    phase: "inspect",
    priority: 5,
    interruptible: "ALWAYS",
    timeoutSeconds: 240,
    idempotent: true,
    touches: [],
    retries: { times: 2, backoffSeconds: 10 },
    run: (call) =>
      asResult(call, async () => {
        const eventLog = await unlessLacking(call, () => readEventLog(ipmitool, call));
        return eventLog === undefined ? {} : { eventLog };
      }),
  };
}

function clearLogs(ipmitool: Ipmitool): Step<IpmiSettings> {
  return {
    name: "clear_logs",
    title: "Clear the event log of the BMC",
    phase: "clean",
    priority: 0,
    group: "management",
    interruptible: "ALWAYS",
    timeoutSeconds: 120,
    idempotent: true,
    touches: [],
    run: (call) =>
      asResult(call, async () => {
        const entries = await clearEventLog(ipmitool, call);
        call.log(`BMC ${bmcName(call.settings)} clears its event log, which had ${entries} entries.`);
        return { clearedLogs: ["SEL"], clearedEntries: entries };
      }),
  };
}

/** Returns no text if the BMC refuses: the inventory of a BMC without FRU data or sensors is still useful. */
async function unlessRefused(call: IpmiCall, ipmitool: Ipmitool, command: Command): Promise<string> {
  return (await unlessLacking(call, () => ipmitool.run(call, command))) ?? "";
}

/** Returns nothing if the BMC refuses, or if ipmitool does not understand it. */
async function unlessLacking<Result>(call: IpmiCall, read: () => Promise<Result>): Promise<Result | undefined> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof IpmiError)) throw error;
    const isAnswer = error.kind === "UNSUPPORTED" || (error.kind === "REFUSED" && !error.retryable);
    if (!isAnswer && error.kind !== "OTHER") throw error;
    call.log(`${error.message} The inspection continues without it.`);
    return undefined;
  }
}

/** Ends a step with its output, or with the reason of its failure. The reason of a signal is thrown. */
async function asResult(
  call: IpmiCall,
  read: () => Promise<NonNullable<Extract<StepResult, { kind: "done" }>["output"]>>,
): Promise<StepResult> {
  try {
    return { kind: "done", output: await read() };
  } catch (error) {
    if (!(error instanceof IpmiError)) throw error;
    call.log(error.message);
    return { kind: "failed", reason: error.message, retryable: error.retryable, errorKind: error.kind };
  }
}
