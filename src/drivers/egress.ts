/**
 * Limits the addresses to which callers can make a driver connect. A driver marks the settings that are addresses with
 * `address: true`; their values, and the address of a probe, are checked before each call.
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
import type { IpNetworks } from "../runtime/ip-networks.ts";
import { messageOf } from "../errors.ts";
import type { Call, DiscoverCall, Driver, DriverErrorKind, MachineCall, Step, StepInterface } from "./driver.ts";

// The system's: a worker replaces it for the driver.
const { lookup } = dns.promises;

/** The addresses of host names in lower case. */
export type ResolvedNames = ReadonlyMap<string, readonly LookupAddress[]>;

/** The addresses to which the calls of a driver may connect. */
export interface EgressLimits {
  readonly networks: IpNetworks;
  readonly marked: MarkedSettings;
}

/** Names of the settings that are addresses. */
export interface MarkedSettings {
  readonly settings: readonly string[];
  /** Of a discovery. */
  readonly discovery: readonly string[];
}

/** Resolves a host name to at least one address; rejects if it has none. */
type Resolve = (host: string) => Promise<readonly LookupAddress[]>;

/**
 * The driver, whose calls are refused if one of their addresses is outside the networks. `onResolved` is called before
 * each call, with the checked addresses of its hosts.
 */
export function limitEgress(
  driver: Driver<unknown>,
  { networks, marked }: EgressLimits,
  onResolved: (names: ResolvedNames) => void = () => {},
  resolve: Resolve = (host) => lookup(host, { all: true }),
): Driver<unknown> {
  const check = async <Given extends CheckedCall>(call: Given, values: readonly unknown[]): Promise<Given> => {
    const names = new Map<string, readonly LookupAddress[]>();
    const addresses: Record<string, string> = {};
    for (const value of values) {
      const host = hostOf(value);
      if (host === null) continue;
      const found = names.get(host) ?? (await addressesOf(host, call.signal, resolve));
      for (const { address } of found) requireAllowed(address, host, networks);
      names.set(host, found);
      const [first] = found;
      if (first) addresses[host] = addresses[String(value)] = first.address;
    }
    onResolved(names);
    return { ...call, addresses };
  };
  const guarded =
    <Given extends CheckedCall, Rest extends unknown[], Result>(
      work: (call: Given, ...rest: Rest) => Promise<Result>,
    ) =>
    async (call: Given, ...rest: Rest): Promise<Result> =>
      work(await check(call, valuesOf(call.settings, marked.settings)), ...rest);
  const steps = <Kind extends StepInterface<unknown>>(kind: Kind): Kind => ({
    ...kind,
    steps: kind.steps.map((step): Step<unknown> => ({
      ...step,
      run: guarded((call) => step.run(call)),
      ...(step.verify && { verify: guarded(async (call) => (await step.verify?.(call)) ?? { kind: "done" }) }),
      ...(step.abort && { abort: guarded(async (call) => step.abort?.(call)) }),
    })),
  });
  const { inspect, deploy, clean, discover } = driver;
  return {
    ...driver,
    ...guardFunctions(driver, guarded),
    ...(inspect && { inspect: steps(inspect) }),
    ...(deploy && { deploy: steps(deploy) }),
    ...(clean && { clean: steps(clean) }),
    ...(discover && {
      discover: {
        ...discover,
        async probe(call: DiscoverCall) {
          const values = [call.address, ...valuesOf(call.settings, marked.discovery)];
          return discover.probe(await check(call, values));
        },
      },
    }),
    ...(driver.controllerOf && { controllerOf: (settings: unknown) => driver.controllerOf?.(settings) ?? "" }),
    ...(driver.systemOf && { systemOf: (settings: unknown) => driver.systemOf?.(settings) ?? "" }),
    close: async () => driver.close?.(),
  };
}

type Guard = <Given extends CheckedCall, Rest extends unknown[], Result>(
  work: (call: Given, ...rest: Rest) => Promise<Result>,
) => (call: Given, ...rest: Rest) => Promise<Result>;

/** The interfaces of functions, and the report of abilities. */
function guardFunctions(
  driver: Driver<unknown>,
  guarded: Guard,
): Pick<Driver<unknown>, "power" | "media" | "firmware" | "bios" | "console" | "abilities"> {
  const { power, media, firmware, bios } = driver;
  const serial = driver.console;
  return {
    power: {
      read: guarded((call: Call<unknown>) => power.read(call)),
      set: guarded((call: Call<unknown>, action) => power.set(call, action)),
      ...(power.setBootDevice && {
        setBootDevice: guarded(async (call: Call<unknown>, device, options) =>
          power.setBootDevice?.(call, device, options),
        ),
      }),
      ...(power.readBootDevice && {
        readBootDevice: guarded(
          async (call: Call<unknown>) => (await power.readBootDevice?.(call)) ?? { device: null, persistent: false },
        ),
      }),
    },
    ...(media && {
      media: {
        insert: guarded((call: Call<unknown>, url: string, options) => media.insert(call, url, options)),
        eject: guarded((call: Call<unknown>) => media.eject(call)),
      },
    }),
    ...(firmware && { firmware: { read: guarded((call: Call<unknown>) => firmware.read(call)) } }),
    ...(bios && { bios: { read: guarded((call: Call<unknown>) => bios.read(call)) } }),
    ...(serial && { console: { serialUrl: guarded((call: Call<unknown>) => serial.serialUrl(call)) } }),
    ...(driver.abilities && {
      abilities: guarded(async (call: MachineCall<unknown>) => (await driver.abilities?.(call)) ?? []),
    }),
  };
}

/** Why an IP address is refused, as a sentence without its end; null if it is not, or if it is a name. */
export function addressProblem(address: string, networks: IpNetworks): string | null {
  return isIP(address.split("%")[0] ?? "") === 0 || networks.has(address) ? null : refusalOf(address, networks);
}

type CheckedCall = Pick<DiscoverCall, "settings" | "signal"> | Pick<Call<unknown>, "settings" | "signal">;

function valuesOf(settings: unknown, names: readonly string[]): readonly unknown[] {
  return names.map((name) => (settings as Readonly<Record<string, unknown>>)[name]);
}

function requireAllowed(address: string, host: string, networks: IpNetworks): void {
  if (networks.has(address)) return;
  const named = address === host ? host : `${host} (${address})`;
  throw driverError(`${refusalOf(named, networks)}.`, "REFUSED", false);
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
    const advice = "Check the address in the settings, and the name server of the service's machine";
    throw driverError(`Host name ${host} does not resolve (${why}). ${advice}.`, "UNREACHABLE", true);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

function driverError(message: string, kind: DriverErrorKind, retryable: boolean): Error {
  return Object.assign(new Error(message), { name: "DriverError", kind, retryable });
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
    ? `Address ${address} is a loopback, link-local, multicast or broadcast address. List its network in OSTLER_BMC_NETWORKS to allow it`
    : `Address ${address} is outside the networks of OSTLER_BMC_NETWORKS (${listed.join(", ")})`;
}
