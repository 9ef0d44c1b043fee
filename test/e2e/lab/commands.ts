/** Programs that run to their end. */
import { execFile } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";

const LIMIT_MS = 60_000;

/** Output of a program. Throws with what it wrote if it fails, or after a minute. */
export async function run(program: string, words: readonly string[], limitMs = LIMIT_MS): Promise<string> {
  const { stdout } = await promisify(execFile)(program, [...words], {
    timeout: limitMs,
    killSignal: "SIGKILL",
    maxBuffer: 64 * 2 ** 20,
  });
  return stdout;
}

export function isInstalled(program: string): boolean {
  return [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin", "/sbin"].some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
