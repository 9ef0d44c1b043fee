/** BIOS attributes, with their types and allowed values from the machine's attribute registry (DSP0268, Bios). */
import type { BiosAttribute, BiosValue } from "../../src/drivers/driver.ts";
import { unsupported } from "./error.ts";
import { at, boolean, items, link, number, text, texts } from "./resource.ts";
import type { Resource } from "./resource.ts";
import type { RedfishService } from "./service.ts";
import type { RedfishSettings } from "./settings.ts";
import { findSystem } from "./system.ts";

export interface Bios {
  readonly resource: Resource;
  /** Where changes are sent: the settings for the next start, or the resource itself. */
  readonly settingsPath: string;
  /** The settings for the next start; undefined if changes take effect at once. */
  readonly pending: Resource | undefined;
}

export async function findBios(service: RedfishService, settings: RedfishSettings): Promise<Bios> {
  const system = await findSystem(service, settings);
  const path = link(system.resource, "Bios");
  const resource = await service.find(path, "BIOS settings");
  if (path === undefined || !resource) throw unsupported(service.bmc, "reports no BIOS settings.");
  const pendingPath = link(at(resource, "@Redfish.Settings"), "SettingsObject");
  const pending = await service.find(pendingPath, "pending BIOS settings");
  return { resource, settingsPath: pendingPath ?? path, pending };
}

export async function readBios(service: RedfishService, settings: RedfishSettings): Promise<BiosAttribute[]> {
  return biosAttributes(service, await findBios(service, settings));
}

export async function biosAttributes(service: RedfishService, { resource, pending }: Bios): Promise<BiosAttribute[]> {
  const current = at(resource, "Attributes");
  const next = at(pending, "Attributes");
  const registry = await attributeRegistry(service, text(resource, "AttributeRegistry"));
  return Object.entries(current).map(([name, value]) => {
    const later = valueOf(next[name]);
    const attribute = attributeOf(name, valueOf(value), registry.get(name));
    return later === undefined || later === attribute.value ? attribute : { ...attribute, pending: later };
  });
}

/** The entries of the registry by the name of their attribute; empty if the machine has no registry. */
async function attributeRegistry(
  service: RedfishService,
  name: string | undefined,
): Promise<ReadonlyMap<string, Resource>> {
  const collection = link(await service.root(), "Registries");
  if (name === undefined || collection === undefined) return new Map();
  const files = await service.members(collection, "message registries");
  const file = files.find((one) => text(one, "Id") === name || text(one, "Registry") === name);
  const locations = file ? items(file, "Location") : [];
  const location = locations.find((one) => /^en\b/i.test(text(one, "Language") ?? "en")) ?? locations[0];
  const registry = await service.find(location && text(location, "Uri"), "BIOS attribute registry");
  const entries = items(at(registry, "RegistryEntries"), "Attributes");
  return new Map(
    entries.flatMap((entry) =>
      text(entry, "AttributeName") === undefined ? [] : [[text(entry, "AttributeName") ?? "", entry]],
    ),
  );
}

const TYPES: Readonly<Record<string, BiosAttribute["type"]>> = {
  String: "TEXT",
  Integer: "WHOLE",
  Boolean: "TRUTH",
  Enumeration: "CHOICE",
  Password: "PASSWORD",
};

function attributeOf(name: string, value: BiosValue | undefined, entry: Resource = {}): BiosAttribute {
  const type = TYPES[text(entry, "Type") ?? ""] ?? typeOf(value);
  const allowed = items(entry, "Value").flatMap((one) => text(one, "ValueName") ?? []);
  const minimum = number(entry, "LowerBound");
  const maximum = number(entry, "UpperBound");
  return {
    name,
    title: text(entry, "DisplayName") ?? null,
    type,
    value: type === "PASSWORD" ? null : (value ?? null),
    ...(type === "CHOICE" && allowed.length > 0 && { allowedValues: allowed }),
    ...(minimum !== undefined && { minimum }),
    ...(maximum !== undefined && { maximum }),
    readOnly: boolean(entry, "ReadOnly") ?? boolean(entry, "GrayOut") ?? false,
  };
}

function typeOf(value: BiosValue | undefined): BiosAttribute["type"] {
  if (typeof value === "number") return "WHOLE";
  return typeof value === "boolean" ? "TRUTH" : "TEXT";
}

function valueOf(value: unknown): BiosValue | undefined {
  const isValue =
    value === null || typeof value === "string" || typeof value === "number" || typeof value === "boolean";
  return isValue ? value : undefined;
}

/** When changes can take effect, as the machine says; undefined if it does not (DSP0266, 9.9). */
export function applyTimes({ pending, resource }: Bios): readonly string[] | undefined {
  const support = at(pending ?? resource, "@Redfish.SettingsApplyTimeSupport");
  const inline = texts(at(resource, "@Redfish.Settings"), "SupportedApplyTimes");
  return texts(support, "SupportedValues") ?? inline;
}
