/** Parked runs: which of them a stop ends at once, and which go on to the real end of what they are parked in. */
import type { Reader } from "../../store/postgres/database.ts";
import { plansByHashes } from "../../store/plans.ts";
import type { RunRow } from "../../store/runs.ts";
import { ENGINE_INTERFACE } from "../plans/reserved-steps.ts";

/**
 * Of some runs those that are parked and that a stop ends now. A driver's step is waited for; the engine's own waits and
 * holds lose nothing by ending early, and between two steps or two tries nothing is under way.
 */
export async function endedByStop(reader: Reader, runs: readonly RunRow[]): Promise<readonly RunRow[]> {
  const parked = runs.filter(
    ({ state, waitReason }) => (state === "WAITING" || state === "HOLDING") && waitReason !== "CALLBACK",
  );
  const plans = await plansByHashes(reader, [
    ...new Set(parked.flatMap(({ waitReason, planHash }) => (waitReason === "TIME" ? [planHash] : []))),
  ]);
  return parked.filter(
    ({ waitReason, planHash, position }) =>
      waitReason !== "TIME" || plans.get(planHash)?.steps[position]?.interface === ENGINE_INTERFACE,
  );
}
