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

/** dnsmasq rewrites the file in place, so a reader may find half of it. */
const TRIES = 3;
const RETRY_MS = 200;
/** Time for which all callers share what was read, in milliseconds. */
const SHARED_MS = 100;

export function dhcpLeases(path: string): DhcpLeases {
  let shared: ReturnType<typeof readLeases> | null = null;

  function read(): ReturnType<typeof readLeases> {
    if (shared) return shared;
    const forget = () => void setTimeout(() => (shared = null), SHARED_MS).unref();
    shared = readLeases(path);
    shared.then(forget, forget);
    return shared;
  }

  async function macsAt(address: string, macs: readonly string[], tries = TRIES): Promise<readonly string[]> {
    const leased = (await read()).get(address) ?? [];
    const found = macs.filter((mac) => leased.includes(mac));
    if (found.length > 0 || tries === 1) return found;
    await delay(RETRY_MS);
    return macsAt(address, macs, tries - 1);
  }
  return { macsAt };
}

/** The MACs of each address that is leased now. */
async function readLeases(path: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const leases = new Map<string, string[]>();
  for (const line of (await readFile(path, "utf8")).split("\n")) {
    const [expiry, given = "", address = ""] = line.split(" ");
    const mac = macOf(given);
    const isValid = expiry === "0" || Number(expiry) * 1_000 > Date.now();
    if (mac !== null && isValid) leases.set(address, [...(leases.get(address) ?? []), mac]);
  }
  return leases;
}
