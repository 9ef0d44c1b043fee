/** Each function of the driver contract reaches the engine, through the stand-in of a driver and its egress limits. */
import { pino } from "pino";
import { expect, test } from "vitest";
import * as z from "zod";
import { egressLimits } from "../../src/drivers/address-settings.ts";
import { limitEgress } from "../../src/drivers/egress.ts";
import { isolate } from "../../src/drivers/isolation/isolate.ts";
import { createMemory } from "../../src/drivers/isolation/driver-memory.ts";
import { createPool } from "../../src/drivers/isolation/pool.ts";
import { FUNCTION_INTERFACES } from "../../src/drivers/interfaces.ts";
import type { AnyDriver, FunctionInterface } from "../../src/drivers/interfaces.ts";
import { probedAbilities } from "../../src/engine/discovery/probed-abilities.ts";
import { createRedactor } from "../../src/engine/input/secret-redactor.ts";
import { ipNetworks } from "../../src/runtime/ip-networks.ts";

type FunctionsOf<Name extends FunctionInterface> = {
  readonly [Function in keyof NonNullable<AnyDriver[Name]>]-?: NonNullable<NonNullable<AnyDriver[Name]>[Function]>;
};

const unused = async (): Promise<never> => {
  throw new Error("No test calls it.");
};

/** All functions of the contract: the compiler reports one that is missing here. */
const FUNCTIONS: { readonly [Name in FunctionInterface]: FunctionsOf<Name> } = {
  power: { read: unused, set: unused, setBootDevice: unused, readBootDevice: unused, readActivity: unused },
  media: { insert: unused, eject: unused },
  firmware: { read: unused },
  bios: { read: unused },
  console: { serialUrl: unused },
};

const DRIVER: AnyDriver = {
  contract: 2,
  name: "complete",
  version: "1.0.0",
  description: "Has every function.",
  settings: z.object({}),
  ...FUNCTIONS,
};

const functionsOf = (driver: AnyDriver) =>
  FUNCTION_INTERFACES.flatMap((name) => Object.keys(driver[name] ?? {}).map((one) => `${name}.${one}`));

test("the stand-in of a driver has every function of the contract", async () => {
  await using pool = createPool({ workers: 0, log: pino({ enabled: false }) });
  const plugin = {
    module: "file:///complete.js",
    hash: null,
    permissions: [],
    name: DRIVER.name,
    version: DRIVER.version,
    memory: createMemory(),
    egress: null,
  };
  expect(functionsOf(isolate(DRIVER, plugin, pool)), "Pass each function on in src/drivers/isolation.").toEqual(
    functionsOf(DRIVER),
  );
});

test("a driver with egress limits has every function of the contract", () => {
  const limits = egressLimits(DRIVER, ipNetworks([]));
  expect(functionsOf(limitEgress(DRIVER, limits)), "Pass each function on in src/drivers/egress.ts.").toEqual(
    functionsOf(DRIVER),
  );
});

test("a probe shows every optional function of power", () => {
  const { read: _read, set: _set, ...optional } = FUNCTIONS.power;
  const shown = probedAbilities(DRIVER, [], createRedactor([])).map(({ name }) => name);
  expect(
    shown.filter((name) => name.startsWith("power.")),
    "Add each function to declaredAbilities in src/engine/discovery/probed-abilities.ts.",
  ).toEqual(Object.keys(optional).map((name) => `power.${name}`));
});
