/**
 * Images of operating systems. The content of an image never changes, because its checksum identifies it; another
 * content is another image. User data is a secret: it is stored apart, and nothing returns it.
 */
import { randomUUID } from "node:crypto";
import { RefusalError, flawIf, invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import type { ChecksumAlgorithm, Architecture, ImageFormat } from "../../lifecycle/images.ts";
import type { BootModeName } from "../../lifecycle/verbs.ts";
import { isStorable } from "../../runtime/json-values.ts";
import { isUuid } from "../../runtime/uuid.ts";
import {
  imageByRef,
  imagesByNames,
  insertImages,
  lockImageFiles,
  lockImages,
  updateImage as changeImage,
} from "../../store/images.ts";
import type { ImageRef, ImageRow } from "../../store/images.ts";
import type { Keyring } from "../../store/secrets/keyring.ts";
import { deleteSecrets, putSecrets, SECRETS, secretsOf } from "../../store/secrets/secrets.ts";
import { recordPendingChanges } from "../../store/log/changes.ts";
import { nameKey } from "../../store/names.ts";
import { idsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import { changedFields } from "../input/changed-fields.ts";
import { inOrderOfList, requireFreeName, requireNone, requireRevision } from "../input/edits.ts";
import { IMAGES_MAX, checksumFlaws, imageUrlFlaws, sizesFlaws, userDataBytes, userDataFlaws } from "./image-rules.ts";
import { labelFlaws, labelRecord, nameFlaw, repeatedNames } from "../input/name-rules.ts";
import type { GivenLabels } from "../input/name-rules.ts";
import { editOf } from "../audit/edits.ts";
import { DESCRIPTION_LENGTH_MAX, textFlaws } from "../input/size-limits.ts";
import { unknownImages } from "../input/unknown-images.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { imageFileBytes, imageFileName } from "./image-files.ts";

export interface NewImage {
  readonly name: string;
  readonly description?: string | undefined;
  /** Absent: the file is in the image folder of the service, named by its checksum. */
  readonly url?: string | undefined;
  readonly format: ImageFormat;
  readonly sizeBytes: number;
  readonly diskBytes?: number | undefined;
  readonly checksum: { readonly algorithm: ChecksumAlgorithm; readonly value: string };
  readonly architecture: Architecture;
  readonly bootMode: BootModeName | null;
  readonly labels?: GivenLabels | undefined;
  readonly userData?: string | undefined;
  readonly callsHome?: boolean | undefined;
}

/** A change of one image. An absent member stays. */
interface ImageChange {
  readonly ifRevision?: number | undefined;
  readonly name?: string | undefined;
  /** Null removes it. */
  readonly description?: string | null | undefined;
  readonly url?: string | undefined;
  /** Null: unknown. */
  readonly diskBytes?: number | null | undefined;
  readonly architecture?: Architecture | undefined;
  readonly bootMode?: BootModeName | null | undefined;
  readonly labels?: GivenLabels | undefined;
  /** Null removes it. */
  readonly userData?: string | null | undefined;
  readonly callsHome?: boolean | undefined;
}

export interface ImagesEdited {
  readonly imageIds: readonly string[];
  readonly refusals: readonly Refusal[];
}

// ---- register

export async function registerImages(
  context: EngineContext,
  caller: Caller,
  given: readonly NewImage[],
): Promise<ImagesEdited> {
  const flaws = [...countFlaws(given), ...given.flatMap(newImageFlaws), ...repeatedNames(given, ["input", "images"])];
  return context.transact(async (transaction) => {
    if (given.some(({ url }) => url === undefined)) await lockImageFiles(transaction.tx);
    const conflicts = [...(await takenNames(transaction, given)), ...(await missingFiles(context, given))];
    requireNone(inOrderOfList([...flaws, ...conflicts]));
    const rows = given.map(rowOf);
    await insertImages(transaction.tx, rows);
    const userData = given.flatMap((one, index) =>
      one.userData === undefined ? [] : [[rows[index]?.id ?? "", one.userData] as const],
    );
    await putSecrets(transaction.tx, context.keyring, SECRETS.imageUserData, userData);
    transaction.audit(caller, { targets: given.map(({ name }) => name) });
    return { imageIds: idsOf(rows), refusals: [] };
  });
}

function rowOf(image: NewImage) {
  const {
    description = null,
    url = null,
    diskBytes = null,
    callsHome = true,
    checksum,
    labels,
    userData,
    ...same
  } = image;
  return {
    ...same,
    id: randomUUID(),
    description,
    url,
    diskBytes: image.format === "RAW" ? image.sizeBytes : diskBytes,
    checksumAlgorithm: checksum.algorithm,
    checksum: checksum.value.toLowerCase(),
    labels: labelRecord(labels),
    callsHome,
    userDataBytes: userData === undefined ? null : userDataBytes(userData),
  };
}

function countFlaws(given: readonly NewImage[]): Refusal[] {
  const empty = "An empty list registers nothing; give at least one image.";
  const tooMany = `A request registers at most ${IMAGES_MAX} images; this one has ${given.length}.`;
  return [
    ...flawIf(given.length === 0, empty, ["input", "images"]),
    ...flawIf(given.length > IMAGES_MAX, tooMany, ["input", "images"]),
  ];
}

function newImageFlaws(image: NewImage, index: number): Refusal[] {
  const path = ["input", "images", String(index)];
  const { algorithm, value } = image.checksum;
  return [
    ...nameFlaw(image.name, [...path, "name"]),
    ...textFlaws("description", image.description, DESCRIPTION_LENGTH_MAX, path),
    ...imageUrlFlaws(image.url, [...path, "url"]),
    ...sizesFlaws(image, path),
    ...checksumFlaws(algorithm, value, [...path, "checksum"]),
    ...labelFlaws(image.labels, path),
    ...userDataFlaws(image.userData, [...path, "userData"]),
  ];
}

async function takenNames({ tx }: Transaction, given: readonly NewImage[]): Promise<Refusal[]> {
  const taken = await imagesByNames(tx, given.map(({ name }) => name).filter(isStorable));
  return taken.map(({ name }) => {
    const index = given.findIndex((image) => nameKey(image.name) === nameKey(name));
    return invalidInput(`An image ${name} exists already.`, ["input", "images", String(index), "name"]);
  });
}

/** The refusals of images whose files the folder of the service lacks, or has with another size. */
async function missingFiles({ imageFolder }: EngineContext, given: readonly NewImage[]): Promise<Refusal[]> {
  const found = await Promise.all(
    given.map(async ({ url, sizeBytes, checksum }, index): Promise<Refusal[]> => {
      const { algorithm, value } = checksum;
      if (url !== undefined || checksumFlaws(algorithm, value, []).length > 0) return [];
      const path = ["input", "images", String(index), "url"];
      const refuse = (message: string): Refusal[] => [invalidInput(message, path)];
      if (imageFolder === null) return refuse("This service stores no images. Give the url of the file.");
      const file = { checksumAlgorithm: algorithm, checksum: value.toLowerCase() };
      const bytes = await imageFileBytes(imageFolder, file);
      if (bytes === sizeBytes) return [];
      const what = bytes === null ? "is not there" : `has ${bytes} bytes, not ${sizeBytes}`;
      return refuse(
        `The file ${imageFileName(file)} ${what} in the image folder of the service. Copy it there with \`ostler image add --store\`, or give the url of the file.`,
      );
    }),
  );
  return found.flat();
}

// ---- update

/** Operations that were accepted keep the user data that they had then, and install from the new address. */
export async function updateImage(
  context: EngineContext,
  caller: Caller,
  ref: ImageRef,
  change: ImageChange,
): Promise<ImagesEdited> {
  const { name, ifRevision } = change;
  requireNone(changeFlaws(change));
  return context.transact(async (transaction) => {
    const image = await lockKnown(transaction, ref, ifRevision);
    requireNone(conflictsOf(image, change));
    if (name !== undefined) requireFreeName("An image", await imageByRef(transaction.tx, { name }), image.id);
    const after = await applyChange(transaction, context.keyring, image, change);
    transaction.audit(caller, { targets: [image.name], edits: editOf(image.name, image, after, ["userData"]) });
    return { imageIds: [image.id], refusals: [] };
  });
}

function changeFlaws({ name, description, url, labels, userData }: ImageChange): Refusal[] {
  return [
    ...nameFlaw(name, ["input", "name"]),
    ...textFlaws("description", description, DESCRIPTION_LENGTH_MAX),
    ...imageUrlFlaws(url, ["input", "url"]),
    ...labelFlaws(labels, ["input"]),
    ...userDataFlaws(userData, ["input", "userData"]),
  ];
}

/** The flaws of a change that depend on the image. */
function conflictsOf({ name, url, format, sizeBytes }: ImageRow, change: ImageChange): Refusal[] {
  const flaws = sizesFlaws({ format, sizeBytes, diskBytes: change.diskBytes }, ["input"]);
  const message = `The service stores the file of image ${name}, so the image has no url. Register another image for another address.`;
  return [...flawIf(url === null && change.url !== undefined, message, ["input", "url"]), ...flaws];
}

/** Returns the image as it is then, with new user data. */
async function applyChange(
  { tx }: Transaction,
  keyring: Keyring,
  image: ImageRow,
  change: ImageChange,
): Promise<ImageRow & Pick<ImageChange, "userData">> {
  const { ifRevision: _, diskBytes, userData, labels, ...fields } = change;
  const changed = changedFields<ImageRow>(image, {
    ...fields,
    labels: labels && labelRecord(labels),
    diskBytes: image.format === "RAW" ? undefined : diskBytes,
    userDataBytes: typeof userData === "string" ? userDataBytes(userData) : userData,
  });
  const column = SECRETS.imageUserData;
  const earlier = (await secretsOf(tx, keyring, column, [image.id])).get(image.id) ?? null;
  const hasNewUserData = userData !== undefined && userData !== earlier;
  if (userData === null) await deleteSecrets(tx, column, image.id);
  else if (hasNewUserData) await putSecrets(tx, keyring, column, [[image.id, userData]]);
  if (changed || hasNewUserData) {
    await changeImage(tx, image.id, changed ?? {});
    await recordPendingChanges(tx, image.id);
  }
  return { ...image, ...changed, ...(hasNewUserData && { userData }) };
}

async function lockKnown({ tx }: Transaction, ref: ImageRef, ifRevision: number | undefined): Promise<ImageRow> {
  const id = "id" in ref ? ref.id : (await imagesByNames(tx, [ref.name]))[0]?.id;
  const [image] = id !== undefined && isUuid(id) ? await lockImages(tx, [id]) : [];
  if (!image) throw new RefusalError([unknownImages([ref], ["input", "image"])]);
  requireRevision(`Image ${image.name}`, image.revision, ifRevision);
  return image;
}
