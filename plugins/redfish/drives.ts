/**
 * The drives of a machine, wherever its BMC lists them: the storage controllers of the system, the chassis and what
 * they link to, or the devices of SimpleStorage. Inspection and erasure both use it, so that they never see different
 * ones.
 */
import { at, hasContent, items, link, links, number, ownText, text } from "./resource.ts";
import type { Resource } from "./resource.ts";
import type { RedfishService } from "./service.ts";
import { machineChassis } from "./system.ts";
import type { Located } from "./system.ts";

export interface FoundDrives {
  /** Bays without a drive are left out. A device of SimpleStorage has no path and no actions. */
  readonly drives: readonly Resource[];
  /** Paths of storage controllers and drives that the BMC links to, and does not have or does not describe. */
  readonly unread: readonly string[];
  /** False if there may be further drives, because something that lists them could not be read. */
  readonly isComplete: boolean;
}

export async function findDrives(service: RedfishService, system: Located): Promise<FoundDrives> {
  const before = new Set(service.unread.keys());
  const chassis = (await machineChassis(service, system)).map(({ resource }) => resource);
  const beforeDrives = new Set(service.unread.keys());
  const collections: string[] = [];
  const membersOf = (path: string | undefined, what: string) => {
    if (path !== undefined) collections.push(path);
    return service.members(path, what);
  };
  const listed = await membersOf(link(system.resource, "Storage"), "storage controllers");
  const linked = chassis.flatMap((one) => links(at(one, "Links"), "Storage"));
  const storages = [...listed, ...(await service.all(without(linked, listed), "storage controllers"))];
  const inChassis: Resource[] = [];
  for (const one of chassis) inChassis.push(...(await membersOf(link(one, "Drives"), "drives of a chassis")));
  const paths = [
    ...storages.flatMap((one) => links(one, "Drives")),
    ...chassis.flatMap((one) => links(at(one, "Links"), "Drives")),
  ];
  const drives = [...(await service.all(without(paths, inChassis), "drives")), ...inChassis];
  // They have no serial numbers, so that drives which are listed elsewhere too cannot be recognized.
  const simple = async () => {
    const controllers = await membersOf(link(system.resource, "SimpleStorage"), "simple storage");
    return controllers.flatMap((one) => items(one, "Devices"));
  };
  const found = drives.length > 0 ? drives : await simple();
  for (const one of storages.filter(lacksDrives))
    service.miss(text(one, "@odata.id") ?? "", "The BMC does not list its drives.");
  const isOptional = (path: string) => beforeDrives.has(path) || collections.includes(path);
  const unread = [
    ...[...service.unread].flatMap(([path, { isMissing }]) =>
      before.has(path) || (isMissing && isOptional(path)) ? [] : [path],
    ),
    ...found.filter((one) => !hasContent(one)).map((one) => text(one, "@odata.id") ?? "a drive without a path"),
  ];
  return {
    drives: found
      .filter(isInstalled)
      .filter((one, index, all) => all.findIndex((other) => isSame(one, other)) === index),
    unread,
    isComplete: unread.length === 0,
  };
}

/** Whether a controller has more drives than it lists. */
function lacksDrives(storage: Resource): boolean {
  return storage["Drives"] === null || links(storage, "Drives").length < (number(storage, "Drives@odata.count") ?? 0);
}

/** The paths, each once, except those of resources that are read. */
function without(paths: readonly string[], read: readonly Resource[]): string[] {
  const known = new Set(read.map((one) => text(one, "@odata.id")));
  return [...new Set(paths)].filter((path) => !known.has(path));
}

/** Some BMCs have a drive at two paths, and some give the same text as serial number of every drive. */
function isSame(one: Resource, other: Resource): boolean {
  if (one === other) return true;
  const serial = serialOf(one);
  const hasSerial = serial !== undefined && serial === serialOf(other);
  return hasSerial && number(one, "CapacityBytes") === number(other, "CapacityBytes") && wwnOf(one) === wwnOf(other);
}

export function serialOf(drive: Resource): string | undefined {
  return ownText(drive, "SerialNumber");
}

/** Sockets, slots and bays without a component are reported as absent. */
export function isInstalled(one: Resource): boolean {
  return text(at(one, "Status"), "State") !== "Absent";
}

const MEDIUM = /\bvirtual[ _-]?(cd|dvd|floppy|media|hdisk|usb)|\b(cd|dvd)[ _-]?rom\b/i;

/** A medium that the BMC shows to the machine, or a reader without one. A drive that is broken may have no size. */
export function isMedium(drive: Resource): boolean {
  const isReader = number(drive, "CapacityBytes") === 0 && !["SSD", "HDD"].includes(text(drive, "MediaType") ?? "");
  return isReader || MEDIUM.test(`${text(drive, "Name")} ${text(drive, "Model")}`);
}

/** The WWN of a drive, in lower case. */
export function wwnOf(drive: Resource): string | undefined {
  const identifier = items(drive, "Identifiers").find((one) =>
    ["NAA", "EUI"].includes(text(one, "DurableNameFormat") ?? ""),
  );
  return identifier && text(identifier, "DurableName")?.toLowerCase();
}
