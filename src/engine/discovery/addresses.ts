/**
 * The addresses of a discovery: host names, IP addresses and CIDR ranges of both families. Each address once, in the
 * order of the request and in one spelling, so that a machine is not probed twice.
 */
import { isIPv4, isIPv6 } from "node:net";
import { addressProblem } from "../../drivers/egress.ts";
import { invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { canonicalIPv6, textOfIPv4, textOfIPv6, valueOfIPv4, valueOfIPv6 } from "../../runtime/ip-addresses.ts";
import type { IpNetworks } from "../../runtime/ip-networks.ts";

/** Addresses in one request. */
export const ADDRESSES_MAX = 4096;

const HOST_NAME = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/;
/** A name that ends like an IPv4 address is one, or a mistake. */
const NUMBER_AT_END = /(^|\.)[0-9]+$/;

/** A parsed entry: an address, a range, or the reason why it is neither. */
type Entry = { readonly address: string } | { readonly range: Range } | { readonly flaw: string };

interface Range {
  readonly first: bigint;
  readonly count: bigint;
  text(value: bigint): string;
}

/** The addresses, or all flaws of the entries. */
export function parseAddresses(
  given: readonly string[],
  path: readonly string[],
  networks: IpNetworks | null = null,
): { readonly addresses: readonly string[]; readonly refusals: readonly Refusal[] } {
  const refused = (message: string) => ({ addresses: [], refusals: [invalidInput(message, path)] });
  const tooMany = refused(`A discovery takes at most ${ADDRESSES_MAX} addresses. Split them into several requests.`);
  if (given.length === 0)
    return refused("The list of addresses is empty; name at least one host name, IP address or CIDR range.");
  if (given.length > ADDRESSES_MAX) return tooMany;
  const entries = given.map(parseEntry);
  const refusals = entries.flatMap((entry, index) =>
    "flaw" in entry ? [invalidInput(entry.flaw, [...path, String(index)])] : [],
  );
  if (refusals.length > 0) return { addresses: [], refusals };
  const addresses = new Set<string>();
  for (const entry of entries) {
    for (const address of addressesOf(entry)) addresses.add(address);
    if (addresses.size > ADDRESSES_MAX) return tooMany;
  }
  const outside = [...addresses].flatMap((address) => (networks && addressProblem(address, networks)) ?? []);
  if (outside[0] !== undefined) return refused(`${outside[0]}.`);
  return { addresses: [...addresses], refusals: [] };
}

function* addressesOf(entry: Entry): Iterable<string> {
  if ("address" in entry) yield entry.address;
  if (!("range" in entry)) return;
  const { first, count, text } = entry.range;
  for (let offset = 0n; offset < count; offset += 1n) yield text(first + offset);
}

function parseEntry(given: string): Entry {
  const [base = "", prefix, ...more] = given.split("/");
  if (prefix !== undefined) return more.length > 0 ? nothing(given) : parseRange(given, base, prefix);
  if (isIPv4(given)) return { address: given };
  if (isIPv6(given)) return { address: canonicalIPv6(given) };
  const name = given.toLowerCase();
  return HOST_NAME.test(name) && !NUMBER_AT_END.test(name) ? { address: name } : nothing(given);
}

function nothing(given: string): Entry {
  return {
    flaw: `${JSON.stringify(given.length > 300 ? `${given.slice(0, 300)}…` : given)} is not a host name, IP address or CIDR range. Give it without a port, as in bmc-7.example, 10.0.0.7, 2001:db8::7 or 10.0.0.0/24.`,
  };
}

/** An address inside its range stands for the range, as in 10.0.0.7/24. */
function parseRange(given: string, base: string, prefix: string): Entry {
  const family = isIPv4(base) ? FAMILIES.IPv4 : isIPv6(base) && !base.includes("%") ? FAMILIES.IPv6 : null;
  if (!family) return nothing(given);
  const length = /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.NaN;
  if (!(length <= family.bits))
    return { flaw: `Invalid range ${JSON.stringify(given)}: use a prefix from 0 to ${family.bits}.` };
  const hostBits = BigInt(family.bits - length);
  const network = (family.value(base) >> hostBits) << hostBits;
  const size = 1n << hostBits;
  const ends = family === FAMILIES.IPv4 && length <= 30 ? 1n : 0n;
  const count = size - 2n * ends;
  if (count > BigInt(ADDRESSES_MAX))
    return {
      flaw: `${JSON.stringify(given)} has ${count} addresses, and a discovery takes at most ${ADDRESSES_MAX}. Use a narrower range.`,
    };
  return { range: { first: network + ends, count, text: family.text } };
}

const FAMILIES = {
  IPv4: { bits: 32, value: valueOfIPv4, text: textOfIPv4 },
  IPv6: { bits: 128, value: valueOfIPv6, text: textOfIPv6 },
} as const;
