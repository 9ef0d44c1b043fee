/** Formats of image files, recognized by their first bytes. A name can lie, and a machine would write anything. */
import type { ImageFormat } from "../lifecycle/images.ts";

/** A format that is not registered as it is. */
interface OtherFormat {
  readonly name: string;
  /** Whether it is converted to one that is. */
  readonly isConverted: boolean;
}

/** Bytes from the start of a file, or of its content, that decide. */
export const HEAD_BYTES = 33 * 1024;

const PACKED: readonly (readonly [ImageFormat, string])[] = [
  ["RAW_GZ", "1f8b"],
  ["RAW_XZ", "fd377a585a00"],
  ["RAW_ZST", "28b52ffd"],
];

/** Name, offset and bytes in hexadecimal. */
const OTHERS: readonly (readonly [string, number, string])[] = [
  ["qcow2", 0, "514649fb"],
  ["VMDK", 0, "4b444d56"],
  ["VHD", 0, "636f6e6563746978"],
  ["VHDX", 0, "7668647866696c65"],
  ["VDI", 64, "7f10dabe"],
  ["ISO 9660", 32_769, "4344303031"],
  ["bzip2", 0, "425a68"],
  ["zip", 0, "504b0304"],
  ["lz4", 0, "04224d18"],
  ["tar", 257, "7573746172"],
];

/** The last bytes of the first sector of a disk with a partition table, GPT included. */
const PARTITIONED = [510, "55aa"] as const;

function has(head: Buffer, offset: number, bytes: string): boolean {
  return head.subarray(offset, offset + bytes.length / 2).toString("hex") === bytes;
}

/** The format of a file; null if nothing is recognized. */
export function formatOf(head: Buffer): ImageFormat | OtherFormat | null {
  const packed = PACKED.find(([, bytes]) => has(head, 0, bytes));
  return packed ? packed[0] : contentOf(head);
}

/** The format of a file that is not packed, or of unpacked content. */
export function contentOf(head: Buffer): "RAW" | OtherFormat | null {
  const other = OTHERS.find(([, offset, bytes]) => has(head, offset, bytes));
  if (other) return { name: other[0], isConverted: other[0] === "qcow2" };
  return has(head, ...PARTITIONED) ? "RAW" : null;
}
