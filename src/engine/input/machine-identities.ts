/** The identities of a machine: in its inventory, in the answer of a probe, and in the settings of its node. */
import type { AnyDriver } from "../../drivers/interfaces.ts";
import { controllerOf, systemOf } from "../../drivers/registry.ts";
import { controllerKey, isMeaningfulMac, serialKey, uuidKey } from "../../lifecycle/identity.ts";
import { macOf } from "../../runtime/mac-address.ts";
import type { Identity } from "../../store/nodes/node-identities.ts";
import type { Secrets } from "../../store/nodes/nodes.ts";
import type { JsonObject, SitePolicy, StoredJson } from "../../store/records.ts";
import { MACS_MAX, sortedMacs } from "./mac-addresses.ts";
import { createRedactor } from "./secret-redactor.ts";
import { isJsonObject } from "./variables.ts";

/** The kinds that an inspection finds. */
export const INSPECTED_KINDS = ["UUID", "SERIAL_NUMBER", "MAC"] as const;

/** The serial number and the UUID that a machine reports, if they identify it. */
export function reportedIdentities({ serial, uuid }: { readonly [name: string]: unknown }): Identity[] {
  const identity = (kind: Identity["kind"], text: unknown, keyOf: (text: string) => string | null): Identity[] => {
    const value = typeof text === "string" ? keyOf(text) : null;
    return typeof text === "string" && value !== null ? [{ kind, value, system: "", text: text.trim() }] : [];
  };
  return [...identity("SERIAL_NUMBER", serial, serialKey), ...identity("UUID", uuid, uuidKey)];
}

/** The MAC addresses of an inventory, or of the output of an inspect step. */
export function inventoryMacs(output: StoredJson): readonly string[] {
  return sortedMacs(interfacesOf(output).map(({ mac }) => mac)).slice(0, MACS_MAX);
}

/** The MACs of an inventory that identify its machine. */
export function inventoryMacIdentities(output: StoredJson): Identity[] {
  const meaningful = interfacesOf(output).filter(({ mac, name }) => isMeaningfulMac(macOf(mac) ?? "", name));
  return sortedMacs(meaningful.map(({ mac }) => mac)).map((mac) => ({
    kind: "MAC",
    value: mac,
    system: "",
    text: mac,
  }));
}

function interfacesOf(output: StoredJson): { readonly mac: string; readonly name: string }[] {
  const interfaces = isJsonObject(output) ? output["networkInterfaces"] : null;
  if (!Array.isArray(interfaces)) return [];
  return interfaces.flatMap((one: StoredJson) => {
    if (!isJsonObject(one) || typeof one["mac"] !== "string") return [];
    const name = [one["id"], one["name"], one["driver"]].filter((text) => typeof text === "string").join(" ");
    return [{ mac: one["mac"], name }];
  });
}

/** Values that identify no machine at this site. */
export function sharedValues({ sharedIdentities = [] }: SitePolicy): string[] {
  return sharedIdentities
    .flatMap((text) => [serialKey(text), uuidKey(text), macOf(text)])
    .filter((one) => one !== null);
}

const IDENTITY_LENGTH_MAX = 253;

/** A management controller of a node, and the driver that reaches it. */
export type ControllerIdentity = Identity & { readonly driver: string };

/** The controller that a driver reports for a node's settings; none if it reports none. Throws if the driver does. */
export function controllersOf(
  driver: AnyDriver,
  settings: Readonly<Record<string, JsonObject>>,
  secrets: Secrets,
): ControllerIdentity[] {
  const redactor = createRedactor(Object.values(secrets).flatMap((fields) => Object.values(fields)));
  const stored = (text: string) => redactor.text(text).slice(0, IDENTITY_LENGTH_MAX);
  const own = { ...settings[driver.name], ...secrets[driver.name] };
  const controller = controllerOf(driver, own);
  if (controller === null) return [];
  const text = stored(controller);
  return [
    {
      kind: "CONTROLLER",
      value: controllerKey(text),
      system: stored(systemOf(driver, own)),
      text,
      driver: driver.name,
    },
  ];
}
