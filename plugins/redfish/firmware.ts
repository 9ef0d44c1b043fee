/** Firmware components and their versions (DSP0268, UpdateService and SoftwareInventory). */
import type { FirmwareComponent } from "../../src/drivers/driver.ts";
import { unsupported } from "./error.ts";
import { at, boolean, link, text } from "./resource.ts";
import type { Resource } from "./resource.ts";
import type { RedfishService } from "./service.ts";
import { lastPart } from "./system.ts";

export async function readFirmware(service: RedfishService): Promise<FirmwareComponent[]> {
  return (await softwareOf(service)).map(componentOf);
}

/** The resource of each component. */
export async function softwareOf(service: RedfishService): Promise<Resource[]> {
  const collection = link(await updateService(service), "FirmwareInventory");
  if (collection === undefined) throw unsupported(service.bmc, "reports no firmware inventory.");
  return service.members(collection, "firmware inventory");
}

export async function updateService(service: RedfishService): Promise<Resource> {
  const found = await service.find(link(await service.root(), "UpdateService"), "update service");
  if (!found) throw unsupported(service.bmc, "offers no update service.");
  return found;
}

export function componentOf(software: Resource): FirmwareComponent {
  const id = text(software, "Id") ?? lastPart(text(software, "@odata.id") ?? "");
  return {
    id,
    name: text(software, "Name") ?? text(at(software, "SoftwareId"), "Name") ?? id,
    version: text(software, "Version") ?? null,
    updateable: boolean(software, "Updateable") ?? null,
  };
}
