/** Images of operating systems, and what uses them. */
import { and, asc, eq, inArray, isNull, or, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { Architecture, ImageFormat } from "../lifecycle/images.ts";
import type { BootModeName, OperationKind } from "../lifecycle/verbs.ts";
import { inArrayParam } from "./postgres/array-parameter.ts";
import type { Reader, Tx } from "./postgres/database.ts";
import { listOf, ordered } from "./postgres/pagination.ts";
import { deleteBy, insertInto, lockRowsBy, revised, rowsBy, updateBy } from "./postgres/table-queries.ts";
import { beginsWith, isNamed, rowsByNames } from "./names.ts";
import { images, keyOfName, nodes, operations } from "./tables.ts";

export type ImageRow = typeof images.$inferSelect;

/** How a request names an image. */
export type ImageRef = { readonly id: string } | { readonly name: string };

export interface ImageFilter {
  readonly nameStartsWith?: string | undefined;
  readonly architectures?: readonly Architecture[] | undefined;
  /** Images that start from both have all of them. */
  readonly bootModes?: readonly BootModeName[] | undefined;
  readonly formats?: readonly ImageFormat[] | undefined;
  /** True: the service stores the file. False: it is at an address elsewhere. */
  readonly stored?: boolean | undefined;
  /** All of them; without any, no image. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly checksum?: string | undefined;
}

export const imagesByIds = rowsBy(images, images.id);

export const imagesByNames = rowsByNames(images, images.name);

export async function imageByRef(reader: Reader, ref: ImageRef): Promise<ImageRow | undefined> {
  const [row] = "id" in ref ? await imagesByIds(reader, [ref.id]) : await imagesByNames(reader, [ref.name]);
  return row;
}

/** The URLs of images up to their paths, each once. */
export async function imageOrigins(reader: Reader): Promise<string[]> {
  const origin = sql<string>`regexp_substr(${images.url}, '^[^:]+:[/\\\\]*[^/\\\\?#]*')`;
  const rows = await reader
    .selectDistinct({ origin })
    .from(images)
    .where(sql`${images.url} is not null`);
  return rows.map((row) => row.origin);
}

function imageCondition(filter: ImageFilter): SQL | undefined {
  const { nameStartsWith, architectures, bootModes, formats, stored, labels, checksum } = filter;
  return and(
    nameStartsWith === undefined ? undefined : beginsWith(images.name, nameStartsWith),
    architectures && inArray(images.architecture, [...architectures]),
    bootModes &&
      (bootModes.length === 0 ? sql`false` : or(isNull(images.bootMode), inArray(images.bootMode, [...bootModes]))),
    formats && inArray(images.format, [...formats]),
    stored === undefined ? undefined : stored ? sql`${images.url} is null` : sql`${images.url} is not null`,
    labels &&
      (Object.keys(labels).length === 0 ? sql`false` : sql`${images.labels} @> ${JSON.stringify(labels)}::text::jsonb`),
    checksum === undefined ? undefined : eq(images.checksum, checksum.toLowerCase()),
  );
}

const KEY = keyOfName(images.name);

/** Images by name. */
export const { page: imagesPage, count: countImages } = listOf(
  images,
  imageCondition,
  ordered({ column: KEY, id: images.id }),
);

/** Names of the first images, for messages. */
export async function firstImageNames(reader: Reader, limit: number): Promise<string[]> {
  const rows = await reader.select({ name: images.name }).from(images).orderBy(KEY).limit(limit);
  return rows.map(({ name }) => name);
}

/** The image, kept from being deleted until the end of the transaction. */
export async function keepImage(tx: Tx, ref: ImageRef): Promise<ImageRow | undefined> {
  const [row] = await tx
    .select()
    .from(images)
    .where("id" in ref ? eq(images.id, ref.id) : isNamed(images.name, ref.name))
    .for("key share");
  return row;
}

/** Locks images to change them. */
export const lockImages = lockRowsBy(images, images.id);

/** Locks images to delete them. */
export const lockImagesToDelete = lockRowsBy(images, images.id, { strength: "update" });

export const insertImages = insertInto(images);

export const updateImage = updateBy(images, images.id, revised(images));

export const deleteImages = deleteBy(images, images.id);

/** Waits for other registrations and deletions of files: until the end of the transaction, files stay as they are. */
export async function lockImageFiles(tx: Tx): Promise<void> {
  await tx.execute(sql`lock table ${images} in share row exclusive mode`);
}

/** Whether an image whose file the service stores has this checksum. */
export async function isFileOfImage(
  reader: Reader,
  { checksumAlgorithm, checksum }: Pick<ImageRow, "checksumAlgorithm" | "checksum">,
): Promise<boolean> {
  const isSame = and(eq(images.checksum, checksum), eq(images.checksumAlgorithm, checksumAlgorithm));
  return (await reader.$count(images, and(isSame, isNull(images.url)))) > 0;
}

// ---- use

interface ImageUse {
  readonly imageId: string;
  readonly operationId: string;
  readonly kind: OperationKind;
}

/** Unfinished operations that install the images, oldest first. */
export async function operationsWithImages(reader: Reader, ids: readonly string[]): Promise<ImageUse[]> {
  if (ids.length === 0) return [];
  const rows = await reader
    .select({ imageId: operations.imageId, operationId: operations.id, kind: operations.kind })
    .from(operations)
    .where(and(isNull(operations.finishedAt), inArrayParam(operations.imageId, ids)))
    .orderBy(asc(operations.createdAt));
  return rows.flatMap(({ imageId, ...use }) => (imageId === null ? [] : [{ imageId, ...use }]));
}

/** Nodes that are installed with each image: their number, and the first names. */
export async function nodesWithImages(
  reader: Reader,
  ids: readonly string[],
  namesMax: number,
): Promise<Map<string, { readonly count: number; readonly names: readonly string[]; readonly firstId: string }>> {
  if (ids.length === 0) return new Map();
  const rows = await reader
    .select({
      imageId: nodes.imageId,
      count: sql<number>`count(*)::int`,
      names: sql<string[]>`(array_agg(${nodes.name} order by ${nodes.name}))[1:${sql.raw(String(namesMax))}]`,
      firstId: sql<string>`(array_agg(${nodes.id}::text order by ${nodes.name}))[1]`,
    })
    .from(nodes)
    .where(inArrayParam(nodes.imageId, ids))
    .groupBy(nodes.imageId);
  return new Map(rows.flatMap(({ imageId, ...use }) => (imageId === null ? [] : [[imageId, use]])));
}
