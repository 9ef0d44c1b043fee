/** The contents of the ramdisk. Sizes: docs/agent.md. */
import type { DebianArchitecture } from "./debian.ts";

/** Debian packages that are unpacked with all they depend on. */
export function packagesFor(architecture: DebianArchitecture): readonly string[] {
  return [
    `linux-image-${architecture}`,
    "busybox-static",
    "zstd",
    "xz-utils",
    "hdparm",
    "smartmontools",
    "efibootmgr",
    "e2fsprogs",
    "ca-certificates",
    "shim-signed",
    `grub-efi-${architecture}-signed`,
  ];
}

/** Programs that the agent starts. All else is done by the agent itself, or by busybox. */
export const PROGRAMS = ["busybox", "zstd", "xz", "hdparm", "smartctl", "efibootmgr", "e2fsck", "resize2fs"] as const;

const NETWORK = [
  "af_packet atlantic be2net bnx2 bnx2x bnxt_en cxgb4 e1000 e1000e ena enic fm10k hinic hns3 hclge hv_netvsc i40e",
  "iavf ice igb igbvf igc ionic ixgbe ixgbevf mlx4_en mlx5_core mlxbf_gige mvneta nfp nicvf nicpf qede qlcnic r8169",
  "sfc tg3 thunder_bgx virtio_net vmxnet3 xgene_enet crc32c_generic crc32c_intel crc32_pclmul crct10dif_pclmul",
];
const DISKS = [
  "aacraid ahci ahci_platform arcmsr ata_generic ata_piix hisi_sas_main hisi_sas_v3_hw hpsa hv_storvsc isci",
  "megaraid_sas mmc_block mpi3mr mpt3sas nvme pm80xx sata_mv sata_nv sata_sil24 sata_svw sd_mod sdhci_acpi sdhci_pci",
  "smartpqi virtio_blk virtio_scsi vmd vmw_pvscsi",
];
/** No driver of USB disks: a virtual medium of a BMC must not be taken for a disk of the machine. */
const PLATFORM = [
  "button efivarfs evdev gpio_keys hv_vmbus ipmi_devintf ipmi_si ipmi_ssif nls_ascii nls_cp437 nls_iso8859_1",
  "rtc_efi vfat virtio_mmio virtio_pci",
];

/** Kernel modules for servers. A module that an architecture lacks is left out. */
export const MODULES: readonly string[] = [...NETWORK, ...DISKS, ...PLATFORM].flatMap((line) => line.split(" "));
