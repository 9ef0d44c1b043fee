/**
 * Lookups of host names in a worker. The names in a call's addresses were resolved and checked before the call
 * (egress.ts). From then on, `dns.lookup` returns these addresses for them, so that a name server cannot give the
 * driver others. Sockets, HTTP clients and TLS look names up by it, and keep the name for the certificate and the Host
 * header. Other names are looked up as usual.
 */
import dns from "node:dns";
import type { LookupAddress, LookupOptions } from "node:dns";
import { syncBuiltinESMExports } from "node:module";
import { promisify } from "node:util";
import type { ResolvedNames } from "../egress.ts";

type Callback = (error: Error | null, found?: string | readonly LookupAddress[], family?: number) => void;

/**
 * Replaces the lookups of this process. The returned function sets the names and addresses, in place of earlier ones.
 */
export function pinLookups(): (names: ResolvedNames) => void {
  let pinned: ResolvedNames = new Map();
  const { lookup } = dns.promises;

  async function find(host: string, given: LookupOptions | number = {}): Promise<LookupAddress | LookupAddress[]> {
    const options = typeof given === "number" ? { family: given } : given;
    const known = pinned.get(host.toLowerCase());
    if (!known) return lookup(host, options);
    const family = Number(String(options.family ?? 0).replace("IPv", ""));
    const found = known.filter((one) => family === 0 || one.family === family);
    const [first] = found;
    if (first) return options.all === true ? found : first;
    throw Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: "ENOTFOUND", syscall: "getaddrinfo" });
  }

  function findWithCallback(host: string, ...rest: [Callback] | [LookupOptions | number, Callback]): void {
    const [options, callback] = rest.length === 1 ? [{}, rest[0]] : rest;
    find(host, options).then(
      (found) => (Array.isArray(found) ? callback(null, found) : callback(null, found.address, found.family)),
      (error: Error) => callback(error),
    );
  }

  Object.assign(dns, { lookup: Object.assign(findWithCallback, { [promisify.custom]: find }) });
  Object.assign(dns.promises, { lookup: find });
  syncBuiltinESMExports();
  return (names) => {
    pinned = names;
  };
}
