/** Runs the command line as a user does: a process of its own. */
import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const PROGRAM = fileURLToPath(new URL("../../packages/cli/src/ostler.ts", import.meta.url));
/** For a shell. */
export const COMMAND = `${process.execPath} ${PROGRAM}`;
/** Has no contexts. */
export const HOME = mkdtempSync(join(tmpdir(), "ostler-cli-home-"));

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export interface Running {
  readonly ended: Promise<Ended>;
  readonly pid: number;
  /** Resolves when the text has been printed, on either stream. */
  printed(text: string): Promise<void>;
  interrupt(): void;
}

export function startCli(args: readonly string[], environment: Readonly<Record<string, string>>, input = ""): Running {
  const child = spawn(process.execPath, [PROGRAM, ...args], {
    env: { PATH: process.env["PATH"], HOME, NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"], ...environment },
  });
  let [out, err] = ["", ""];
  let waiting: (() => void)[] = [];
  const heard = () => {
    const calls = waiting;
    waiting = [];
    for (const call of calls) call();
  };
  child.stdout.on("data", (data: Buffer) => {
    out += data.toString();
    heard();
  });
  child.stderr.on("data", (data: Buffer) => {
    err += data.toString();
    heard();
  });
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const ended = new Promise<Ended>((resolve) => {
    child.on("close", (code) => {
      resolve({ code, out, err });
      heard();
    });
  });
  return {
    ended,
    pid: child.pid ?? 0,
    async printed(text) {
      while (!out.includes(text) && !err.includes(text)) {
        if (child.exitCode !== null) throw new Error(`The command ended without ${JSON.stringify(text)}: ${out}${err}`);
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
    },
    interrupt: () => void child.kill("SIGINT"),
  };
}

/** The keys to type, each after the text before them has been printed. */
export type Keys = readonly (readonly [after: string, keys: string | (() => string)])[];

/** Runs a command on a pseudo-terminal. */
export async function onTerminalOf(
  url: string,
  command: string,
  keys: Keys,
  size = "stty cols 60 rows 20",
): Promise<{ readonly code: number | null; readonly screen: string }> {
  const child = spawn("script", ["-qefc", `${size}; ${COMMAND} ${command}`, "/dev/null"], {
    env: { PATH: process.env["PATH"], HOME, OSTLER_URL: url, TERM: "xterm", SHELL: "/bin/bash" },
  });
  let screen = "";
  let typed = 0;
  child.stdout.on("data", (data: Buffer) => {
    screen += data.toString();
    const [after, text] = keys[typed] ?? [];
    if (after === undefined || !screen.includes(after)) return;
    typed += 1;
    child.stdin.write(typeof text === "function" ? text() : (text ?? ""));
  });
  const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { code, screen };
}
