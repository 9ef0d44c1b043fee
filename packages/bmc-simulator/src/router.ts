/**
 * Finds the route of a path. One table for each kind of BMC, made when it is first needed and shared by all of them.
 */
import { DEVICE_ROUTES } from "./resources/devices.ts";
import { ENCLOSURE_ROUTES } from "./resources/enclosure.ts";
import { EVENT_ROUTES } from "./resources/events.ts";
import { SERVICE_ROUTES } from "./resources/service.ts";
import { SYSTEM_ROUTES } from "./resources/system.ts";
import { TASK_ROUTES } from "./resources/tasks.ts";
import { UPDATE_ROUTES } from "./resources/update.ts";
import type { Route } from "./resource.ts";
import type { Traits } from "./traits.ts";

const ROUTES: readonly Route[] = [
  ...SERVICE_ROUTES,
  ...SYSTEM_ROUTES,
  ...DEVICE_ROUTES,
  ...ENCLOSURE_ROUTES,
  ...UPDATE_ROUTES,
  ...TASK_ROUTES,
  ...EVENT_ROUTES,
];

export interface Match {
  readonly route: Route;
  /** As the specification spells it, without a trailing slash. */
  readonly path: string;
  readonly params: readonly string[];
}

export interface Router {
  match(path: string): Match | null;
  /** The path in lower case, but for the IDs of members. */
  lowered(path: string): string;
}

interface Entry {
  readonly route: Route;
  /** `*` is open. */
  readonly parts: readonly string[];
}

const routers = new WeakMap<Traits, Router>();

export function routerOf(traits: Traits): Router {
  const known = routers.get(traits);
  if (known) return known;
  const made = createRouter(traits);
  routers.set(traits, made);
  return made;
}

function createRouter(traits: Traits): Router {
  const ignoresCase = traits.links.lowerCase !== "never";
  const fold = (text: string) => (ignoresCase ? text.toLowerCase() : text);
  const entries = ROUTES.filter(({ offered }) => offered?.(traits) ?? true).map((route): Entry => ({
    route,
    parts: withIds(route.path, traits).split("/"),
  }));
  const closed = new Map(
    entries.filter(({ parts }) => !parts.includes("*")).map((entry) => [fold(entry.parts.join("/")), entry]),
  );
  const open = entries.filter(({ parts }) => parts.includes("*"));
  const find = (path: string): { readonly entry: Entry; readonly parts: readonly string[] } | null => {
    const parts = path.split("/");
    const fixed = closed.get(fold(path));
    if (fixed) return { entry: fixed, parts };
    const entry = open.find(
      (one) =>
        one.parts.length === parts.length &&
        one.parts.every((part, index) => part === "*" || fold(part) === fold(parts[index] ?? "")),
    );
    return entry === undefined ? null : { entry, parts };
  };
  return {
    match(path) {
      const found = find(path.replace(/\/$/, ""));
      if (found === null) return null;
      const { entry, parts } = found;
      return {
        route: entry.route,
        path: entry.parts.map((part, index) => (part === "*" ? parts[index] : part)).join("/"),
        params: parts.filter((_, index) => entry.parts[index] === "*"),
      };
    },
    lowered(path) {
      const found = find(path);
      if (found === null) return path;
      return found.parts.map((part, index) => (found.entry.parts[index] === "*" ? part : part.toLowerCase())).join("/");
    },
  };
}

function withIds(path: string, { ids, bios }: Traits): string {
  return path
    .replace("{system}", ids.system)
    .replace("{manager}", ids.manager)
    .replace("{chassis}", ids.chassis)
    .replace("{bios-settings}", bios.settings);
}
