/**
 * Folders for compiled code, which save half of the CPU of a start. They are below the cache folder of the unit, or the
 * folder for temporary files, which systemd empties at each stop; if another user could write to one, it is not used,
 * because its code would be executed.
 */
import { lchownSync, lstatSync, mkdirSync } from "node:fs";
import { enableCompileCache, flushCompileCache } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A folder that only one user can write to, by default the one of this process; null if there is none. */
export function compileFolder(name: string, user: { readonly uid: number; readonly gid: number } | null = null) {
  const uid = user?.uid ?? process.getuid?.() ?? 0;
  const base = join(process.env["CACHE_DIRECTORY"] ?? tmpdir(), `ostler-compiled-${uid}`);
  try {
    makeFolder(base, user);
    const { mode, uid: owner } = lstatSync(base);
    if (owner !== uid || (mode & 0o170077) !== 0o040000) return null;
    const folder = join(base, name);
    makeFolder(folder, user);
    return folder;
  } catch {
    return null;
  }
}

function makeFolder(folder: string, user: { readonly uid: number; readonly gid: number } | null): void {
  const made = mkdirSync(folder, { recursive: true, mode: 0o700 }) !== undefined;
  // What another user made in its place keeps its owner.
  if (made && user !== null) lchownSync(folder, user.uid, user.gid);
}

/**
 * Modules that are imported from now on are taken from the cache of the service, or compiled and kept.
 * NODE_COMPILE_CACHE has priority, and NODE_DISABLE_COMPILE_CACHE turns it off. Child processes do not inherit it.
 */
export function cacheCompiledModules(): void {
  const folder = compileFolder("service");
  if (folder !== null) enableCompileCache(folder);
}

/** Writes what was compiled. Otherwise that happens at the exit, which a killed process does not reach. */
export function keepCompiledModules(): void {
  flushCompileCache();
}
