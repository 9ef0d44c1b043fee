/**
 * Temporary files in the image folder: `ostler image add --store` copies an image under such a name, and renames it
 * when it is complete. A command that was killed, or a host that crashed, leaves the file behind; the service deletes
 * it at a later start.
 */
import { randomUUID } from "node:crypto";
import { readdir, stat, unlink } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../../log.ts";

const SUFFIXES = ["part", "raw", "qcow2"] as const;
const NAME = new RegExp(`^\\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\\.(?:${SUFFIXES.join("|")})$`);
/**
 * A command that is running writes to each of its files sooner: the longest pause is the conversion of a qcow2 file.
 * Also far above the difference between the clocks of a file server and its clients.
 */
const ABANDONED_MS = 24 * 3_600_000;

/** `part` is the copy; the others are steps of a conversion. */
export type TemporarySuffix = (typeof SUFFIXES)[number];

export function temporaryImageName(suffix: TemporarySuffix): string {
  return `.${randomUUID()}.${suffix}`;
}

/** Deletes the files that no command is writing any more. A failure is only logged: the service works with them too. */
export async function deleteAbandonedFiles(folder: string, log: Log): Promise<void> {
  const before = Date.now() - ABANDONED_MS;
  const fail = (error: unknown) => {
    // Without stored images there is no folder, and another replica can have deleted a file.
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return;
    log.warn({ err: error, folder }, "temporary files in the image folder could not be deleted");
  };
  const names = await readdir(folder).catch((error: unknown) => fail(error));
  for (const name of names ?? []) {
    if (NAME.test(name)) await deleteIfOlder(join(folder, name), before, log).catch(fail);
  }
}

async function deleteIfOlder(path: string, before: number, log: Log): Promise<void> {
  const { mtimeMs, size } = await stat(path);
  if (mtimeMs >= before) return;
  await unlink(path);
  log.info({ path, sizeBytes: size }, "deleted a temporary file of an image that was not completed");
}
