/** The refusal of images that were not found. */
import { notFound } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import type { ImageRef } from "../../store/images.ts";

export function unknownImages(refs: readonly ImageRef[], path: readonly string[]): Refusal {
  const missing = refs.map((ref) => ("id" in ref ? ref.id : ref.name));
  return notFound(`There is no image ${missing.join(", ")}. The query \`images\` lists all of them.`, missing, path);
}
