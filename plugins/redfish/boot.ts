/** The boot source of the next start, or of every start (DSP0268, ComputerSystem.Boot). */
import type { BootDevice, BootOptions, BootOverride } from "../../src/drivers/driver.ts";
import type { RedfishCall } from "./connection.ts";
import { unsupported } from "./error.ts";
import { waitUntil } from "./poll.ts";
import { at, link, text, texts } from "./resource.ts";
import type { Resource } from "./resource.ts";
import type { RedfishService } from "./service.ts";
import type { RedfishSettings } from "./settings.ts";
import { findSystem } from "./system.ts";
import type { Located } from "./system.ts";

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
  { persistent, mode }: BootOptions,
): Promise<void> {
  const system = await findSystem(service, call.settings);
  const boot = at(system.resource, "Boot");
  const target = oneOf(service, boot, "BootSourceOverrideTarget", TARGETS[device]);
  const enabled = oneOf(service, boot, "BootSourceOverrideEnabled", [persistent ? "Continuous" : "Once"]);
  const wanted = mode ?? call.settings.bootMode;
  const bootMode =
    wanted === undefined
      ? undefined
      : oneOf(service, boot, "BootSourceOverrideMode", [wanted === "UEFI" ? "UEFI" : "Legacy"]);
  // A mode that is set already is left out, as some BMCs refuse to be sent it.
  const sendsMode = bootMode !== undefined && text(boot, "BootSourceOverrideMode") !== bootMode;
  const change = {
    BootSourceOverrideTarget: target,
    BootSourceOverrideEnabled: enabled,
    ...(sendsMode && { BootSourceOverrideMode: bootMode }),
  };
  const holder = await bootResource(service, system);
  await service.patch(holder.path, { Boot: change }, `set the boot device to ${target}`);
  call.log(`BMC ${service.bmc}: boot device ${target}, ${enabled}${bootMode === undefined ? "" : `, ${bootMode}`}.`);
  await waitUntil(call, {
    seconds: APPLIED_SECONDS,
    read: async () => at(await service.get(holder.path, "boot device"), "Boot"),
    isReached: (now) => Object.entries(change).every(([name, value]) => now[name] === undefined || now[name] === value),
    describe: (now = {}) =>
      `BMC ${service.bmc} accepted the boot device ${target}, but reports ${text(now, "BootSourceOverrideTarget") ?? "none"} (${text(now, "BootSourceOverrideEnabled") ?? "unknown"}); set it again, or restart the BMC.`,
  });
}

export async function readBootDevice(service: RedfishService, settings: RedfishSettings): Promise<BootOverride> {
  const system = await findSystem(service, settings);
  const boot = at((await bootResource(service, system)).resource, "Boot");
  const enabled = text(boot, "BootSourceOverrideEnabled");
  const target = text(boot, "BootSourceOverrideTarget") ?? "None";
  const device = enabled === "Disabled" ? undefined : deviceOf(target);
  const mode = text(boot, "BootSourceOverrideMode");
  return {
    device: device ?? null,
    persistent: device !== undefined && enabled === "Continuous",
    ...(mode === "UEFI" && { mode: "UEFI" as const }),
    ...(mode === "Legacy" && { mode: "BIOS" as const }),
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

/** The first of the values that the machine accepts; a machine that does not list them accepts all. */
function oneOf(service: RedfishService, boot: Resource, name: string, values: readonly string[]): string {
  const allowed = texts(boot, `${name}@Redfish.AllowableValues`);
  const found = values.find((value) => allowed === undefined || allowed.length === 0 || allowed.includes(value));
  if (found !== undefined) return found;
  throw unsupported(
    service.bmc,
    `does not accept ${values.join(" or ")} as ${name}; it accepts: ${allowed?.join(", ") ?? ""}.`,
  );
}
