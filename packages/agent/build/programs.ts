/** Programs that the build needs on this machine, run without a shell. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";

const execute = promisify(execFile);
const OUTPUT_BYTES = 64 * 2 ** 20;

/** The keys by which apt checks the archive. */
export const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";

/** Programs, and files by their path, each with the Debian package that contains it. */
export type Needed = Readonly<Record<string, string>>;

export const NEEDED: Needed = {
  "apt-get": "apt",
  "apt-config": "apt",
  "dpkg-deb": "dpkg",
  [KEYRING]: "debian-archive-keyring",
  depmod: "kmod",
  readelf: "binutils",
  zstd: "zstd",
  "mkfs.vfat": "dosfstools",
  mmd: "mtools",
  mcopy: "mtools",
  xorriso: "xorriso",
};

/** depmod and mkfs.vfat are in sbin, which is not in the path of every user. */
const FOLDERS = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin", "/sbin"];

export class BuildError extends Error {}

/** A sentence with all that is missing and the command that installs it; null if nothing is. */
export function missingPrograms(needed: Needed): string | null {
  const isThere = (name: string) =>
    name.startsWith("/") ? existsSync(name) : FOLDERS.some((folder) => existsSync(join(folder, name)));
  const missing = Object.entries(needed).filter(([name]) => !isThere(name));
  if (missing.length === 0) return null;
  const packages = [...new Set(missing.map(([, one]) => one))].toSorted().join(" ");
  return `Missing: ${missing.map(([name]) => name).join(", ")}. Install the Debian packages: apt-get install --no-install-recommends ${packages}`;
}

interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Returns the standard output. A failure is an error with the end of what the program printed. */
export async function run(program: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const env = { ...process.env, LC_ALL: "C", TZ: "UTC", PATH: FOLDERS.join(delimiter), ...options.env };
  try {
    const cwd = options.cwd ?? process.cwd();
    return (await execute(program, args, { cwd, env, maxBuffer: OUTPUT_BYTES })).stdout;
  } catch (error) {
    const { stderr = "", stdout = "" } = error as { stderr?: string; stdout?: string };
    const printed = (stderr + stdout).trim().slice(-2000);
    throw new BuildError(`${program} ${args.slice(0, 3).join(" ")} failed: ${printed || String(error)}`, {
      cause: error,
    });
  }
}
