/**
 * A process that sends one large request to an engine of its own. Its parent kills it, or it kills its own process when
 * it has the answer, which no client receives then. Run as a script it is that process.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Connection } from "../../src/store/postgres/database.ts";
import { runEngine } from "./running-engine.ts";

export const LARGE_REQUEST = {
  kind: "COMMISSION",
  nodes: { all: true },
  idempotencyKey: "large",
} as const;

export const CALLER = { actor: "alice", project: "default", scope: "ADMIN" as const };

export interface AdmissionProcess extends AsyncDisposable {
  /** Resolves when the process has ended, however. */
  readonly ended: Promise<unknown>;
  kill(): Promise<void>;
}

export function startAdmission(connection: Connection): AdmissionProcess {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), JSON.stringify(connection)], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const ended = once(child, "exit");
  const kill = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  return { ended, kill, [Symbol.asyncDispose]: kill };
}

if (import.meta.main) {
  const { engine } = await runEngine(JSON.parse(process.argv[2] ?? "") as Connection, { started: false });
  await engine.submit(CALLER, LARGE_REQUEST);
  process.kill(process.pid, "SIGKILL");
}
