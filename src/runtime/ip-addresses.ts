/** Numeric values and canonical texts of IP addresses, and the IPv4 addresses that IPv6 addresses embed. */
import { isIPv6 } from "node:net";
import type { Socket } from "node:net";

/** The address of a client; IPv4 addresses without the prefix that a socket for both kinds adds. */
export function addressOf({ remoteAddress = "" }: Pick<Socket, "remoteAddress">): string {
  return remoteAddress.replace(/^::ffff:(?=\d+\.)/, "");
}

/** The value of a valid IPv4 address. */
export function valueOfIPv4(text: string): bigint {
  return text.split(".").reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}

export function textOfIPv4(value: bigint): string {
  return [24n, 16n, 8n, 0n].map((shift) => String((value >> shift) & 0xffn)).join(".");
}

/** In the spelling of RFC 5952; a zone stays as it is. */
export function canonicalIPv6(text: string): string {
  const [address = "", zone] = text.split("%");
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1);
  return zone === undefined ? canonical : `${canonical}%${zone}`;
}

/** The value of a valid IPv6 address without a zone. */
export function valueOfIPv6(text: string): bigint {
  const [head = "", tail] = canonicalIPv6(text).split("::");
  const groups = (part: string) => (part === "" ? [] : part.split(":"));
  const [left, right] = [groups(head), groups(tail ?? "")];
  const gap = tail === undefined ? 0 : 8 - left.length - right.length;
  return [...left, ...Array.from({ length: gap }, () => "0"), ...right].reduce(
    (sum, group) => (sum << 16n) | BigInt(`0x${group}`),
    0n,
  );
}

export function textOfIPv6(value: bigint): string {
  return canonicalIPv6(
    Array.from({ length: 8 }, (_, index) => ((value >> BigInt(16 * (7 - index))) & 0xffffn).toString(16)).join(":"),
  );
}

// ---- IPv4 addresses within IPv6 addresses

/** A network whose addresses lead to IPv4 addresses in them. */
interface Embedding {
  readonly base: bigint;
  /** Bits after the prefix. */
  readonly hostBits: bigint;
  /** The IPv4 addresses in a value. */
  embedded(value: bigint): readonly bigint[];
}

const IPV4_BITS = 0xffff_ffffn;
const atEnd = (value: bigint) => [value & IPV4_BITS];

function embedding(base: string, prefix: number, embedded: Embedding["embedded"] = atEnd): Embedding {
  return { base: valueOfIPv6(base), hostBits: BigInt(128 - prefix), embedded };
}

const EMBEDDINGS: readonly Embedding[] = [
  // RFC 4291: IPv4-compatible and IPv4-mapped.
  embedding("::", 96),
  embedding("::ffff:0:0", 96),
  // RFC 2765: IPv4-translated.
  embedding("::ffff:0:0:0", 96),
  // NAT64: RFC 6052, and RFC 8215 with a prefix of 96 bits.
  embedding("64:ff9b::", 96),
  embedding("64:ff9b:1::", 48),
  // RFC 3056: 6to4.
  embedding("2002::", 16, (value) => [(value >> 80n) & IPV4_BITS]),
  // RFC 4380: Teredo, with the server, and the client whose bits are inverted.
  embedding("2001::", 32, (value) => [(value >> 64n) & IPV4_BITS, (value & IPV4_BITS) ^ IPV4_BITS]),
];

/** `::` and `::1`, which are not IPv4-compatible addresses. */
const LOOPBACK = 1n;

function embeddingOf(value: bigint): Embedding | undefined {
  if (value <= LOOPBACK) return undefined;
  return EMBEDDINGS.find(({ base, hostBits }) => value >> hostBits === base >> hostBits);
}

/** The IPv4 addresses that an IPv6 address without a zone leads to; none for any other address. */
export function embeddedIPv4(address: string): readonly string[] {
  if (!isIPv6(address)) return [];
  const value = valueOfIPv6(address);
  return (embeddingOf(value)?.embedded(value) ?? []).map(textOfIPv4);
}

/** Whether all addresses of a network in CIDR notation embed IPv4 addresses. */
export function isEmbeddingNetwork(network: string): boolean {
  const [base = "", prefix = ""] = network.split("/");
  if (!isIPv6(base)) return false;
  const found = embeddingOf(valueOfIPv6(base));
  return found !== undefined && 128n - BigInt(prefix) <= found.hostBits;
}
