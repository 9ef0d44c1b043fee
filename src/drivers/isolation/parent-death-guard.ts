/**
 * The program by which the kernel is told to end a worker with the service, whatever it is doing: `setpriv` of util-linux.
 * Older ones, and those of others (BusyBox), do not know how, and would start no worker at all: so it is tried first.
 */
import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** What stands before the words of a program that is to end with this process. */
const WORDS = ["--pdeathsig", "KILL", "--"] as const;
const TRY_MS = 5_000;

export type Guard = { readonly words: readonly string[] } | { readonly problem: string };

/** `path`: as the variable PATH has it. */
export function findGuard(path: string, platform: NodeJS.Platform = process.platform): Guard {
  if (platform !== "linux") return { problem: "this system knows no parent-death signal" };
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
    : { problem: `${program} does not know --pdeathsig; install a newer util-linux` };
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
