/**
 * The leases of dnsmasq, from its file: `<expiry> <MAC> <address> <name> <client>` on each line. Leases of IPv6 have no
 * MAC.
 */
import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { macOf } from "../runtime/mac-address.ts";

export interface DhcpLeases {
  /** The MACs to which an address is leased now, of those that are given. */
  macsAt(address: string, macs: readonly string[]): Promise<readonly string[]>;
}

/** dnsmasq writes the file anew in place, so a reader may find half of it. */
const TRIES = 3;
const RETRY_MS = 200;

export function dhcpLeases(path: string): DhcpLeases {
  async function macsAt(address: string, macs: readonly string[], tries = TRIES): Promise<readonly string[]> {
    const lines = (await readFile(path, "utf8")).split("\n").map((line) => line.split(" "));
    const leased = lines.flatMap(([expiry, mac = "", leasedAddress]) => {
      const isValid = expiry === "0" || Number(expiry) * 1_000 > Date.now();
      return isValid && leasedAddress === address ? (macOf(mac) ?? []) : [];
    });
    const found = macs.filter((mac) => leased.includes(mac));
    if (found.length > 0 || tries === 1) return found;
    await delay(RETRY_MS);
    return macsAt(address, macs, tries - 1);
  }
  return { macsAt };
}
