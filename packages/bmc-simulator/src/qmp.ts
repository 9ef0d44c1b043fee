/** QEMU's control socket: one command for each connection. */
import { createConnection } from "node:net";

/** QEMU answers within milliseconds unless the machine is overloaded. */
const QMP_TIMEOUT_MS = 10_000;

export interface QmpCommand {
  readonly execute: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
}

/** Sends one command. Rejects with QEMU's reason if it refuses. */
export function qmp(path: string, command: QmpCommand): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(path);
    const end = (error: Error | null) => {
      socket.destroy();
      if (error) reject(error);
      else resolve();
    };
    socket.setTimeout(QMP_TIMEOUT_MS, () => end(new Error("QEMU does not answer.")));
    socket.on("error", end);
    let buffer = "";
    let answers = 0;
    socket.on("data", (data) => {
      buffer += data.toString("utf8");
      for (let at = buffer.indexOf("\n"); at >= 0; at = buffer.indexOf("\n")) {
        const message: unknown = JSON.parse(buffer.slice(0, at));
        buffer = buffer.slice(at + 1);
        if (typeof message !== "object" || message === null || "event" in message) continue;
        if ("error" in message) return end(new Error(JSON.stringify(message.error)));
        answers += 1;
        // The greeting, the answer to qmp_capabilities, the answer to the command.
        if (answers === 3) return end(null);
        socket.write(`${JSON.stringify(answers === 1 ? { execute: "qmp_capabilities" } : command)}\n`);
      }
    });
  });
}
