/** A system in namespaces, whose root is a folder: nothing of this machine is visible in it but the kernel. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, openSync, readFileSync, readdirSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { run } from "../../packages/agent/build/programs.ts";
import { eventually } from "../support/eventually.ts";

const BOOT = fileURLToPath(new URL("boot.sh", import.meta.url));
const NAMESPACES = ["--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--net", "--cgroup"];
const NSENTER = ["--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup", "--root", "--wd"];
const ENV = ["/usr/bin/env", "-i", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"];

/** Of the service. */
const START_MS = 60_000;
const READY = 'fetch("http://127.0.0.1:4000/readyz").then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))';

const YES_OR_NO = [() => true, () => false] as const;

let systems = 0;

/** The first process, and those that commands start. */
export interface Process {
  readonly program: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly folder: string;
  /** Of the user and its group. */
  readonly id: number;
}

export interface System extends AsyncDisposable {
  /** Returns what the command prints; throws what it prints if it fails. */
  run(...command: readonly string[]): Promise<string>;
  succeeds(...command: readonly string[]): Promise<boolean>;
  /** The same without an end: the process ends with the system. */
  start(...command: readonly string[]): ChildProcess;
  /** Mounts as the system sees them, except for that of its root, which is a folder of this machine. */
  mounts(): string;
}

/** `log` receives what the first process prints. */
export async function startSystem(root: string, first: Process, log: string): Promise<System> {
  const group = join(unifiedGroups(), `ostler-check-${process.pid}-${++systems}`);
  mkdirSync(group);
  const variables = ["/usr/bin/env", "-i", ...Object.entries(first.env).map(([name, value]) => `${name}=${value}`)];
  const user = ["--setgid", String(first.id), "--setuid", String(first.id)];
  const begin = [...variables, "/usr/bin/unshare", "--root=.", `--wd=${first.folder}`, ...user, ...first.program];
  const joinGroup = `echo $$ > ${group}/cgroup.procs && exec "$@"`;
  const output = openSync(log, "w");
  const child = spawn("sh", ["-c", joinGroup, "sh", "unshare", ...NAMESPACES, "sh", BOOT, root, ...begin], {
    stdio: ["ignore", output, output],
  });
  const pid = await eventually(
    `a process below ${root}`,
    () => readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim().split(" ")[0] || false,
  );
  // Until then it is a program of this machine, in its root.
  await eventually(`the start of ${first.program.join(" ")}`, () => {
    const line = readFileSync(`/proc/${pid}/cmdline`, "utf8");
    return line !== "" && !/boot\.sh|--root=\./.test(line);
  });
  const [env = "", ...enter] = [...ENV, "/usr/bin/nsenter", "--target", pid, ...NSENTER];
  return {
    run: (...command) => run(env, [...enter, ...command]),
    succeeds: (...command) => run(env, [...enter, ...command]).then(...YES_OR_NO),
    start: (...command) => spawn(env, [...enter, ...command], { stdio: ["ignore", "pipe", "inherit"] }),
    mounts: () =>
      readFileSync(`/proc/${pid}/mountinfo`, "utf8")
        .split("\n")
        .filter((line) => line.split(" ")[4] !== "/")
        .join("\n"),
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) {
        const ended = once(child, "exit");
        // The first process, with which all others end. A change of its user has cleared what --kill-child sets.
        process.kill(Number(pid), "SIGKILL");
        await ended;
      }
      await eventually(`the end of all processes below ${root}`, () =>
        readFileSync(join(group, "cgroup.events"), "utf8").includes("populated 0"),
      );
      removeGroups(group);
    },
  };
}

/** Waits until the service is ready. `node`: the program in the system. */
export async function ready(system: System, node: string): Promise<void> {
  await eventually("a service that is ready", () => system.succeeds(node, "-e", READY), START_MS);
}

/** Control groups can be removed when they are empty, the inner ones first. */
function removeGroups(group: string): void {
  for (const entry of readdirSync(group, { withFileTypes: true }))
    if (entry.isDirectory()) removeGroups(join(group, entry.name));
  rmdirSync(group);
}

/** Where the unified hierarchy of control groups is mounted. */
function unifiedGroups(): string {
  const line = readFileSync("/proc/self/mounts", "utf8")
    .split("\n")
    .find((one) => one.split(" ")[2] === "cgroup2");
  if (line === undefined) throw new Error("No file system cgroup2 is mounted here.");
  return line.split(" ")[1] ?? "";
}
