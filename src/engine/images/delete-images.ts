/** Deleting images, with the files that the service stores of them. */
import { RefusalError, invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { isUuid } from "../../runtime/uuid.ts";
import {
  deleteImages as removeImages,
  imagesByNames,
  isFileOfImage,
  lockImageFiles,
  lockImagesToDelete,
  nodesWithImages,
  operationsWithImages,
} from "../../store/images.ts";
import type { ImageRef, ImageRow } from "../../store/images.ts";
import { nameKey } from "../../store/names.ts";
import { clustersWithImages } from "../../store/nodes/clusters.ts";
import { idsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import { requireNone } from "../input/edits.ts";
import { listed, nodesText } from "../input/name-rules.ts";
import { unknownImages } from "../input/unknown-images.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { deleteImageFile, imageFileName } from "./image-files.ts";
import type { ImagesEdited } from "./images.ts";

interface DeleteImagesRequest {
  readonly images: readonly ImageRef[];
  /** Delete images although nodes are installed with them. */
  readonly force?: boolean | undefined;
}

/** Nodes that a refusal names. */
const NODES_NAMED = 10;

/** All of the images, or none. */
export async function deleteImages(
  context: EngineContext,
  caller: Caller,
  { images, force = false }: DeleteImagesRequest,
): Promise<ImagesEdited> {
  if (images.length === 0)
    throw new RefusalError([invalidInput("An empty list deletes nothing; name at least one image.", PATH)]);
  const deleted = await context.transact(async (transaction) => {
    const rows = await lockNamed(transaction, images);
    requireNone(await usesOf(transaction, rows, force));
    await removeImages(transaction.tx, idsOf(rows));
    transaction.audit(caller, { targets: rows.map(({ name }) => name) });
    return rows;
  });
  await deleteFiles(context, deleted);
  return { imageIds: idsOf(deleted), refusals: [] };
}

const PATH = ["input", "images"];

async function lockNamed({ tx }: Transaction, refs: readonly ImageRef[]): Promise<ImageRow[]> {
  const named = await imagesByNames(
    tx,
    refs.flatMap((ref) => ("name" in ref ? [ref.name] : [])),
  );
  const idOf = (ref: ImageRef) =>
    "id" in ref ? ref.id : (named.find(({ name }) => nameKey(name) === nameKey(ref.name))?.id ?? "");
  const rows = await lockImagesToDelete(tx, [...new Set(refs.map(idOf).filter(isUuid))]);
  const known = new Set(idsOf(rows));
  const unknown = refs.filter((ref) => !known.has(idOf(ref)));
  if (unknown.length > 0) throw new RefusalError([unknownImages(unknown, PATH)]);
  return rows;
}

/** A refusal for each image that is in use. Its row is locked, so no request for new work can name it meanwhile. */
async function usesOf({ tx }: Transaction, rows: readonly ImageRow[], force: boolean): Promise<Refusal[]> {
  const ids = idsOf(rows);
  const operations = Map.groupBy(await operationsWithImages(tx, ids), ({ imageId }) => imageId);
  // Read after the operations: a run that ends in between has left its image on its node.
  const clusters = await clustersWithImages(tx, ids);
  const nodes = force ? new Map<string, never>() : await nodesWithImages(tx, ids, NODES_NAMED);
  return rows.flatMap(({ id, name }): Refusal[] => {
    const [first, ...others] = operations.get(id) ?? [];
    if (first) {
      const all = listed([first, ...others].map(({ kind, operationId }) => `${kind} ${operationId}`));
      const message = `Image ${name} is in use by unfinished operations: ${all}. Abort them, or wait for their end, before you delete the image.`;
      return [{ code: "IN_USE", message, path: PATH, operationId: first.operationId }];
    }
    const wanting = clusters.filter(({ imageId }) => imageId === id).map((cluster) => cluster.name);
    if (wanting.length > 0) {
      const message = `Image ${name} is that of ${wanting.length === 1 ? "cluster" : "clusters"} ${listed(wanting)}. Give them another one with updateCluster before you delete the image.`;
      return [{ code: "IN_USE", message, path: PATH }];
    }
    const use = nodes.get(id);
    if (!use) return [];
    const rest = use.count - use.names.length;
    const names = `${use.names.join(", ")}${rest > 0 ? ` and ${rest.toLocaleString("en")} others` : ""}`;
    const message = `Image ${name} is installed on ${nodesText(use.count)}: ${names}. Repeat the request with \`force: true\` to delete the image; the nodes keep their systems.`;
    return [{ code: "IN_USE", message, path: PATH, nodeId: use.firstId, nodes: { count: use.count, refs: use.names } }];
  });
}

/**
 * Deletes files that no image has any more. A process that ends before leaves the file; it is used again when an image
 * with this content is added.
 */
async function deleteFiles({ transact, imageFolder, log }: EngineContext, rows: readonly ImageRow[]): Promise<void> {
  const stored = rows.filter(({ url }) => url === null);
  if (imageFolder === null || stored.length === 0) return;
  await transact(async ({ tx }) => {
    await lockImageFiles(tx);
    for (const image of stored) {
      if (await isFileOfImage(tx, image)) continue;
      await deleteImageFile(imageFolder, image).catch((error: unknown) =>
        log.warn({ err: error, file: imageFileName(image) }, "the file of a deleted image could not be deleted"),
      );
    }
  });
}
