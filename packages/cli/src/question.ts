/** Questions on the terminal. They go to stderr: stdout has the answer of the command. */
import { CliError, EXIT, usageError } from "./exit.ts";

/** After Ctrl-C before the request. */
export const UNSENT = "Nothing was sent.";

export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/** The typed line. Ctrl-C ends the command, and Ctrl-D is an empty line. */
export async function ask(question: string, { isSecret = false } = {}): Promise<string> {
  // Most commands ask nothing, and their start is limited.
  const [{ createInterface }, { Writable }] = await Promise.all([import("node:readline"), import("node:stream")]);
  let isMuted = false;
  const output = new Writable({
    write: (chunk, _encoding, done) => {
      if (!isMuted) process.stderr.write(chunk as Buffer);
      done();
    },
  });
  const lines = createInterface({ input: process.stdin, output, terminal: true });
  return new Promise((resolve, reject) => {
    lines.on("SIGINT", () => {
      process.stderr.write("\n");
      reject(new CliError(EXIT.interrupted, UNSENT));
      lines.close();
    });
    lines.on("close", () => resolve(""));
    lines.question(question, (line) => {
      if (isSecret) process.stderr.write("\n");
      resolve(line);
      lines.close();
    });
    isMuted = isSecret;
  });
}

/** Asks for consent; `count` has to be typed in place of `y`, if it is given. */
export async function confirm({ yes, count }: { readonly yes: boolean; readonly count?: number }): Promise<void> {
  if (yes) return;
  if (!canAsk()) throw usageError("Nothing was changed: without a terminal this needs --yes.");
  const wanted = count === undefined ? /^\s*y(es)?\s*$/i : new RegExp(`^\\s*${count}\\s*$`);
  const answer = await ask(
    count === undefined ? "Continue? [y/N] " : `To continue, type the number of nodes that lose data (${count}): `,
  );
  if (!wanted.test(answer)) throw new CliError(EXIT.refused, "Nothing was changed.");
}
