/**
 * Makes the kernel kill a worker when the service dies, with `setpriv --pdeathsig` of util-linux. Older versions and
 * BusyBox lack the option and would fail to start any worker, so it is tested first.
 */
import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Arguments before the guarded program. */
const WORDS = ["--pdeathsig", "KILL", "--"] as const;
const TRY_MS = 5_000;

export type Guard = { readonly words: readonly string[] } | { readonly problem: string };

/** `path`: value of the variable PATH. */
export function findGuard(path: string, platform: NodeJS.Platform = process.platform): Guard {
  if (platform !== "linux") return { problem: "this system has no parent-death signal" };
  const program = path
    .split(delimiter)
    .map((folder) => join(folder, "setpriv"))
    .find(isProgram);
  if (program === undefined) return { problem: "setpriv is not on the PATH; install util-linux" };
  const { status } = spawnSync(program, [...WORDS, process.execPath, "--version"], {
    stdio: "ignore",
    timeout: TRY_MS,
    killSignal: "SIGKILL",
  });
  return status === 0
    ? { words: [program, ...WORDS] }
    : { problem: `${program} does not support --pdeathsig; install a newer util-linux` };
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
