/** The abilities of a machine with a driver: what the driver declares, corrected by what it found on the machine. */
import type { Ability } from "../../drivers/driver.ts";
import { FUNCTION_INTERFACES, stepsOf } from "../../drivers/interfaces.ts";
import type { AnyDriver } from "../../drivers/interfaces.ts";
import { isRecord } from "../../runtime/json-values.ts";
import { cutTo } from "../../runtime/text.ts";
import type { Redactor } from "../input/secret-redactor.ts";

const REPORTED_MAX = 500;
const NAME = /^[A-Za-z][A-Za-z_.]{0,99}$/;
const REASON_LENGTH_MAX = 500;

/** In the order of the declaration; abilities that only the machine's answer names follow. */
export function probedAbilities(driver: AnyDriver, reported: unknown, redactor: Redactor): readonly Ability[] {
  const found = new Map(declaredAbilities(driver).map((name): [string, Ability] => [name, { name, works: true }]));
  for (const one of reportedBy(driver, reported)) {
    const { name, works, reason } = one;
    const text = typeof reason === "string" && !works ? cutTo(redactor.text(reason), REASON_LENGTH_MAX) : null;
    found.set(name, { name, works, ...(text !== null && { reason: text }) });
  }
  return [...found.values()];
}

/** Throws if a driver's answer is not a list of abilities: drivers are not trusted. */
function reportedBy(
  { name: driver }: AnyDriver,
  reported: unknown,
): readonly { readonly name: string; readonly works: boolean; readonly reason?: unknown }[] {
  if (!Array.isArray(reported)) throw new Error(`Driver "${driver}" reports abilities that are not a list.`);
  return reported.slice(0, REPORTED_MAX).map((one: unknown) => {
    const { name, works, reason } = isRecord(one) ? one : {};
    if (typeof name !== "string" || !NAME.test(name) || typeof works !== "boolean")
      throw new Error(`Driver "${driver}" reports an ability without a name, or without whether it works.`);
    return { name, works, reason };
  });
}

const OPTIONAL_POWER = ["setBootDevice", "readBootDevice", "readActivity"] as const;

/** Interfaces, optional functions of power, and steps. */
function declaredAbilities(driver: AnyDriver): readonly string[] {
  const { power } = driver;
  const steps = (["inspect", "clean", "deploy"] as const).flatMap((name) =>
    (stepsOf(driver, name)?.steps ?? []).map((step) => `${name}.${step.name}`),
  );
  return [
    ...FUNCTION_INTERFACES.filter((name) => (name === "power" ? power.set : driver[name]) !== undefined),
    ...OPTIONAL_POWER.filter((name) => power[name]).map((name) => `power.${name}`),
    ...steps,
  ];
}
