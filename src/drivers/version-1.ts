/**
 * Drivers of version 1 of the contract, in the form of version 2. A driver of version 1 declares no variables, so it
 * receives all of them, and it knows neither boot modes nor HTTP boot, which it would ignore.
 */
import type { BootDevice, Call, Driver, DriverErrorKind, Schema } from "./driver.ts";
import { CONTRACT } from "./interfaces.ts";

type AnyDriver = Driver<unknown>;
type BootDeviceOf1 = Exclude<BootDevice, "HTTP">;

/** A driver of version 1, as far as it differs. */
type DriverOf1 = Omit<AnyDriver, "contract" | "power"> & {
  readonly contract: 1;
  readonly power: Pick<AnyDriver["power"], "read" | "set"> & {
    setBootDevice?(
      call: Call<unknown>,
      device: BootDeviceOf1,
      options: { readonly persistent: boolean },
    ): Promise<void>;
  };
};

/** A driver of the present version; one of version 1 is adapted. */
export function toPresentVersion(driver: AnyDriver | DriverOf1): AnyDriver {
  if (driver.contract === CONTRACT) return driver;
  const { name, version, description, settings, permissions, power, inspect, deploy, clean, discover } = driver;
  return {
    contract: CONTRACT,
    name,
    version,
    description,
    settings,
    variables: ANY_VARIABLES,
    ...(permissions && { permissions }),
    power: {
      read: (call) => power.read(call),
      set: (call, action) => power.set(call, action),
      ...(power.setBootDevice && {
        async setBootDevice(call, device, { persistent, mode }) {
          if (device === "HTTP" || mode !== undefined)
            throw unsupported(`Driver "${name}" knows neither boot modes nor HTTP boot.`);
          await power.setBootDevice?.(call, device, { persistent });
        },
      }),
    },
    ...(inspect && { inspect }),
    ...(deploy && { deploy }),
    ...(clean && { clean }),
    ...(discover && { discover }),
    ...(driver.controllerOf && { controllerOf: (of: unknown) => driver.controllerOf?.(of) ?? "" }),
    close: async () => driver.close?.(),
  };
}

/** An error of kind UNSUPPORTED. */
export function unsupported(message: string): Error {
  const kind: DriverErrorKind = "UNSUPPORTED";
  return Object.assign(new Error(message), { name: "DriverError", kind, retryable: false });
}

/** Accepts every variable. */
const ANY_VARIABLES: Schema<object> = {
  "~standard": {
    version: 1,
    vendor: "ostler",
    validate: (value) =>
      typeof value === "object" && value !== null && !Array.isArray(value)
        ? { value }
        : { issues: [{ message: "it must be an object" }] },
    jsonSchema: { input: () => ({ type: "object" }), output: () => ({ type: "object" }) },
  },
};
