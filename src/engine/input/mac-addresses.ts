/** MAC addresses of nodes: six bytes in hexadecimal, in lower case with colons. */
import type { Refusal } from "../../errors.ts";

const MAC = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/;
const DIGITS = /^[0-9a-f]{12}$/;
const NOT_OF_AN_INTERFACE = new Set(["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"]);

/** A MAC in the stored form; null if the text is none of an interface. Dashes, dots and upper case are accepted. */
export function macOf(given: string): string | null {
  const digits = given.length <= 17 ? given.toLowerCase().replaceAll(/[:.-]/g, "") : "";
  if (!DIGITS.test(digits)) return null;
  const mac = digits.match(/../g)?.join(":") ?? "";
  return MAC.test(mac) && !NOT_OF_AN_INTERFACE.has(mac) ? mac : null;
}

/** A node has at most this many MACs. */
export const MACS_MAX = 64;

export function macFlaws(macs: readonly string[] | null | undefined, path: readonly string[]): Refusal[] {
  if (macs == null) return [];
  const at = [...path, "macs"];
  if (macs.length > MACS_MAX)
    return [{ code: "INVALID_INPUT", message: `A node has at most ${MACS_MAX} MAC addresses; remove some.`, path: at }];
  const flaws: Refusal[] = [];
  const seen = new Set<string>();
  for (const [index, given] of macs.entries()) {
    const mac = macOf(given);
    const where = [...at, String(index)];
    if (mac === null)
      flaws.push({
        code: "INVALID_INPUT",
        message: `Invalid MAC address ${JSON.stringify(given.slice(0, 40))}: use six bytes in hexadecimal, as in 52:54:00:12:34:56.`,
        path: where,
      });
    else if (seen.has(mac))
      flaws.push({ code: "INVALID_INPUT", message: `The MAC address ${mac} is given twice.`, path: where });
    if (mac !== null) seen.add(mac);
  }
  return flaws;
}
