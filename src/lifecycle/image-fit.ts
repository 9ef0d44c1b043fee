/**
 * Decides whether an image fits a machine, before anything boots. Pure: the caller reads the facts. What is not known
 * contradicts nothing; the machine checks again when it writes the image.
 */
import type { ImageMismatch } from "../errors.ts";
import type { Architecture, ImageFormat } from "./images.ts";
import type { BootModeName } from "./verbs.ts";

export interface ImageFacts {
  readonly name: string;
  readonly architecture: Architecture;
  /** Null: it starts from both. */
  readonly bootMode: BootModeName | null;
  readonly format: ImageFormat;
  /** Of the file. */
  readonly sizeBytes: number;
  /** Unpacked; null if unknown. */
  readonly diskBytes: number | null;
}

export type DiskKind = "NVME" | "SSD" | "HDD" | "VIRTUAL";

/** A disk of an inventory. Null: the inventory does not have it. */
export interface DiskFacts {
  readonly path: string | null;
  readonly serial: string | null;
  readonly wwn: string | null;
  readonly model: string | null;
  readonly kind: DiskKind | null;
  /** PCI address of the controller. */
  readonly controller: string | null;
  readonly slot: number | null;
  readonly sizeBytes: number | null;
}

/** Hints that choose the disk for the system. An absent one chooses nothing. */
export interface RootDiskHints {
  readonly path?: string;
  readonly serial?: string;
  readonly wwn?: string;
  readonly model?: string;
  readonly kind?: DiskKind;
  readonly controller?: string;
  readonly slot?: number;
  readonly minimumBytes?: number;
  readonly maximumBytes?: number;
}

/** The facts about a machine. Null: not known. */
export interface MachineFacts {
  readonly architecture: Architecture | null;
  readonly bootMode: BootModeName | null;
  readonly disks: readonly DiskFacts[] | null;
  readonly rootDisk: RootDiskHints | null;
}

/** A property of the image that the machine contradicts, with the reason as a clause. */
export interface Mismatch {
  readonly what: ImageMismatch;
  readonly why: string;
}

/** Every property of the image that does not fit; empty if it fits as far as is known. */
export function imageMismatches(image: ImageFacts, machine: MachineFacts): readonly Mismatch[] {
  return [
    ...architectureMismatch(image, machine),
    ...bootModeMismatch(image, machine),
    ...sizeMismatch(image, machine),
  ];
}

function architectureMismatch(image: ImageFacts, { architecture }: MachineFacts): Mismatch[] {
  if (architecture === null || architecture === image.architecture) return [];
  return [{ what: "ARCHITECTURE", why: `it is for ${image.architecture}, and the machine is ${architecture}` }];
}

function bootModeMismatch(image: ImageFacts, { bootMode }: MachineFacts): Mismatch[] {
  if (bootMode === null || image.bootMode === null || image.bootMode === bootMode) return [];
  return [{ what: "BOOT_MODE", why: `it starts by ${image.bootMode} only, and the machine by ${bootMode}` }];
}

function sizeMismatch(image: ImageFacts, { disks, rootDisk }: MachineFacts): Mismatch[] {
  const sizes = (disks ?? []).filter((disk) => mayHold(disk, rootDisk)).map(({ sizeBytes }) => sizeBytes);
  const largest = Math.max(...sizes.filter((size) => size !== null));
  // A packed file is smaller than its content, so it is a lower bound.
  const needed = image.diskBytes ?? image.sizeBytes;
  // A disk of unknown size may be large enough.
  if (sizes.length === 0 || sizes.includes(null) || needed <= largest) return [];
  const atLeast = image.diskBytes === null && image.format !== "RAW" ? "at least " : "";
  const which = rootDisk === null ? "the largest disk" : "the largest disk that the root disk hints allow";
  return [{ what: "SIZE", why: `it needs ${atLeast}${needed} bytes, and ${which} has ${largest}` }];
}

/** Whether the hints allow a disk. A property that the inventory does not have contradicts no hint. */
export function mayHold(disk: DiskFacts, hints: RootDiskHints | null): boolean {
  if (!hints) return true;
  const { minimumBytes = 0, maximumBytes = Number.POSITIVE_INFINITY } = hints;
  const isSame = (name: "path" | "serial" | "wwn" | "kind" | "controller") =>
    hints[name] === undefined || disk[name] === null || disk[name].toLowerCase() === hints[name].toLowerCase();
  const hasModel =
    hints.model === undefined || disk.model === null || disk.model.toLowerCase().includes(hints.model.toLowerCase());
  const hasSize = disk.sizeBytes === null || (disk.sizeBytes >= minimumBytes && disk.sizeBytes <= maximumBytes);
  const hasSlot = hints.slot === undefined || disk.slot === null || disk.slot === hints.slot;
  const hasNames = (["path", "serial", "wwn", "kind", "controller"] as const).every(isSame);
  return hasNames && hasModel && hasSlot && hasSize;
}
