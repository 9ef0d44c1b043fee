/** Starts and controls the processes of the arena with messages over Node's channel between parent and child. */
import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { z } from "zod";

/** The first command of each child. */
export const START = z.object({
  do: z.literal("start"),
  seed: z.number(),
  folder: z.string(),
  urls: z.record(z.string(), z.string()),
});

export interface Helper<Command> extends AsyncDisposable {
  readonly child: ChildProcess;
  /** Sends a command. Resolves with its result when it has been carried out. */
  send(command: Command): Promise<unknown>;
}

interface Envelope<Command> {
  readonly number: number;
  readonly command: Command;
}

interface Reply {
  readonly number: number;
  readonly value?: unknown;
  readonly error?: string;
}

/** Starts a script of this folder and waits until its first command has been carried out. */
export async function startHelper<Command>(script: string, first: Command): Promise<Helper<Command>> {
  const child = fork(fileURLToPath(new URL(script, import.meta.url)), [], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const exited = once(child, "exit");
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  let last = 0;
  child.on("message", ({ number, value, error }: Reply) => {
    const one = waiting.get(number);
    waiting.delete(number);
    if (error === undefined) one?.resolve(value);
    else one?.reject(new Error(`${script}: ${error}`));
  });
  child.on("exit", (code) => {
    for (const { reject } of waiting.values()) reject(new Error(`${script} ended with ${String(code)}.`));
    waiting.clear();
  });
  const send = (command: Command) =>
    new Promise<unknown>((resolve, reject) => {
      const number = (last += 1);
      waiting.set(number, { resolve, reject });
      child.send({ number, command } satisfies Envelope<Command>, (error) => error && reject(error));
    });
  const helper: Helper<Command> = {
    child,
    send,
    async [Symbol.asyncDispose]() {
      if (child.connected) child.disconnect();
      const killTimer = setTimeout(() => child.kill("SIGKILL"), 20_000);
      await exited;
      clearTimeout(killTimer);
    },
  };
  await send(first);
  return helper;
}

/**
 * The child's side: carries out commands one after the other. Runs `end` and exits when the parent disconnects. `parse`
 * throws for a message that is not a command; the parent then receives that error.
 */
export function obey<Command>(
  parse: (message: unknown) => Command,
  work: (command: Command) => Promise<unknown>,
  end: () => Promise<void>,
): void {
  const answer = (reply: Reply) => void process.send?.(reply);
  const carryOut = async (message: unknown) => work(parse(message));
  process.on("message", ({ number, command }: Envelope<unknown>) => {
    carryOut(command).then(
      (value) => answer({ number, value }),
      (error: unknown) =>
        answer({ number, error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
    );
  });
  process.on("disconnect", () => {
    end().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  });
  // A terminal sends Ctrl-C to the whole group; the parent ends this process after the others.
  process.on("SIGINT", () => {});
}
