/**
 * Decides whether an image fits a machine, before anything boots. Pure: the caller reads the facts. What is not known
 * contradicts nothing; the machine checks again when it writes the image.
 */
import type { ImageMismatch } from "../errors.ts";
import type { Architecture, ImageFormat } from "./images.ts";
import { matches } from "./root-disk.ts";
import type { DiskFacts, RootDiskHints } from "./root-disk.ts";
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

/** The facts about a machine. Null: not known. */
export interface MachineFacts {
  readonly architecture: Architecture | null;
  readonly bootMode: BootModeName | null;
  readonly disks: readonly DiskFacts[] | null;
  readonly rootDisk: RootDiskHints | null;
}

/** A property of the image that the machine contradicts, with the reason as a clause. */
interface Mismatch {
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

/** The root disk is not known: one of those that the hints allow has to be large enough. */
function sizeMismatch(image: ImageFacts, { disks, rootDisk }: MachineFacts): Mismatch[] {
  const allowed = (disks ?? []).filter((disk) => rootDisk === null || matches(disk, rootDisk, { isComplete: false }));
  const sizes = allowed.map(({ sizeBytes }) => sizeBytes);
  const largest = Math.max(...sizes.filter((size) => size !== null));
  // A disk of unknown size may be large enough.
  if (sizes.length === 0 || sizes.includes(null) || neededBytes(image) <= largest) return [];
  const which = rootDisk === null ? "the largest disk" : "the largest disk that the root disk hints allow";
  return [{ what: "SIZE", why: `it needs ${neededText(image)}, and ${which} has ${largest}` }];
}

/** A packed file is smaller than its content, so it is a lower bound. */
export function neededBytes({ diskBytes, sizeBytes }: ImageFacts): number {
  return diskBytes ?? sizeBytes;
}

export function neededText(image: ImageFacts): string {
  const atLeast = image.diskBytes === null && image.format !== "RAW" ? "at least " : "";
  return `${atLeast}${neededBytes(image)} bytes`;
}
