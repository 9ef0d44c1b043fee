/**
 * The permissions of a worker, by Node's permission model. By default it can use the network, read the service's code,
 * its plugin and packages, and start no program. So it reads neither the service's data folder nor `/proc`.
 */
import { existsSync, readdirSync, realpathSync } from "node:fs";
import { dirname, join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { DriverPermission } from "../driver.ts";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
/** Parts of the service's folder that workers use; the data folder may be in it. */
const CODE = ["src", "plugins", "node_modules", "package.json"];

interface WorkerFolders {
  /** URL of the plugin's module. */
  readonly module: string;
  /** Folder of compiled code, which the worker also writes to; null if there is none. */
  readonly compiled: string | null;
  /** A folder that no worker may read, such as that of the database; null if there is none. */
  readonly hidden: string | null;
}

/** Flags of Node for a worker whose driver needs these permissions. */
export function permissionFlags(permissions: readonly DriverPermission[], folders: WorkerFolders): readonly string[] {
  // A program has all rights of the user, so limits of the process that starts it would protect nothing.
  if (permissions.includes("PROGRAMS") || !process.allowedNodeEnvironmentFlags.has("--permission")) return [];
  const network = process.allowedNodeEnvironmentFlags.has("--allow-net") ? ["--allow-net"] : [];
  const files = permissions.includes("FILES")
    ? ["--allow-fs-read=*", "--allow-fs-write=*"]
    : [
        ...readable(folders).map((path) => `--allow-fs-read=${path}`),
        ...(folders.compiled === null ? [] : [`--allow-fs-write=${folders.compiled}`]),
      ];
  return ["--permission", ...network, ...files];
}

function readable({ module, compiled, hidden }: WorkerFolders): readonly string[] {
  const own = module.startsWith("file:") ? dirname(fileURLToPath(module)) : ROOT;
  const paths = [
    ...CODE.map((name) => join(ROOT, name)),
    ...without(own, hidden),
    ...above(own).flatMap((folder) => [join(folder, "node_modules"), join(folder, "package.json")]),
    "/dev/null",
    ...(compiled === null ? [] : [compiled]),
  ].filter((path) => existsSync(path));
  return [...new Set(paths.flatMap((path) => [path, realpathSync(path)]))];
}

/** A folder, or its entries except for the one with the hidden folder. */
function without(folder: string, hidden: string | null): readonly string[] {
  const inside = (path: string) => hidden !== null && `${hidden}${sep}`.startsWith(`${path}${sep}`);
  if (!inside(folder)) return [folder];
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return path === hidden ? [] : without(path, hidden);
  });
}

function above(folder: string): readonly string[] {
  const parent = dirname(folder);
  return parent === folder ? [] : [parent, ...above(parent)];
}
