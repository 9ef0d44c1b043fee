/** Sets of IP networks: which addresses a service may connect to. */
import { BlockList, isIP, isIPv6 } from "node:net";
import { embeddedIPv4 } from "./ip-addresses.ts";

export interface IpNetworks {
  /**
   * Whether an IP address is in the set. An IPv6 address that embeds IPv4 addresses (mapped, NAT64, 6to4, Teredo)
   * counts as these, and is in the set if all of them are.
   */
  has(address: string): boolean;
  /** The networks as given; null: the default. */
  readonly listed: readonly string[] | null;
}

/** This machine, links, groups, everyone and the metadata of clouds: no machine has an address of its own there. */
const NOT_MACHINES = [
  "0.0.0.0/8",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "224.0.0.0/4",
  "255.255.255.255/32",
  // Alibaba Cloud, Azure, Oracle Cloud; AWS, Google Cloud and Scaleway by IPv6. Others are link-local.
  "100.100.100.200/32",
  "168.63.129.16/32",
  "192.0.0.192/32",
  "fd00:ec2::254/128",
  "fd20:ce::254/128",
  "fd00:42::42/128",
  "::/128",
  "::1/128",
  "fe80::/10",
  "ff00::/8",
];

/**
 * `listed`: networks in CIDR notation, valid by `isNetwork`. Null: all but loopback, link-local, metadata, multicast
 * and broadcast.
 */
export function ipNetworks(listed: readonly string[] | null): IpNetworks {
  // A list of both families would compare IPv4 addresses with IPv6 networks, so that ::/0 would include them.
  const lists = { ipv4: new BlockList(), ipv6: new BlockList() };
  for (const network of listed ?? NOT_MACHINES) {
    const [base = "", prefix = ""] = network.split("/");
    lists[familyOf(base)].addSubnet(base, Number(prefix), familyOf(base));
  }
  return {
    listed,
    has(address) {
      const [plain = ""] = address.split("%");
      if (isIP(plain) === 0) return false;
      const embedded = embeddedIPv4(plain);
      return (embedded.length > 0 ? embedded : [plain]).every(
        (one) => lists[familyOf(one)].check(one, familyOf(one)) === (listed !== null),
      );
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
