/** The facts about a machine from its inventory, the settings of its node and the variables of a request. */
import type { DiskFacts, DiskKind, MachineFacts, RootDiskHints } from "../../lifecycle/image-fit.ts";
import type { Architecture } from "../../lifecycle/images.ts";
import type { JsonObject, StoredJson } from "../../store/records.ts";
import { isJsonObject } from "../input/variables.ts";

export interface MachineSources {
  /** The newest inventory; null if the node was never inspected. */
  readonly inventory: JsonObject | null;
  /** Settings of the driver that installs the image. */
  readonly settings: JsonObject;
  readonly variables: JsonObject;
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

export function machineFactsOf({ inventory, settings, variables }: MachineSources): MachineFacts {
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

function disksIn(inventory: JsonObject | null): MachineFacts["disks"] {
  const disks = inventory?.["disks"];
  if (!Array.isArray(disks)) return null;
  return disks.filter(isJsonObject).map((disk): DiskFacts => ({
    path: textOf(disk["path"]),
    serial: textOf(disk["serial"]),
    wwn: textOf(disk["wwn"]),
    model: textOf(disk["model"]),
    kind: kindOf(disk["kind"]),
    controller: textOf(disk["controller"]),
    slot: countOf(disk["slot"]),
    sizeBytes: countOf(disk["sizeBytes"]),
  }));
}

function hintsOf(hints: JsonObject): RootDiskHints {
  const kind = kindOf(hints["kind"]);
  const texts = (["path", "serial", "wwn", "model", "controller"] as const).flatMap((name) => {
    const text = textOf(hints[name]);
    return text === null ? [] : [[name, text]];
  });
  const numbers = (["minimumBytes", "maximumBytes", "slot"] as const).flatMap((name) => {
    const number = countOf(hints[name]);
    return number === null ? [] : [[name, number]];
  });
  return { ...Object.fromEntries([...texts, ...numbers]), ...(kind && { kind }) };
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
