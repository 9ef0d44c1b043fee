/** Programs and rights that the lab needs: virtual machines behind simulated BMCs, their image, and the agent. */
import { spawnSync } from "node:child_process";
import { NEEDED as NEEDED_FOR_AGENT, missingPrograms } from "../../packages/agent/build/programs.ts";
import type { Needed } from "../../packages/agent/build/programs.ts";
import { OVMF } from "../../packages/bmc-simulator/src/index.ts";
import { IPMI_PROGRAMS } from "../support/ipmi-lab.ts";

/** For test/e2e/image/build-image.sh. */
const NEEDED_FOR_IMAGE: Needed = {
  zstd: "zstd",
  mmdebstrap: "mmdebstrap",
  mke2fs: "e2fsprogs",
  "mkfs.vfat": "dosfstools",
  mcopy: "mtools",
  sfdisk: "fdisk",
  "grub-mkimage": "grub-common",
  "/usr/lib/grub/x86_64-efi": "grub-efi-amd64-bin",
  "/usr/lib/grub/i386-pc": "grub-pc-bin",
};
const NEEDED_FOR_MACHINES: Needed = {
  "qemu-system-x86_64": "qemu-system-x86",
  // QEMU reads virtual media by HTTP through a module.
  "/usr/lib/x86_64-linux-gnu/qemu/block-curl.so": "qemu-block-extra",
  [OVMF.code]: "ovmf",
  "/usr/lib/ipxe/qemu/pxe-virtio.rom": "ipxe-qemu",
  "/usr/lib/ipxe/snponly.efi": "ipxe",
  dnsmasq: "dnsmasq-base",
  gcore: "gdb",
  unshare: "util-linux",
  mount: "mount",
  ip: "iproute2",
  curl: "curl",
  ssh: "openssh-client",
  "ssh-keygen": "openssh-client",
};

/** Why the lab cannot run here; null if it can. */
export function missingForLab(): string | null {
  if (process.platform !== "linux" || process.arch !== "x64") return "It needs Linux on x64.";
  if (process.getuid?.() !== 0) return "It needs root, for network namespaces and taps.";
  const missing = missingPrograms({
    ...NEEDED_FOR_MACHINES,
    ...NEEDED_FOR_IMAGE,
    ...NEEDED_FOR_AGENT,
    ...IPMI_PROGRAMS,
  });
  if (missing !== null) return missing;
  const namespace = spawnSync("unshare", ["--net", "--pid", "--fork", "--mount-proc", "true"]);
  return namespace.status === 0 ? null : "Network and process namespaces cannot be created here.";
}
