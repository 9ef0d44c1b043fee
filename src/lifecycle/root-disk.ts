/**
 * Decides which disk of a machine a system is installed on, before anything is erased. Pure: the caller reads the
 * facts. The agent decides by the same rule when it writes (packages/agent/internal/disk/hints.go), and both are tested
 * with packages/agent/internal/disk/testdata/root-disk.json.
 */

export type DiskKind = "NVME" | "SSD" | "HDD" | "VIRTUAL";

/** A disk of an inventory. Null: the inventory does not have it. */
export interface DiskFacts {
  readonly name: string | null;
  /** The path in the agent, then those of its place. */
  readonly paths: readonly string[];
  readonly serial: string | null;
  readonly wwn: string | null;
  readonly vendor: string | null;
  readonly model: string | null;
  readonly kind: DiskKind | null;
  readonly rotational: boolean | null;
  /** PCI address of the controller. */
  readonly controller: string | null;
  readonly slot: number | null;
  /** SCSI address. */
  readonly hctl: string | null;
  readonly sizeBytes: number | null;
}

type Hinted = Omit<DiskFacts, "name" | "paths" | "sizeBytes">;

/** Hints that choose the disk for the system. An absent one chooses nothing. */
export type RootDiskHints = { readonly [Name in keyof Hinted]?: NonNullable<Hinted[Name]> } & {
  readonly path?: string;
  readonly minimumBytes?: number;
  readonly maximumBytes?: number;
};

/** The disk on which a system is installed. */
export interface RootDisk extends DiskFacts {
  /** The reason for the choice, as a noun. */
  readonly why: string;
}

/** The chosen disk, or why none can be chosen, as a clause. */
type RootDiskChoice =
  | { readonly disk: RootDisk }
  | { readonly code: "DISK_NOT_FOUND" | "DISK_AMBIGUOUS"; readonly why: string };

/** Without hints, no smaller disk is chosen among several. The value is that of OpenStack Ironic. */
const DEFAULT_BYTES = 4 * 2 ** 30;

/** `disks`: all on which the agent installs a system. Null hints are none. */
export function chooseRootDisk(disks: readonly DiskFacts[], hints: RootDiskHints | null): RootDiskChoice {
  const given = Object.entries(hints ?? {}).filter(([, value]) => value !== undefined);
  if (hints === null || given.length === 0) return chooseDefault(disks);
  const text = given.map(([name, value]) => `${name} ${String(value)}`).join(", ");
  const [disk, ...others] = disks.filter((one) => matches(one, hints, { isComplete: true }));
  if (!disk) return { code: "DISK_NOT_FOUND", why: `no disk matches the root disk hints ${text}` };
  if (others.length === 0) return chosen(disk, `the only disk that matches the hints ${text}`);
  return { code: "DISK_AMBIGUOUS", why: `${others.length + 1} disks match the root disk hints ${text}` };
}

function chooseDefault(disks: readonly DiskFacts[]): RootDiskChoice {
  const sizeOf = ({ sizeBytes }: DiskFacts) => sizeBytes ?? 0;
  const [only, ...more] = disks;
  if (only && more.length === 0) return chosen(only, "the only disk");
  const [disk, next] = disks
    .filter((one) => sizeOf(one) >= DEFAULT_BYTES)
    .toSorted((a, b) => sizeOf(a) - sizeOf(b) || byIdentity(a, b));
  if (!disk) return { code: "DISK_NOT_FOUND", why: "no disk has at least 4 GiB, and there are no root disk hints" };
  if (!next || sizeOf(next) > sizeOf(disk)) return chosen(disk, "the smallest disk of at least 4 GiB");
  if (byIdentity(disk, next) < 0)
    return chosen(disk, "the first, by its place or serial number, of the smallest disks of at least 4 GiB");
  return {
    code: "DISK_AMBIGUOUS",
    why: "the smallest disks of at least 4 GiB are equal, and have no place, serial number or WWN to choose by",
  };
}

function chosen(disk: DiskFacts, why: string): RootDiskChoice {
  return { disk: { ...disk, why } };
}

/** Compares by what stays the same from boot to boot; what is known comes before what is not. */
function byIdentity(a: DiskFacts, b: DiskFacts): number {
  const keysOf = (disk: DiskFacts) => [placeOf(disk), disk.serial, disk.wwn].map((key) => key ?? "");
  const others = keysOf(b);
  for (const [index, one] of keysOf(a).entries()) {
    const other = others[index] ?? "";
    if (one === other) continue;
    if (one === "" || other === "") return one === "" ? 1 : -1;
    return one.length - other.length || (one < other ? -1 : 1);
  }
  return 0;
}

/** The path that names the place of a disk; null if it is not known. */
export function placeOf({ paths }: DiskFacts): string | null {
  return paths.find((path) => path.startsWith("/dev/disk/by-path/")) ?? null;
}

/** Whether hints allow a disk. In an inventory that is not complete, a property that it lacks contradicts no hint. */
export function matches(
  disk: DiskFacts,
  hints: RootDiskHints,
  { isComplete }: { readonly isComplete: boolean },
): boolean {
  const { minimumBytes = 0, maximumBytes = Number.POSITIVE_INFINITY, path } = hints;
  const isEqual = <Value>(value: Value | null, hint: Value | undefined, plain: (one: Value) => unknown) =>
    hint === undefined || (value === null ? !isComplete : plain(value) === plain(hint));
  const hasPart = (value: string | null, hint: string | undefined) =>
    hint === undefined || (value === null ? !isComplete : plainText(value).includes(plainText(hint)));
  return (
    (path === undefined || disk.paths.includes(path) || (!isComplete && disk.paths.length === 0)) &&
    isEqual(disk.serial, hints.serial, plainText) &&
    isEqual(disk.wwn, hints.wwn, plainWwn) &&
    isEqual(disk.controller, hints.controller, plainText) &&
    hasPart(disk.vendor, hints.vendor) &&
    hasPart(disk.model, hints.model) &&
    (["kind", "rotational", "slot", "hctl"] as const).every((name) => isEqual(disk[name], hints[name], String)) &&
    (disk.sizeBytes === null || (disk.sizeBytes >= minimumBytes && disk.sizeBytes <= maximumBytes))
  );
}

function plainText(text: string): string {
  return text.trim().toLowerCase();
}

/** A WWN without the differences between what Linux, BMCs and labels call the same name. */
function plainWwn(wwn: string): string {
  const text = ["naa.", "eui.", "wwn-", "0x"].reduce(
    (left, prefix) => (left.startsWith(prefix) ? left.slice(prefix.length) : left),
    plainText(wwn),
  );
  return /^(t10|uuid|nvme)\./.test(text) ? text : text.replaceAll(/[:\- ]/g, "");
}
