/**
 * Power of the system.
 *
 * Off → PoweringOn → On → PoweringOff → Off. Restarting is power that stays on. A new command during a change replaces
 * it. At each start the BMC applies what waits for a reset: BIOS settings, firmware, Secure Boot, the boot override.
 */
import type { Bmc, Power } from "./bmc.ts";
import { record } from "./journal.ts";
import type { BootChoice } from "./machine.ts";
import { done, placesOf, refuse } from "./resource.ts";
import type { Answer } from "./resource.ts";
import type { ResetType } from "./traits.ts";

const BOOT_STEPS = [
  "PrimaryProcessorInitializationStarted",
  "MemoryInitializationStarted",
  "PCIResourceConfigStarted",
  "SystemHardwareInitializationComplete",
  "OSBootStarted",
  "OSRunning",
] as const;

type Command = "start" | "stop" | "shutdown" | "restart" | "shutdown-and-start" | "stop-and-start" | "interrupt";

export function resetSystem(bmc: Bmc, type: string): Answer {
  const { resetTypes, illegalReset } = bmc.traits.power;
  const known = resetTypes.find((one) => one === type);
  if (known === undefined)
    return refuse(400, "ActionParameterValueNotInList", `ResetType ${type} is not supported.`, type, "ResetType");
  const command = commandOf(known, bmc.state.power);
  if (command === null) {
    if (illegalReset === "accepted") return done(bmc);
    const message = `The system is ${bmc.state.power === "Off" ? "off" : "on"}: ${type} is not possible.`;
    return refuse(illegalReset, bmc.state.power === "Off" ? "ResourceInStandby" : "NoOperation", message);
  }
  perform(bmc, command);
  return done(bmc);
}

/** The meaning of a reset type in a state of power, null if it is illegal. */
function commandOf(type: ResetType, power: Power): Command | null {
  const isOff = power === "Off" || power === "PoweringOff";
  switch (type) {
    case "On":
    case "ForceOn":
      return isOff ? "start" : null;
    case "ForceOff":
      return power === "Off" ? null : "stop";
    case "GracefulShutdown":
      return isOff ? null : "shutdown";
    case "ForceRestart":
      return isOff ? null : "restart";
    case "GracefulRestart":
      return isOff ? null : "shutdown-and-start";
    case "PowerCycle":
      return isOff ? null : "stop-and-start";
    case "PushPowerButton":
      return isOff ? "start" : "shutdown";
    case "Nmi":
      return isOff ? null : "interrupt";
  }
}

function perform(bmc: Bmc, command: Command): void {
  switch (command) {
    case "start":
      return start(bmc);
    case "stop":
      return stop(bmc);
    case "shutdown":
      return shutdown(bmc);
    case "restart":
      return restart(bmc);
    case "stop-and-start":
      return stop(bmc, () => start(bmc));
    case "shutdown-and-start":
      return shutdown(bmc, () => start(bmc));
    case "interrupt":
      return record(bmc, { message: "NMI was sent.", severity: "Warning", origin: placesOf(bmc.traits).system });
  }
}

/** Enters a state of power. False results of the returned test mean that a later command has replaced this one. */
function enter(bmc: Bmc, power: Power): () => boolean {
  const { state } = bmc;
  state.power = power;
  state.powerTurn += 1;
  if (power !== "On") state.bootProgress = "None";
  if (power === "On" || power === "Off")
    record(bmc, {
      message: `The power of the system is ${power}.`,
      messageId: `ResourceEvent.1.3.ResourcePowered${power}`,
      origin: placesOf(bmc.traits).system,
    });
  const turn = state.powerTurn;
  return () => state.powerTurn === turn;
}

function start(bmc: Bmc): void {
  const isCurrent = enter(bmc, "PoweringOn");
  bmc.timers.after(bmc.timing.powerOnMs, () => {
    if (isCurrent()) void boot(bmc, isCurrent);
  });
}

function stop(bmc: Bmc, then?: () => void): void {
  const isCurrent = enter(bmc, "PoweringOff");
  bmc.timers.after(bmc.timing.powerOffMs, () => {
    if (isCurrent()) void cut(bmc, then);
  });
}

function restart(bmc: Bmc): void {
  const isCurrent = enter(bmc, "Restarting");
  bmc.timers.after(bmc.timing.powerOnMs, () => {
    if (isCurrent()) void bmc.machine.stop().then(() => boot(bmc, isCurrent));
  });
}

function shutdown(bmc: Bmc, then?: () => void): void {
  const isCurrent = enter(bmc, "PoweringOff");
  bmc.timers.after(bmc.timing.shutdownMs, () => {
    if (!isCurrent()) return;
    void bmc.machine.shutdown().then((isDown) => {
      if (!isCurrent()) return;
      if (isDown) return cut(bmc, then);
      enter(bmc, "On");
    });
  });
}

async function cut(bmc: Bmc, then?: () => void): Promise<void> {
  await bmc.machine.stop();
  enter(bmc, "Off");
  then?.();
}

async function boot(bmc: Bmc, isCurrent: () => boolean): Promise<void> {
  const choice = beginBoot(bmc);
  try {
    await bmc.machine.start(choice);
  } catch (error) {
    enter(bmc, "Off");
    const message = `The system did not start: ${error instanceof Error ? error.message : String(error)}`;
    record(bmc, { message, severity: "Critical", origin: placesOf(bmc.traits).system });
    return;
  }
  if (!isCurrent()) {
    if (bmc.state.power === "Off" || bmc.state.power === "PoweringOff") await bmc.machine.stop();
    return;
  }
  showProgress(bmc, enter(bmc, "On"), 0);
}

function showProgress(bmc: Bmc, isCurrent: () => boolean, step: number): void {
  const name = BOOT_STEPS[step];
  if (name === undefined || !isCurrent()) return;
  bmc.state.bootProgress = name;
  bmc.timers.after(bmc.timing.bootMs / BOOT_STEPS.length, () => showProgress(bmc, isCurrent, step + 1));
}

/** The machine went off without a command: its operating system shut it down. */
export function noticeExit(bmc: Bmc): void {
  if (bmc.state.power === "On") enter(bmc, "Off");
}

/** Applies what waits for a reset, and chooses what to boot. */
function beginBoot(bmc: Bmc): BootChoice {
  const { state, traits } = bmc;
  applyBiosSettings(bmc);
  if (traits.quirks.includes("tasks-wait-for-reset")) releaseTasks(bmc);
  state.versions = { ...state.versions, ...state.staged };
  state.staged = {};
  state.secureBoot.enabled = state.secureBoot.atNextBoot;
  const places = placesOf(traits);
  const image = Object.values(state.media)[0]?.image ?? null;
  const { enabled, target, mode } = state.boot;
  const wanted = enabled === "Disabled" ? "Hdd" : target;
  const isEmptyDrive = wanted.endsWith("Cd") && image === null;
  const isOther = wanted === "Cd" && traits.quirks.includes("starts-usb-cd-only");
  const hasNoLoader = wanted === "UefiHttp" && traits.quirks.includes("http-boot-uri") && state.boot.httpUri === null;
  const hasOwnCd = traits.quirks.some((one) => one.startsWith("virtual-cd-"));
  const chosen = isEmptyDrive || isOther || hasNoLoader || wanted === "None" ? "Hdd" : wanted;
  state.bootedFrom = hasOwnCd && chosen === "Cd" ? "drive in the machine" : chosen;
  if (state.virtualCd && image !== null) state.bootedFrom = "Cd";
  state.virtualCd = false;
  if (enabled === "Once" && !traits.quirks.includes("once-is-kept"))
    state.boot = { ...state.boot, enabled: "Disabled", target: "None", uefiTarget: null, next: null };
  record(bmc, { message: `The system boots from ${state.bootedFrom}.`, origin: places.system });
  return { target: state.bootedFrom, mode, image };
}

/** Begins the tasks that wait. */
export function releaseTasks({ state }: Bmc): void {
  const waiting = state.waitingTasks;
  state.waitingTasks = [];
  for (const release of waiting) release();
}

export function applyBiosSettings(bmc: Bmc): void {
  const { state, traits, tasks } = bmc;
  if (state.biosPending === null) return;
  state.bios = { ...state.bios, ...state.biosPending.attributes };
  if (state.biosPending.task !== null) tasks.release(state.biosPending.task);
  state.biosPending = null;
  record(bmc, { message: "BIOS settings were applied.", origin: `${placesOf(traits).system}/Bios` });
}

/** Restarts the BMC itself: it answers 503 for a time, and all sessions end. */
export function restartBmc(bmc: Bmc): void {
  bmc.state.restartingUntil = Date.now() + bmc.timing.restartMs;
  bmc.sessions.endAll();
  record(bmc, { message: "The BMC restarts.", origin: placesOf(bmc.traits).manager });
}
