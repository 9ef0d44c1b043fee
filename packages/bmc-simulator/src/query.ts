/** `$expand`, `$skip` and `$top`, and the pages of collections. */
import { ROOT, isBody, refuse } from "./resource.ts";
import type { Answer, Body } from "./resource.ts";
import type { Traits } from "./traits.ts";

/** Reads a resource by its path without the prefix, null if there is none. */
export type Reader = (path: string) => Body | null;

interface Expansion {
  /** `.`: what is not in Links. `~`: what is in Links. `*`: both. */
  readonly scope: "." | "~" | "*";
  readonly levels: number;
}

export type QueryResult = { readonly body: Body; readonly refused: null } | { readonly refused: Answer };

/** The body with the query applied, or a refusal. */
export function queried(traits: Traits, body: Body, query: URLSearchParams, read: Reader): QueryResult {
  const unsupported = [...query.keys()].find((name) => !["$expand", "$skip", "$top"].includes(name));
  if (unsupported !== undefined && traits.unsupportedQuery === "refused")
    return { refused: refuse(501, "QueryNotSupported", `Query option ${unsupported} is not supported.`) };
  const paged = pageOf(traits, body, query);
  const text = query.get("$expand");
  if (text === null) return { body: paged, refused: null };
  const expansion = expansionOf(traits, text);
  if (expansion !== null) return { body: expand(paged, expansion, read), refused: null };
  if (traits.unsupportedQuery === "ignored") return { body: paged, refused: null };
  return { refused: refuse(400, "QueryParameterOutOfRange", `$expand=${text} is not supported.`, "$expand") };
}

function expansionOf({ expand: offered }: Traits, text: string): Expansion | null {
  const [, sign = "", levelsText] = /^([.~*])(?:\(\$levels=(\d+)\))?$/.exec(text) ?? [];
  const scope = ([".", "~", "*"] as const).find((one) => one === sign);
  const levels = Number(levelsText ?? 1);
  if (offered === null || scope === undefined || levels < 1 || levels > offered.levelsMax) return null;
  const allowed = { ".": offered.noLinks, "~": offered.links, "*": offered.all }[scope];
  return allowed ? { scope, levels } : null;
}

function expand(body: Body, { scope, levels }: Expansion, read: Reader): Body {
  if (levels === 0) return body;
  const below = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(below);
    if (!isBody(value)) return value;
    const target = linkTarget(value);
    if (target === null) return value;
    const found = read(target);
    return found === null ? value : expand(found, { scope, levels: levels - 1 }, read);
  };
  return Object.fromEntries(
    Object.entries(body).map(([name, value]) => {
      if (name === "Links") return [name, scope !== "." && isBody(value) ? expandLinks(value, below) : value];
      return [name, scope === "~" ? value : below(value)];
    }),
  );
}

const expandLinks = (body: Body, below: (value: unknown) => unknown) =>
  Object.fromEntries(Object.entries(body).map(([name, value]) => [name, below(value)]));

/** Path of a link, null if the object is more than a link. */
function linkTarget(value: Body): string | null {
  const target = value["@odata.id"];
  if (typeof target !== "string" || Object.keys(value).length > 1 || target.includes("#")) return null;
  return target.startsWith(ROOT) ? target.slice(ROOT.length) : null;
}

function pageOf({ pageSize }: Traits, body: Body, query: URLSearchParams): Body {
  const members = body["Members"];
  if (!Array.isArray(members)) return body;
  const skip = Math.max(0, Number(query.get("$skip") ?? 0) || 0);
  const top = Math.min(pageSize ?? Infinity, Number(query.get("$top") ?? Infinity) || Infinity);
  const page = members.slice(skip, skip + top);
  if (page.length === members.length) return body;
  const next = skip + page.length;
  return {
    ...body,
    Members: page,
    ...(next < members.length ? { "Members@odata.nextLink": `${String(body["@odata.id"])}?$skip=${next}` } : {}),
  };
}
