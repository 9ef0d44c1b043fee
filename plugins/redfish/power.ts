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
import type { IfRefused, RedfishService } from "./service.ts";
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
/** For an answer that is not the machine's, as of a gateway before it. */
const UNKNOWN_SECONDS = 30;
/** For a request that is accepted and has no effect: some BMCs lose one that comes soon after a change of power. */
const LOST_SECONDS = 30;
/** Reset types that can be requested again: the others would take back what has begun. */
const REPEATABLE: ReadonlySet<string> = new Set(["On", "ForceOn", "ForceOff"]);

/** Reset types that switch a machine off and on, or restart it without a state in between. */
const RESTART_TYPES = ["PowerCycle", "ForceRestart"] as const;
/** How long a machine that restarts may show that it is on before it goes off, if it does. */
const RESTART_SECONDS = 30;
/** Limits of a wait are at most this share of the time that is left. */
const WAIT_SHARE = 0.25;

/** `PoweringOn`, `PoweringOff` and `Paused` are neither. */
export function powerStateOf(system: Resource): PowerState {
  const state = text(system, "PowerState")?.toUpperCase();
  return state === "ON" || state === "OFF" ? state : "UNKNOWN";
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
  const unanswered = await requestReset(service, call, { target: offered.target, type: restart });
  if (unanswered && unanswered.effect !== "UNKNOWN") throw unanswered;
  const seconds = limited(call, RESTART_SECONDS);
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
  const types = RESET_TYPES[wanted].filter((one) => offered.types?.includes(one) ?? true);
  if (types.length === 0)
    throw lacks(service, `switch the machine ${wanted.toLowerCase().replace("_", " ")}`, offered.types ?? []);
  // A machine that is on its way needs no second request: PushPowerButton would take the first back.
  const isOnItsWay = text(current, "PowerState") === (state === "ON" ? "PoweringOn" : "PoweringOff");
  // Forcing off a machine that is shutting down is a request of its own.
  if (isOnItsWay && wanted !== "OFF") return settle(service, call, change, types[0]);
  const isDone = async () => powerStateOf(await service.get(system.path, "system")) === state;
  let first: RedfishError | undefined;
  for (const type of types) {
    const error = await requestReset(service, call, { target: offered.target, type, isDone });
    first ??= error;
    const isUnknown = error?.effect === "UNKNOWN";
    // Some BMCs show the old state until a change is complete, and refuse to be asked for it again.
    if (error && !isUnknown && error.status !== 400 && error.status !== 409) throw first;
    if (error?.status === undefined) return settle(service, call, change, type);
    try {
      return await waitForPower(service, call, {
        system,
        state,
        seconds: isUnknown ? UNKNOWN_SECONDS : CONFLICT_SECONDS,
      });
    } catch {
      call.signal.throwIfAborted();
      // A type that is listed and not taken: another may be. A push of the button would take back what has begun.
      const isStill = isOpposite(await service.get(system.path, "system"), state);
      if (error.status !== 400 || !isStill) throw first;
    }
  }
  throw first;
}

/** Returns when the machine is as requested, and requests it again while nothing shows that it will be. */
async function settle(service: RedfishService, call: PowerCall, change: Change, type = ""): Promise<void> {
  const { system, offered, wanted } = change;
  const state = wanted === "ON" ? "ON" : "OFF";
  const seconds = REPEATABLE.has(type) ? limited(call, LOST_SECONDS) : Infinity;
  for (;;) {
    try {
      return await waitForPower(service, call, { system, state, seconds });
    } catch (error) {
      onlyTimeout(error);
      if (call.deadline.getTime() - Date.now() < seconds * 1000) throw error;
    }
    await requestReset(service, call, { target: offered.target, type });
  }
}

/** At most these seconds, and less if the call ends soon. */
function limited({ deadline }: PowerCall, seconds: number): number {
  return Math.min(seconds, ((deadline.getTime() - Date.now()) / 1000) * WAIT_SHARE);
}

function isOpposite(system: Resource, state: PowerState): boolean {
  return powerStateOf(system) === (state === "ON" ? "OFF" : "ON");
}

/**
 * Returns the error of a request. It may have arrived although no answer came, or that of a gateway: the state of the
 * machine decides.
 */
async function requestReset(
  service: RedfishService,
  call: PowerCall,
  { target, type, ...refused }: Pick<IfRefused, "isDone"> & { readonly target: string; readonly type: string },
): Promise<RedfishError | undefined> {
  call.log(`BMC ${service.bmc}: reset type ${type}.`);
  try {
    await service.post(target, { ResetType: type }, `reset the machine (${type})`, refused);
    return undefined;
  } catch (error) {
    if (!(error instanceof RedfishError)) throw error;
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
    read: () => service.get(system.path, "system"),
    isReached: (now) => powerStateOf(now) === state,
    describe: (last = {}) =>
      `BMC ${service.bmc} was asked to bring the machine to ${state}, and last reported ${text(last, "PowerState") ?? "nothing"}; check the machine, and try again.`,
  });
}

function lacks(service: RedfishService, what: string, types: readonly string[]): RedfishError {
  return unsupported(service.bmc, `offers no reset type to ${what}; it offers: ${types.join(", ") || "none"}.`);
}
