/** Whether an erasure is proven, by its account and the disks of inspections. */
import { describe, expect, test } from "vitest";
import { erasureGaps } from "../../src/lifecycle/erasure.ts";
import type { AccountedDisk, ErasureGap, KnownDisk } from "../../src/lifecycle/erasure.ts";

const TB = 1_000_204_886_016;

function disk(name: string, more: Partial<KnownDisk> = {}): KnownDisk {
  return { names: [name], serial: null, wwn: null, sizeBytes: TB, ...more };
}

function erased(name: string, more: Partial<AccountedDisk> = {}): AccountedDisk {
  return { ...disk(name, more), erased: true, reason: "", medium: false, ...more };
}

function leftOut(name: string, more: Partial<AccountedDisk> = {}): AccountedDisk {
  return erased(name, { erased: false, reason: "it is read-only", ...more });
}

function gaps(
  account: readonly AccountedDisk[],
  inspected: readonly (readonly KnownDisk[])[] = [],
  leaveOut: readonly string[] = [],
  isDiskless = false,
): string[] {
  const found = erasureGaps({
    account,
    inspected: inspected.map((disks, index) => ({ inspection: `inspection ${index}`, disks })),
    isDiskless,
    leaveOut,
  });
  return found.map((gap: ErasureGap) => (gap.kind === "NO_DISK" ? gap.kind : `${gap.kind} ${gap.disk.names[0]}`));
}

describe("erasure", () => {
  test("an erasure that left out a disk, or found none, is not proven", () => {
    expect(gaps([])).toEqual(["NO_DISK"]);
    expect(gaps([leftOut("sr0", { medium: true })])).toEqual(["NO_DISK"]);
    expect(gaps([erased("sda"), leftOut("sr0", { medium: true })])).toEqual([]);
    expect(gaps([leftOut("sda"), erased("sdb")])).toEqual(["LEFT_OUT sda"]);
  });

  test("a medium of the BMC without a serial number that an inspection reported too was taken for an unseen disk", () => {
    expect(gaps([erased("sda"), leftOut("sr0", { medium: true })], [[disk("sda"), disk("sr0")]])).toEqual([]);
    expect(gaps([erased("sda"), leftOut("sr0", { medium: true })], [[disk("sda"), disk("sdb")]])).toEqual([
      "UNSEEN sdb",
    ]);
  });

  test.each(["0123456789ABCDEF", "Default string", "N/A"])(
    "two disks with the filler %s as serial number were taken for one",
    (serial) => {
      const known = [disk("sda", { serial }), disk("sdb", { serial })];
      expect(gaps([erased("sda", { serial })], [known])).toHaveLength(1);
      expect(gaps([erased("sda", { serial }), erased("sdb", { serial })], [known])).toEqual([]);
    },
  );

  test("an erasure of a diskless machine may find no disk, unless an inspection has", () => {
    expect(gaps([], [], [], true)).toEqual([]);
    expect(gaps([], [[disk("bay 1")]], [], true)).toEqual(["UNSEEN bay 1"]);
    expect(gaps([leftOut("sda")], [], [], true)).toEqual(["LEFT_OUT sda"]);
  });

  test.each([
    ["its serial number", "d 1"],
    ["its WWN", "0x50:00"],
    ["its path", "/dev/sda"],
    ["its name", "sda"],
  ])("a disk may be left out that the request names by %s", (_what, given) => {
    const spared = { names: ["/dev/sda"], serial: "D1", wwn: "naa.5000" };
    expect(gaps([leftOut("", spared), erased("sdb")], [], [given])).toEqual([]);
    expect(gaps([erased("sdb", { serial: "D2" })], [[disk("", spared)]], [given])).toEqual([]);
    expect(gaps([leftOut("", spared), leftOut("sdb")], [], [given])).toEqual(["LEFT_OUT sdb"]);
  });

  test("another path to a disk that the request names may be left out too", () => {
    const paths = ["/dev/sda", "/dev/sdb"].map((path) => leftOut(path, { serial: "D1", wwn: "5000" }));
    expect(gaps([...paths, erased("sdc")], [], ["/dev/sda"])).toEqual([]);
  });

  test.each([
    ["equal serial numbers", { serial: "S3R1NX0K" }, { serial: "S3R1NX0K" }],
    ["another case, and blanks", { serial: " s3r1 nx0k" }, { serial: "S3R1NX0K " }],
    ["a prefix of the WWN", { wwn: "naa.5002538E40A1B2C3" }, { wwn: "5002538e40a1b2c3" }],
    ["colons in the WWN", { wwn: "0x5002538e40a1b2c3" }, { wwn: "50:02:53:8E:40:A1:B2:C3" }],
    ["a serial number that is a part", { serial: "WD-WCC4N1234567" }, { serial: "WCC4N1234567" }],
    ["a serial number within a WWN", { wwn: "t10.ATA     MZ7LH960     S45NNA0M123456" }, { serial: "S45NNA0M123456" }],
    ["one of the two", { serial: "A1", wwn: "5000000000000001" }, { serial: "B2", wwn: "5000000000000001" }],
    ["only the size in common", { serial: "A1" }, { wwn: "5000000000000001" }],
    ["a rounded size, and nothing else", {}, { sizeBytes: 1e12 }],
    ["a size that the BMC does not report", {}, { sizeBytes: null }],
  ])("an inspected disk is the erased one with %s [R-752]", (_what, one, other) => {
    expect(gaps([erased("sda", one)], [[disk("bay 1", other)]])).toEqual([]);
  });

  test.each([
    ["another serial number", { serial: "A1" }, { serial: "A2" }],
    ["a short serial number that is a part of the other", { serial: "A1" }, { serial: "A10" }],
    ["another WWN", { wwn: "5000000000000001" }, { wwn: "5000000000000002" }],
    ["a serial number that means nothing, and another size", { serial: "0000" }, { serial: "0000", sizeBytes: 5e11 }],
    ["another size, and nothing else", {}, { sizeBytes: 5e11 }],
  ])("an inspected disk is not the erased one with %s [R-752]", (_what, one, other) => {
    expect(gaps([erased("sda", one)], [[disk("bay 1", other)]])).toEqual(["UNSEEN bay 1"]);
  });

  test("a serial number that is a part of two others is the disk of which no equal one is known", () => {
    const known = ["SERIAL-01", "SERIAL-010"].map((serial) => disk(serial, { serial }));
    expect(gaps([erased("a", { serial: "SERIAL-010" })], [known])).toEqual(["UNSEEN SERIAL-01"]);
    expect(gaps([erased("a", { serial: "SERIAL-010" }), erased("b", { serial: "XSERIAL-01" })], [known])).toEqual([]);
  });

  test("disks without serial number and WWN are counted, and none stands for two [R-752]", () => {
    expect(gaps([erased("sda"), erased("sdb")], [[disk("bay 1"), disk("bay 2")]])).toEqual([]);
    expect(gaps([erased("sda")], [[disk("bay 1"), disk("bay 2")]])).toEqual(["UNSEEN bay 2"]);
    expect(gaps([erased("sda", { serial: "A1" })], [[disk("bay 1", { serial: "A1" }), disk("bay 2")]])).toEqual([
      "UNSEEN bay 2",
    ]);
  });

  test("namespaces and paths of one disk count once [R-752]", () => {
    const namespaces = ["n1", "n2"].map((name) => erased(name, { serial: "N1", sizeBytes: TB / 2 }));
    expect(gaps(namespaces, [[disk("bay 1", { serial: "N1" })]])).toEqual([]);
    expect(gaps(namespaces, [[disk("bay 1")]])).toEqual([]);
    expect(gaps(namespaces, [[disk("bay 1"), disk("bay 2")]])).toEqual(["UNSEEN bay 2"]);
    const paths = ["path 1", "path 2"].map((name) => disk(name, { wwn: "5000000000000001" }));
    expect(gaps([erased("sda", { wwn: "5000000000000001" })], [paths])).toEqual([]);
    expect(gaps([erased("sda", { wwn: "5000000000000002" })], [paths])).toEqual(["UNSEEN path 1"]);
  });

  test("drives behind a RAID volume that the erasure saw are not erased, and named once for two inspections", () => {
    const drives = ["D1", "D2"].map((serial) => disk(serial, { serial }));
    const volume = erased("sda", { serial: "VOLUME", wwn: "6000000000000001", sizeBytes: 2 * TB });
    expect(gaps([volume], [drives, [disk("sda", { serial: "VOLUME" }), ...drives]])).toEqual([
      "UNSEEN D1",
      "UNSEEN D2",
    ]);
    expect(gaps([volume], [drives], ["D1", "D2"])).toEqual([]);
  });

  test("a disk that was left out by name is not reported as unseen too", () => {
    expect(gaps([leftOut("sda", { serial: "A1" })], [[disk("bay 1", { serial: "A1" })]])).toEqual(["LEFT_OUT sda"]);
  });
});
