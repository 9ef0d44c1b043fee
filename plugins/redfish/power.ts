/**
 * Power. A request is made of the reset types that the machine offers, and only if it is not in the requested state: so
 * a call that is repeated after a crash changes nothing.
 */
import type { PowerAction, PowerState } from "../../src/drivers/driver.ts";
import type { RedfishCall } from "./connection.ts";
import { RedfishError, onlyTimeout, unsupported } from "./error.ts";
import { waitUntil } from "./poll.ts";
import { text } from "./resource.ts";
import type { Resource } from "./resource.ts";
import type { RedfishService } from "./service.ts";
import type { RedfishSettings } from "./settings.ts";
import { action, allowedValues, findSystem } from "./system.ts";
import type { Located } from "./system.ts";

type PowerCall = RedfishCall<RedfishSettings>;

/** Reset types for each state, the preferred one first (DSP0268, ComputerSystem.Reset). */
const RESET_TYPES: Readonly<Record<"ON" | "OFF" | "SOFT_OFF", readonly string[]>> = {
  ON: ["On", "ForceOn", "PushPowerButton"],
  OFF: ["ForceOff"],
  SOFT_OFF: ["GracefulShutdown", "PushPowerButton"],
};

/** For a machine that refuses a request because it is fulfilling it already. */
const CONFLICT_SECONDS = 5;

/** Reset types that switch a machine off and on, or restart it without a state in between. */
const RESTART_TYPES = ["PowerCycle", "ForceRestart"] as const;
/** How long a machine that restarts may show that it is on before it goes off, if it does. */
const RESTART_SECONDS = 30;
/** Share of the time that is left. */
const RESTART_SHARE = 0.25;

/** `PoweringOn`, `PoweringOff` and `Paused` are neither. */
export function powerStateOf(system: Resource): PowerState {
  const state = text(system, "PowerState");
  return state === "On" ? "ON" : state === "Off" ? "OFF" : "UNKNOWN";
}

export async function readPower(service: RedfishService, settings: RedfishSettings): Promise<PowerState> {
  return powerStateOf((await findSystem(service, settings)).resource);
}

export async function setPower(service: RedfishService, call: PowerCall, wanted: PowerAction): Promise<void> {
  const system = await findSystem(service, call.settings);
  const offered = await resetTypes(service, system);
  if (wanted !== "REBOOT") return bringTo(service, call, { system, offered, wanted });
  if (offered.types === undefined || (choose(offered.types, "OFF") && choose(offered.types, "ON"))) {
    // After a crash between the two, this finds the machine off and continues from there.
    await bringTo(service, call, { system, offered, wanted: "OFF" });
    return bringTo(service, call, { system, offered, wanted: "ON" });
  }
  const isOff = powerStateOf(system.resource) === "OFF";
  if (isOff && choose(offered.types, "ON")) return bringTo(service, call, { system, offered, wanted: "ON" });
  const restart = RESTART_TYPES.find((type) => offered.types?.includes(type));
  if (restart === undefined) throw lacks(service, "reboot", offered.types);
  const unanswered = await requestReset(service, call, offered.target, restart);
  const left = (call.deadline.getTime() - Date.now()) / 1000;
  const seconds = Math.min(RESTART_SECONDS, left * RESTART_SHARE);
  await waitForPower(service, call, { system, state: "OFF", seconds }).catch((error: unknown) => {
    onlyTimeout(error);
    // It is on before and after a restart, so that nothing shows that the request has arrived.
    if (unanswered) throw unanswered;
  });
  await waitForPower(service, call, { system, state: "ON" });
}

/** Which power actions the machine offers; true if it does not say. */
export async function offersPower(
  service: RedfishService,
  system: Located,
): Promise<Readonly<Record<PowerAction, boolean>>> {
  const { types } = await resetTypes(service, system);
  const has = (wanted: keyof typeof RESET_TYPES) => types === undefined || choose(types, wanted) !== undefined;
  const restarts = RESTART_TYPES.some((type) => types?.includes(type));
  return { ON: has("ON"), OFF: has("OFF"), SOFT_OFF: has("SOFT_OFF"), REBOOT: (has("ON") && has("OFF")) || restarts };
}

interface Offered {
  readonly target: string;
  /** Undefined if the machine does not report them. */
  readonly types: readonly string[] | undefined;
}

async function resetTypes(service: RedfishService, { resource }: Located): Promise<Offered> {
  const reset = action(resource, "ComputerSystem.Reset");
  if (!reset) throw unsupported(service.bmc, "does not offer the action ComputerSystem.Reset for this system.");
  return { target: reset.target, types: await allowedValues(service, reset.info, "ResetType") };
}

function choose(types: readonly string[], wanted: keyof typeof RESET_TYPES): string | undefined {
  return RESET_TYPES[wanted].find((type) => types.includes(type));
}

interface Change {
  readonly system: Located;
  readonly offered: Offered;
  readonly wanted: keyof typeof RESET_TYPES;
}

/** Requests a state unless the machine is in it, and returns when it is. */
async function bringTo(service: RedfishService, call: PowerCall, change: Change): Promise<void> {
  const { system, offered, wanted } = change;
  const state = wanted === "ON" ? "ON" : "OFF";
  const current = await service.get(system.path, "system");
  if (powerStateOf(current) === state) return;
  const type = choose(offered.types ?? RESET_TYPES[wanted], wanted);
  if (type === undefined)
    throw lacks(service, `switch the machine ${wanted.toLowerCase().replace("_", " ")}`, offered.types ?? []);
  // A machine that is on its way needs no second request: PushPowerButton would take the first back.
  const isOnItsWay = text(current, "PowerState") === (state === "ON" ? "PoweringOn" : "PoweringOff");
  // Forcing off a machine that is shutting down is a request of its own.
  if (isOnItsWay && wanted !== "OFF") return waitForPower(service, call, { system, state });
  try {
    await requestReset(service, call, offered.target, type);
  } catch (error) {
    // Some BMCs show the old state until a change is complete, and refuse to be asked for it again.
    const isConflict = error instanceof RedfishError && (error.status === 400 || error.status === 409);
    if (!isConflict) throw error;
    return waitForPower(service, call, { system, state, seconds: CONFLICT_SECONDS }).catch(() => {
      call.signal.throwIfAborted();
      throw error;
    });
  }
  await waitForPower(service, call, { system, state });
}

/** Returns the error of a request that may have arrived although no answer came: the state of the machine decides. */
async function requestReset(
  service: RedfishService,
  call: PowerCall,
  target: string,
  type: string,
): Promise<RedfishError | undefined> {
  call.log(`BMC ${service.bmc}: reset type ${type}.`);
  try {
    await service.post(target, { ResetType: type }, `reset the machine (${type})`);
    return undefined;
  } catch (error) {
    const isUnanswered = error instanceof RedfishError && error.effect === "UNKNOWN" && error.status === undefined;
    if (!isUnanswered) throw error;
    call.log(error.message);
    return error;
  }
}

async function waitForPower(
  service: RedfishService,
  call: PowerCall,
  {
    system,
    state,
    seconds = Infinity,
  }: { readonly system: Located; readonly state: PowerState; readonly seconds?: number },
): Promise<void> {
  await waitUntil(call, {
    seconds,
    read: async () => powerStateOf(await service.get(system.path, "system")),
    isReached: (power) => power === state,
    describe: (last) =>
      `BMC ${service.bmc} was asked to bring the machine to ${state}, and last reported ${last ?? "nothing"}; check the machine, and try again.`,
  });
}

function lacks(service: RedfishService, what: string, types: readonly string[]): RedfishError {
  return unsupported(service.bmc, `offers no reset type to ${what}; it offers: ${types.join(", ") || "none"}.`);
}
