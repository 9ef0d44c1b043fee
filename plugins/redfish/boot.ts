/** The boot source of the next start, or of every start (DSP0268, ComputerSystem.Boot). */
import type { BootDevice, BootOptions, BootOverride } from "../../src/drivers/driver.ts";
import type { RedfishCall } from "./connection.ts";
import { RedfishError, onlyFailed, onlyTimeout, unsupported } from "./error.ts";
import { waitUntil } from "./poll.ts";
import { at, link, text, texts } from "./resource.ts";
import type { Resource } from "./resource.ts";
import type { RedfishService } from "./service.ts";
import type { RedfishSettings } from "./settings.ts";
import { findSystem } from "./system.ts";
import type { Located } from "./system.ts";
import { virtualCd } from "./virtual-cd.ts";

/** Boot sources of each device, the preferred one first. Virtual media are USB drives on some machines. */
const TARGETS: Readonly<Record<BootDevice, readonly string[]>> = {
  PXE: ["Pxe"],
  DISK: ["Hdd"],
  CDROM: ["Cd", "UsbCd"],
  BIOS: ["BiosSetup"],
  HTTP: ["UefiHttp"],
};
const APPLIED_SECONDS = 60;

export async function setBootDevice(
  service: RedfishService,
  call: RedfishCall<RedfishSettings>,
  device: BootDevice,
  { persistent, mode, other, url }: BootOptions,
): Promise<void> {
  const system = await findSystem(service, call.settings);
  const holder = await bootResource(service, system);
  const boot = at(holder.resource, "Boot");
  const whole = { ...at(system.resource, "Boot"), ...boot };
  const wantedMode = mode ?? call.settings.bootMode;
  const isOwnMode = wantedMode === undefined || (bootModeOf(whole) ?? wantedMode) === wantedMode;
  const isMedium = device === "CDROM" && !persistent;
  const virtual = isMedium ? await virtualCd(service, call, system).catch(onlyFailed) : undefined;
  if (virtual && !other && isOwnMode && (await isMade(call, virtual))) return;
  const isOther = other === true && !virtual;
  const target = oneOf(service, whole, "BootSourceOverrideTarget", { values: TARGETS[device], other: isOther });
  const enabled = oneOf(service, whole, "BootSourceOverrideEnabled", {
    values: [persistent ? "Continuous" : "Once"],
  });
  const wanted = {
    BootSourceOverrideTarget: target,
    BootSourceOverrideEnabled: enabled,
    ...modeOf(service, whole, wantedMode),
  };
  const { BootSourceOverrideMode: bootMode, ...withoutMode } = wanted;
  const known = bootMode ?? text(whole, "BootSourceOverrideMode");
  const loader = url !== undefined && "HttpBootUri" in whole && { HttpBootUri: url };
  const send = async (change: Resource) => {
    const task = `set the boot device to ${target}`;
    const optional = ["HttpBootUri", ...("BootSourceOverrideMode" in boot ? [] : ["BootSourceOverrideMode"])];
    const spare = known === undefined ? {} : { Boot: { BootSourceOverrideMode: known } };
    const { path } = await service.patch(holder.path, { Boot: { ...change, ...loader } }, task, { optional, spare });
    return path;
  };
  const differences = (now: Resource) =>
    Object.entries(wanted).filter(
      ([name, value]) => now[name] !== undefined && text(now, name)?.toLowerCase() !== value.toLowerCase(),
    );
  /** Some BMCs know no boot source for one start: it begins as requested. */
  const isKept = (now: Resource) =>
    !persistent &&
    text(now, "BootSourceOverrideEnabled") === "Continuous" &&
    differences(now).every(([name]) => name === "BootSourceOverrideEnabled");
  const readBack = (path: string, seconds: number, isReached: (now: Resource) => boolean) =>
    waitUntil(call, {
      seconds,
      read: async () => at(await service.get(path, "boot device"), "Boot"),
      isReached,
      describe: (now = {}) => {
        const reported = Object.keys(wanted).map((name) => text(now, name) ?? "nothing");
        return `BMC ${service.bmc} accepted the boot device ${Object.values(wanted).join(", ")}, but reports ${reported.join(", ")}; set it again, or restart the BMC.`;
      },
    });
  // A mode that is set already is left out, as some BMCs refuse to be sent it; others then return to their own.
  const isSet = text(whole, "BootSourceOverrideMode") === bootMode;
  const path = await send(isSet ? withoutMode : wanted);
  const half = Math.min(APPLIED_SECONDS, (call.deadline.getTime() - Date.now()) / 2000);
  let now = await readBack(
    path,
    half,
    (read) => isKept(read) || differences(read).every(([name]) => isSet && !(name in withoutMode)),
  ).catch(onlyTimeout);
  if (!now || differences(now).length > 0)
    now = await readBack(await send(wanted), APPLIED_SECONDS, (read) => isKept(read) || differences(read).length === 0);
  const note = isKept(now) ? "; the BMC keeps it for every start until another one is set" : "";
  call.log(`BMC ${service.bmc}: boot device ${Object.values(wanted).join(", ")}${note}.`);
}

/** Whether a change was made that another one can replace. */
async function isMade(call: RedfishCall<RedfishSettings>, change: () => Promise<void>): Promise<boolean> {
  try {
    await change();
    call.log("The boot device is the virtual CD, by the setting of the manager.");
    return true;
  } catch (error) {
    if (!(error instanceof RedfishError) || error.kind === "AUTHENTICATION") throw error;
    call.log(error.message);
    return false;
  }
}

function bootModeOf(boot: Resource): BootOptions["mode"] {
  const mode = text(boot, "BootSourceOverrideMode");
  return mode === "UEFI" ? "UEFI" : mode === "Legacy" ? "BIOS" : undefined;
}

/** The firmware mode as the machine names it; nothing for a machine that reports none. */
function modeOf(
  service: RedfishService,
  boot: Resource,
  mode: BootOptions["mode"],
): { readonly BootSourceOverrideMode?: string } {
  if (mode === undefined || text(boot, "BootSourceOverrideMode") === undefined) return {};
  return {
    BootSourceOverrideMode: oneOf(service, boot, "BootSourceOverrideMode", {
      values: [mode === "UEFI" ? "UEFI" : "Legacy"],
    }),
  };
}

export async function readBootDevice(service: RedfishService, settings: RedfishSettings): Promise<BootOverride> {
  const system = await findSystem(service, settings);
  const boot = at((await bootResource(service, system)).resource, "Boot");
  const enabled = text(boot, "BootSourceOverrideEnabled");
  const target = text(boot, "BootSourceOverrideTarget") ?? "None";
  const device = enabled === "Disabled" ? undefined : deviceOf(target);
  const mode = bootModeOf(boot);
  return {
    device: device ?? null,
    persistent: device !== undefined && enabled === "Continuous",
    ...(mode && { mode }),
  };
}

function deviceOf(target: string): BootDevice | undefined {
  return (Object.keys(TARGETS) as BootDevice[]).find((device) => TARGETS[device].includes(target));
}

/** The pending settings of the system where it has them and they hold the boot source; otherwise the system itself. */
async function bootResource(service: RedfishService, system: Located): Promise<Located> {
  const pending = link(at(system.resource, "@Redfish.Settings"), "SettingsObject");
  const resource = await service.find(pending, "pending settings");
  const holdsBoot = resource !== undefined && text(at(resource, "Boot"), "BootSourceOverrideTarget") !== undefined;
  return pending !== undefined && resource && holdsBoot ? { path: pending, resource } : system;
}

/**
 * The first of the values that the machine accepts, or the one after it; a machine that does not list them accepts the
 * first.
 */
function oneOf(
  { bmc }: RedfishService,
  boot: Resource,
  name: string,
  { values, other = false }: { readonly values: readonly string[]; readonly other?: boolean | undefined },
): string {
  const listed = texts(boot, `${name}@Redfish.AllowableValues`) ?? [];
  const accepted = listed.length === 0 ? values.slice(0, 1) : values.filter((value) => listed.includes(value));
  const found = accepted[other ? 1 : 0];
  if (found !== undefined) return found;
  const instead = other ? ` in place of ${accepted[0] ?? "none"}` : "";
  const known = listed.length === 0 ? "nothing" : listed.join(", ");
  throw unsupported(bmc, `does not accept ${values.join(" or ")} as ${name}${instead}; it accepts: ${known}.`);
}
