/** An engine in a process of its own: what a SIGKILL is for. Run as a script it is that process. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Connection } from "../../src/store/postgres/database.ts";
import { runEngine } from "./running-engine.ts";
import type { EngineSetup } from "./running-engine.ts";

export interface EngineProcess extends AsyncDisposable {
  /** Ends it as a power cut would. */
  kill(): Promise<void>;
}

/** Starts one on a database; resolves when it takes work. `isAlone`: it takes the runs of dead processes at once. */
export async function startEngineProcess(
  connection: Connection,
  journalFile: string,
  isAlone = false,
): Promise<EngineProcess> {
  const words = [fileURLToPath(import.meta.url), JSON.stringify(connection), JSON.stringify({ isAlone })];
  const child = spawn(process.execPath, words, {
    env: { ...process.env, FAKE_DRIVER_JOURNAL: journalFile },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  const failed = exited.then(([code]) =>
    Promise.reject(new Error(`The engine's process ended with ${String(code)} before it was ready.`)),
  );
  await Promise.race([once(child.stdout, "data"), failed]);
  failed.catch(() => {});
  const kill = async () => {
    child.kill("SIGKILL");
    await exited;
  };
  return { kill, [Symbol.asyncDispose]: kill };
}

if (import.meta.main) {
  const [, , connection = "", setup = ""] = process.argv;
  await runEngine(JSON.parse(connection) as Connection, JSON.parse(setup) as EngineSetup);
  process.stdout.write("ready\n");
}
