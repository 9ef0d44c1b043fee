/** Inventory of fake machines. */
import { createHash } from "node:crypto";
import type { Json, StepCall } from "../../src/drivers/driver.ts";
import type { FakeSettings } from "./settings.ts";

/** Hardware derived from the node's id, so that it is the same in every inspection. */
export function inventoryOf({ node, settings }: StepCall<FakeSettings>): Json {
  const digest = createHash("sha256").update(node.id).digest();
  const [cpus = 0, memory = 0, disks = 0] = digest;
  return {
    manufacturer: "Ostler",
    model: "Fake 1000",
    serial: settings.serial ?? digest.subarray(0, 6).toString("hex").toUpperCase(),
    cpus: 8 << (cpus % 3),
    memoryGiB: 64 << (memory % 4),
    disks: Array.from({ length: 1 + (disks % 4) }, (_, index) => ({ name: `disk${index}`, sizeGB: 960 })),
  };
}
