/** Settings that the drivers of BMCs share. */
import type * as Zod from "zod";

/** Does not begin with a dash, so that a program cannot mistake an address for an option. */
const ADDRESS = /^[0-9A-Za-z:][0-9A-Za-z.:_%-]*$/;
/** Environment variables and C strings end at NUL, and keyboards produce no control characters. */
const PRINTABLE = /^[^\p{Cc}]+$/u;

export function bmcAddress(z: typeof Zod) {
  return z
    .string()
    .min(1)
    .max(253)
    .regex(ADDRESS, "is not a host name or IP address")
    .meta({ address: true, bindsSecret: true, description: "Host name or IP address of the BMC, without a port." });
}

/** Without control characters. An invalid length ends the validation, so that one problem is reported once. */
export function printableText(z: typeof Zod, charactersMax: number) {
  return z
    .string()
    .min(1, { abort: true })
    .max(charactersMax, { abort: true })
    .regex(PRINTABLE, "holds a control character");
}

/** Address and port of a BMC in the usual notation. */
export function bmcName({ address, port }: { readonly address: string; readonly port: number }): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}
