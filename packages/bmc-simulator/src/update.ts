/** Gives resources the form of one kind of BMC: missing members, links, ETags. */
import { createHash } from "node:crypto";
import type { Bmc } from "./bmc.ts";
import { ROOT, isBody } from "./resource.ts";
import type { Body } from "./resource.ts";
import { routerOf } from "./router.ts";
import type { Traits } from "./traits.ts";

const LINK_MEMBERS: ReadonlySet<string> = new Set([
  "@odata.id",
  "target",
  "@Redfish.ActionInfo",
  "Uri",
  "MultipartHttpPushUri",
  "HttpPushUri",
  "ServerSentEventUri",
  "TaskMonitor",
  "Members@odata.nextLink",
]);

/** Members that change without a change of the resource. */
const VOLATILE: readonly string[] = ["DateTime"];

/** Without the members that this kind of BMC lacks, and with its ETag. */
export function shaped(traits: Traits, body: Body): Body {
  const type = /^#(\w+)\./.exec(String(body["@odata.type"]))?.[1];
  const omitted = traits.omits.filter((name) => name.startsWith(`${type}.`)).map((name) => name.split(".")[1]);
  const rest =
    omitted.length === 0 ? body : Object.fromEntries(Object.entries(body).filter(([name]) => !omitted.includes(name)));
  if (traits.etags === "none" || body["@odata.id"] === undefined) return rest;
  return { ...rest, "@odata.etag": etagOf(traits, rest) };
}

function etagOf({ etags }: Traits, body: Body): string {
  const text = JSON.stringify(body, (name, value: unknown) => (VOLATILE.includes(name) ? undefined : value));
  const hash = createHash("sha1").update(text).digest("hex");
  return etags === "weak" ? `W/"${hash.slice(0, 8).toUpperCase()}"` : `"${hash.slice(0, 32)}"`;
}

/** True if this kind of BMC spells links as the specification does, so that no body needs a copy. */
const isPlain = ({ lowerCase, trailingSlash, absolute }: Traits["links"]) =>
  lowerCase === "never" && trailingSlash === "never" && !absolute;

/** The same body with links as this BMC spells them. */
export function withLinks(bmc: Pick<Bmc, "traits" | "url">, body: Body): Body {
  if (isPlain(bmc.traits.links)) return body;
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [name, spelled(bmc, name, value)]));
}

function spelled(bmc: Pick<Bmc, "traits" | "url">, name: string, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((one) => spelled(bmc, "", one));
  if (isBody(value)) return withLinks(bmc, value);
  return typeof value === "string" && LINK_MEMBERS.has(name) ? spelledLink(bmc, value, name === "@odata.id") : value;
}

export function spelledLink({ traits, url }: Pick<Bmc, "traits" | "url">, target: string, isResource = true): string {
  if (!target.startsWith(ROOT)) return target;
  const { lowerCase, trailingSlash, absolute } = traits.links;
  const [path = "", ...rest] = target.slice(ROOT.length).split(/(?=[?#])/);
  const isBios = /^\/Systems\/[^/]+\/Bios/.test(path);
  const isSettings = isBios && path.endsWith(`/${traits.bios.settings}`);
  const isLower = lowerCase === "always" || (lowerCase === "bios" && isBios);
  const isSlashed =
    isResource &&
    rest.length === 0 &&
    (trailingSlash === "always" || (trailingSlash === "bios-settings" && isSettings));
  const cased = isLower ? routerOf(traits).lowered(path) : path;
  return `${absolute ? url : ""}${ROOT}${cased}${isSlashed && !cased.endsWith("/") ? "/" : ""}${rest.join("")}`;
}
