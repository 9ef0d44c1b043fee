/**
 * An engine in a separate process. A witness records every entry of its machines' steps, so that the steps in progress
 * at a kill are known. Run as a script, this file is that process.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Driver } from "../../src/drivers/driver.ts";
import type { Connection } from "../../src/store/postgres/database.ts";
import { runEngine } from "../support/running-engine.ts";
import { watchedFake } from "./witness.ts";
import type { Visit } from "./witness.ts";

export interface Worker extends AsyncDisposable {
  readonly owner: string;
  /** Sends SIGKILL, like a power failure. */
  kill(): Promise<void>;
}

/** One line of a diary: a step was entered, or left. */
type Line =
  | { readonly visit: Visit; readonly memo: unknown; readonly callbackPath: string }
  | { readonly left: string; readonly at: number; readonly cut: boolean; readonly waits: number | null };

const CONCURRENCY = 16;
const GRACE_MS = 500;

/** Starts a worker. Resolves when it takes work. Its diary is a separate file in the folder. */
export async function startWorker(connection: Connection, folder: string, owner: string): Promise<Worker> {
  const child = spawn(
    process.execPath,
    [fileURLToPath(import.meta.url), JSON.stringify(connection), diaryOf(folder, owner), owner],
    { stdio: ["pipe", "pipe", "inherit"] },
  );
  const exited = once(child, "exit");
  const failed = exited.then(([code]) =>
    Promise.reject(new Error(`The worker ended with ${String(code)} before it was ready.`)),
  );
  await Promise.race([once(child.stdout, "data"), failed]);
  failed.catch(() => {});
  const kill = async () => {
    child.kill("SIGKILL");
    await exited;
  };
  return { owner, kill, [Symbol.asyncDispose]: kill };
}

const DIARY = ".diary";

function diaryOf(folder: string, owner: string): string {
  return join(folder, `${owner}${DIARY}`);
}

/** The entries in the diaries of all workers so far. */
export interface Diaries {
  /** By run. */
  readonly visits: Map<string, Visit[]>;
  /** The newest path on which a machine may call back, by run. */
  readonly callbackPaths: Map<string, string>;
  /** Reads on. */
  read(): void;
  /** The steps of a killed worker ended with it. */
  ended(owner: string, at: number): void;
}

export function createDiaries(folder: string): Diaries {
  const visits = new Map<string, Visit[]>();
  const callbackPaths = new Map<string, string>();
  const open = new Map<string, Visit>();
  const readTo = new Map<string, number>();

  function take(line: Line): void {
    if ("visit" in line) {
      const { visit } = line;
      // Diaries are read one after the other: an entry in the next one may be earlier.
      const known = [...(visits.get(visit.run) ?? []), visit].toSorted((a, b) => a.at - b.at);
      visits.set(visit.run, known);
      open.set(`${visit.owner} ${visit.attempt}`, visit);
      if (known.at(-1) === visit) callbackPaths.set(visit.run, line.callbackPath);
      return;
    }
    const visit = open.get(line.left);
    if (visit) Object.assign(visit, { left: line.at, cut: line.cut, waits: line.waits });
    open.delete(line.left);
  }

  function read(): void {
    for (const name of readdirSync(folder).filter((file) => file.endsWith(DIARY))) {
      const from = readTo.get(name) ?? 0;
      const text = readFileSync(join(folder, name)).subarray(from);
      // A killed process may leave an incomplete line.
      const whole = text.subarray(0, text.lastIndexOf("\n") + 1);
      readTo.set(name, from + whole.length);
      for (const line of whole.toString().split("\n").slice(0, -1)) take(JSON.parse(line) as Line);
    }
  }

  return {
    visits,
    callbackPaths,
    read,
    ended(owner, at) {
      read();
      for (const [key, visit] of open) {
        if (visit.owner !== owner) continue;
        Object.assign(visit, { left: at, killed: true });
        open.delete(key);
      }
    },
  };
}

if (import.meta.main) {
  const [connection = "", diary = "", owner = ""] = process.argv.slice(2);
  const write = (line: Line) => appendFileSync(diary, `${JSON.stringify(line)}\n`);
  const driver = watchedFake({
    owner,
    entered: ({ visit, memo, callbackPath }) => write({ visit, memo, callbackPath }),
    left: ({ attempt, left, cut, waits }) => write({ left: `${owner} ${attempt}`, at: left ?? Date.now(), cut, waits }),
  });
  await runEngine(JSON.parse(connection) as Connection, {
    drivers: [driver as unknown as Driver<never>],
    concurrency: CONCURRENCY,
    abortGraceMs: GRACE_MS,
  });
  // The parent process has ended.
  process.stdin.on("end", () => process.exit(1)).resume();
  process.stdout.write("ready\n");
}
