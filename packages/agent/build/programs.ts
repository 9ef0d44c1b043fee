/** Programs that the build needs on this machine, run without a shell. */
import { execFile } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";

const execute = promisify(execFile);
const OUTPUT_BYTES = 64 * 2 ** 20;

/** Each program, and the Debian package that contains it. */
const PACKAGES: Readonly<Record<string, string>> = {
  "apt-get": "apt",
  "apt-config": "apt",
  "dpkg-deb": "dpkg",
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

function found(program: string): boolean {
  return FOLDERS.some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Throws an error that names the Debian packages that are missing. */
export function requirePrograms(): void {
  const missing = Object.keys(PACKAGES).filter((program) => !found(program));
  if (missing.length === 0) return;
  const packages = [...new Set(missing.map((program) => PACKAGES[program]))].join(" ");
  throw new BuildError(
    `Programs are missing: ${missing.join(", ")}. Install them with: ` +
      `apt-get install --no-install-recommends ${packages}`,
  );
}

interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Returns the standard output. A failure is an error with the end of what the program printed. */
export async function run(program: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const env = { ...process.env, LC_ALL: "C", PATH: FOLDERS.join(delimiter), ...options.env };
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
