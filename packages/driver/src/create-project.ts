/** Creates the project of a new driver from the template of this package. */
import { cpSync, existsSync, readFileSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const NAME = /^[a-z][a-z0-9]*(_[a-z0-9]+)*$/;

export function createProject(folder: string): void {
  const target = resolve(folder);
  const name = basename(target).replaceAll("-", "_");
  if (!NAME.test(name))
    throw new Error(
      `"${basename(target)}" is not a name for a driver: use lower-case letters and digits, in words joined by _.`,
    );
  if (existsSync(target)) throw new Error(`${folder} exists already.`);
  const { root, version } = thisPackage();
  cpSync(join(root, "template"), target, { recursive: true });
  // npm leaves a file of this name out of packages.
  renameSync(join(target, "gitignore"), join(target, ".gitignore"));
  for (const file of readdirSync(target, { recursive: true, encoding: "utf8" })) {
    const path = join(target, file);
    if (!/\.(json|ts|md)$/.test(file)) continue;
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.replaceAll("DRIVER_NAME", name).replaceAll("PACKAGE_VERSION", version));
  }
}

/** The folder and the version of this package: its module lies in `src`, or compiled in `dist`. */
function thisPackage(): { readonly root: string; readonly version: string } {
  let root = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(root, "package.json"))) root = dirname(root);
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { readonly version: string };
  return { root, version };
}
