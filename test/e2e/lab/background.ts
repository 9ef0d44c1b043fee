/** Programs that run beside the test until it ends. */
import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { eventually } from "../../support/eventually.ts";

const END_MS = 5_000;

export interface Background {
  readonly pid: number;
  hasEnded(): boolean;
  output(): string;
}

/** Starts a program, with its output in a file, and ends it with the parts. */
export function startBackground(
  command: readonly [string, ...string[]],
  log: string,
  parts: AsyncDisposableStack,
): Background {
  const file = openSync(log, "a");
  const [program, ...words] = command;
  const child = spawn(program, words, { stdio: ["ignore", file, file] });
  closeSync(file);
  let failure: Error | null = null;
  child.once("error", (error) => {
    failure = error;
  });
  const hasEnded = () => failure !== null || child.exitCode !== null || child.signalCode !== null;
  parts.defer(async () => {
    if (hasEnded()) return;
    child.kill("SIGTERM");
    await eventually(`${program} has ended`, hasEnded, END_MS).catch(() => child.kill("SIGKILL"));
  });
  return { pid: child.pid ?? 0, hasEnded, output: () => readFileSync(log, "utf8") };
}
