/** The registered node of a machine that answered a probe. */
import { nodeWithSettings } from "../../store/operations/discoveries.ts";
import { holdersOf } from "../../store/nodes/node-identities.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { readSite } from "../../store/site.ts";
import { sharedValues } from "../input/machine-identities.ts";
import type { Found } from "./probe-address.ts";

/**
 * The node with the same controller, serial number or UUID, whatever its driver is; for a driver that reports no
 * controller also the one with the same settings. Null if there is none.
 */
export async function knownNode(
  reader: Reader,
  driver: string,
  { identities, settings }: Pick<Found, "identities" | "settings">,
): Promise<string | null> {
  const shared = new Set(sharedValues((await readSite(reader)).policy));
  const meaningful = identities.filter(({ kind, value }) => kind === "CONTROLLER" || !shared.has(value));
  const holders = await holdersOf(reader, meaningful);
  const known = holders.find((holder) =>
    meaningful.some(
      ({ kind, value, system }) =>
        kind === holder.kind &&
        value === holder.value &&
        (system === holder.system || system === "" || holder.system === ""),
    ),
  );
  if (known) return known.nodeId;
  const hasController = identities.some(({ kind }) => kind === "CONTROLLER");
  return hasController ? null : nodeWithSettings(reader, driver, settings[driver] ?? {});
}
