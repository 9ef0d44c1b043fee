/** The interfaces of a driver, and their steps. Workers load this file too, so it imports only types. */
import type { Driver, DriverPhase, Step, StepInterface } from "./driver.ts";

/** The version of the driver contract. A driver of another one is refused when it is loaded. */
export const CONTRACT = 2;

export type AnyDriver = Driver<unknown>;
export type AnyStep = Step<unknown>;

export const INTERFACES = ["power", "inspect", "deploy", "clean", "media", "firmware", "bios", "console"] as const;
export type InterfaceName = (typeof INTERFACES)[number];

/** Interfaces of functions, without steps. */
export const FUNCTION_INTERFACES = ["power", "media", "firmware", "bios", "console"] as const;
export type FunctionInterface = (typeof FUNCTION_INTERFACES)[number];

/**
 * Interfaces for which a node can name several drivers: of functions, which are tried one after the other, and
 * `deploy`, whose steps are performed together, as where one driver installs a system that another configures.
 */
export const SHARED_INTERFACES = [...FUNCTION_INTERFACES, "deploy"] as const;
export type SharedInterface = (typeof SHARED_INTERFACES)[number];

/** Interfaces of steps. */
export const STEP_INTERFACES = ["inspect", "deploy", "clean"] as const;

/** The interface that declares the steps of a phase. */
export const INTERFACE_OF_PHASE = {
  inspect: "inspect",
  clean: "clean",
  deploy: "deploy",
  undeploy: "deploy",
} as const satisfies Record<DriverPhase, InterfaceName>;

export function isSharedInterface(name: string): name is SharedInterface {
  return (SHARED_INTERFACES as readonly string[]).includes(name);
}

export function isInterfaceName(name: string): name is InterfaceName {
  return (INTERFACES as readonly string[]).includes(name);
}

/** The steps that a driver declares for an interface; null for an interface of functions, such as `power`. */
export function stepsOf(driver: AnyDriver, name: InterfaceName): StepInterface<unknown> | null {
  return name === "inspect" || name === "deploy" || name === "clean" ? (driver[name] ?? null) : null;
}

/** A step by its phase and name. */
export function findStep(driver: AnyDriver, phase: DriverPhase, name: string): AnyStep | undefined {
  return stepsOf(driver, INTERFACE_OF_PHASE[phase])?.steps.find((step) => step.phase === phase && step.name === name);
}
