/** Settings, and values of machines, as the drivers of BMCs share them. */
import { isIP, isIPv6 } from "node:net";
import type * as Zod from "zod";

/** A name does not begin with a dash, so that a program cannot mistake it for an option. */
const NAME = /^(?=.{1,253}$)[0-9A-Za-z_]([0-9A-Za-z_-]{0,62})(\.[0-9A-Za-z_]([0-9A-Za-z_-]{0,62}))*\.?$/;
/** A URL takes such a name for an IP address, or for a broken one. */
const NUMBER_AT_END = /(^|\.)(\d+|0x[\da-f]*)\.?$/i;

/** Null, or why a text is not the address of a host. */
function addressFlaw(text: string): string | null {
  if (isIP(text) !== 0) return null;
  if (NAME.test(text) && !NUMBER_AT_END.test(text)) return null;
  const [, host = ""] = /^(?:\w+:\/\/)?(.*?)(?::\d+)?\/?$/.exec(text) ?? [];
  const isCloser = host !== text && (isIP(host.replace(/^\[|\]$/g, "")) !== 0 || NAME.test(host));
  return `is not a host name or IP address${isCloser ? "; give it without a scheme, a port and a path" : ""}`;
}

/** Environment variables and C strings end at NUL, and keyboards produce no control characters. */
const PRINTABLE = /^[^\p{Cc}]+$/u;

/** `inUrls`: the driver names the BMC in URLs, which have no zones. */
export function bmcAddress(z: typeof Zod, { inUrls }: { readonly inUrls: boolean }) {
  return z
    .string()
    .min(1, { abort: true })
    .max(253, { abort: true })
    .superRefine((text, context) => {
      const message = inUrls && text.includes("%") ? "has a zone, which URLs cannot name" : addressFlaw(text);
      if (message !== null) context.addIssue({ code: "custom", message });
    })
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

/** Identity of a BMC, the same for every notation of its address. */
export function controllerOf({ address, port }: Parameters<typeof bmcName>[0]): string {
  const isPlain = isIPv6(address) && !address.includes("%");
  const canonical = isPlain ? new URL(`http://[${address}]`).hostname.slice(1, -1) : address.toLowerCase();
  return bmcName({ address: canonical, port });
}

/** Texts that manufacturers leave where a machine has no value of its own. */
const FILLERS =
  /^(n\W?a|none|null|nil|unknown|undefined|unspecified|(not|no) .*|default( string)?|to be filled.*|((system|chassis|base ?board|board|product) )?serial( ?number)?|[x0\s]+|0?123456789[\da-z]*)$/i;
/** Beginnings of UUIDs that firmware has as delivered, in both orders of their bytes. */
const DELIVERED_UUID = /^(030002000400|000200030004|12345678(1234|5678)|78563412(3412|7856)|00010203|03020100).{20}/;

/** Whether a text stands for no value: a filler, one character over and over, as in a UUID of zeros, or nothing. */
export function isFiller(text: string): boolean {
  const bare = text.replaceAll(/[^\p{L}\p{N}]/gu, "");
  return /^((.)\2{3,})?$/u.test(bare) || FILLERS.test(text.trim()) || DELIVERED_UUID.test(bare);
}
