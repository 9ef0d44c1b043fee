/** Programs that run to their end. */
import { execFile } from "node:child_process";
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
