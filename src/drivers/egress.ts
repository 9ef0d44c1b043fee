/**
 * Limits the addresses to which callers can make a driver connect. A driver marks what is an address with
 * `address: true`, and the URL of a file with `fileUrl: true` (address-settings.ts); the values, the address of a probe
 * and the URL of a medium are checked before each call.
 *
 * A file is refused before its step begins. Once the step has begun, the machine may be working, so a file that is not
 * allowed any more ends nothing: it has no entry in `Call.addresses`, and its name leads nowhere in a worker.
 *
 * A host name is resolved once for each call. All its addresses are checked, and the driver gets the first one in
 * `Call.addresses`. In a worker, lookups of the name during the call return the checked addresses too
 * (isolation/pinned-lookups.ts). So a name server that alternates its answers gets around the check only if a driver
 * uses the name and starts programs, or runs inside the service.
 *
 * This protects against values that callers write. The code of a driver can connect anywhere.
 */
import dns from "node:dns";
import type { LookupAddress } from "node:dns";
import { isIP } from "node:net";
import type { FileServers } from "../runtime/file-servers.ts";
import type { IpNetworks } from "../runtime/ip-networks.ts";
import { messageOf } from "../errors.ts";
import type { Driver, DriverErrorKind, Step, StepCall } from "./driver.ts";
import { wrapFunctions } from "./driver-functions.ts";
import type { AnyCall, FunctionName } from "./driver-functions.ts";
import { dispatchOf } from "./isolation/dispatch.ts";

// The system's: a worker replaces it for the driver.
const { lookup } = dns.promises;

/** The addresses of host names in lower case. */
export type ResolvedNames = ReadonlyMap<string, readonly LookupAddress[]>;

/** The addresses to which the calls of a driver may connect. */
export interface EgressLimits {
  readonly networks: IpNetworks;
  readonly files: FileServers;
  readonly marked: Marks;
}

/** A place that holds the address of a machine or the URL of a file. */
export interface Mark {
  readonly kind: "ADDRESS" | "FILE";
  /** Names of members; `*` is every member or item. */
  readonly path: readonly string[];
}

/** The marks of a driver's schemas. */
export interface Marks {
  readonly settings: readonly Mark[];
  /** Of the settings of a discovery. */
  readonly discovery: readonly Mark[];
  readonly variables: readonly Mark[];
  /** Of the arguments of steps, by `stepKey`. */
  readonly args: Readonly<Record<string, readonly Mark[]>>;
}

export function stepKey({ phase, name }: Pick<Step<unknown>, "phase" | "name">): string {
  return `${phase} ${name}`;
}

/** A text at a marked place, and where it is. */
interface MarkedValue extends Mark {
  readonly text: string;
}

export function markedValues(marks: readonly Mark[], value: unknown): readonly MarkedValue[] {
  return marks.flatMap(({ kind, path }) => textsAt(value, path).map((found) => ({ kind, ...found })));
}

function textsAt(value: unknown, [name, ...rest]: readonly string[]): readonly Omit<MarkedValue, "kind">[] {
  if (name === undefined) return typeof value === "string" ? [{ path: [], text: value }] : [];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value)
    .filter(([key]) => name === "*" || key === name)
    .flatMap(([key, inside]) => textsAt(inside, rest).map(({ path, text }) => ({ path: [key, ...path], text })));
}

/** Resolves a host name to at least one address; rejects if it has none. */
type Resolve = (host: string) => Promise<readonly LookupAddress[]>;

/**
 * The driver, whose calls are refused if one of their addresses is outside the networks, or one of their files on a
 * server that is not allowed. `onResolved` is called before each call, with the checked addresses of its hosts.
 */
export function limitEgress(
  driver: Driver<unknown>,
  limits: EgressLimits,
  onResolved: (names: ResolvedNames) => void = () => {},
  resolve: Resolve = (host) => lookup(host, { all: true }),
): Driver<unknown> {
  return wrapFunctions(driver, (name, work) => async (call, ...args) => {
    const { names, addresses } = await checkedAddresses(call, destinationsOf(name, call, args, limits.marked), {
      limits,
      resolve,
      hasBegun: name.on === "step" && (name.function !== "run" || ("memo" in call && call.memo !== null)),
    });
    onResolved(names);
    return work({ ...call, addresses }, ...args);
  });
}

/** A text that names a machine or a file. */
type Destination = Omit<MarkedValue, "path">;

/** Where a call of the function may connect to. */
function destinationsOf(
  name: FunctionName,
  call: AnyCall | StepCall<unknown>,
  args: readonly unknown[],
  marked: Marks,
): readonly Destination[] {
  if ("address" in call)
    return [{ kind: "ADDRESS", text: call.address }, ...markedValues(marked.discovery, call.settings)];
  const ofSettings = markedValues(marked.settings, call.settings);
  if (name.on === "media" && name.function === "insert")
    return [...ofSettings, { kind: "FILE", text: String(args[0]) }];
  if (name.on !== "step" || !("memo" in call)) return ofSettings;
  return [
    ...ofSettings,
    ...markedValues(marked.args[stepKey(name)] ?? [], call.args),
    ...markedValues(marked.variables, call.variables),
  ];
}

async function checkedAddresses(
  call: AnyCall,
  values: readonly Destination[],
  {
    limits: { networks, files },
    resolve,
    hasBegun,
  }: { readonly limits: EgressLimits; readonly resolve: Resolve; readonly hasBegun: boolean },
) {
  const names = new Map<string, readonly LookupAddress[]>();
  const addresses: Record<string, string> = {};
  const lookUp = async (host: string) => names.get(host) ?? (await addressesOf(host, call.signal, resolve));
  for (const { kind, text } of values) {
    const host = hostOf(text);
    if (kind !== "ADDRESS" || host === null) continue;
    const found = await lookUp(host);
    for (const { address } of found) requireAllowed(address, host, networks);
    names.set(host, found);
    const [first] = found;
    if (first) addresses[host] = addresses[text] = first.address;
  }
  const { imageServers = [] } = dispatchOf(call);
  for (const { kind, text } of values) {
    if (kind !== "FILE") continue;
    const host = hostOf(text) ?? "";
    try {
      // First without a lookup: names that are not listed are not sent to the name server.
      requireFile(files.problem(text, imageServers));
      const found = await lookUp(host).catch((error: unknown) => {
        call.signal.throwIfAborted();
        // The machine that fetches the file may know a name that the service does not.
        if (files.problem(text, imageServers, []) === null) return [];
        throw error;
      });
      const all = found.map(({ address }) => address);
      requireFile(files.problem(text, imageServers, all));
      names.set(host, found);
      addresses[text] = all[0] ?? host;
    } catch (error) {
      if (!hasBegun) throw error;
      if (!names.has(host)) names.set(host, []);
    }
  }
  return { names, addresses };
}

/** Why an IP address is refused, as a sentence without its end; null if it is not, or if it is a name. */
export function addressProblem(address: string, networks: IpNetworks): string | null {
  return isIP(address.split("%")[0] ?? "") === 0 || networks.has(address) ? null : refusalOf(address, networks);
}

function requireAllowed(address: string, host: string, networks: IpNetworks): void {
  if (networks.has(address)) return;
  const named = address === host ? host : `${host} (${address})`;
  throw driverError(`${refusalOf(named, networks)}.`, "REFUSED", false);
}

function requireFile(problem: string | null): void {
  if (problem !== null) throw driverError(`${problem}.`, "REFUSED", false);
}

/**
 * Resolves a host. Throws a driver's error if that fails, and the signal's reason if it fires: a lookup can take long.
 */
async function addressesOf(host: string, signal: AbortSignal, resolve: Resolve): Promise<readonly LookupAddress[]> {
  const family = isIP(host.split("%")[0] ?? "");
  if (family !== 0) return [{ address: host, family }];
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    signal.throwIfAborted();
    return await Promise.race([resolve(host), aborted.promise]);
  } catch (error) {
    signal.throwIfAborted();
    const why = (error as NodeJS.ErrnoException).code ?? messageOf(error);
    const advice = "Check the address, and the name server of the service's machine";
    throw driverError(`Host name ${host} does not resolve (${why}). ${advice}.`, "UNREACHABLE", true);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

function driverError(message: string, kind: DriverErrorKind, retryable: boolean): Error {
  return Object.assign(new Error(message), { name: "DriverError", kind, retryable, withoutEffect: true });
}

/** The host in a host name, an IP address, `host:port` or a URL; null for any other value. */
export function hostOf(value: unknown): string | null {
  if (typeof value !== "string" || value.trim() === "") return null;
  const text = value.trim();
  if (isIP(text.split("%")[0] ?? "") !== 0) return text;
  // URLs may lack slashes (`http:10.0.0.7`); `host:port` has the form of a URL without a host.
  const hostname = URL.parse(text)?.hostname || URL.parse(`http://${text}`)?.hostname || text;
  return hostname.startsWith("[") ? hostname.slice(1, -1) : hostname.toLowerCase();
}

function refusalOf(address: string, { listed }: IpNetworks): string {
  return listed === null
    ? `Address ${address} is a loopback, link-local, metadata, multicast or broadcast address. List its network in OSTLER_BMC_NETWORKS to allow it`
    : `Address ${address} is outside the networks of OSTLER_BMC_NETWORKS (${listed.join(", ")})`;
}
