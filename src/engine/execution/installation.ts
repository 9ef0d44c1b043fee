/** The installation of a run: the image and the user data that its steps are given. */
import type { Installation } from "./driver-call.ts";
import type { ClaimedRun } from "./claimed-run.ts";

export function installationOf(_run: ClaimedRun["run"]): Installation {
  return { image: null, userData: null };
}
