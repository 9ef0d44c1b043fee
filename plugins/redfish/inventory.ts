/**
 * The parts of a machine, as its BMC reports them, in the terms that the inventories of all drivers share
 * (docs/drivers.md, "Inventory"). Sizes are bytes, speeds Mbit/s and MHz. What a machine does not report is left out.
 */
import { at, boolean, items, link, links, number, ownText, present, text } from "./resource.ts";
import type { Resource } from "./resource.ts";
import type { RedfishService } from "./service.ts";
import { chassisOf, findSystem, managersOf } from "./system.ts";
import type { Located } from "./system.ts";
import type { RedfishSettings } from "./settings.ts";
import { readFirmware } from "./firmware.ts";
import { findDrives, isInstalled, isMedium, wwnOf } from "./drives.ts";
import { RedfishError } from "./error.ts";
import type { Json } from "../../src/drivers/driver.ts";

const GIBIBYTE = 1024 ** 3;
const MEBIBYTE = 1024 ** 2;

type Part = { readonly [name: string]: Json };

/** Manufacturer, model, serial numbers, location, health, chassis and power supplies, firmware and BMC. */
export async function readIdentity(service: RedfishService, settings: RedfishSettings): Promise<Part> {
  const system = await findSystem(service, settings);
  const [chassis, managers, firmware] = await Promise.all([
    chassisOf(service, system),
    managersOf(service, system),
    readFirmware(service).catch((error: unknown) => {
      if (error instanceof RedfishError && error.kind === "UNSUPPORTED") return [];
      throw error;
    }),
  ]);
  const { resource } = system;
  const supplies = (await Promise.all(chassis.map((one) => powerSupplies(service, one)))).flat();
  return part({
    manufacturer: ownText(resource, "Manufacturer"),
    model: ownText(resource, "Model"),
    serial: ownText(resource, "SerialNumber"),
    partNumber: ownText(resource, "PartNumber") ?? ownText(resource, "SKU"),
    assetTag: ownText(resource, "AssetTag"),
    uuid: ownText(resource, "UUID")?.toLowerCase(),
    hostName: ownText(resource, "HostName"),
    health: healthOf(resource),
    location: locationOf(chassis),
    biosVersion: text(resource, "BiosVersion"),
    bootMode: bootModeOf(resource),
    bootProgress: text(at(resource, "BootProgress"), "LastState"),
    chassis: chassis.map((one) => chassisPart(one.resource)),
    powerSupplies: supplies,
    bmc: bmcPart(await service.root(), managers[0]?.resource),
    firmware: firmware.map(({ id, name, version, updateable }) => ({ id, name, version, updateable })),
  });
}

/** Processors, memory modules, disks, network interfaces and PCIe devices. */
export async function readComponents(
  service: RedfishService,
  settings: RedfishSettings,
  progress: (percent: number, message: string) => void,
): Promise<Part> {
  const system = await findSystem(service, settings);
  const { resource } = system;
  const processors = (await service.members(link(resource, "Processors"), "processors")).filter(isInstalled);
  progress(40, "processors are read");
  const modules = (await service.members(link(resource, "Memory"), "memory modules")).filter(isInstalled);
  progress(55, "memory modules are read");
  const { drives, isComplete } = await findDrives(service, system);
  progress(70, "disks are read");
  const interfaces = await service.members(link(resource, "EthernetInterfaces"), "network interfaces");
  const ports = interfaces.map(interfacePart);
  const hasMac = ports.some((one) => "mac" in one);
  const adapters = hasMac ? [] : await adapterPorts(service, system);
  progress(85, "network interfaces are read");
  const devices = await pcieDevices(service, system);
  return part({
    processors: processors.filter((one) => (text(one, "ProcessorType") ?? "CPU") === "CPU").map(processorPart),
    memoryBytes: memoryBytes(resource, modules),
    memoryModules: modules.map(modulePart),
    disks: drives.map(diskPart),
    incomplete: isComplete ? undefined : ["disks"],
    networkInterfaces: adapters.length > 0 ? adapters : ports,
    pciDevices: devices.map(pciePart),
  });
}

function processorPart(one: Resource): Part {
  return part({
    id: text(one, "Id"),
    manufacturer: ownText(one, "Manufacturer"),
    model: ownText(one, "Model") ?? text(one, "Name"),
    architecture: text(one, "InstructionSet") ?? text(one, "ProcessorArchitecture"),
    cores: number(one, "TotalCores"),
    threads: number(one, "TotalThreads"),
    speedMHz: number(one, "MaxSpeedMHz"),
    health: healthOf(one),
  });
}

function modulePart(one: Resource): Part {
  const capacity = number(one, "CapacityMiB");
  return part({
    id: text(one, "Id"),
    slot: text(one, "DeviceLocator") ?? text(at(one, "Location", "PartLocation"), "ServiceLabel") ?? text(one, "Name"),
    sizeBytes: capacity === undefined ? undefined : capacity * MEBIBYTE,
    type: text(one, "MemoryDeviceType"),
    speedMHz: number(one, "OperatingSpeedMhz"),
    manufacturer: ownText(one, "Manufacturer"),
    partNumber: ownText(one, "PartNumber"),
    serial: ownText(one, "SerialNumber"),
    health: healthOf(one),
  });
}

function memoryBytes(system: Resource, modules: readonly Resource[]): number | undefined {
  const total = number(at(system, "MemorySummary"), "TotalSystemMemoryGiB");
  // Some BMCs report 0 while the machine is off, or always.
  if (total) return Math.round(total * GIBIBYTE);
  const sum = modules.reduce((bytes, one) => bytes + (number(one, "CapacityMiB") ?? 0) * MEBIBYTE, 0);
  return sum === 0 ? undefined : sum;
}

function diskPart(one: Resource): Part {
  const protocol = text(one, "Protocol");
  const media = text(one, "MediaType");
  return part({
    id: text(one, "Id"),
    name: text(one, "Name"),
    kind: protocol === "NVMe" ? "NVME" : media === "SSD" ? "SSD" : media === "HDD" ? "HDD" : undefined,
    protocol,
    sizeBytes: number(one, "CapacityBytes"),
    manufacturer: ownText(one, "Manufacturer"),
    model: ownText(one, "Model"),
    serial: ownText(one, "SerialNumber"),
    firmwareVersion: text(one, "Revision") ?? text(one, "FirmwareVersion"),
    wwn: wwnOf(one),
    medium: isMedium(one) || undefined,
    failurePredicted: boolean(one, "FailurePredicted"),
    health: healthOf(one),
  });
}

function interfacePart(one: Resource): Part {
  return part({
    id: text(one, "Id"),
    name: text(one, "Name"),
    mac: macOf(one, "MACAddress") ?? macOf(one, "PermanentMACAddress"),
    link: linkOf(text(one, "LinkStatus")),
    speedMbps: number(one, "SpeedMbps"),
    health: healthOf(one),
  });
}

/** A MAC address with colons; undefined for a filler, and for the address of another kind of network. */
function macOf(one: Resource, name: string): string | undefined {
  const digits = text(one, name)?.replaceAll(/[:.-]/g, "").toLowerCase() ?? "";
  if (!/^[\da-f]{12}$/.test(digits) || /^(.)\1*$/.test(digits)) return undefined;
  return digits.replaceAll(/..(?!$)/g, "$&:");
}

function linkOf(status: string | undefined): "UP" | "DOWN" | undefined {
  if (status === undefined) return undefined;
  return status.toUpperCase() === "LINKUP" ? "UP" : "DOWN";
}

/** The ports of network adapters, for machines whose list of Ethernet interfaces has no MAC address. */
async function adapterPorts(service: RedfishService, system: Located): Promise<Part[]> {
  const chassis = await chassisOf(service, system);
  const collections = chassis.flatMap(({ resource }) => link(resource, "NetworkAdapters") ?? []);
  const adapters = (await Promise.all(collections.map((path) => service.members(path, "network adapters")))).flat();
  const functions = await Promise.all(
    adapters.map((one) => service.members(link(one, "NetworkDeviceFunctions"), "network functions")),
  );
  return functions.flat().flatMap((one) => {
    const ethernet = at(one, "Ethernet");
    const mac = macOf(ethernet, "MACAddress") ?? macOf(ethernet, "PermanentMACAddress");
    return mac === undefined ? [] : [part({ id: text(one, "Id"), name: text(one, "Name"), mac })];
  });
}

/** From the list of the system, or else from the collections of the system and its chassis. */
async function pcieDevices(service: RedfishService, system: Located): Promise<Resource[]> {
  const listed = links(system.resource, "PCIeDevices");
  if (listed.length > 0) return service.all(listed, "PCIe devices");
  const owners = [system, ...(await chassisOf(service, system))];
  const collections = new Set(owners.flatMap(({ resource }) => link(resource, "PCIeDevices") ?? []));
  const found: Resource[] = [];
  for (const collection of collections) found.push(...(await service.members(collection, "PCIe devices")));
  return found;
}

function pciePart(one: Resource): Part {
  return part({
    id: text(one, "Id"),
    name: text(one, "Name"),
    manufacturer: ownText(one, "Manufacturer"),
    model: ownText(one, "Model"),
    partNumber: ownText(one, "PartNumber"),
    serial: ownText(one, "SerialNumber"),
    firmwareVersion: text(one, "FirmwareVersion"),
    health: healthOf(one),
  });
}

function chassisPart(one: Resource): Part {
  return part({
    id: text(one, "Id"),
    type: text(one, "ChassisType"),
    manufacturer: ownText(one, "Manufacturer"),
    model: ownText(one, "Model"),
    serial: ownText(one, "SerialNumber"),
    partNumber: ownText(one, "PartNumber"),
    health: healthOf(one),
  });
}

/** From the power subsystem of newer BMCs, or the power resource of older ones. */
async function powerSupplies(service: RedfishService, { resource }: Located): Promise<Part[]> {
  const subsystem = await service.find(link(resource, "PowerSubsystem"), "power subsystem");
  const newer = subsystem ? await service.members(link(subsystem, "PowerSupplies"), "power supplies") : [];
  const older = newer.length > 0 ? undefined : await service.find(link(resource, "Power"), "power supplies");
  const supplies = newer.length > 0 ? newer : older ? items(older, "PowerSupplies") : [];
  return supplies.filter(isInstalled).map((one) =>
    part({
      id: text(one, "MemberId") ?? text(one, "Id"),
      name: text(one, "Name"),
      capacityWatts: number(one, "PowerCapacityWatts"),
      manufacturer: ownText(one, "Manufacturer"),
      model: ownText(one, "Model"),
      serial: ownText(one, "SerialNumber"),
      firmwareVersion: text(one, "FirmwareVersion"),
      health: healthOf(one),
    }),
  );
}

function bmcPart(root: Resource, manager: Resource = {}): Part {
  return part({
    type: text(manager, "ManagerType"),
    model: text(manager, "Model"),
    firmwareVersion: text(manager, "FirmwareVersion"),
    redfishVersion: text(root, "RedfishVersion"),
    vendor: text(root, "Vendor"),
    product: text(root, "Product"),
  });
}

function locationOf(chassis: readonly Located[]): Part | undefined {
  for (const { resource } of chassis) {
    const placement = at(resource, "Location", "Placement");
    const found = present({
      row: text(placement, "Row"),
      rack: text(placement, "Rack"),
      rackUnit: number(placement, "RackOffset"),
      label: text(at(resource, "Location", "PartLocation"), "ServiceLabel"),
    });
    if (found) return part(found);
  }
  return undefined;
}

function bootModeOf(system: Resource): string | undefined {
  const mode = text(at(system, "Boot"), "BootSourceOverrideMode");
  return mode === "Legacy" ? "BIOS" : mode;
}

function healthOf(one: Resource): string | undefined {
  return text(at(one, "Status"), "Health")?.toUpperCase();
}

/** A part without the members that the machine does not report, and without empty lists. */
function part(members: Readonly<Record<string, Json | undefined>>): Part {
  const kept = Object.entries(members).filter(
    ([, value]) => value !== undefined && !(Array.isArray(value) && value.length === 0),
  );
  return Object.fromEntries(kept) as Part;
}

/** The health of each component that is not in order, for the log of the inspection. */
export function unhealthy(inventory: Json): string[] {
  if (Array.isArray(inventory)) return inventory.flatMap(unhealthy);
  if (typeof inventory !== "object" || inventory === null) return [];
  const { health = "OK", name, id } = inventory as Readonly<Record<string, Json>>;
  const label = typeof name === "string" ? name : typeof id === "string" ? id : "machine";
  const own = typeof health === "string" && health !== "OK" ? [`${label}: ${health}`] : [];
  return [...own, ...Object.values(inventory).flatMap(unhealthy)];
}
