/**
 * Decides whether an erasure has reached every disk of a machine, by the account that the erasing step gives and by the
 * disks that inspections have reported. Pure: the caller reads the facts. Disks without serial number and WWN are
 * counted.
 */
import { serialKey } from "./identity.ts";

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

interface ErasureFacts {
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
  const disks = account.filter(({ erased, medium }) => erased || !medium);
  const isAllowed = (disk: KnownDisk) => leaveOut.some((given) => isNamed(disk, given));
  // The paths to a disk are named together. Media of the BMC may stay.
  const staying = account.filter((disk) => isAllowed(disk) || (disk.medium && !disk.erased));
  const spared = identitiesOf(staying);
  const sparedNames = new Set(staying.flatMap(({ names }) => names));
  const mayStay = (disk: KnownDisk) => {
    const own = identities(disk);
    // A medium has no serial number as a rule.
    const isNamedSo = own.length === 0 && disk.names.some((name) => sparedNames.has(name));
    return isAllowed(disk) || isNamedSo || own.some((one) => spared.has(one));
  };
  const leftOut = disks.filter((disk) => !disk.erased && !mayStay(disk));
  const reported = new Set<string>();
  const unseen: ErasureGap[] = [];
  for (const { inspection, disks: known } of inspected) {
    const missing = unmatched(known, disks).filter((disk) => !mayStay(disk));
    const more = missing.filter((disk) => !identities(disk).some((one) => reported.has(one)));
    unseen.push(...more.map((disk) => ({ kind: "UNSEEN", disk, inspection }) as const));
    for (const one of identitiesOf(more)) reported.add(one);
  }
  return [
    ...(disks.length === 0 && !isDiskless ? [{ kind: "NO_DISK" } as const] : []),
    ...leftOut.map((disk) => ({ kind: "LEFT_OUT", disk }) as const),
    ...unseen,
  ];
}

// ---- which disks are the same

/** The namespaces of one disk, or the paths to it, which have an identity in common. */
interface Device {
  readonly disks: KnownDisk[];
  readonly identities: Set<string>;
}

/** A serial number or WWN of this length can be a part of what another source reports; a shorter one must be equal. */
const PART_LENGTH_MIN = 8;
/** Sizes are rounded by some BMCs. */
const SIZE_TOLERANCE = 0.01;

/**
 * The disks that the account does not have: by equal identities, then by identities that are a part of another, then by
 * size. The last two use each disk of the account once.
 */
function unmatched(known: readonly KnownDisk[], account: readonly KnownDisk[]): KnownDisk[] {
  const [inAccount, inKnown] = [identitiesOf(account), identitiesOf(known)];
  const without = (devices: readonly Device[], others: ReadonlySet<string>) =>
    devices.filter((device) => ![...device.identities].some((one) => others.has(one)));
  const free = without(devicesOf(account), inKnown);
  const unused = (missing: readonly Device[], isFound: (one: Device, other: Device) => boolean) =>
    missing.filter((one) => {
      const found = free.findIndex((device) => isFound(one, device));
      if (found >= 0) free.splice(found, 1);
      return found < 0;
    });
  const missing = without(devicesOf(known), inAccount);
  return unused(unused(missing, isPart), mayBeSame).flatMap(({ disks: [disk] }) => disk ?? []);
}

function devicesOf(disks: readonly KnownDisk[]): Device[] {
  const devices: Device[] = [];
  const byIdentity = new Map<string, Device>();
  for (const disk of disks) {
    const own = identities(disk);
    let device = own.map((one) => byIdentity.get(one)).find((one) => one !== undefined);
    if (!device) devices.push((device = { disks: [], identities: new Set() }));
    device.disks.push(disk);
    for (const one of own) {
      device.identities.add(one);
      byIdentity.set(one, device);
    }
  }
  return devices;
}

function isPart(a: Device, b: Device): boolean {
  const isIn = (short: string, long: string) => short.length >= PART_LENGTH_MIN && long.includes(short);
  const others = [...b.identities];
  return [...a.identities].some((one) => others.some((other) => isIn(one, other) || isIn(other, one)));
}

/** Whether nothing known differs: they have no kind of identity in common, and about the same size. */
function mayBeSame(a: Device, b: Device): boolean {
  const has = ({ disks }: Device, kind: "serial" | "wwn") => disks.some((one) => identity(one[kind]) !== null);
  if ((["serial", "wwn"] as const).some((kind) => has(a, kind) && has(b, kind))) return false;
  const isClose = (one: number, other: number) => Math.abs(one - other) <= SIZE_TOLERANCE * Math.max(one, other);
  const [sizes, others] = [sizesOf(a), sizesOf(b)];
  return sizes === null || others === null || sizes.some((one) => others.some((other) => isClose(one, other)));
}

/** Of each namespace, and of all together; null if one is not known. */
function sizesOf({ disks }: Device): number[] | null {
  const sizes = disks.flatMap(({ sizeBytes }) => sizeBytes ?? []);
  return sizes.length < disks.length ? null : [...sizes, sizes.reduce((sum, size) => sum + size, 0)];
}

function identitiesOf(disks: readonly KnownDisk[]): ReadonlySet<string> {
  return new Set(disks.flatMap(identities));
}

/** Some machines report as the serial number what others report as the WWN. */
function identities({ serial, wwn }: KnownDisk): string[] {
  return [identity(serial), identity(wwn)].filter((one) => one !== null);
}

/** A serial number or WWN without the differences between sources; null if it identifies nothing. */
function identity(given: string | null): string | null {
  const plain = (given ?? "")
    .trim()
    .toLowerCase()
    .replace(/^(naa|eui|uuid|nvme|t10)\.|^wwn-/, "")
    .replace(/^0x/, "")
    .replaceAll(/[^a-z0-9]/g, "");
  return serialKey(plain) === null ? null : plain;
}

function isNamed({ names, serial, wwn }: KnownDisk, given: string): boolean {
  const plain = identity(given);
  const isName = names.includes(given) || names.includes(`/dev/${given}`);
  return isName || (plain !== null && (plain === identity(serial) || plain === identity(wwn)));
}
