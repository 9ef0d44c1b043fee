/** Picks programs with their libraries, and kernel modules with those they need, from unpacked Debian packages. */
import { existsSync, mkdirSync, readdirSync, readFileSync, copyFileSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Archive } from "./archive.ts";
import { BuildError, run } from "./programs.ts";

const PROGRAM_FOLDERS = ["usr/sbin", "usr/bin", "sbin", "bin"];

function libraryFolders(tree: string): readonly string[] {
  const folders = ["lib", "lib64", "usr/lib"];
  const multiarch = folders.flatMap((folder) => {
    const path = join(tree, folder);
    if (!existsSync(path)) return [];
    return readdirSync(path)
      .filter((name) => name.endsWith("-linux-gnu"))
      .map((name) => `${folder}/${name}`);
  });
  return [...multiarch, ...folders];
}

function search(tree: string, folders: readonly string[], name: string): string {
  const folder = folders.find((each) => existsSync(join(tree, each, name)));
  if (folder === undefined) throw new BuildError(`${name} is in none of the unpacked packages.`);
  return `${folder}/${name}`;
}

/** Adds programs, and every library that they are linked with, at the paths that Debian gives them. */
export async function addPrograms(archive: Archive, tree: string, names: readonly string[]): Promise<void> {
  const libraries = libraryFolders(tree);
  const add = async (path: string): Promise<void> => {
    if (archive.has(path)) return;
    archive.copy(path, join(tree, path), 0o755);
    const printed = await run("readelf", ["-dl", join(tree, path)]);
    const needed = [...printed.matchAll(/\(NEEDED\).*\[(.*)\]/g)].map((match) => match[1] ?? "");
    const interpreter = /program interpreter: \/(.*)\]/.exec(printed)?.[1];
    for (const name of needed) await add(search(tree, libraries, name));
    if (interpreter === undefined) return;
    const loader = search(tree, libraries, basename(interpreter));
    await add(loader);
    // Debian has a link there, whose absolute target is outside of the unpacked tree.
    if (loader !== interpreter && !archive.has(interpreter)) archive.link(interpreter, `/${loader}`);
  };
  for (const name of names) await add(search(tree, PROGRAM_FOLDERS, name));
}

export function kernelRelease(tree: string): string {
  const releases = readdirSync(join(tree, "lib/modules"));
  const [release] = releases;
  if (release === undefined || releases.length > 1) {
    throw new BuildError(`Expected one kernel below ${tree}/lib/modules, found ${releases.length}.`);
  }
  return release;
}

/** Module names differ from file names in the dash. */
function moduleName(path: string): string {
  return basename(path, ".ko").replaceAll("-", "_");
}

/**
 * Adds kernel modules, those they depend on, and the tables by which modprobe finds them. Returns the names that the
 * kernel of this architecture does not have as a module.
 */
export async function addModules(archive: Archive, tree: string, names: readonly string[]): Promise<readonly string[]> {
  const release = kernelRelease(tree);
  await run("depmod", ["-b", tree, release]);
  const folder = `lib/modules/${release}`;
  const lines = readFileSync(join(tree, folder, "modules.dep"), "utf8")
    .trim()
    .split("\n");
  const needs = new Map<string, readonly string[]>();
  for (const line of lines) {
    const [path = "", rest = ""] = line.split(":");
    needs.set(moduleName(path), [path, ...rest.trim().split(" ").filter(Boolean)]);
  }
  const files = new Set<string>();
  for (const name of names) for (const path of needs.get(name) ?? []) files.add(path);
  const selection = `${tree}-modules`;
  rmSync(selection, { recursive: true, force: true });
  for (const path of [...files].toSorted()) {
    const source = join(tree, folder, path);
    const target = join(selection, folder, path);
    mkdirSync(dirname(target), { recursive: true });
    copyFileSync(source, target);
    archive.copy(`${folder}/${path}`, source);
  }
  for (const table of ["modules.builtin", "modules.order"]) {
    copyFileSync(join(tree, folder, table), join(selection, folder, table));
  }
  await run("depmod", ["-b", selection, release]);
  for (const table of ["modules.dep", "modules.alias"]) {
    archive.copy(`${folder}/${table}`, join(selection, folder, table));
  }
  return names.filter((name) => !needs.has(name));
}

/** All certificates of the package ca-certificates in one file, as its maintainer script would join them. */
export function addCertificates(archive: Archive, tree: string): void {
  const folder = join(tree, "usr/share/ca-certificates/mozilla");
  const files = readdirSync(folder)
    .toSorted()
    .filter((name) => statSync(join(folder, name)).isFile());
  const all = files.map((name) => readFileSync(join(folder, name), "utf8").trim()).join("\n");
  archive.file("etc/ssl/certs/ca-certificates.crt", `${all}\n`);
}
