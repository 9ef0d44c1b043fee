/** A folder for files of the programs that a driver starts. */
import { lstatSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * A folder below that for temporary files, which all processes of this user share. Undefined if it cannot be created,
 * or if another user could write to it.
 */
export function privateFolder(name: string): string | undefined {
  const folder = join(tmpdir(), `ostler-${name}-${process.getuid?.() ?? 0}`);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const { mode, uid } = lstatSync(folder);
    return uid === (process.getuid?.() ?? 0) && (mode & 0o170077) === 0o040000 ? folder : undefined;
  } catch {
    return undefined;
  }
}
