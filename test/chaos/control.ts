/** How the processes of the arena are started and controlled: by messages of Node's own channel between parent and child. */
import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

export interface Helper<Command> extends AsyncDisposable {
  readonly child: ChildProcess;
  /** Tells it, and resolves with what it answers when that is done. */
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

/** Starts a script of this folder with its first command, and waits until that is done. */
export async function startHelper<Command>(script: string, first: Command): Promise<Helper<Command>> {
  const child = fork(fileURLToPath(new URL(script, import.meta.url)), [], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const exited = once(child, "exit");
  const waiting = new Map<number, { give(value: unknown): void; refuse(error: Error): void }>();
  let last = 0;
  child.on("message", ({ number, value, error }: Reply) => {
    const one = waiting.get(number);
    waiting.delete(number);
    if (error === undefined) one?.give(value);
    else one?.refuse(new Error(`${script}: ${error}`));
  });
  child.on("exit", (code) => {
    for (const { refuse } of waiting.values()) refuse(new Error(`${script} ended with ${String(code)}.`));
    waiting.clear();
  });
  const send = (command: Command) =>
    new Promise<unknown>((give, refuse) => {
      const number = (last += 1);
      waiting.set(number, { give, refuse });
      child.send({ number, command } satisfies Envelope<Command>, (error) => error && refuse(error));
    });
  const helper: Helper<Command> = {
    child,
    send,
    async [Symbol.asyncDispose]() {
      if (child.connected) child.disconnect();
      const insist = setTimeout(() => child.kill("SIGKILL"), 20_000);
      await exited;
      clearTimeout(insist);
    },
  };
  await send(first);
  return helper;
}

/** The other side: obeys commands one after the other, and ends the process after `end` when the parent has ended. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- names the commands where it is called
export function obey<Command>(work: (command: Command) => Promise<unknown>, end: () => Promise<void>): void {
  const answer = (reply: Reply) => void process.send?.(reply);
  process.on("message", ({ number, command }: Envelope<Command>) => {
    work(command).then(
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
  // A terminal's Ctrl-C goes to the whole group; the parent ends us when it has ended the rest.
  process.on("SIGINT", () => {});
}
