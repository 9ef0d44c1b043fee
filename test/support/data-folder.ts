/** Folders with the data of databases, which tests create. */
import { existsSync, mkdtempSync, readdirSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The databases of a whole run need a fifth of this; the rest stays for others. */
const MEMORY_BYTES_MIN = 8 * 2 ** 30;
/** Start of the name of a folder, which the ID of its process follows. */
const NAME = "ostler-test-";

/** Creates a folder, which the caller removes. Those of processes that were killed are removed here. */
export function createDataFolder(): string {
  const parent = inMemory() ?? tmpdir();
  removeLeftovers(parent);
  return mkdtempSync(join(parent, `${NAME}${process.pid}-`));
}

/**
 * A folder in memory, if there is space: there, a clone costs half of the CPU time, and neither a new database nor its
 * deletion waits for the disk, which takes seconds if the file system discards each block that it frees.
 */
function inMemory(): string | null {
  const folder = "/dev/shm";
  try {
    const { bavail, bsize } = statfsSync(folder);
    return Math.min(bavail * bsize, process.availableMemory()) > MEMORY_BYTES_MIN ? folder : null;
  } catch {
    return null;
  }
}

function removeLeftovers(parent: string): void {
  if (!existsSync("/proc/self")) return;
  for (const name of readdirSync(parent).filter((found) => found.startsWith(NAME))) {
    const [pid = ""] = name.slice(NAME.length).split("-");
    if (/^\d+$/.test(pid) && !existsSync(`/proc/${pid}`)) rmSync(join(parent, name), { recursive: true, force: true });
  }
}
