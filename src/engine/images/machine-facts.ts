/**
 * The facts about a machine from its inventory, the settings of its node and the variables of a request, and whether an
 * image fits it.
 */
import { nodeRefusal } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { imageMismatches, neededBytes, neededText } from "../../lifecycle/image-fit.ts";
import type { MachineFacts } from "../../lifecycle/image-fit.ts";
import { chooseRootDisk } from "../../lifecycle/root-disk.ts";
import type { DiskFacts, DiskKind, RootDisk, RootDiskHints } from "../../lifecycle/root-disk.ts";
import type { Architecture } from "../../lifecycle/images.ts";
import type { JsonObject, StoredJson } from "../../store/records.ts";
import type { ImageRow } from "../../store/images.ts";
import type { InventoryRow, NodeRow } from "../../store/nodes/nodes.ts";
import { bytesText } from "../../runtime/text.ts";
import { isJsonObject } from "../input/variables.ts";

/** The inventories of a node by which an image is judged. */
interface Inspections {
  readonly newest: Pick<InventoryRow, "data"> | null;
  /** The newest by the driver that installs; null if it does not install through the agent. */
  readonly byAgent: Pick<InventoryRow, "data" | "takenAt"> | null;
}

export interface Fit {
  readonly flaws: readonly Refusal[];
  /** Null: not known before the agent has inspected the machine. */
  readonly rootDisk: RootDisk | null;
}

const IMAGE_PATH = ["input", "image"];

/** Whether an image fits a node, and on which disk it is installed. `driver`: the one that installs. */
export function fitOf(
  image: ImageRow,
  { node, driver, variables }: { readonly node: NodeRow; readonly driver: string; readonly variables: JsonObject },
  { newest, byAgent }: Inspections,
): Fit {
  const inventory = newest?.data ?? null;
  const facts = machineFactsOf(inventory, node.settings[driver] ?? {}, variables);
  const disks = disksIn(byAgent?.data ?? null);
  const unfit = imageMismatches(image, disks === null ? facts : { ...facts, disks: null }).map(({ what, why }) => {
    const message = `Image ${image.name} does not fit node ${node.name}: ${why}. Choose another image, or inspect the node if its inventory is out of date.`;
    return nodeRefusal("IMAGE_UNFIT", node.id, message, { path: IMAGE_PATH, imageMismatch: what });
  });
  if (byAgent === null || disks === null) return { flaws: unfit, rootDisk: null };
  const seen = `the inspection by ${driver} of ${byAgent.takenAt.toISOString()}`;
  const choice = chooseRootDisk(disks, facts.rootDisk);
  if ("code" in choice) {
    const known = disks.map(described).join("; ") || "none";
    const message = `Image ${image.name} cannot be installed on node ${node.name}, because ${choice.why}. Disks on which a system can be installed, by ${seen}: ${known}. Name one of them, such as by its serial number, in the variable root_disk or the setting rootDisk, or inspect the node again if its disks have changed.`;
    return { flaws: [...unfit, nodeRefusal(choice.code, node.id, message, { path: IMAGE_PATH })], rootDisk: null };
  }
  const { disk: rootDisk } = choice;
  const { sizeBytes, why } = rootDisk;
  if (sizeBytes === null || neededBytes(image) <= sizeBytes) return { flaws: unfit, rootDisk };
  const message = `Image ${image.name} is too large for node ${node.name}: it needs ${neededText(image)}, and the root disk ${described(rootDisk)}, ${why} by ${seen}, has ${sizeBytes}. Choose a smaller image, or name a larger disk in the variable root_disk or the setting rootDisk.`;
  const tooLarge = nodeRefusal("IMAGE_TOO_LARGE", node.id, message, { path: IMAGE_PATH, imageMismatch: "SIZE" });
  return { flaws: [...unfit, tooLarge], rootDisk };
}

function described({ name, model, serial, sizeBytes }: DiskFacts): string {
  const facts = [
    ...(model === null ? [] : [model]),
    ...(serial === null ? [] : [`serial ${serial}`]),
    ...(sizeBytes === null ? [] : [bytesText(sizeBytes)]),
  ];
  return `${name ?? "without a name"} (${facts.join(", ")})`;
}

/** Names of architectures in inventories: those of Redfish, of Linux, and ours. */
const ARCHITECTURES: Readonly<Record<string, Architecture>> = {
  x64: "X64",
  x86: "X64",
  "x86-64": "X64",
  x86_64: "X64",
  amd64: "X64",
  arm: "ARM64",
  arm64: "ARM64",
  aarch64: "ARM64",
  "arm-a64": "ARM64",
};

/** `settings`: of the driver that installs the image. */
function machineFactsOf(inventory: JsonObject | null, settings: JsonObject, variables: JsonObject): MachineFacts {
  const hints = variables["root_disk"] ?? settings["rootDisk"] ?? null;
  return {
    architecture: architectureIn(inventory) ?? architectureOf(settings["architecture"]),
    bootMode: bootModeOf(settings["bootMode"]) ?? bootModeOf(inventory?.["bootMode"]),
    disks: disksIn(inventory),
    rootDisk: isJsonObject(hints) ? hintsOf(hints) : null,
  };
}

function architectureIn(inventory: JsonObject | null): Architecture | null {
  const processors = inventory?.["processors"];
  const named = Array.isArray(processors)
    ? processors.map((one) => (isJsonObject(one) ? one["architecture"] : null))
    : [];
  return [inventory?.["architecture"], ...named].map(architectureOf).find((found) => found !== null) ?? null;
}

function architectureOf(value: StoredJson | undefined): Architecture | null {
  return typeof value === "string" ? (ARCHITECTURES[value.toLowerCase()] ?? null) : null;
}

function bootModeOf(value: StoredJson | undefined): MachineFacts["bootMode"] {
  return value === "UEFI" || value === "BIOS" ? value : null;
}

export function disksIn(inventory: JsonObject | null): MachineFacts["disks"] {
  const disks = inventory?.["disks"];
  if (!Array.isArray(disks)) return null;
  return disks
    .filter(isJsonObject)
    .filter(({ removable, readOnly, medium }) => removable !== true && readOnly !== true && medium !== true)
    .map((disk): DiskFacts => ({
      name: textOf(disk["name"]) ?? textOf(disk["id"]),
      paths: pathsIn(disk),
      ...factsIn(disk, CHOSEN_BY),
      vendor: textOf(disk["manufacturer"]),
      sizeBytes: countOf(disk["sizeBytes"]),
    }));
}

/** The paths by which the agent knows a disk; names of BMCs are none. */
function pathsIn({ name, path, byPath, paths }: JsonObject): readonly string[] {
  const all = [name, path, byPath, ...(Array.isArray(paths) ? paths : [])].map(textOf);
  return [...new Set(all.filter((one) => one?.startsWith("/dev/")))].filter((one) => one !== null);
}

type Readers = Readonly<Record<string, (value: StoredJson | undefined) => unknown>>;

/** Facts of a disk by which hints choose it. */
const CHOSEN_BY = {
  serial: textOf,
  wwn: textOf,
  vendor: textOf,
  model: textOf,
  kind: kindOf,
  rotational: flagOf,
  controller: textOf,
  slot: countOf,
  hctl: textOf,
} satisfies Readers;
const HINTS = { path: textOf, ...CHOSEN_BY, minimumBytes: countOf, maximumBytes: countOf };

export function hintsOf(hints: JsonObject): RootDiskHints {
  return Object.fromEntries(Object.entries(factsIn(hints, HINTS)).filter(([, value]) => value !== null));
}

function factsIn<Read extends Readers>(object: JsonObject, readers: Read) {
  const read = Object.entries(readers).map(([name, of]) => [name, of(object[name])]);
  return Object.fromEntries(read) as { readonly [Name in keyof Read]: ReturnType<Read[Name]> };
}

function textOf(value: StoredJson | undefined): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

function kindOf(value: StoredJson | undefined): DiskKind | null {
  return value === "NVME" || value === "SSD" || value === "HDD" || value === "VIRTUAL" ? value : null;
}

function countOf(value: StoredJson | undefined): number | null {
  return typeof value === "number" && value >= 0 ? value : null;
}

function flagOf(value: StoredJson | undefined): boolean | null {
  return typeof value === "boolean" ? value : null;
}
