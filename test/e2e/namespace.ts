/**
 * Runs a program of the lab in network, process and mount namespaces of its own. Ports and addresses then meet nothing
 * else, and when the program ends, in whatever way, the kernel ends everything that it has started.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";

/**
 * Shell as first process: it collects ended orphans, which a program that looks for their process IDs would otherwise
 * take for alive.
 */
const INIT = 'mount -t proc proc /proc; "$@"; exit $?';

/**
 * Exit code of the program. It is asked to end by the end of its standard input, when this process is interrupted; a
 * second interruption ends it at once.
 */
export async function runInNamespace(
  file: string,
  words: readonly string[],
  onStart?: (pid: number) => void,
): Promise<number> {
  const isolation = ["--net", "--pid", "--fork", "--mount", "--kill-child"];
  const child = spawn("unshare", [...isolation, "bash", "-c", INIT, "bash", process.execPath, file, ...words], {
    stdio: ["pipe", "inherit", "inherit"],
  });
  // `unshare` itself is in the network namespace, and has a process ID that the caller sees.
  if (child.pid !== undefined) onStart?.(child.pid);
  let interruptions = 0;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(signal, () => {
      interruptions += 1;
      if (interruptions === 1) child.stdin.end();
      else child.kill("SIGKILL");
    });
  const [code] = (await once(child, "close")) as [number | null];
  return code ?? 1;
}

/** Rejects when the caller of `runInNamespace` was interrupted. */
export function interruption(): Promise<never> {
  return new Promise((_, reject) => {
    process.stdin.resume();
    process.stdin.once("end", () => reject(new Error("interrupted")));
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => reject(new Error("interrupted")));
  });
}
