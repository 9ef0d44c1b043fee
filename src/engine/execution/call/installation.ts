/** The installation of a run: the image and the user data that its steps are given. */
import type { ImageView } from "../../../drivers/driver.ts";
import type { ImageRow } from "../../../store/images.ts";
import type { PlannedStep } from "../../../store/records.ts";
import type { ClaimedRun } from "../claim/claimed-run.ts";
import type { Installation } from "./driver-call.ts";

const NOTHING: Installation = { image: null, userData: null };

/** Only deploy steps install: the user data is a secret, so no other step receives it. */
export function installationOf(
  { installed: { image, userData } }: Pick<ClaimedRun, "installed">,
  { phase }: Pick<PlannedStep, "phase">,
): Installation {
  return phase === "deploy" ? { image: image && imageView(image), userData } : NOTHING;
}

function imageView(image: ImageRow): ImageView {
  const { id, name, url, format, sizeBytes, diskBytes, checksumAlgorithm, checksum, callsHome } = image;
  return {
    id,
    name,
    url: url ?? `/images/${id}`,
    format,
    sizeBytes,
    diskBytes,
    checksum: { algorithm: checksumAlgorithm, value: checksum },
    architecture: image.architecture,
    bootMode: image.bootMode,
    callsHome,
  };
}
