/**
 * Runs a program under `guard.sh`, which ends it with all that it has started when it ends, or when this worker dies. A
 * mark in the environment of its processes finds them later, also from another worker on the same machine.
 *
 * What a program must keep secret reaches it by file descriptors and pipes: its input, a second one, and a private key
 * for an ssh-agent of its own. So it is in no file, no argument and no environment.
 */
import { spawn } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const GUARD = fileURLToPath(new URL("guard.sh", import.meta.url));
const MARK = "OSTLER_ANSIBLE_RUN=";
/** The kept part of each output, in characters: the beginning of the standard output, the end of the errors. */
const KEPT_LENGTH = 64 * 1024;
/** A longer line of events is dropped. */
const LINE_LENGTH_MAX = 8 * 1024 * 1024;
const END_MS = 5_000;
/** How long the guard may take to end a program, in ms; then its processes are killed from here. */
const GUARD_MS = 2_000;
const LOOK_EVERY_MS = 20;

export interface GuardedProgram {
  readonly words: readonly [program: string, ...args: string[]];
  readonly environment: Readonly<Record<string, string>>;
  /** Working folder. */
  readonly folder: string;
  /** Marks its processes. */
  readonly run: string;
  /** The program starts only if the file has this token then. */
  readonly holder?: { readonly file: string; readonly token: string };
  /** Standard input. */
  readonly input?: string;
  /** The program reads it from descriptor 4, or from the named pipe if it opens that. */
  readonly secondInput?: { readonly text: string; readonly pipe?: string };
  /** A private key, and the path of the socket for its agent. */
  readonly identity?: { readonly privateKey: string; readonly socket: string };
  /** Receives the lines that the program writes to descriptor 3. */
  readonly onEvent?: (line: string) => void;
  readonly signal: AbortSignal;
}

export interface ProgramEnd {
  /** Null if it was killed. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Exit codes of guard.sh: ssh-add has refused the key; another run holds the machine. */
export const KEY_REFUSED = 71;
export const SUPERSEDED = 72;

/** Runs the program to its end. Throws the reason of the signal when that fires, after the program has ended. */
export async function runGuarded(program: GuardedProgram): Promise<ProgramEnd> {
  const { words, environment, folder, run, holder, secondInput, identity, signal } = program;
  signal.throwIfAborted();
  // In this form, the agent ends when the guard does. It runs first, because it clears the signal of setpriv.
  const agent = identity ? ["ssh-agent", "-a", identity.socket] : [];
  const guard = ["setpriv", "--pdeathsig", "TERM", "--", "/bin/sh", GUARD, String(process.pid), run];
  const given = [holder?.file ?? "-", holder?.token ?? "-", secondInput?.pipe ?? "-"];
  const [command = "", ...args] = [...agent, ...guard, ...given, ...words];
  const child = spawn(command, args, {
    cwd: folder,
    env: { PATH: process.env["PATH"] ?? "", LC_ALL: "C.UTF-8", ...environment },
    stdio: ["pipe", "pipe", "pipe", "pipe", "pipe", "pipe"],
    // Its own process group: the guard outlives this worker, to end the program.
    detached: true,
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve(code));
  });
  const [stdin, out, errors, events, second, key] = child.stdio as unknown as Duplex[];
  send(stdin, program.input);
  send(second, secondInput?.text);
  send(key, identity?.privateKey);
  const stdout = keep(out, (text) => text.slice(0, KEPT_LENGTH));
  const stderr = keep(errors, (text) => text.slice(-KEPT_LENGTH));
  readLines(events, program.onEvent ?? (() => {}));
  let timer: NodeJS.Timeout | undefined;
  const onAbort = () => {
    child.kill("SIGTERM");
    timer = setTimeout(() => void endRun(run), GUARD_MS);
  };
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const code = await ended;
    signal.throwIfAborted();
    return { code, stdout: stdout(), stderr: stderr() };
  } finally {
    signal.removeEventListener("abort", onAbort);
    clearTimeout(timer);
  }
}

/** Ends all processes of a run on this machine. False if some are left. */
export async function endRun(run: string): Promise<boolean> {
  const until = performance.now() + END_MS;
  for (;;) {
    const left = processesOf(run);
    for (const pid of left) kill(pid);
    if (left.length === 0 || performance.now() > until) return left.length === 0;
    await sleep(LOOK_EVERY_MS);
  }
}

/** The processes that carry the mark of a run, and its guards, which may not have started the program yet. */
function processesOf(run: string): readonly number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      const words = wordsIn(`/proc/${pid}/cmdline`);
      return (words.includes(GUARD) && words.includes(run)) || wordsIn(`/proc/${pid}/environ`).includes(MARK + run);
    })
    .map(Number);
}

/** Empty for a process that has ended, or that belongs to another user. */
function wordsIn(file: string): readonly string[] {
  try {
    return readFileSync(file, "latin1").split("\0");
  } catch {
    return [];
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

/** A program that ends early reads no more. */
function send(stream: Duplex | undefined, text = ""): void {
  stream?.on("error", () => {});
  stream?.end(text);
}

function keep(stream: Duplex | undefined, cut: (text: string) => string): () => string {
  let kept = "";
  stream?.setEncoding("utf8");
  stream?.on("data", (chunk: string) => (kept = cut(kept + chunk)));
  return () => kept;
}

function readLines(stream: Duplex | undefined, onLine: (line: string) => void): void {
  let parts: string[] = [];
  let length = 0;
  stream?.setEncoding("utf8");
  stream?.on("error", () => {});
  stream?.on("data", (chunk: string) => {
    let from = 0;
    for (let end = chunk.indexOf("\n"); end >= 0; end = chunk.indexOf("\n", from)) {
      const rest = chunk.slice(from, end);
      if (length + rest.length <= LINE_LENGTH_MAX) onLine([...parts, rest].join(""));
      parts = [];
      length = 0;
      from = end + 1;
    }
    length += chunk.length - from;
    if (length <= LINE_LENGTH_MAX) parts.push(chunk.slice(from));
    else parts = [];
  });
}
