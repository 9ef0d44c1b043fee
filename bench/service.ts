/** A service, or another program that says where it is ready, in a process of its own that ends with the benchmark. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Site } from "./site.ts";
import { end } from "./site.ts";

export interface Served extends AsyncDisposable {
  readonly url: string;
  readonly pid: number;
  /** With a channel for messages. */
  readonly child: ChildProcess;
  /** From its start to its line “Ostler is ready”. */
  readonly readyMs: number;
}

export interface ServedOptions {
  /** Path of the program from this folder. */
  readonly program?: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Arguments of the program, and of Node before it. */
  readonly args?: readonly string[];
  readonly nodeArgs?: readonly string[];
}

export async function startServed(
  site: Site,
  { program = "../src/main.ts", environment, args = [], nodeArgs = [] }: ServedOptions,
): Promise<Served> {
  const begun = performance.now();
  const env = { PATH: process.env["PATH"], OSTLER_PORT: "0", OSTLER_LOG: "error", ...environment };
  const child = spawn(process.execPath, [...nodeArgs, fileURLToPath(new URL(program, import.meta.url)), ...args], {
    env,
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  site.watch(child);
  const url = await new Promise<string>((give, fail) => {
    child.stdout?.on("data", (chunk: Buffer) => {
      const found = /Ostler is ready: (http:\/\/[^\s/]+)/.exec(chunk.toString())?.[1];
      if (found !== undefined) give(found);
    });
    child.once("exit", (code) => fail(new Error(`${program} ended with ${code} before it was ready.`)));
  });
  return {
    url,
    pid: child.pid ?? 0,
    child,
    readyMs: performance.now() - begun,
    [Symbol.asyncDispose]: () => end(child),
  };
}
