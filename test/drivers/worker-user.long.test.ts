/** The user of worker processes, in services with real processes; the driver is `misbehaving/killer.ts`. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ask } from "../support/ask.ts";
import { eventually } from "../support/eventually.ts";

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const KILLER = fileURLToPath(new URL("misbehaving/killer.ts", import.meta.url));
const isRoot = process.getuid?.() === 0;
/** An ID that has an entry in /etc/passwd, which initdb requires. */
const ORDINARY = 65_534;

let folder: string;
let services: ChildProcess[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "ostler-worker-user-"));
  services = [];
});
afterEach(async () => {
  for (const child of services) await end(child);
  rmSync(folder, { recursive: true, force: true });
});

interface Service {
  readonly child: ChildProcess;
  readonly url: string;
  output(): string;
}

async function end(child: ChildProcess): Promise<void> {
  child.kill("SIGKILL");
  await ended(child);
}

/** Also if it has ended already. */
async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
}

async function start(
  { uid, plugin = KILLER }: { readonly uid?: number; readonly plugin?: string },
  ...flags: string[]
): Promise<Service> {
  const words = [MAIN, "--data", join(folder, "data"), "--port", "0", "--plugins", plugin, ...flags];
  const child = spawn(process.execPath, words, {
    env: { PATH: process.env["PATH"], OSTLER_LOG_FORMAT: "json" },
    stdio: ["ignore", "pipe", "pipe"],
    ...(uid !== undefined && { uid, gid: uid }),
  });
  services.push(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (part: Buffer) => (output += part.toString()));
  const url = await eventually(
    "the service is ready",
    () => {
      if (child.exitCode !== null) throw new Error(output);
      return /ready: (http:\S+?)\/graphql/.exec(output)?.[1];
    },
    60_000,
  );
  return { child, url: url ?? "", output: () => output };
}

/** Makes a node and begins the step that kills the service. */
async function beginKill({ url }: Service): Promise<void> {
  await ask(url, `mutation { registerNodes(input: { nodes: [{ name: "n", driver: { killer: {} } }] }) { count } }`);
  await ask(url, `mutation { manageNodes(input: { nodes: { names: ["n"] } }) { errors { message } } }`);
  await eventually("the node is manageable", async () => (await nodeOf(url)).state === "MANAGEABLE");
  const clean = `cleanNodes(input: { nodes: { names: ["n"] }, steps: [{ name: "kill" }] }) { errors { message } }`;
  expect(await ask(url, `mutation { ${clean} }`)).toEqual({ cleanNodes: { errors: [] } });
}

interface SeenNode {
  readonly state: string;
  readonly lastError: { readonly code: string; readonly message: string } | null;
}

async function nodeOf(url: string): Promise<SeenNode> {
  const { node } = await ask<{ node: SeenNode }>(
    url,
    `{ node(by: { name: "n" }) { state lastError { code message } } }`,
  );
  return node;
}

test.runIf(isRoot)(
  "driver that kills its parent ended a service that runs as root: it gets EPERM and the service lives [R-715]",
  async () => {
    const service = await start({});
    await beginKill(service);
    await eventually("the step has failed", async () => (await nodeOf(service.url)).state === "CLEAN_FAILED");
    expect((await nodeOf(service.url)).lastError?.message).toMatch(/kill EPERM/);
    expect(service.child.exitCode).toBeNull();
  },
);

test.runIf(isRoot)("worker of another user ends with a service that is killed [R-715]", async () => {
  const service = await start({});
  await beginKill(service);
  await eventually("the step has failed", async () => (await nodeOf(service.url)).state === "CLEAN_FAILED");
  const workers = await pidsOf(65_531, service.child.pid);
  expect(workers.length).toBeGreaterThan(0);
  await end(service.child);
  await eventually("they have ended", async () => (await pidsOf(65_531)).every((pid) => !workers.includes(pid)));
});

test.runIf(isRoot)(
  "driver whose files another user cannot read runs as the user of the service, with one warning [R-715]",
  async () => {
    const home = join(folder, "home");
    mkdirSync(home, { mode: 0o700 });
    copyFileSync(KILLER, join(home, "killer.ts"));
    symlinkSync(fileURLToPath(new URL("../../node_modules", import.meta.url)), join(home, "node_modules"));
    const service = await start({ plugin: join(home, "killer.ts") });
    await ask(
      service.url,
      `mutation { registerNodes(input: { nodes: [{ name: "n", driver: { killer: {} } }] }) { count } }`,
    );
    await ask(service.url, `mutation { manageNodes(input: { nodes: { names: ["n"] } }) { errors { message } } }`);
    await eventually("the node is manageable", async () => (await nodeOf(service.url)).state === "MANAGEABLE");
    const warnings = service
      .output()
      .split("\n")
      .filter((line) => line.includes("cannot read its files"));
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(/Permission denied.*Let all users read them.*OSTLER_DRIVER_USER=service/);
  },
);

test("driver that kills its parent ended a service of an ordinary user forever: after three times the step fails [R-713]", async () => {
  chmodSync(folder, 0o755);
  mkdirSync(join(folder, "data"), { mode: 0o700 });
  if (isRoot) chownSync(join(folder, "data"), ORDINARY, ORDINARY);
  const by = isRoot ? { uid: ORDINARY } : {};
  let service = await start(by);
  await beginKill(service);
  for (const _ of ["first", "second"]) {
    await ended(service.child);
    service = await start(by);
  }
  await ended(service.child);
  service = await start(by);
  await eventually("the step has failed", async () => (await nodeOf(service.url)).state === "CLEAN_FAILED");
  expect((await nodeOf(service.url)).lastError).toMatchObject({
    code: "INTERRUPTED",
    message: expect.stringContaining("ended 3 times during it"),
  });
});

/** The processes of a user, those of one parent if it is given: other services may have workers of this user, too. */
async function pidsOf(uid: number, parent?: number): Promise<number[]> {
  const child = spawn("ps", ["-o", "pid=,ppid=", "-U", String(uid)], { stdio: ["ignore", "pipe", "ignore"] });
  let output = "";
  child.stdout.on("data", (part: Buffer) => (output += part.toString()));
  await once(child, "close");
  const rows = output.split("\n").filter((line) => line.trim() !== "");
  return rows
    .map((line) => line.trim().split(/\s+/).map(Number))
    .filter(([, ppid]) => parent === undefined || ppid === parent)
    .flatMap(([pid]) => pid ?? []);
}
