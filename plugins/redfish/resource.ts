/**
 * Reads members of Redfish resources. What a machine reports is not trusted: a member of another type than expected
 * counts as absent.
 */
import { isFiller } from "../bmc-settings.ts";

export type Resource = Readonly<Record<string, unknown>>;

export function isResource(value: unknown): value is Resource {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The object at a path of members; empty if there is none. */
export function at(resource: unknown, ...path: readonly string[]): Resource {
  const found = path.reduce<unknown>((value, name) => (isResource(value) ? value[name] : undefined), resource);
  return isResource(found) ? found : {};
}

/** A text without surrounding blanks; undefined if it is absent or empty. Some BMCs give an ID as a number. */
export function text(resource: Resource, name: string): string | undefined {
  const value = resource[name];
  const trimmed = typeof value === "string" ? value.trim() : typeof value === "number" ? String(value) : "";
  return trimmed === "" ? undefined : trimmed;
}

/** The same, without a text that manufacturers leave where the machine has no value of its own. */
export function ownText(resource: Resource, name: string): string | undefined {
  const found = text(resource, name);
  return found === undefined || isFiller(found) ? undefined : found;
}

export function number(resource: Resource, name: string): number | undefined {
  const given = resource[name];
  // Some BMCs give a number as a text, and an empty one where they have none.
  const value = typeof given === "string" && /^\s*-?\d+(\.\d+)?\s*$/.test(given) ? Number(given) : given;
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

export function boolean(resource: Resource, name: string): boolean | undefined {
  const value = resource[name];
  return typeof value === "boolean" ? value : undefined;
}

/** The objects of a list. */
export function items(resource: Resource, name: string): Resource[] {
  const value = resource[name];
  return Array.isArray(value) ? value.filter(isResource) : [];
}

/** The texts of a list; undefined if the list is absent. */
export function texts(resource: Resource, name: string): string[] | undefined {
  const value = resource[name];
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : undefined;
}

/** Whether a resource has a value beside its name: some BMCs answer with nothing else. */
export function hasContent(resource: Resource): boolean {
  const isList = Array.isArray(resource["Members"]);
  return isList || Object.entries(resource).some(([name, value]) => !NAMES.test(name) && isValue(value));
}

const NAMES = /@|^(Id|Name|error)$/;

/** Whether an expanded member has values of its own, and not only those that every resource has, or zeros. */
export function isExpanded(member: Resource): boolean {
  if (text(at(member, "Status"), "State") === "Absent") return true;
  const own = Object.entries(member).filter(([name, value]) => !COMMON.test(name) && value !== 0 && value !== false);
  return hasContent(Object.fromEntries(own));
}

const COMMON = /^(Description|Status|Links|Actions|Oem)$/;

function isValue(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return value !== null && value !== "";
  return Object.values(value).some(isValue);
}

/** The path that a link leads to. */
export function link(resource: Resource, name: string): string | undefined {
  return text(at(resource, name), "@odata.id");
}

/** The paths that a list of links leads to. */
export function links(resource: Resource, name: string): string[] {
  return items(resource, name).flatMap((item) => text(item, "@odata.id") ?? []);
}

/** A copy without undefined members; undefined if nothing is left. */
export function present<Given extends Readonly<Record<string, unknown>>>(given: Given): Present<Given> | undefined {
  const members = Object.entries(given).filter(([, value]) => value !== undefined);
  return members.length === 0 ? undefined : (Object.fromEntries(members) as Present<Given>);
}

export type Present<Given> = { [Key in keyof Given]?: Exclude<Given[Key], undefined> };
