/** Whether an image fits a machine, by what is known of the machine. */
import { describe, expect, test } from "vitest";
import { imageMismatches } from "../../src/lifecycle/image-fit.ts";
import type { ImageFacts, MachineFacts } from "../../src/lifecycle/image-fit.ts";
import { matches } from "../../src/lifecycle/root-disk.ts";
import type { DiskFacts, RootDiskHints } from "../../src/lifecycle/root-disk.ts";

const GB = 1_000_000_000;

const anImage = (more: Partial<ImageFacts> = {}): ImageFacts => ({
  name: "debian-13",
  architecture: "X64",
  bootMode: "UEFI",
  format: "RAW_ZST",
  sizeBytes: 1 * GB,
  diskBytes: 4 * GB,
  ...more,
});
const aDisk = (more: Partial<DiskFacts> = {}): DiskFacts => ({
  name: null,
  paths: [],
  vendor: null,
  rotational: null,
  hctl: null,
  controller: null,
  slot: null,
  serial: null,
  wwn: null,
  model: null,
  kind: "SSD",
  sizeBytes: 100 * GB,
  ...more,
});
const aMachine = (more: Partial<MachineFacts> = {}): MachineFacts => ({
  architecture: "X64",
  bootMode: "UEFI",
  disks: [aDisk()],
  rootDisk: null,
  ...more,
});

const SMALL = aDisk({ serial: "SMALL", kind: "NVME", sizeBytes: 2 * GB });
const LARGE = aDisk({ serial: "LARGE", kind: "HDD", sizeBytes: 10 * GB });

describe("an image fits a machine", () => {
  test.each<[string, Partial<ImageFacts>, Partial<MachineFacts>, string[]]>([
    ["that agrees in everything", {}, {}, []],
    ["of which nothing is known", {}, { architecture: null, bootMode: null, disks: null }, []],
    ["without disks in its inventory", {}, { disks: [] }, []],
    ["of another architecture: not", {}, { architecture: "ARM64" }, ["ARCHITECTURE"]],
    ["of another boot mode: not", {}, { bootMode: "BIOS" }, ["BOOT_MODE"]],
    ["of any boot mode, if it starts from both", { bootMode: null }, { bootMode: "BIOS" }, []],
    ["with a disk of exactly its size", { diskBytes: 100 * GB }, {}, []],
    ["with a disk that is one byte too small: not", { diskBytes: 100 * GB + 1 }, {}, ["SIZE"]],
    ["by the size of its file if the unpacked one is unknown", { diskBytes: null, sizeBytes: 101 * GB }, {}, ["SIZE"]],
    ["with a disk of unknown size", {}, { disks: [SMALL, aDisk({ sizeBytes: null })] }, []],
    ["by its largest disk", {}, { disks: [SMALL, LARGE] }, []],
    ["by the disk that the hints choose: not", {}, { disks: [SMALL, LARGE], rootDisk: { kind: "NVME" } }, ["SIZE"]],
    ["by the disk that the hints choose", {}, { disks: [SMALL, LARGE], rootDisk: { serial: "large" } }, []],
    ["with hints that choose none of its disks", {}, { disks: [SMALL], rootDisk: { serial: "OTHER" } }, []],
    [
      "that contradicts everything: not",
      {},
      { architecture: "ARM64", bootMode: "BIOS", disks: [SMALL] },
      ["ARCHITECTURE", "BOOT_MODE", "SIZE"],
    ],
  ])("%s", (_what, image, machine, found) => {
    expect(imageMismatches(anImage(image), aMachine(machine)).map(({ what }) => what)).toEqual(found);
  });

  test("a mismatch of the size names both sizes", () => {
    const packed = anImage({ diskBytes: null, sizeBytes: 11 * GB });
    expect(imageMismatches(packed, aMachine({ disks: [LARGE] }))[0]?.why).toBe(
      "it needs at least 11000000000 bytes, and the largest disk has 10000000000",
    );
  });
});

test.each<[RootDiskHints, Partial<DiskFacts>, boolean]>([
  [{ serial: "A" }, { serial: null }, true],
  [{ serial: "A" }, { serial: "a" }, true],
  [{ serial: "A" }, { serial: "AB" }, false],
  [{ model: "samsung" }, { model: "SAMSUNG MZ7" }, true],
  [{ model: "samsung" }, { model: "INTEL" }, false],
  [{ kind: "NVME" }, { kind: "SSD" }, false],
  [{ minimumBytes: 101 * GB }, {}, false],
  [{ maximumBytes: 99 * GB }, {}, false],
  [{ minimumBytes: 100 * GB, maximumBytes: 100 * GB }, {}, true],
  [{ path: "/dev/sda" }, { paths: ["/dev/sdb"] }, false],
  [{ path: "/dev/sda" }, {}, true],
  [{ vendor: "intel", rotational: false }, {}, true],
  [{ wwn: "0x5" }, { wwn: "0x5" }, true],
  [{ controller: "0000:3B:00.0", slot: 0 }, { controller: "0000:3b:00.0", slot: 0 }, true],
  [{ controller: "0000:3b:00.0" }, { controller: "0000:03:00.0" }, false],
  [{ slot: 0 }, { slot: 1 }, false],
  [{ slot: 0 }, {}, true],
])("hints %j allow a disk %j of a BMC's inventory: %s", (hints, disk, allowed) => {
  expect(matches(aDisk(disk), hints, { isComplete: false })).toBe(allowed);
});
