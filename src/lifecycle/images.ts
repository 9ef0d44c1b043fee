/** The properties of images of operating systems, each with its meaning for the schema. */

/** Formats that machines can write to a disk: the content of a whole disk, as it is or packed. */
export const IMAGE_FORMATS = {
  RAW: "The content of a disk, not packed.",
  RAW_GZ: "The content of a disk, packed with gzip.",
  RAW_XZ: "The content of a disk, packed with xz.",
  RAW_ZST: "The content of a disk, packed with Zstandard.",
} as const;
export type ImageFormat = keyof typeof IMAGE_FORMATS;

export const CHECKSUM_ALGORITHMS = {
  SHA256: "SHA-256: 64 hexadecimal digits.",
  SHA512: "SHA-512: 128 hexadecimal digits.",
} as const;
export type ChecksumAlgorithm = keyof typeof CHECKSUM_ALGORITHMS;

export const CHECKSUM_DIGITS: Readonly<Record<ChecksumAlgorithm, number>> = { SHA256: 64, SHA512: 128 };

export const ARCHITECTURES = {
  X64: "64-bit x86 (x86-64, amd64).",
  ARM64: "64-bit ARM (aarch64).",
} as const;
export type Architecture = keyof typeof ARCHITECTURES;
