/**
 * Copies files into the image folder of a service on this host: under a temporary name, synchronized, then renamed to
 * the name by which the service looks for it. A copy that breaks leaves no file of that name.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, existsSync } from "node:fs";
import { chown, open, rm, stat } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createZstdCompress } from "node:zlib";
import { ConfigError } from "../config/values.ts";
import { imageFileName } from "../engine/images/image-files.ts";
import { temporaryImageName } from "../engine/images/temporary-images.ts";
import type { TemporarySuffix } from "../engine/images/temporary-images.ts";
import { createFolderDurably, renameDurably } from "../runtime/durable-files.ts";

/** A file in the making. */
export interface TemporaryFile extends AsyncDisposable {
  readonly path: string;
  readonly handle: FileHandle;
}

export async function temporaryFile(folder: string, suffix: TemporarySuffix): Promise<TemporaryFile> {
  await createFolder(folder);
  const path = join(folder, temporaryImageName(suffix));
  const handle = await open(path, "wx", 0o644);
  return {
    path,
    handle,
    async [Symbol.asyncDispose]() {
      await handle.close();
      await rm(path, { force: true });
    },
  };
}

/** Root creates the folder for a service with a user of its own, which owns the folder around it. */
async function createFolder(folder: string): Promise<void> {
  if (existsSync(folder)) return;
  createFolderDurably(folder, 0o777);
  const { uid, gid } = await stat(dirname(folder));
  if (process.getuid?.() === 0) await chown(folder, uid, gid);
}

/** Gives the file its name; false if it was there before. */
export async function keepFile(folder: string, { path, handle }: TemporaryFile, sha256: string): Promise<boolean> {
  const name = join(folder, imageFileName({ checksumAlgorithm: "SHA256", checksum: sha256 }));
  const wasThere = await stat(name).then(
    () => true,
    () => false,
  );
  // Run by root for a service with a user of its own: that user deletes the file later.
  const owner = await stat(folder);
  if (process.getuid?.() === 0) await chown(path, owner.uid, owner.gid);
  await handle.sync();
  renameDurably(path, name);
  return !wasThere;
}

/** Converts a qcow2 file to a raw one packed with zstd, at the end of `target`. */
export async function convertQcow2(source: string, folder: string, target: string): Promise<void> {
  await refuseReferences(source);
  await using raw = await temporaryFile(folder, "raw");
  await qemuImg(["convert", "-f", "qcow2", "-O", "raw", source, raw.path]);
  await pipeline(createReadStream(raw.path), createZstdCompress(), (await open(target, "w")).createWriteStream());
}

/** A qcow2 file can refer to other files of this host, which a conversion would copy into the image. */
async function refuseReferences(source: string): Promise<void> {
  const info = JSON.parse(await qemuImg(["info", "-f", "qcow2", "--output=json", source])) as {
    readonly "backing-filename"?: string;
    readonly "format-specific"?: { readonly data?: { readonly "data-file"?: string } };
  };
  if (info["backing-filename"] !== undefined || info["format-specific"]?.data?.["data-file"] !== undefined)
    throw new ConfigError(
      "The qcow2 file refers to another file, its backing or data file. Convert it to a raw file yourself.",
    );
}

const PROGRAM_MISSING =
  "qemu-img is not installed, so a qcow2 file cannot be converted. Install the Debian package qemu-utils, or give a raw disk image.";

async function qemuImg(args: readonly string[]): Promise<string> {
  const program = spawn("qemu-img", args, { stdio: ["ignore", "pipe", "pipe"] });
  let [output, errors] = ["", ""];
  program.stdout.on("data", (part: Buffer) => (output += part.toString()));
  program.stderr.on("data", (part: Buffer) => (errors += part.toString()));
  try {
    const [code] = (await once(program, "close")) as [number | null];
    if (code === 0) return output;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT")
      throw new ConfigError(PROGRAM_MISSING, { cause: error });
    throw error;
  }
  throw new ConfigError(`qemu-img ${args[0]} failed: ${errors.trim()}`);
}
