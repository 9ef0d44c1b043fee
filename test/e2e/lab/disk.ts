/** The disk of a machine, read from outside while the machine is off. */
import { open, stat } from "node:fs/promises";

const CHUNK = 4 * 2 ** 20;

export interface DiskContent {
  /** Bytes that the host stores for it. */
  readonly storedBytes: number;
  /** Position of the first byte that is not zero, null if all are. */
  readonly firstData: number | null;
}

export async function readDisk(file: string): Promise<DiskContent> {
  const { blocks } = await stat(file);
  // A file of which nothing is stored reads as zeros.
  if (blocks === 0) return { storedBytes: 0, firstData: null };
  await using handle = await open(file);
  const buffer = Buffer.alloc(CHUNK);
  const zeros = Buffer.alloc(CHUNK);
  for (let position = 0; ;) {
    const { bytesRead } = await handle.read(buffer, 0, CHUNK, position);
    if (bytesRead === 0) return { storedBytes: blocks * 512, firstData: null };
    const part = buffer.subarray(0, bytesRead);
    if (!part.equals(zeros.subarray(0, bytesRead)))
      return { storedBytes: blocks * 512, firstData: position + part.findIndex((byte) => byte !== 0) };
    position += bytesRead;
  }
}
