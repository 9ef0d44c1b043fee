/** A service, or another program that prints its address, in a separate process that ends with the benchmark. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Testbed } from "./testbed.ts";
import { end } from "./testbed.ts";

/** Of the service of this checkout, and of engines in the process of the benchmark. */
export const MASTER_KEYS = `bench:${Buffer.alloc(32, 7).toString("base64")}`;

export interface Served extends AsyncDisposable {
  readonly url: string;
  readonly pid: number;
  /** Has an IPC channel. */
  readonly child: ChildProcess;
  /** Time from its start to its line “Ostler is ready”. */
  readonly readyMs: number;
}

export interface ServedOptions {
  /** Path of the program, relative to this folder. Absent: the service of this checkout. */
  readonly program?: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Arguments of the program. */
  readonly args?: readonly string[];
  readonly nodeArgs?: readonly string[];
}

export async function startServed(
  testbed: Testbed,
  { program, environment, args = [], nodeArgs = [] }: ServedOptions,
): Promise<Served> {
  const start = performance.now();
  const keys = program === undefined && { OSTLER_SECRET_KEYS: MASTER_KEYS };
  const env = { PATH: process.env["PATH"], OSTLER_PORT: "0", OSTLER_LOG: "error", ...keys, ...environment };
  const child = spawn(
    process.execPath,
    [...nodeArgs, fileURLToPath(new URL(program ?? "../src/main.ts", import.meta.url)), ...args],
    {
      env,
      stdio: ["ignore", "pipe", "inherit", "ipc"],
    },
  );
  testbed.watch(child);
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout?.on("data", (chunk: Buffer) => {
      const found = /Ostler is ready: (https?:\/\/[^\s/]+)/.exec(chunk.toString())?.[1];
      if (found !== undefined) resolve(found);
    });
    child.once("exit", (code) => reject(new Error(`${program} ended with ${code} before it was ready.`)));
  });
  return {
    url,
    pid: child.pid ?? 0,
    child,
    readyMs: performance.now() - start,
    [Symbol.asyncDispose]: () => end(child),
  };
}

/** The options of Node in the checkout's `npm start`. */
export function nodeArgsOf(checkout: string): readonly string[] {
  const { scripts } = JSON.parse(readFileSync(join(checkout, "package.json"), "utf8")) as {
    readonly scripts: { readonly start: string };
  };
  return scripts.start.split(" ").filter((word) => word.startsWith("--"));
}
