/**
 * Limits the addresses to which callers can make a driver connect. A driver marks the settings that are addresses with
 * `address: true`; their values, and the address of a probe, are checked before each call. A host name is resolved for
 * the check, and the driver resolves it again: a name server that alternates its answers can get around the check.
 *
 * This protects against values that callers write. The code of a driver can connect anywhere.
 */
import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import type { IpNetworks } from "../runtime/ip-networks.ts";
import type { Call, DiscoverCall, Driver, Schema, Step, StepInterface } from "./driver.ts";
import { shapeOf } from "./settings-shape.ts";

/** The driver, whose calls are refused if one of their addresses is outside the networks. */
export function limitEgress(driver: Driver<unknown>, networks: IpNetworks): Driver<unknown> {
  const marked = addressNames(driver.settings);
  const check = (settings: unknown) => checkAll(settings, marked, networks);
  const guarded =
    <Given extends { readonly settings: unknown }, Rest extends unknown[], Result>(
      work: (call: Given, ...rest: Rest) => Promise<Result>,
    ) =>
    async (call: Given, ...rest: Rest): Promise<Result> => {
      await check(call.settings);
      return work(call, ...rest);
    };
  const steps = <Kind extends StepInterface<unknown>>(kind: Kind): Kind => ({
    ...kind,
    steps: kind.steps.map((step): Step<unknown> => ({
      ...step,
      run: guarded((call) => step.run(call)),
      ...(step.verify && { verify: guarded(async (call) => (await step.verify?.(call)) ?? { kind: "done" }) }),
      ...(step.abort && { abort: guarded(async (call) => step.abort?.(call)) }),
    })),
  });
  const { power, inspect, deploy, clean, discover } = driver;
  return {
    ...driver,
    power: {
      read: guarded((call: Call<unknown>) => power.read(call)),
      set: guarded((call: Call<unknown>, action) => power.set(call, action)),
      ...(power.setBootDevice && {
        setBootDevice: guarded(async (call: Call<unknown>, device, options) =>
          power.setBootDevice?.(call, device, options),
        ),
      }),
    },
    ...(inspect && { inspect: steps(inspect) }),
    ...(deploy && { deploy: steps(deploy) }),
    ...(clean && { clean: steps(clean) }),
    ...(discover && {
      discover: {
        ...discover,
        async probe(call: DiscoverCall) {
          await checkAddress(call.address, networks);
          await checkAll(call.settings, addressNames(discover.settings), networks);
          return discover.probe(call);
        },
      },
    }),
    ...(driver.controllerOf && { controllerOf: (settings: unknown) => driver.controllerOf?.(settings) ?? "" }),
    close: async () => driver.close?.(),
  };
}

/** Why an IP address is refused, as a sentence without its end; null if it is not, or if it is a name. */
export function addressProblem(address: string, networks: IpNetworks): string | null {
  return isIP(address.split("%")[0] ?? "") === 0 || networks.has(address) ? null : refusalOf(address, networks);
}

/** The problems of the addresses in settings, by setting. Names are not resolved. */
export function addressProblems(
  schema: Schema<unknown>,
  settings: Readonly<Record<string, unknown>>,
  networks: IpNetworks,
): readonly { readonly path: readonly string[]; readonly message: string }[] {
  return addressNames(schema).flatMap((name) => {
    const host = hostOf(settings[name]);
    const message = host === null ? null : addressProblem(host, networks);
    return message === null ? [] : [{ path: [name], message }];
  });
}

function addressNames(schema: Schema<unknown>): readonly string[] {
  const shape = shapeOf(schema);
  return shape.kind === "object"
    ? shape.fields.filter((field) => field.shape.schema["address"] === true).map(({ name }) => name)
    : [];
}

async function checkAll(settings: unknown, names: readonly string[], networks: IpNetworks): Promise<void> {
  for (const name of names) {
    const host = hostOf((settings as Readonly<Record<string, unknown>>)[name]);
    if (host !== null) await checkAddress(host, networks);
  }
}

async function checkAddress(host: string, networks: IpNetworks): Promise<void> {
  for (const address of await addressesOf(host))
    if (!networks.has(address))
      throw Object.assign(new Error(`${refusalOf(address === host ? host : `${host} (${address})`, networks)}.`), {
        name: "DriverError",
        kind: "REFUSED",
        retryable: false,
      });
}

async function addressesOf(host: string): Promise<readonly string[]> {
  if (isIP(host.split("%")[0] ?? "") !== 0) return [host];
  try {
    return (await lookup(host, { all: true })).map(({ address }) => address);
  } catch {
    // The driver reports a name that does not resolve.
    return [];
  }
}

/** The host in a host name, an IP address, `host:port` or a URL; null for any other value. */
function hostOf(value: unknown): string | null {
  if (typeof value !== "string" || value === "") return null;
  if (isIP(value.split("%")[0] ?? "") !== 0) return value;
  const url = value.includes("://") ? value : `http://${value}`;
  if (!URL.canParse(url)) return value;
  const { hostname } = new URL(url);
  return hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
}

function refusalOf(address: string, { listed }: IpNetworks): string {
  return listed === null
    ? `Address ${address} is a loopback, link-local, multicast or broadcast address. List its network in OSTLER_BMC_NETWORKS to allow it`
    : `Address ${address} is outside the networks of OSTLER_BMC_NETWORKS (${listed.join(", ")})`;
}
