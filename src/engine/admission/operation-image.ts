/**
 * The image of a request: which one it is, what user data it comes with, whether a node's plan installs it, and whether
 * it fits the node's machine.
 */
import { flawIf, nodeRefusal, notFound } from "../../errors.ts";
import type { Refusal, Refused } from "../../errors.ts";
import type { AnyDriver } from "../../drivers/interfaces.ts";
import type { Registry } from "../../drivers/registry.ts";
import { isUuid } from "../../runtime/uuid.ts";
import { countImages, firstImageNames, imageByRef, keepImage } from "../../store/images.ts";
import type { ImageRef, ImageRow } from "../../store/images.ts";
import { newestInventories } from "../../store/nodes/nodes.ts";
import type { InventoryRow, NodeRow } from "../../store/nodes/nodes.ts";
import type { Reader, Tx } from "../../store/postgres/database.ts";
import { SecretError } from "../../store/secrets/keyring.ts";
import type { Keyring } from "../../store/secrets/keyring.ts";
import { SECRETS, secretsOf } from "../../store/secrets/secrets.ts";
import type { JsonObject, Plan } from "../../store/records.ts";
import { unreadableSecret } from "../input/unreadable-secret.ts";
import { userDataFlaws } from "../images/image-rules.ts";
import { fitOf } from "../images/machine-facts.ts";
import type { Fit } from "../images/machine-facts.ts";
import { installStepOf } from "../plans/plan.ts";
import type { Submission } from "./submission.ts";

/** The image and the user data of an operation; null for an operation without them. */
export interface OperationImage {
  readonly image: ImageRow | null;
  /** A secret. */
  readonly userData: string | null;
}

const IMAGE_PATH = ["input", "image"];

/** The flaws of a request with an image or user data that do not depend on any image or node. */
export function imageChoiceFlaws({ options, image, userData, restarts }: Submission): Refusal[] {
  if (restarts !== null) return [];
  const flaws = userDataFlaws(userData, ["input", "userData"]);
  if (options.until !== "AVAILABLE") return flaws;
  const useless = (name: string) =>
    `A commission until AVAILABLE installs nothing, so it takes no \`${name}\`. Remove it.`;
  return [
    ...flawIf(image !== null, useless("image"), IMAGE_PATH),
    ...flawIf(userData != null, useless("userData"), ["input", "userData"]),
  ];
}

/** The image and the user data of a submission. `keep`: so that the image is not deleted before the commit. */
export async function operationImage(
  tx: Tx,
  keyring: Keyring,
  { image: ref, userData, restarts }: Submission,
  { keep }: { readonly keep: boolean },
): Promise<OperationImage | Refused> {
  if (ref === null) return { image: null, userData: userData ?? null };
  const image = "id" in ref && !isUuid(ref.id) ? undefined : await (keep ? keepImage(tx, ref) : imageByRef(tx, ref));
  if (!image) return { refusals: [restarts === null ? unknownImage(ref, await registered(tx)) : deletedImage(ref)] };
  if (userData !== undefined) return { image, userData };
  const stored = (await secretsOf(tx, keyring, SECRETS.imageUserData, [image.id])).get(image.id) ?? null;
  if (stored instanceof SecretError) return { refusals: [unreadableSecret(`Image ${image.name}`, stored)] };
  return { image, userData: stored };
}

function unknownImage(ref: ImageRef, names: string): Refusal {
  const missing = "id" in ref ? ref.id : ref.name;
  return notFound(`There is no image ${missing}. ${names}`, [missing], IMAGE_PATH);
}

function deletedImage(ref: ImageRef): Refusal {
  const missing = "id" in ref ? ref.id : ref.name;
  const message = `The image ${missing} of the earlier request was deleted. Request the deployment again, with another image.`;
  return { code: "NOT_FOUND", message, missing: [missing] };
}

/** Images that a message names. */
const IMAGES_NAMED = 10;

async function registered(reader: Reader): Promise<string> {
  const names = await firstImageNames(reader, IMAGES_NAMED);
  if (names.length === 0)
    return "No image is registered: add one with `ostler image add` or the mutation `registerImages`.";
  const others = (await countImages(reader, {})) - names.length;
  return `Registered: ${names.join(", ")}${others > 0 ? ` and ${others.toLocaleString("en")} others` : ""}.`;
}

/** Whether the image of a submission, or the lack of one, is a reason to refuse a node, and where it is installed. */
type ImageCheck = (node: NodeRow, plan: Plan, variables: JsonObject) => Promise<Fit>;

export async function createImageCheck(
  reader: Reader,
  registry: Registry,
  { image, nodeIds }: { readonly image: ImageRow | null; readonly nodeIds: readonly string[] },
): Promise<ImageCheck> {
  const none = new Map<string, InventoryRow>();
  const newest = image ? await newestInventories(reader, nodeIds) : none;
  const byDriver = new Map<string, Promise<typeof none>>();
  const byAgent = (driver: AnyDriver | undefined) => {
    if (!driver?.usesAgent) return none;
    const found = byDriver.get(driver.name) ?? newestInventories(reader, nodeIds, driver.name);
    byDriver.set(driver.name, found);
    return found;
  };
  let names: Promise<string> | undefined;
  return async (node, plan, variables) => {
    const step = installStepOf(plan);
    const driver = registry.get(step?.driver ?? "");
    if (!step) return { flaws: [], rootDisk: null };
    if (image) {
      const inspections = {
        newest: newest.get(node.id) ?? null,
        byAgent: (await byAgent(driver)).get(node.id) ?? null,
      };
      return fitOf(image, { node, driver: step.driver, variables }, inspections);
    }
    // The steps of drivers that use the agent install an image.
    const flaws = driver?.usesAgent ? [imageMissing(node, driver, await (names ??= registered(reader)))] : [];
    return { flaws, rootDisk: null };
  };
}

/** `names`: a sentence with the registered images. */
function imageMissing({ id, name }: NodeRow, driver: AnyDriver, names: string): Refusal {
  const message = `Node ${name} cannot be deployed without an image, because its driver ${driver.name} writes one to the disk: give one as in \`image: { name: "debian-13" }\`. ${names}`;
  return nodeRefusal("INVALID_INPUT", id, message, { path: IMAGE_PATH });
}
