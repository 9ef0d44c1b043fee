/** The MAC addresses that a request gives to nodes. */
import { flawIf, invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { macOf } from "../../runtime/mac-address.ts";

/** A node has at most this many MACs. */
export const MACS_MAX = 64;

export function macFlaws(macs: readonly string[] | null | undefined, path: readonly string[]): Refusal[] {
  if (macs == null) return [];
  const at = [...path, "macs"];
  if (macs.length > MACS_MAX) return [invalidInput(`A node has at most ${MACS_MAX} MAC addresses; remove some.`, at)];
  const all = macs.map(macOf);
  return macs.flatMap((given, index) => {
    const mac = all[index] ?? null;
    const where = [...at, String(index)];
    const invalid = `Invalid MAC address ${JSON.stringify(given.slice(0, 40))}: use six bytes in hexadecimal, as in 52:54:00:12:34:56.`;
    if (mac === null) return [invalidInput(invalid, where)];
    return flawIf(all.indexOf(mac) < index, `The MAC address ${mac} is given twice.`, where);
  });
}

/** The valid ones in the stored form, each once, sorted. */
export function sortedMacs(given: readonly string[]): readonly string[] {
  return [...new Set(given.flatMap((mac) => macOf(mac) ?? []))].toSorted();
}
