/** Programs and rights that the lab needs: virtual machines behind simulated BMCs. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { OVMF } from "../../packages/bmc-simulator/src/index.ts";
import { missingIpmiPrograms } from "../support/ipmi-lab.ts";
import { isInstalled } from "./lab/commands.ts";

/** Programs of the lab and of the image recipe, and their Debian packages. */
const PROGRAMS: Readonly<Record<string, string>> = {
  "qemu-system-x86_64": "qemu-system-x86",
  dnsmasq: "dnsmasq-base",
  gcore: "gdb",
  ip: "iproute2",
  curl: "curl",
  ssh: "openssh-client",
  "ssh-keygen": "openssh-client",
  sfdisk: "fdisk",
  zstd: "zstd",
  mmdebstrap: "mmdebstrap",
  mke2fs: "e2fsprogs",
  "mkfs.vfat": "dosfstools",
  mcopy: "mtools",
  "grub-mkimage": "grub-common",
};
const FILES: Readonly<Record<string, string>> = {
  [OVMF.code]: "ovmf",
  "/usr/lib/ipxe/qemu/pxe-virtio.rom": "ipxe-qemu",
  "/usr/lib/ipxe/snponly.efi": "ipxe",
  "/usr/lib/grub/x86_64-efi": "grub-efi-amd64-bin",
  "/usr/lib/grub/i386-pc": "grub-pc-bin",
};

/** Why the lab cannot run here; null if it can. */
export function missingForLab(): string | null {
  if (process.platform !== "linux" || process.arch !== "x64") return "it needs Linux on x64";
  if (process.getuid?.() !== 0) return "it needs root, for network namespaces and taps";
  const packages = new Set([
    ...Object.entries(PROGRAMS).flatMap(([program, name]) => (isInstalled(program) ? [] : [name])),
    ...Object.entries(FILES).flatMap(([file, name]) => (existsSync(file) ? [] : [name])),
    ...missingIpmiPrograms().map((each) => each.package),
  ]);
  // QEMU reads virtual media by HTTP through a module.
  if (!existsSync("/usr/lib/x86_64-linux-gnu/qemu/block-curl.so")) packages.add("qemu-block-extra");
  if (packages.size > 0)
    return `install the Debian packages: apt-get install --no-install-recommends ${[...packages].toSorted().join(" ")}`;
  const namespace = spawnSync("unshare", ["--net", "--pid", "--fork", "--mount-proc", "true"]);
  return namespace.status === 0 ? null : "network and process namespaces cannot be created here";
}
