/**
 * The ISO: shim and GRUB as Debian signs them for UEFI, isolinux for the BIOS of x64. Both load the kernel, the ramdisk
 * and the session archive, which contains the slot for the session document.
 */
import { copyFileSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Archive } from "./archive.ts";
import { BuildError, run } from "./programs.ts";

/** Bytes for the session document. */
const SLOT_BYTES = 4096;
/** Bytes for further kernel arguments, in the configuration of each boot loader. */
const ARGUMENT_BYTES = 512;
const EFI_IMAGE_BYTES = 8 * 2 ** 20;
/** Fixed, so that equal input gives equal bytes: 2023-06-10, the release of Debian 12. */
const EPOCH = "1686355200";

export interface Slot {
  readonly offset: number;
  readonly length: number;
}

export interface IsoInput {
  readonly architecture: "x64" | "arm64";
  /** Unpacked packages of the architecture, and those of the build. */
  readonly tree: string;
  readonly toolTree: string;
  readonly kernel: string;
  readonly initrd: string;
  readonly kernelArguments: string;
  readonly work: string;
  readonly iso: string;
}

interface EfiNames {
  readonly boot: string;
  readonly loader: string;
  readonly shim: string;
  readonly grub: string;
}

const EFI_NAMES: Readonly<Record<IsoInput["architecture"], EfiNames>> = {
  x64: {
    boot: "BOOTX64.EFI",
    loader: "grubx64.efi",
    shim: "usr/lib/shim/shimx64.efi.signed",
    grub: "usr/lib/grub/x86_64-efi-signed/gcdx64.efi.signed",
  },
  arm64: {
    boot: "BOOTAA64.EFI",
    loader: "grubaa64.efi",
    shim: "usr/lib/shim/shimaa64.efi.signed",
    grub: "usr/lib/grub/arm64-efi-signed/gcdaa64.efi.signed",
  },
};

/** Text that is unique on the ISO, so that its place is found, followed by spaces. */
function emptySlot(name: string, length: number): string {
  return `ostler.slot=${name}`.padEnd(length, " ");
}

function grubConfig(kernelArguments: string): string {
  return [
    "set timeout=0",
    "search --no-floppy --set=root --file /ostler/session.cpio",
    `linux /ostler/vmlinuz ${kernelArguments} ${emptySlot("grub", ARGUMENT_BYTES)}`,
    "initrd /ostler/initrd /ostler/session.cpio",
    "boot",
    "",
  ].join("\n");
}

function isolinuxConfig(kernelArguments: string): string {
  return [
    "SERIAL 0 115200",
    "DEFAULT agent",
    "PROMPT 0",
    "LABEL agent",
    "  LINUX /ostler/vmlinuz",
    "  INITRD /ostler/initrd,/ostler/session.cpio",
    `  APPEND ${kernelArguments} ${emptySlot("isolinux", ARGUMENT_BYTES)}`,
    "",
  ].join("\n");
}

function sessionArchive(): Buffer {
  const archive = new Archive();
  archive.file("etc/ostler/session.json", emptySlot("session", SLOT_BYTES), 0o600);
  return archive.bytes();
}

function slotOf(iso: Buffer, name: string, length: number): Slot {
  const text = emptySlot(name, length);
  const offset = iso.indexOf(text);
  if (offset < 0 || iso.includes(text, offset + 1)) throw new BuildError(`The slot ${name} is not once on the ISO.`);
  return { offset, length };
}

async function efiImage(input: IsoInput, image: string): Promise<void> {
  const names = EFI_NAMES[input.architecture];
  const env = { SOURCE_DATE_EPOCH: EPOCH };
  writeFileSync(image, "");
  truncateSync(image, EFI_IMAGE_BYTES);
  await run("mkfs.vfat", ["--invariant", "-n", "OSTLER", image], { env });
  await run("mmd", ["-i", image, "::/EFI", "::/EFI/BOOT"], { env });
  await run("mcopy", ["-m", "-i", image, join(input.tree, names.shim), `::/EFI/BOOT/${names.boot}`], { env });
  await run("mcopy", ["-m", "-i", image, join(input.tree, names.grub), `::/EFI/BOOT/${names.loader}`], { env });
}

/** Returns the slots of the ISO that it writes. */
export async function buildIso(input: IsoInput): Promise<{ slot: Slot; argumentSlots: readonly Slot[] }> {
  const root = join(input.work, "iso");
  const bios = input.architecture === "x64";
  rmSync(root, { recursive: true, force: true });
  mkdirSync(join(root, "ostler"), { recursive: true });
  mkdirSync(join(root, "boot/grub"), { recursive: true });
  copyFileSync(input.kernel, join(root, "ostler/vmlinuz"));
  copyFileSync(input.initrd, join(root, "ostler/initrd"));
  writeFileSync(join(root, "ostler/session.cpio"), sessionArchive());
  writeFileSync(join(root, "boot/grub/grub.cfg"), grubConfig(input.kernelArguments));
  await efiImage(input, join(root, "efi.img"));
  const biosArguments = ["-b", "isolinux/isolinux.bin", "-c", "isolinux/boot.cat", "-no-emul-boot"];
  if (bios) {
    mkdirSync(join(root, "isolinux"));
    copyFileSync(join(input.toolTree, "usr/lib/ISOLINUX/isolinux.bin"), join(root, "isolinux/isolinux.bin"));
    copyFileSync(join(input.toolTree, "usr/lib/syslinux/modules/bios/ldlinux.c32"), join(root, "isolinux/ldlinux.c32"));
    writeFileSync(join(root, "isolinux/isolinux.cfg"), isolinuxConfig(input.kernelArguments));
    biosArguments.push("-boot-load-size", "4", "-boot-info-table", "-eltorito-alt-boot");
  }
  const efiArguments = ["-e", "efi.img", "-no-emul-boot"];
  await run(
    "xorriso",
    // The order of files is fixed by name; times come from SOURCE_DATE_EPOCH.
    ["-as", "mkisofs", "-quiet", "-r", "-J", "-V", "OSTLER_AGENT", "--set_all_file_dates", "=" + EPOCH].concat([
      "-o",
      input.iso,
      ...(bios ? biosArguments : []),
      ...efiArguments,
      root,
    ]),
    { env: { SOURCE_DATE_EPOCH: EPOCH } },
  );
  const bytes = readFileSync(input.iso);
  return {
    slot: slotOf(bytes, "session", SLOT_BYTES),
    argumentSlots: (bios ? ["grub", "isolinux"] : ["grub"]).map((name) => slotOf(bytes, name, ARGUMENT_BYTES)),
  };
}
