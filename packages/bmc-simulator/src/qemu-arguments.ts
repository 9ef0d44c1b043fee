/** The command line of a QEMU machine: firmware, devices, and which of them is started first. */
import { join } from "node:path";
import { driveSerial } from "./hardware.ts";
import type { Drive, SystemIdentity } from "./hardware.ts";
import type { BootChoice } from "./machine.ts";

export interface QemuSettings {
  /** One folder below it for each machine: disk, firmware variables, console log, QMP socket. */
  readonly directory: string;
  /** `UEFI` needs OVMF (Debian: ovmf); each machine keeps its firmware variables. By default `BIOS`. */
  readonly firmware?: "BIOS" | "UEFI";
  readonly memoryMiB?: number;
  readonly diskMiB?: number;
  /** Argument of `-netdev` without its ID, by default `user,restrict=on`. `%n` is the number of the machine. */
  readonly netdev?: string;
  /** QEMU's name of the disk, made from its file at each start: `(file) => "blkdebug:errors.conf:" + file`. */
  readonly diskName?: (file: string) => string;
  /** More arguments. */
  readonly extra?: readonly string[];
  readonly program?: string;
}

/** Files of OVMF, as Debian installs them. */
export const OVMF = {
  code: "/usr/share/OVMF/OVMF_CODE_4M.fd",
  variables: "/usr/share/OVMF/OVMF_VARS_4M.fd",
} as const;

/** Files of one machine. */
export interface QemuFiles {
  readonly disk: string;
  readonly variables: string;
  readonly console: string;
  readonly socket: string;
}

export function qemuFiles(folder: string): QemuFiles {
  const file = (name: string) => join(folder, name);
  return { disk: file("disk.img"), variables: file("vars.fd"), console: file("console.log"), socket: file("qmp") };
}

export const DISK_MIB = 64;

/** The disk of a machine, for its identity: nothing erases disks that only the BMC sees. */
export function qemuDrive({ diskMiB = DISK_MIB }: QemuSettings): Drive {
  const capacityBytes = diskMiB * 2 ** 20;
  return { id: "0", controller: "RAID.1", model: "Virtual disk", capacityBytes, mediaType: "SSD", protocol: "SATA" };
}

export interface QemuMachinePlan {
  readonly settings: QemuSettings;
  readonly files: QemuFiles;
  readonly number: number;
  readonly identity: SystemIdentity;
}

type Pair = readonly [string, string];

export function qemuArguments(plan: QemuMachinePlan, boot: BootChoice): string[] {
  const { settings, files, identity, number } = plan;
  const index = bootIndexes(boot.target);
  const netdev = (settings.netdev ?? "user,restrict=on").replaceAll("%n", String(number));
  const disk = settings.diskName?.(files.disk) ?? files.disk;
  const media: Pair[] =
    boot.image === null ? [] : [["-drive", `if=none,id=media,file=${boot.image},format=raw,media=cdrom,readonly=on`]];
  const pairs: readonly Pair[] = [
    // KVM opens on some machines and then hangs, so it is not tried.
    ["-accel", "tcg"],
    ...firmware(settings, files),
    ["-m", String(settings.memoryMiB ?? 256)],
    ["-display", "none"],
    // Appended to, so that the output of an earlier start is kept.
    ["-chardev", `file,id=console,path=${files.console},append=on`],
    ["-serial", "chardev:console"],
    ["-qmp", `unix:${files.socket},server=on,wait=off`],
    ["-uuid", identity.uuid],
    ["-smbios", `type=1,serial=${identity.serialNumber}`],
    // Boot loaders and key generation otherwise wait for entropy.
    ["-device", "virtio-rng-pci"],
    // A failed access is reported to the guest, as by a broken disk; by default QEMU pauses when the host's disk is
    // full.
    [
      "-drive",
      `file=${disk},format=raw,if=none,id=disk,cache=unsafe,discard=unmap,detect-zeroes=unmap,werror=report,rerror=report`,
    ],
    [
      "-device",
      `virtio-blk-pci,drive=disk,serial=${driveSerial(identity, qemuDrive(settings))},bootindex=${index.disk}`,
    ],
    ...media,
    ["-device", `ide-cd,id=cd0,${boot.image === null ? "" : "drive=media,"}bootindex=${index.cd}`],
    ["-netdev", `${netdev},id=network`],
    [
      "-device",
      `virtio-net-pci,netdev=network,mac=${identity.macs[0] ?? "52:54:00:00:00:01"},bootindex=${index.network}`,
    ],
  ];
  return ["-nodefaults", ...pairs.flat(), ...(settings.extra ?? [])];
}

/** The chosen device first, then the others. OVMF takes the order from here too, and ignores `-boot`. */
function bootIndexes(target: string): Readonly<Record<"disk" | "cd" | "network", number>> {
  const first = target === "Pxe" || target === "UefiHttp" ? "network" : target.endsWith("Cd") ? "cd" : "disk";
  const order = [first, ...["disk", "cd", "network"].filter((name) => name !== first)];
  const position = (name: string) => order.indexOf(name) + 1;
  return { disk: position("disk"), cd: position("cd"), network: position("network") };
}

function firmware({ firmware: kind = "BIOS" }: QemuSettings, { variables }: QemuFiles): readonly Pair[] {
  if (kind === "BIOS") return [["-machine", "pc"]];
  return [
    ["-machine", "q35"],
    ["-drive", `if=pflash,format=raw,unit=0,readonly=on,file=${OVMF.code}`],
    ["-drive", `if=pflash,format=raw,unit=1,file=${variables}`],
  ];
}
