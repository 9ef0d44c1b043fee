/**
 * Files of images that the service stores: in one folder, named by their checksums. `ostler image add --store` writes a
 * file before it registers the image, so a name of a file is known before the image has an id; images with the same
 * content share one file.
 */
import { lstat, unlink } from "node:fs/promises";
import { join } from "node:path";
import { isUuid } from "../../runtime/uuid.ts";
import { imagesByIds } from "../../store/images.ts";
import type { ImageRow } from "../../store/images.ts";
import type { Reader } from "../../store/postgres/database.ts";

type FileOf = Pick<ImageRow, "checksumAlgorithm" | "checksum">;

export function imageFileName({ checksumAlgorithm, checksum }: FileOf): string {
  return `${checksumAlgorithm.toLowerCase()}-${checksum}`;
}

function imageFilePath(folder: string, image: FileOf): string {
  return join(folder, imageFileName(image));
}

/** The file of a stored image, to be served to machines; null for any other id, and if the file is missing. */
export async function storedImage(
  reader: Reader,
  folder: string | null,
  id: string,
): Promise<{ readonly path: string; readonly sizeBytes: number } | null> {
  if (folder === null || !isUuid(id)) return null;
  const [image] = await imagesByIds(reader, [id]);
  if (!image || image.url !== null || (await imageFileBytes(folder, image)) !== image.sizeBytes) return null;
  return { path: imageFilePath(folder, image), sizeBytes: image.sizeBytes };
}

/** Size of an image's file; null if there is none, or a link, which could lead out of the folder. */
export async function imageFileBytes(folder: string, image: FileOf): Promise<number | null> {
  try {
    const found = await lstat(imageFilePath(folder, image));
    return found.isFile() ? found.size : null;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** Deletes the file of an image, if there is one. */
export async function deleteImageFile(folder: string, image: FileOf): Promise<void> {
  await unlink(imageFilePath(folder, image)).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR");
}
