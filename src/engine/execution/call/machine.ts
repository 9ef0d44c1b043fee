/** A node with its drivers and settings: everything that a call of a driver needs. */
import type { PowerAction } from "../../../drivers/driver.ts";
import { validate } from "../../../drivers/issues.ts";
import type { Circuits } from "../../../drivers/circuits.ts";
import type { AnyDriver } from "../../../drivers/interfaces.ts";
import type { Composition, Registry } from "../../../drivers/registry.ts";
import { noopObserver } from "../../../observer.ts";
import type { Observer } from "../../../observer.ts";
import type { NodeRow, Secrets } from "../../../store/nodes/nodes.ts";
import { SecretError } from "../../../store/secrets/keyring.ts";
import { createRedactor } from "../../input/secret-redactor.ts";
import type { Redactor } from "../../input/secret-redactor.ts";
import { storableReason } from "./driver-result.ts";

export interface Machine {
  readonly node: NodeRow;
  readonly composition: Composition;
  readonly redactor: Redactor;
  /** The power that a step or an abort set last through this machine; null if none was set. */
  readonly lastSet?: { power: Extract<PowerAction, "ON" | "OFF"> | null };
  /** Absent: calls are not observed. */
  readonly observer?: Observer;
  /** Circuit breakers of the controllers. */
  readonly circuits: Circuits;
  settingsOf(driver: AnyDriver): unknown;
}

/** Why the machine of a node cannot be used: a clause. */
export interface Unusable {
  readonly problem: string;
  /** Absent: UNSUPPORTED_BY_DRIVER. */
  readonly code?: "SECRET_UNREADABLE";
}

/** Resolves a node's drivers and validates its settings. */
export async function openMachine(
  registry: Registry,
  node: NodeRow,
  secrets: Secrets | SecretError,
  observer: Observer = noopObserver,
): Promise<Machine | Unusable> {
  if (secrets instanceof SecretError) return { problem: secrets.message, code: "SECRET_UNREADABLE" };
  const composed = registry.compose(node);
  if ("problem" in composed) return composed;
  const settings = new Map<string, unknown>();
  const redactor = createRedactor(Object.values(secrets).flatMap((fields) => Object.values(fields)));
  for (const driver of composed.composition.drivers) {
    const full = { ...node.settings[driver.name], ...secrets[driver.name] };
    const result = await validate(driver.settings, full);
    if (result.issues)
      return {
        problem: `its settings for driver "${driver.name}" do not fit that driver: ${storableReason(result.issues.map(({ message }) => message).join("; "), redactor)}.`,
      };
    settings.set(driver.name, result.value);
  }
  return {
    node,
    composition: composed.composition,
    redactor,
    lastSet: { power: null },
    observer,
    circuits: registry.circuits,
    settingsOf: (driver) => settings.get(driver.name),
  };
}

/** Reports a call to the machine to the observer. */
export function observeCall<T>(
  { node, observer = noopObserver }: Machine,
  driver: AnyDriver,
  name: string,
  work: () => Promise<T>,
): Promise<T> {
  return observer.call({ driver: driver.name, name, node: node.name }, work);
}
