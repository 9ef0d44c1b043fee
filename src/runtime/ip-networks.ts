/** Sets of IP networks: which addresses a service may connect to. */
import { BlockList, isIP, isIPv6 } from "node:net";

export interface IpNetworks {
  /** Whether an IP address is in the set. An IPv4 address that is mapped into IPv6 counts as the IPv4 address. */
  has(address: string): boolean;
  /** The networks as given; null: the default. */
  readonly listed: readonly string[] | null;
}

/** This machine, links, groups and everyone: no machine has an address of its own there. */
const NOT_MACHINES = [
  "0.0.0.0/8",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "224.0.0.0/4",
  "255.255.255.255/32",
  "::/128",
  "::1/128",
  "fe80::/10",
  "ff00::/8",
];

/**
 * `listed`: networks in CIDR notation, valid by `isNetwork`. Null: all but loopback, link-local, multicast and
 * broadcast.
 */
export function ipNetworks(listed: readonly string[] | null): IpNetworks {
  const list = new BlockList();
  for (const network of listed ?? NOT_MACHINES) {
    const [base = "", prefix = ""] = network.split("/");
    list.addSubnet(base, Number(prefix), familyOf(base));
  }
  return {
    listed,
    has(address) {
      const [plain = ""] = address.split("%");
      return isIP(plain) !== 0 && list.check(plain, familyOf(plain)) === (listed !== null);
    },
  };
}

/** Whether a text is a network in CIDR notation. */
export function isNetwork(text: string): boolean {
  const [, base = "", prefix = ""] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  return isIP(base) !== 0 && !base.includes("%") && Number(prefix) <= (isIPv6(base) ? 128 : 32);
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return isIPv6(address) ? "ipv6" : "ipv4";
}
