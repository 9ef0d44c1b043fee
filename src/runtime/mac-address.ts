/** MAC addresses: six bytes in hexadecimal, in lower case with colons. */

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
