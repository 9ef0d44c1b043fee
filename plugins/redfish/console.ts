/** The address of the serial console (DSP0268, SerialConsole of a system or a manager). */
import { unsupported } from "./error.ts";
import { at, boolean, number, texts } from "./resource.ts";
import type { RedfishService } from "./service.ts";
import type { RedfishSettings } from "./settings.ts";
import { findSystem, managersOf } from "./system.ts";

const SSH_PORT = 22;

export async function serialUrl(service: RedfishService, settings: RedfishSettings): Promise<string> {
  const system = await findSystem(service, settings);
  const host = settings.address.includes(":") ? `[${settings.address}]` : settings.address;
  const ssh = at(system.resource, "SerialConsole", "SSH");
  if (boolean(ssh, "ServiceEnabled") === true) return `ssh://${host}:${number(ssh, "Port") ?? SSH_PORT}`;
  for (const { resource } of await managersOf(service, system)) {
    const console = at(resource, "SerialConsole");
    const isSsh = texts(console, "ConnectTypesSupported")?.includes("SSH");
    if (boolean(console, "ServiceEnabled") === true && isSsh) return `ssh://${host}:${SSH_PORT}`;
  }
  throw unsupported(service.bmc, "reports no serial console over SSH.");
}
