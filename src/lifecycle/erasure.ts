/**
 * Decides whether an erasure has reached every disk of a machine, by the account that the erasing step gives and by the
 * disks that inspections have reported. Pure: the caller reads the facts. Disks without serial number and WWN are
 * counted.
 */

/** The consequence of an erasure that is not proven for every disk. */
export const UNERASED_DISKS = {
  FAIL: "The step fails, and names the disks.",
  ALLOW: "The step succeeds.",
} as const;
export type UnerasedDisks = keyof typeof UNERASED_DISKS;

/** A disk of an inventory. Null: it is not known. */
export interface KnownDisk {
  /** Path, ID and name, as far as it has them; the first one is for people. */
  readonly names: readonly string[];
  readonly serial: string | null;
  readonly wwn: string | null;
  readonly sizeBytes: number | null;
}

/** A disk that an erasure saw. */
export interface AccountedDisk extends KnownDisk {
  readonly erased: boolean;
  /** Why it was left out. */
  readonly reason: string;
  /** A medium of the BMC, which holds no data of the machine. */
  readonly medium: boolean;
}

/** The disks of an inspection, without media of the BMC. */
export interface InspectedDisks {
  /** The inspection, for people. */
  readonly inspection: string;
  readonly disks: readonly KnownDisk[];
}

export interface ErasureFacts {
  readonly account: readonly AccountedDisk[];
  readonly inspected: readonly InspectedDisks[];
  /** According to operators, the machine has no disk. */
  readonly isDiskless: boolean;
  /** Names, serial numbers and WWNs of disks that may keep their data. */
  readonly leaveOut: readonly string[];
}

/** A reason why the erasure is not proven. */
export type ErasureGap =
  | { readonly kind: "NO_DISK" }
  | { readonly kind: "LEFT_OUT"; readonly disk: AccountedDisk }
  /** An inspection has reported the disk, and the erasure neither erased nor named it. */
  | { readonly kind: "UNSEEN"; readonly disk: KnownDisk; readonly inspection: string };

/** Empty if every disk is erased or may keep its data. */
export function erasureGaps({ account, inspected, isDiskless, leaveOut }: ErasureFacts): readonly ErasureGap[] {
  const media = account.filter(({ erased, medium }) => medium && !erased);
  const disks = account.filter((disk) => !media.includes(disk));
  // The paths to a disk are named together.
  const spared = account.filter((disk) => media.includes(disk) || leaveOut.some((given) => isNamed(disk, given)));
  const mayStay = (disk: KnownDisk) =>
    leaveOut.some((given) => isNamed(disk, given)) || spared.some((one) => one === disk || isSame([one], [disk]));
  const unseen: (ErasureGap & { kind: "UNSEEN" })[] = [];
  for (const { inspection, disks: known } of inspected)
    for (const disk of unmatched(known, disks))
      if (!mayStay(disk) && !unseen.some((one) => one.inspection !== inspection && isSame([one.disk], [disk])))
        unseen.push({ kind: "UNSEEN", disk, inspection });
  return [
    ...(disks.length === 0 && !isDiskless ? [{ kind: "NO_DISK" } as const] : []),
    ...disks.filter((disk) => !disk.erased && !mayStay(disk)).map((disk) => ({ kind: "LEFT_OUT", disk }) as const),
    ...unseen,
  ];
}

// ---- which disks are the same

/** The namespaces of one disk, or the paths to it. */
type Device = readonly KnownDisk[];

/** A serial number or WWN of this length can be a part of what another source reports; a shorter one must be equal. */
const PART_LENGTH_MIN = 8;
/** Sizes are rounded by some BMCs. */
const SIZE_TOLERANCE = 0.01;

/**
 * The disks that the account does not have: by equal identities, then by identities that are a part of another, then by
 * size. The last two use each disk of the account once.
 */
function unmatched(known: readonly KnownDisk[], account: readonly KnownDisk[]): KnownDisk[] {
  const devices = devicesOf(account);
  const wanted = devicesOf(known);
  const free = devices.filter((device) => !wanted.some((one) => isSame(one, device)));
  const without = (missing: readonly Device[], isFound: (one: Device, other: Device) => boolean) =>
    missing.filter((one) => {
      const found = free.findIndex((device) => isFound(one, device));
      if (found >= 0) free.splice(found, 1);
      return found < 0;
    });
  const missing = wanted.filter((one) => !devices.some((device) => isSame(one, device)));
  return without(without(missing, isPart), mayBeSame).flatMap(([disk]) => disk ?? []);
}

function devicesOf(disks: readonly KnownDisk[]): Device[] {
  const devices: KnownDisk[][] = [];
  for (const disk of disks) {
    const device = devices.find((one) => isSame(one, [disk]));
    if (device) device.push(disk);
    else devices.push([disk]);
  }
  return devices;
}

/** Some machines report as the serial number what others report as the WWN. */
function isSame(a: Device, b: Device): boolean {
  const others = new Set(identities(b));
  return identities(a).some((one) => others.has(one));
}

function isPart(a: Device, b: Device): boolean {
  const isIn = (short: string, long: string) => short.length >= PART_LENGTH_MIN && long.includes(short);
  return identities(a).some((one) => identities(b).some((other) => isIn(one, other) || isIn(other, one)));
}

/** Whether nothing known differs: they have no kind of identity in common, and about the same size. */
function mayBeSame(a: Device, b: Device): boolean {
  const has = (device: Device, kind: "serial" | "wwn") => device.some((one) => identity(one[kind]) !== null);
  if ((["serial", "wwn"] as const).some((kind) => has(a, kind) && has(b, kind))) return false;
  const isClose = (one: number, other: number) => Math.abs(one - other) <= SIZE_TOLERANCE * Math.max(one, other);
  const [sizes, others] = [sizesOf(a), sizesOf(b)];
  return sizes === null || others === null || sizes.some((one) => others.some((other) => isClose(one, other)));
}

/** Of each namespace, and of all together; null if one is not known. */
function sizesOf(device: Device): number[] | null {
  const sizes = device.flatMap(({ sizeBytes }) => sizeBytes ?? []);
  return sizes.length < device.length ? null : [...sizes, sizes.reduce((sum, size) => sum + size, 0)];
}

function identities(device: Device): string[] {
  return device.flatMap(({ serial, wwn }) => [identity(serial) ?? [], identity(wwn) ?? []].flat());
}

/** Texts that firmware reports in place of a serial number. */
const MEANINGLESS = /^(.)\1*$|^0?1234567890?$|^(na|none|null|unknown|notavailable|notspecified|tobefilledbyoem)$/;

/** A serial number or WWN without the differences between sources; null if it identifies nothing. */
function identity(given: string | null): string | null {
  const plain = (given ?? "")
    .trim()
    .toLowerCase()
    .replace(/^(naa|eui|uuid|nvme|t10)\.|^wwn-/, "")
    .replace(/^0x/, "")
    .replaceAll(/[^a-z0-9]/g, "");
  return plain === "" || MEANINGLESS.test(plain) ? null : plain;
}

function isNamed({ names, serial, wwn }: KnownDisk, given: string): boolean {
  const plain = identity(given);
  const isName = names.includes(given) || names.includes(`/dev/${given}`);
  return isName || (plain !== null && (plain === identity(serial) || plain === identity(wwn)));
}
