/**
 * The functions of a driver by their names, for what wraps them all or calls one that a message names. Workers load
 * this file too, so it imports only types and interfaces.ts.
 */
import type { DiscoverCall, DriverPhase, MachineCall } from "./driver.ts";
import { STEP_INTERFACES, findStep } from "./interfaces.ts";
import type { AnyDriver, AnyStep, FunctionInterface } from "./interfaces.ts";

/** The name of a function. */
export type FunctionName =
  | { readonly on: FunctionInterface | "discover"; readonly function: string }
  | { readonly on: "driver"; readonly function: "abilities" }
  | {
      readonly on: "step";
      readonly phase: DriverPhase;
      readonly name: string;
      readonly function: "run" | "verify" | "abort";
    };

/** The first argument of each function: what the calls of all of them have. */
export type AnyCall = MachineCall<unknown> | DiscoverCall;

/** A function, whatever its other arguments are. */
type AnyFunction = (call: AnyCall, ...args: readonly unknown[]) => Promise<unknown>;

/** Functions of the interfaces without steps. Of power, a driver may lack all but the first. */
export const FUNCTIONS = {
  power: ["read", "set", "setBootDevice", "readBootDevice", "readActivity"],
  media: ["insert", "eject"],
  firmware: ["read"],
  bios: ["read"],
  console: ["serialUrl"],
  discover: ["probe"],
} as const satisfies Readonly<Record<FunctionInterface | "discover", readonly string[]>>;

/** A function of the driver; undefined if it has none of this name. */
export function functionOf(driver: AnyDriver, name: FunctionName): AnyFunction | undefined {
  const holder =
    name.on === "driver" ? driver : name.on === "step" ? findStep(driver, name.phase, name.name) : driver[name.on];
  return holder && memberOf(holder, name.function);
}

/** The driver with another function in place of each. `step`: whose function it is. */
export function wrapFunctions(
  driver: AnyDriver,
  wrap: (name: FunctionName, work: AnyFunction, step?: AnyStep) => AnyFunction,
): AnyDriver {
  const wrapped = <Name extends string>(
    holder: object,
    names: readonly Name[],
    wrapOne: (one: Name, work: AnyFunction) => AnyFunction,
  ) =>
    Object.fromEntries(
      names.flatMap((one) => {
        const work = memberOf(holder, one);
        return work ? [[one, wrapOne(one, work)] as const] : [];
      }),
    );
  const interfaces = (Object.keys(FUNCTIONS) as (keyof typeof FUNCTIONS)[]).flatMap((on) => {
    const offered = driver[on];
    if (!offered) return [];
    const functions = wrapped<string>(offered, FUNCTIONS[on], (one, work) => wrap({ on, function: one }, work));
    return [[on, { ...offered, ...functions }] as const];
  });
  const steps = STEP_INTERFACES.flatMap((on) => {
    const offered = driver[on];
    if (!offered) return [];
    const all = offered.steps.map((step) => {
      const { phase, name } = step;
      return {
        ...step,
        ...wrapped(step, ["run", "verify", "abort"], (one, work) =>
          wrap({ on: "step", phase, name, function: one }, work, step),
        ),
      };
    });
    return [[on, { ...offered, steps: all }] as const];
  });
  return {
    ...driver,
    ...Object.fromEntries<object>([...interfaces, ...steps]),
    ...wrapped(driver, ["abilities"], (one, work) => wrap({ on: "driver", function: one }, work)),
    // Spreading loses those of a driver that is an object of a class.
    ...(driver.controllerOf && { controllerOf: (of: unknown) => driver.controllerOf?.(of) ?? "" }),
    ...(driver.revision && { revision: () => driver.revision?.() ?? "" }),
    ...(driver.systemOf && { systemOf: (of: unknown) => driver.systemOf?.(of) ?? "" }),
    close: async () => driver.close?.(),
  };
}

function memberOf(holder: object, name: string): AnyFunction | undefined {
  const found: unknown = Reflect.get(holder, name);
  return typeof found === "function" ? async (...args) => Reflect.apply(found, holder, args) as unknown : undefined;
}
