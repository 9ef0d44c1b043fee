/** Disk images that are made for the check: partition tables, an EFI system partition, a small ext4. */
import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const MIB = 2 ** 20;
export const ROOT_START = 17 * MIB;
const ROOT_MIB = 48;

export type Label = "gpt" | "dos";

/** An image with two partitions; the second is an ext4 of 48 MiB, partly random and partly empty. */
export function diskImage(work: string, label: Label): Buffer {
  const path = join(work, `${label}.raw`);
  const root = join(work, `${label}.root`);
  const system = join(work, `${label}.esp`);
  writeFileSync(path, "");
  truncateSync(path, (ROOT_START / MIB + ROOT_MIB + 1) * MIB);
  const types = label === "gpt" ? ["U", "L"] : ["c", "83"];
  const script = `label: ${label}\nstart=2048,size=16M,type=${types[0]}\nstart=17M,size=${ROOT_MIB}M,type=${types[1]}\n`;
  execFileSync("sfdisk", ["-q", path], { input: script });
  writeFileSync(root, "");
  truncateSync(root, ROOT_MIB * MIB);
  execFileSync("mke2fs", ["-q", "-t", "ext4", root]);
  writeFileSync(system, "");
  truncateSync(system, 16 * MIB);
  execFileSync("mkfs.vfat", [system], { stdio: "ignore" });
  execFileSync("mmd", ["-i", system, "::/EFI", "::/EFI/BOOT"]);
  const loader = join(work, "loader");
  writeFileSync(loader, "MZ");
  execFileSync("mcopy", ["-i", system, loader, "::/EFI/BOOT/BOOTX64.EFI"]);
  const image = readFileSync(path);
  readFileSync(system).copy(image, MIB);
  readFileSync(root).copy(image, ROOT_START);
  return image;
}

/** 192 MiB to measure with: a third random, a third text, a third zeros. */
export function measuredImage(): Buffer {
  const third = 64 * MIB;
  const words = Buffer.from("The quick brown fox jumps over the lazy dog. ".repeat(1000));
  const text = Buffer.alloc(third, words);
  return Buffer.concat([randomBytes(third), text, Buffer.alloc(third)]);
}

export type Format = "RAW" | "RAW_GZ" | "RAW_XZ" | "RAW_ZST";

export function packed(image: Buffer, format: Format): Buffer {
  const maxBuffer = 1024 * MIB;
  const programs = { RAW_GZ: ["gzip", "-1c"], RAW_XZ: ["xz", "-1c"], RAW_ZST: ["zstd", "-3c"] };
  if (format === "RAW") return image;
  const [program = "", option = ""] = programs[format];
  return execFileSync(program, [option], { input: image, maxBuffer });
}

export function sha256(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}
