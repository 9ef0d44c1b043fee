/** BIOS attributes, with their types and allowed values from the machine's attribute registry (DSP0268, Bios). */
import type { BiosAttribute, BiosValue } from "../../src/drivers/driver.ts";
import { unsupported } from "./error.ts";
import { at, boolean, items, link, links, number, text, texts } from "./resource.ts";
import type { Resource } from "./resource.ts";
import type { RedfishService } from "./service.ts";
import type { RedfishSettings } from "./settings.ts";
import { findSystem, lastPart } from "./system.ts";

export interface Bios {
  readonly resource: Resource;
  /** Where changes are sent: the settings for the next start, or the resource itself. */
  readonly settingsPath: string;
  /** The settings for the next start, if the machine has and reports them. */
  readonly pending: Resource | undefined;
  /** Entries of the attribute registry by the name of the attribute; empty if the machine has no registry. */
  readonly registry: ReadonlyMap<string, Resource>;
  /** Attributes that other attributes make read-only or writable, so the registry alone does not say which they are. */
  readonly dependent: ReadonlySet<string>;
}

export async function findBios(service: RedfishService, settings: RedfishSettings): Promise<Bios> {
  const system = await findSystem(service, settings);
  const path = link(system.resource, "Bios");
  const resource = await service.find(path, "BIOS settings");
  if (path === undefined || !resource) throw unsupported(service.bmc, "reports no BIOS settings.");
  const pendingPath = link(at(resource, "@Redfish.Settings"), "SettingsObject");
  const pending = await service.find(pendingPath, "pending BIOS settings");
  const entries = await registryEntries(service, text(resource, "AttributeRegistry"));
  const named = items(entries, "Attributes").flatMap((entry) => {
    const name = text(entry, "AttributeName");
    return name === undefined ? [] : [[name, entry] as const];
  });
  return {
    resource,
    settingsPath: pendingPath ?? path,
    pending,
    registry: new Map(named),
    dependent: new Set(items(entries, "Dependencies").flatMap(writeDependent)),
  };
}

/** The attribute that a dependency makes read-only or writable (DSP0268, AttributeRegistry). */
function writeDependent(entry: Resource): string[] {
  const dependency = at(entry, "Dependency");
  const attribute = text(dependency, "MapToAttribute") ?? text(entry, "DependencyFor");
  const property = text(dependency, "MapToProperty");
  return attribute !== undefined && (property === "ReadOnly" || property === "GrayOut") ? [attribute] : [];
}

export async function readBios(service: RedfishService, settings: RedfishSettings): Promise<BiosAttribute[]> {
  return biosAttributes(await findBios(service, settings));
}

export function biosAttributes({ resource, pending, registry }: Bios): BiosAttribute[] {
  const current = at(resource, "Attributes");
  const next = at(pending, "Attributes");
  return Object.entries(current).map(([name, value]) => {
    const attribute = attributeOf(name, valueOf(value), registry.get(name));
    const later = ofType(attribute.type, valueOf(next[name]));
    const isSame = later === undefined || later === attribute.value || attribute.type === "PASSWORD";
    return isSame ? attribute : { ...attribute, pending: later };
  });
}

/** `RegistryEntries` of the attribute registry; empty if the machine has none. */
async function registryEntries(service: RedfishService, name: string | undefined): Promise<Resource> {
  if (name === undefined) return {};
  const collection = await service.find(link(await service.root(), "Registries"), "registries");
  const paths = links(collection ?? {}, "Members");
  const named = paths.find((path) => stem(lastPart(path)) === stem(name));
  const files = await service.all(named === undefined ? paths : [named], "registries");
  const file = files.find((one) =>
    [text(one, "Id"), text(one, "Registry")].some((id) => stem(id ?? "") === stem(name)),
  );
  const locations = items(file ?? {}, "Location");
  const location = locations.find((one) => /^en\b/i.test(text(one, "Language") ?? "en")) ?? locations[0];
  const registry = await service.find(text(location ?? {}, "Uri"), "BIOS attribute registry");
  return at(registry, "RegistryEntries");
}

/** The name of a registry without its version, of which services leave out parts. */
function stem(name: string): string {
  return (name.split(".")[0] ?? "").toLowerCase();
}

const TYPES: Readonly<Record<string, BiosAttribute["type"]>> = {
  String: "STRING",
  Integer: "INTEGER",
  Boolean: "BOOLEAN",
  Enumeration: "ENUMERATION",
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
    value: type === "PASSWORD" ? null : (ofType(type, value) ?? null),
    ...(type === "ENUMERATION" && allowed.length > 0 && { allowedValues: allowed }),
    ...(minimum !== undefined && { minimum }),
    ...(maximum !== undefined && { maximum }),
    readOnly: boolean(entry, "ReadOnly") === true || boolean(entry, "GrayOut") === true,
  };
}

/** Some BMCs give numbers and truth values as texts. */
function ofType(type: BiosAttribute["type"], value: BiosValue | undefined): BiosValue | undefined {
  if (type === "INTEGER") return number({ value }, "value") ?? value;
  const isTruth = type === "BOOLEAN" && typeof value === "string" && /^(true|false)$/i.test(value);
  return isTruth ? value.toLowerCase() === "true" : value;
}

function typeOf(value: BiosValue | undefined): BiosAttribute["type"] {
  if (typeof value === "number") return "INTEGER";
  return typeof value === "boolean" ? "BOOLEAN" : "STRING";
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
