/**
 * Files and folders that a later start depends on. After a power cut such a file has its old content or its new one,
 * never a part: the content is synchronized before the file gets its name, and the folder after it.
 */
import {
  closeSync,
  fchownSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, resolve } from "node:path";

/** Replaces the content of a file. A file that root writes belongs to the owner of its folder. */
export function writeDurably(file: string, content: string | Uint8Array, mode: number): void {
  const unfinished = `${file}.new`;
  // A new file: a link that is left there, or was put there, is not followed.
  rmSync(unfinished, { force: true });
  const descriptor = openSync(unfinished, "wx", mode);
  try {
    writeFileSync(descriptor, content);
    const { uid, gid } = statSync(dirname(file));
    if (process.getuid?.() === 0) fchownSync(descriptor, uid, gid);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameDurably(unfinished, file);
}

/** Renames a file or folder whose content is synchronized. */
export function renameDurably(from: string, to: string): void {
  renameSync(from, to);
  syncFolder(dirname(to));
}

/** Creates a folder, and those above it that do not exist. */
export function createFolderDurably(folder: string, mode: number): void {
  const first = mkdirSync(folder, { recursive: true, mode });
  if (first === undefined) return;
  const above = dirname(resolve(first));
  for (let at = resolve(folder); at !== above; at = dirname(at)) syncFolder(dirname(at));
}

function syncFolder(folder: string): void {
  const descriptor = openSync(folder, "r");
  try {
    fsyncSync(descriptor);
  } catch (error) {
    // Some file systems cannot synchronize folders; PostgreSQL ignores the same errors.
    if (!(error instanceof Error && "code" in error && (error.code === "EINVAL" || error.code === "EBADF")))
      throw error;
  } finally {
    closeSync(descriptor);
  }
}
