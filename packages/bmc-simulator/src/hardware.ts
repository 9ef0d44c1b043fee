/** The machine behind a BMC: one template for all, and an identity made from the number of the machine. */
import { createHash } from "node:crypto";

export interface Drive {
  readonly id: string;
  readonly controller: string;
  readonly model: string;
  readonly capacityBytes: number;
  readonly mediaType: "SSD" | "HDD";
  readonly protocol: "NVMe" | "SATA" | "SAS";
}

/** The values that differ from machine to machine. Everything else is the template below. */
export interface SystemIdentity {
  readonly serialNumber: string;
  readonly uuid: string;
  readonly assetTag: string;
  readonly hostName: string;
  readonly biosVersion: string;
  readonly bmcVersion: string;
  /** One port of the network adapter for each. */
  readonly macs: readonly string[];
  readonly memoryGiB: number;
  readonly drives: readonly Drive[];
  readonly location: { readonly rack: string; readonly unit: number };
}

export const CPU = {
  count: 2,
  manufacturer: "Intel(R) Corporation",
  model: "Intel(R) Xeon(R) Gold 6354 CPU @ 3.00GHz",
  cores: 18,
  threads: 36,
  maxSpeedMHz: 3600,
} as const;

export const DIMMS = { slots: 16, populated: 8 } as const;

export const ADAPTER = { id: "NIC.1", manufacturer: "Broadcom", model: "BCM57414", partNumber: "N1L1T" } as const;

export const CONTROLLERS = [
  {
    id: "RAID.1",
    model: "MegaRAID 9560-8i",
    raidTypes: ["RAID0", "RAID1", "RAID5", "RAID10"],
    protocols: ["SAS", "SATA"],
  },
  { id: "NVMe.1", model: "Direct-attached NVMe", raidTypes: [], protocols: ["NVMe"] },
] as const;

export const POWER_SUPPLIES = ["PSU1", "PSU2"] as const;
export const FANS = ["Fan1", "Fan2", "Fan3", "Fan4"] as const;

const GIB = 1024 ** 3;

const DRIVES: readonly Drive[] = [
  drive("Disk.0", "RAID.1", "SATA"),
  drive("Disk.1", "RAID.1", "SATA"),
  { ...drive("Disk.2", "RAID.1", "SAS"), model: "ST4000NM0125", mediaType: "HDD", capacityBytes: 3726 * GIB },
  { ...drive("NVMe.0", "NVMe.1", "NVMe"), model: "MZQL2960HCJR", capacityBytes: 894 * GIB },
];

function drive(id: string, controller: string, protocol: Drive["protocol"]): Drive {
  return { id, controller, protocol, model: "MTFDDAK480TDS", capacityBytes: 447 * GIB, mediaType: "SSD" };
}

export const driveSerial = (identity: SystemIdentity, { id }: Drive): string => `${identity.serialNumber}-${id}`;

/** The machine with this number, from 1. */
export function identityOf(number: number, given: Partial<SystemIdentity> = {}): SystemIdentity {
  const serialNumber = given.serialNumber ?? `LWS${String(number).padStart(6, "0")}`;
  const hash = createHash("sha256").update(serialNumber).digest("hex");
  const tail = [number >> 16, number >> 8, number].map((byte) => (byte & 0xff).toString(16).padStart(2, "0"));
  return {
    serialNumber,
    uuid: `${hash.slice(0, 8)}-${hash.slice(8, 12)}-4${hash.slice(13, 16)}-8${hash.slice(17, 20)}-${hash.slice(20, 32)}`,
    assetTag: "",
    hostName: "",
    biosVersion: "1.8.2",
    bmcVersion: "6.0.30",
    macs: ["00", "01"].map((port) => ["52:54", port, ...tail].join(":")),
    memoryGiB: 256,
    drives: DRIVES,
    location: { rack: `R${Math.ceil(number / 40)}`, unit: ((number - 1) % 40) + 1 },
    ...given,
  };
}
