/** Inventory of fake machines, and the account that an erasure gives of their disks. */
import { createHash } from "node:crypto";
import type { Call, DiskAccount, Json, StepCall } from "../../src/drivers/driver.ts";
import type { FakeDisk, FakeSettings } from "./settings.ts";

const DISK_BYTES = 960_197_124_096;

/** Hardware derived from the node's id, so that it is the same in every inspection. */
export function inventoryOf(call: StepCall<FakeSettings>): Json {
  const digest = digestOf(call);
  const [cpus = 0, memory = 0] = digest;
  const disks = disksOf(call).filter(({ hiddenFrom }) => hiddenFrom !== "INSPECTION");
  return {
    manufacturer: "Ostler",
    model: "Fake 1000",
    serial: call.settings.serial ?? derivedSerial(digest),
    cpus: 8 << (cpus % 3),
    memoryGiB: 64 << (memory % 4),
    disks: disks.map(identified),
  };
}

/** The output of an erasure: each disk, and whether it was erased. */
export function erasureOf(call: StepCall<FakeSettings>): { readonly disks: DiskAccount[] } {
  const seen = disksOf(call).filter(({ hiddenFrom }) => hiddenFrom !== "ERASURE");
  const disks = seen.map((disk): DiskAccount => {
    const { medium, leftOut: reason = medium ? "it is a medium of the BMC" : undefined } = disk;
    return {
      ...identified(disk),
      erased: reason === undefined,
      ...(reason !== undefined && { reason }),
      ...(medium && { medium }),
    };
  });
  return { disks };
}

function identified({ name = "", serial, wwn, sizeBytes = DISK_BYTES }: FakeDisk) {
  return { name, ...(serial && { serial }), ...(wwn && { wwn }), sizeBytes };
}

function disksOf(call: Call<FakeSettings>): FakeDisk[] {
  const digest = digestOf(call);
  const [, , count = 0] = digest;
  const disks: readonly FakeDisk[] = call.settings.disks ?? Array.from({ length: 1 + (count % 4) }, () => ({}));
  return disks.map((disk, index) => ({
    ...disk,
    name: disk.name ?? `disk${index}`,
    serial: disk.serial ?? `${derivedSerial(digest)}-${index}`,
  }));
}

function digestOf({ node }: Call<FakeSettings>): Buffer {
  return createHash("sha256").update(node.id).digest();
}

function derivedSerial(digest: Buffer): string {
  return digest.subarray(0, 6).toString("hex").toUpperCase();
}
