/**
 * A process with several transactions that append to the log at the same time, to be suspended. Run as a script it is
 * that process.
 */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { createTransact } from "../../src/engine/transaction.ts";
import type { Transact } from "../../src/engine/transaction.ts";
import { insertNodes } from "../../src/store/nodes/nodes.ts";
import { openDatabase } from "../../src/store/postgres/database.ts";
import type { Connection } from "../../src/store/postgres/database.ts";
import { createNotifier } from "../../src/store/postgres/notifier.ts";

export interface LogWriters extends AsyncDisposable {
  suspend(): void;
}

/** Starts `count` transactions; resolves when each of them has only its transition left to append. */
export async function startLogWriters(connection: Connection, count: number): Promise<LogWriters> {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), JSON.stringify(connection), String(count)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  const failed = exited.then(([code]) =>
    Promise.reject(new Error(`The process of the writers ended with ${String(code)} before they were ready.`)),
  );
  await Promise.race([once(child.stdout, "data"), failed]);
  failed.catch(() => {});
  return {
    suspend: () => void child.kill("SIGSTOP"),
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

/** Registers a node. `onAppend` is called when only its transition is left to append. */
export async function registerNode(transact: Transact, onAppend = (): void => {}): Promise<void> {
  const id = randomUUID();
  await transact(async ({ tx, log }) => {
    const node = { id, name: id, project: "default" };
    const config = { driver: "fake", borrowed: {}, settings: {}, labels: {} };
    await insertNodes(tx, [{ ...node, ...config, state: "ENROLLED", transitionCount: 1 }]);
    log({
      nodeId: id,
      nodeName: id,
      project: "default",
      fromState: null,
      toState: "ENROLLED",
      event: "register",
      sequence: 1,
      nodeRevision: 1,
      target: null,
      operationId: null,
      runId: null,
      step: null,
      actor: "test",
      reason: null,
    });
    onAppend();
  });
}

if (import.meta.main) {
  const [connection = "", count = ""] = process.argv.slice(2);
  const database = await openDatabase({ connection: JSON.parse(connection) as Connection, connectionsMax: 12 });
  const transact = createTransact(database, await createNotifier(database, () => {}));
  let left = Number(count);
  const onAppend = () => {
    left -= 1;
    if (left === 0) process.stdout.write("ready\n");
  };
  await Promise.all(Array.from({ length: left }, () => registerNode(transact, onAppend)));
}
