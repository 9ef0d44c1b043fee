/**
 * Where the module of a plugin is. A name is looked up among the bundled plugins, then in the plugin folder
 * (`OSTLER_PLUGIN_DIR`), then among the packages installed in the working folder, then among those of the service. A
 * path leads to a module, or to a folder with a package or an `index` module.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { isAbsolute, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const BUNDLED = fileURLToPath(new URL("../../plugins", import.meta.url));
const NAME = /^[a-z][a-z0-9_-]*$/;

/** The URL of a plugin's module. Throws if there is none. `folder`: the plugin folder, if one is configured. */
export function pluginModule(word: string, folder: string | null = null): string {
  if (isAbsolute(word) || word.startsWith(".")) return pathToFileURL(entryOf(resolve(word))).href;
  if (NAME.test(word)) {
    for (const place of [BUNDLED, ...(folder === null ? [] : [resolve(folder)])]) {
      const found = candidates(join(place, word)).find(existsSync);
      if (found !== undefined) return pathToFileURL(entryOf(found)).href;
    }
  }
  return installed(word) ?? import.meta.resolve(word);
}

function candidates(path: string): readonly string[] {
  return [`${path}.ts`, `${path}.js`, path];
}

/** A module, or the module that a folder is entered by: its package's `main`, or its index. */
function entryOf(path: string): string {
  if (!existsSync(path) || !statSync(path).isDirectory()) return path;
  const manifest = join(path, "package.json");
  const { main } = existsSync(manifest)
    ? (JSON.parse(readFileSync(manifest, "utf8")) as { readonly main?: unknown })
    : { main: undefined };
  const entries = [
    ...(typeof main === "string" ? [join(path, main)] : []),
    join(path, "index.ts"),
    join(path, "index.js"),
  ];
  const entry = entries.find(existsSync);
  if (entry !== undefined) return entry;
  throw new Error(`its folder ${path} has no module: none of ${entries.join(", ")} exists; build it first`);
}

/** The module of a package that is installed in the working folder. */
function installed(word: string): string | undefined {
  try {
    return pathToFileURL(createRequire(join(process.cwd(), "package.json")).resolve(word)).href;
  } catch {
    return undefined;
  }
}
