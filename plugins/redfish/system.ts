/** The computer system of a node, and the manager and chassis that belong to it. */
import { RedfishError } from "./error.ts";
import { at, hasContent, link, links, ownText, text, texts } from "./resource.ts";
import type { Resource } from "./resource.ts";
import type { RedfishService } from "./service.ts";
import type { RedfishSettings } from "./settings.ts";

export interface Located {
  readonly path: string;
  readonly resource: Resource;
}

/** The system that the settings name, or the only one that can start an operating system. */
export async function findSystem(service: RedfishService, settings: Pick<RedfishSettings, "system">): Promise<Located> {
  const known = await recallSystem(service, settings);
  const path = text(known, "path");
  const resource = path && (await readSystem(service, path).catch(onlyIfMissing));
  if (path !== undefined && resource && isExchanged(known, resource)) throw exchanged(service, resource);
  if (path !== undefined && resource) return { path, resource };
  const systems = await findSystems(service, settings);
  const identity = text(known, "identity");
  // A replaced BMC may have the machine at another path. No other machine may take its place.
  const isKnown = (one: Located) => identity !== undefined && identityOf(one.resource) === identity;
  const [found, ...others] = path === undefined || settings.system !== undefined ? systems : systems.filter(isKnown);
  if (!found || others.length > 0) {
    const what = found ? `has ${others.length + 1} systems` : `no longer has the node's system ${lastPart(path ?? "")}`;
    throw choice(
      service,
      what,
      systems.map((one) => one.path),
    );
  }
  // A BMC that starts may list a board of GPUs before the system.
  if (settings.system !== undefined || (canBoot(found.resource) && !BOARD.test(lastPart(found.path))))
    await keep(service, settings, found);
  return found;
}

async function recallSystem(service: RedfishService, { system = "" }: Pick<RedfishSettings, "system">) {
  return at({ known: await service.recall(`system ${system}`) }, "known");
}

async function keep(
  service: RedfishService,
  { system = "" }: Pick<RedfishSettings, "system">,
  { path, resource }: Located,
): Promise<void> {
  const serial = ownText(resource, "SerialNumber") ?? null;
  await service.remember(`system ${system}`, { path, identity: identityOf(resource) ?? null, serial });
}

/** For an inspection: the machine that answers at the path of the node's is the node's from now on. */
export async function acceptSystem(service: RedfishService, settings: Pick<RedfishSettings, "system">): Promise<void> {
  const known = await recallSystem(service, settings);
  const path = text(known, "path");
  const resource = path && (await readSystem(service, path).catch(onlyIfMissing));
  if (path !== undefined && resource && isExchanged(known, resource)) await keep(service, settings, { path, resource });
}

/**
 * Whether another machine answers than before, as at an address that has moved, or in the slot of a blade. BMCs report
 * other UUIDs while they start, and a board can be exchanged, so the serial number differs too.
 */
function isExchanged(known: Resource, system: Resource): boolean {
  const [identity, serial] = [text(known, "identity"), text(known, "serial")];
  const [uuid, own] = [ownText(system, "UUID")?.toLowerCase(), ownText(system, "SerialNumber")];
  const isKnown = identity !== undefined && serial !== undefined && uuid !== undefined && own !== undefined;
  return isKnown && identity !== serial && identity !== uuid && serial !== own;
}

function exchanged(service: RedfishService, system: Resource): RedfishError {
  const serial = JSON.stringify(ownText(system, "SerialNumber")?.slice(0, 100));
  const message = `BMC ${service.bmc} has another machine than before, with the serial number ${serial}; correct the address, or inspect the node if its machine was exchanged.`;
  return new RedfishError({ kind: "REFUSED", message });
}

/** The serial number alone may be that of a chassis with several systems. */
function identityOf(system: Resource): string | undefined {
  return ownText(system, "UUID")?.toLowerCase() ?? ownText(system, "SerialNumber");
}

/** The system that the settings name; else each that can start an operating system, which a board of GPUs cannot. */
export async function findSystems(
  service: RedfishService,
  { system }: Pick<RedfishSettings, "system">,
): Promise<[Located, ...Located[]]> {
  const members = links(await service.get(await collectionOf(service, "Systems"), "list of systems"), "Members");
  const paths = system === undefined ? serversOf(members) : members.filter((path) => lastPart(path) === system);
  const found: Located[] = [];
  for (const path of paths) {
    // One that cannot be read may be the right one, also if it is missing: a BMC that starts lists it first.
    const resource = await readSystem(service, path);
    if (paths.length === 1 || canBoot(resource)) found.push({ path, resource });
  }
  const [first, ...others] = found;
  if (first) return [first, ...others];
  const what = paths.length > 0 ? "has no system that can be started" : `has no system${system ? ` ${system}` : ""}`;
  throw choice(service, what, members);
}

/** A system without a member counts as one that does not offer it; one without any value proves nothing. */
async function readSystem(service: RedfishService, path: string): Promise<Resource> {
  const resource = await service.get(path, "system");
  if (hasContent(resource)) return resource;
  const message = `BMC ${service.bmc} reports no value of its system ${lastPart(path)}; try again, or restart the BMC.`;
  throw new RedfishError({ kind: "OTHER", retryable: true, away: true, message });
}

/** IDs of boards within a server that BMCs list as systems, and that fail or look like servers until they run. */
const BOARD = /^hgx|base_?board|^ubb|^bluefield|^dpu/i;

/** The systems that are servers by their IDs; all if none is. */
function serversOf(paths: readonly string[]): readonly string[] {
  const servers = paths.filter((path) => !BOARD.test(lastPart(path)));
  return servers.length > 0 ? servers : paths;
}

/** Missing boot sources prove nothing: a BMC that starts may not know them yet. */
function canBoot(system: Resource): boolean {
  if (text(system, "SystemType") === "DPU") return false;
  const boot = at(system, "Boot");
  const targets = texts(boot, "BootSourceOverrideTarget@Redfish.AllowableValues") ?? [];
  const hasSources = targets.length > 0 ? targets.some((target) => target !== "None") : Object.keys(boot).length > 0;
  return hasSources || link(system, "Bios") !== undefined;
}

/** The BMC may have been replaced since its path was remembered. */
function onlyIfMissing(error: unknown): undefined {
  if (!(error instanceof RedfishError) || error.status !== 404) throw error;
}

/** The path of a collection that the service root links to. */
export async function collectionOf(service: RedfishService, name: "Systems" | "Chassis" | "Managers"): Promise<string> {
  return link(await service.root(), name) ?? `/redfish/v1/${name}`;
}

/** The managers of a system: those that it names, or else those of the BMC that name no other system. */
export async function managersOf(service: RedfishService, system: Located): Promise<Located[]> {
  const named = links(at(system.resource, "Links"), "ManagedBy");
  if (named.length > 0) return locate(service, named, "manager");
  const all = await locate(service, await listed(service, "Managers"), "manager");
  return all.filter((one) => mayBelongTo(system, links(at(one.resource, "Links"), "ManagerForServers")));
}

/** The chassis of a system: those that it names, or else those of the BMC that name no other system. */
export async function chassisOf(service: RedfishService, system: Located): Promise<Located[]> {
  const named = links(at(system.resource, "Links"), "Chassis");
  if (named.length > 0) return locate(service, named, "chassis");
  const all = await locate(service, await listed(service, "Chassis"), "chassis");
  return all.filter((one) => mayBelongTo(system, links(at(one.resource, "Links"), "ComputerSystems")));
}

/** Whether the systems that a resource names, if any, are not only others. */
function mayBelongTo({ path }: Located, systems: readonly string[]): boolean {
  const bare = (one: string) => one.replace(/\/+$/, "").toLowerCase();
  const isOwn = (one: string) => bare(one).endsWith(bare(path)) || bare(path).endsWith(bare(one));
  return systems.length === 0 || systems.some(isOwn);
}

/** Chassis of a machine that are followed. */
const CHASSIS_MAX = 200;

/**
 * Every chassis with parts of a system: all of the BMC if it has one server, since backplanes often name none. Of a BMC
 * with several, those that the system names and what they contain, without those that name another system: their
 * drives may be another node's.
 */
export async function machineChassis(service: RedfishService, { path, resource }: Located): Promise<Located[]> {
  const systems = await service.find(await collectionOf(service, "Systems"), "list of systems");
  if (systems && serversOf(links(systems, "Members")).length === 1)
    return locate(service, await listed(service, "Chassis"), "chassis");
  const isOwn = (one: Located) => links(at(one.resource, "Links"), "ComputerSystems").every((other) => other === path);
  const found: Located[] = [];
  const seen = new Set<string>();
  for (let next = links(at(resource, "Links"), "Chassis"); next.length > 0 && seen.size < CHASSIS_MAX;) {
    for (const each of next) seen.add(each);
    const own = (await locate(service, next, "chassis")).filter(isOwn);
    found.push(...own);
    const contained = own.flatMap((one) => links(at(one.resource, "Links"), "Contains"));
    next = [...new Set(contained)].filter((each) => !seen.has(each));
  }
  return found;
}

async function listed(service: RedfishService, name: "Chassis" | "Managers"): Promise<string[]> {
  const collection = await service.find(await collectionOf(service, name), `list of ${name.toLowerCase()}`);
  return collection ? links(collection, "Members") : [];
}

async function locate(service: RedfishService, paths: readonly string[], what: string): Promise<Located[]> {
  const found = await Promise.all(paths.map(async (path) => ({ path, resource: await service.find(path, what) })));
  return found.flatMap(({ path, resource }) => (resource ? [{ path, resource }] : []));
}

/** The last part of a path: the `Id` of a resource in most services. */
export function lastPart(path: string): string {
  return decodeURIComponent(path.replace(/\/+$/, "").split("/").at(-1) ?? "");
}

function choice(service: RedfishService, what: string, paths: readonly string[]): RedfishError {
  const known = paths.map(lastPart).slice(0, 10).join(", ");
  const message = `BMC ${service.bmc} ${what}; set "system" in the node's settings${known === "" ? "" : ` to one of: ${known}`}.`;
  // A BMC that starts may list none yet.
  return new RedfishError({ kind: "OTHER", message, retryable: paths.length === 0 });
}

/** The target of an action, and its member of the resource. */
export function action(
  resource: Resource,
  name: string,
): { readonly target: string; readonly info: Resource } | undefined {
  const info = at(resource, "Actions", `#${name}`);
  const target = text(info, "target");
  return target === undefined ? undefined : { target, info };
}

/**
 * The values that an action accepts for a parameter: annotated in the resource, or in its ActionInfo (DSP0266, 7.13).
 * Undefined if the machine does not report them.
 */
export async function allowedValues(
  service: RedfishService,
  info: Resource,
  parameter: string,
): Promise<readonly string[] | undefined> {
  const inline = textsOf(info[`${parameter}@Redfish.AllowableValues`]);
  if (inline) return inline;
  const reference = info["@Redfish.ActionInfo"];
  const path = typeof reference === "string" ? reference : link(info, "@Redfish.ActionInfo");
  const described = await service.find(path, "description of an action");
  const parameters = Array.isArray(described?.["Parameters"]) ? described["Parameters"] : [];
  const found: unknown = parameters.find((one: unknown) => at({ one }, "one")["Name"] === parameter);
  return textsOf(at({ found }, "found")["AllowableValues"]);
}

function textsOf(value: unknown): readonly string[] | undefined {
  return Array.isArray(value) && value.length > 0 ? value.filter((one) => typeof one === "string") : undefined;
}
