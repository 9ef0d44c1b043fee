/**
 * `npm run tool -- power-cuts`: cuts the power of a service on the embedded database. Its folder is on an ext4 file
 * system in a loop device, which is shut down without a flush of its journal: whatever was not synchronized is lost, as
 * at a power cut. The cuts begin at the first start of a folder, and at the first start after an upgrade from a release
 * without a password, before the service is ready and 1 to 45 s after it. After each cut the service has to start
 * again, with all that it had acknowledged.
 *
 * Needs Linux, root, loop devices, and the programs losetup, mkfs.ext4 and perl.
 *
 * Options: --cuts 11 --seed N. Prints the seed, a line per cut, and finally `N passed, N failed`.
 */
import { spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readlinkSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { startEmbedded } from "../../src/store/postgres/embedded.ts";
import { ask } from "../support/ask.ts";
import { anySeed, chance, plainSql } from "./lab.ts";

type Kind = "first start" | "upgrade" | "later start";

/** Each cut follows a start, by a number of seconds after the service is ready; negative: after it was launched. */
const CUTS: readonly (readonly [kind: Kind, from: number, to: number])[] = [
  ["first start", 5, 10],
  ["upgrade", 3, 8],
  ["first start", -2, -0.3],
  ["first start", 20, 30],
  ["later start", -1, -0.1],
  ["upgrade", -2, -0.3],
  ["first start", 1, 2],
  ["upgrade", 20, 30],
  ["first start", 35, 45],
  ["later start", 1, 5],
  ["upgrade", 1, 2],
];
const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const DISK_BYTES = 1024 ** 3;
/** `FS_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH`. */
const CUT_POWER =
  'open(my $d, "<", $ARGV[0]) or die $!; my $flag = pack("L", 2); ioctl($d, 0x8004587d, $flag) or die $!;';
const START_MS = 60_000;

/** Objects that the service acknowledged since the folder was new. */
interface Acknowledged {
  readonly nodes: string[];
  readonly operations: string[];
}

/** Why this machine cannot cut the power of a file system; null if it can. */
export function missingForPowerCuts(): string | null {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "needs Linux and root";
  for (const program of ["losetup", "mkfs.ext4", "perl", "mount"])
    if (spawnSync(program, ["--help"]).error) return `${program} is not installed`;
  const disk = new Disk();
  try {
    disk.mount();
    return null;
  } catch {
    return "loop devices cannot be mounted here";
  } finally {
    disk[Symbol.dispose]();
  }
}

/** An ext4 file system whose power can be cut. */
class Disk {
  readonly #home = mkdtempSync(join(tmpdir(), "ostler-power-"));
  readonly #image = join(this.#home, "image");
  readonly folder = join(this.#home, "disk");

  mount(): void {
    mkdirSync(this.folder);
    closeSync(openSync(this.#image, "w"));
    truncateSync(this.#image, DISK_BYTES);
    run("mkfs.ext4", "-q", this.#image);
    run("mount", "-o", "loop", this.#image, this.folder);
  }

  /** Drops what was not synchronized, ends the processes of the disk, and mounts it again. */
  async cut(): Promise<void> {
    run("perl", "-e", CUT_POWER, this.folder);
    for (let tries = 0; spawnSync("umount", [this.folder]).status !== 0; tries += 1) {
      if (tries > 100) throw new Error(`${this.folder} is in use.`);
      this.#killUsers();
      await delay(100);
    }
    run("mount", "-o", "loop", this.#image, this.folder);
  }

  #killUsers(): void {
    for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      try {
        if (readlinkSync(`/proc/${pid}/cwd`).startsWith(this.folder)) process.kill(Number(pid), "SIGKILL");
      } catch {
        // It has ended.
      }
    }
  }

  [Symbol.dispose](): void {
    spawnSync("umount", ["--lazy", this.folder]);
    rmSync(this.#home, { recursive: true, force: true });
  }
}

function run(program: string, ...args: readonly string[]): void {
  const { status, stderr, error } = spawnSync(program, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} failed: ${(stderr || String(error ?? "")).trim()}`);
}

class Service {
  readonly #url: string;
  readonly #child: ChildProcess;
  #output = "";

  constructor(folder: string, port: number) {
    this.#url = `http://127.0.0.1:${port}`;
    this.#child = spawn(
      process.execPath,
      [MAIN, "--data", join(folder, "data"), "--port", String(port), "--log", "warn"],
      { cwd: folder, env: { PATH: process.env["PATH"] }, stdio: ["ignore", "pipe", "pipe"] },
    );
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on("data", (part: Buffer) => (this.#output += part.toString()));
  }

  /** Throws with the output of the service if it does not start. */
  async ready(): Promise<void> {
    for (let waited = 0; !this.#output.includes("Ostler is ready"); waited += 20) {
      if (waited > START_MS || this.#child.exitCode !== null || this.#child.signalCode !== null)
        throw new Error(`The service did not start: ${this.#output.trim()}`);
      await delay(20);
    }
  }

  async end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = new Promise<void>((done) => this.#child.once("exit", () => done()));
    this.#child.kill(signal);
    await ended;
  }

  /** Registers and commissions a node, and notes what was acknowledged. */
  async work(acknowledged: Acknowledged): Promise<void> {
    const name = `node-${acknowledged.nodes.length}`;
    const nodes = [{ name, driver: { fake: { delayMs: 50 } } }];
    const { registerNodes } = await ask<{ registerNodes: { count: number } }>(
      this.#url,
      "mutation ($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { count } }",
      { variables: { nodes } },
    );
    if (registerNodes.count === 1) acknowledged.nodes.push(name);
    const { commissionNodes } = await ask<{ commissionNodes: { operation: { id: string } | null } }>(
      this.#url,
      "mutation ($names: [String!]) { commissionNodes(input: { nodes: { names: $names } }) { operation { id } } }",
      { variables: { names: [name] } },
    );
    if (commissionNodes.operation) acknowledged.operations.push(commissionNodes.operation.id);
  }

  /** The acknowledged objects that are not there. */
  async lost({ nodes, operations }: Acknowledged): Promise<string[]> {
    const lost: string[] = [];
    for (const name of nodes) {
      const { node } = await ask<{ node: object | null }>(
        this.#url,
        "query ($name: String!) { node(by: { name: $name }) { name } }",
        { variables: { name } },
      );
      if (node === null) lost.push(name);
    }
    for (const id of operations) {
      const { operation } = await ask<{ operation: object | null }>(
        this.#url,
        "query ($id: ID!) { operation(id: $id) { id } }",
        { variables: { id } },
      );
      if (operation === null) lost.push(id);
    }
    return lost;
  }
}

/** Leaves the folder as a release without a password did, synchronized. */
async function takeBackPassword(folder: string): Promise<void> {
  const database = join(folder, "data", "postgres");
  {
    await using embedded = await startEmbedded({ folder: database });
    const sql = plainSql(embedded.connection, 1);
    await sql`alter role ostler password null`;
    await sql.end();
  }
  rmSync(join(database, "pgpass"));
  writeFileSync(join(database, "data", "pg_hba.conf"), "local all all trust\n");
  run("sync");
}

async function cutOnce(kind: Kind, seconds: number, port: number): Promise<{ counted: number; lost: string[] }> {
  using disk = new Disk();
  disk.mount();
  const acknowledged: Acknowledged = { nodes: [], operations: [] };
  let service: Service | undefined;
  try {
    if (kind !== "first start") {
      service = new Service(disk.folder, port);
      await service.ready();
      for (let count = 0; count < 5; count += 1) await service.work(acknowledged);
      await service.end("SIGTERM");
      if (kind === "upgrade") await takeBackPassword(disk.folder);
    }
    service = new Service(disk.folder, port);
    if (seconds < 0) await delay(-seconds * 1_000);
    else {
      await service.ready();
      for (const end = Date.now() + seconds * 1_000; Date.now() < end; await delay(200))
        await service.work(acknowledged);
    }
    const killed = service.end("SIGKILL");
    await disk.cut();
    await killed;
    // Twice, because a start may leave less than it found.
    const lost: string[] = [];
    for (const ending of ["SIGKILL", "SIGTERM"] as const) {
      service = new Service(disk.folder, port);
      await service.ready();
      lost.push(...(await service.lost(acknowledged)));
      await service.end(ending);
    }
    return { counted: acknowledged.nodes.length + acknowledged.operations.length, lost };
  } finally {
    await service?.end("SIGKILL");
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      cuts: { type: "string", default: String(CUTS.length) },
      seed: { type: "string", default: String(anySeed()) },
    },
  });
  const missing = missingForPowerCuts();
  if (missing !== null) throw new Error(`The power cannot be cut: ${missing}.`);
  const seed = Number(values.seed);
  const random = chance(seed);
  const port = 20_000 + (seed % 10_000);
  console.log(`seed ${seed}: ${values.cuts} power cuts`);
  let failed = 0;
  const cuts = CUTS.slice(0, Number(values.cuts));
  for (const [kind, from, to] of cuts) {
    const seconds = from + random.next() * (to - from);
    const when = `${Math.abs(seconds).toFixed(1)} s after the service ${seconds < 0 ? "was launched" : "was ready"}`;
    const result = await cutOnce(kind, seconds, port).catch((error: unknown) => String(error));
    const bad = typeof result === "string" ? result : result.lost.length > 0 && `lost ${result.lost.join(", ")}`;
    if (bad) failed += 1;
    const detail = bad || (typeof result === "object" && `${result.counted} acknowledged, none lost`);
    console.log(`${bad ? "FAIL" : "ok  "} ${kind}, power cut ${when} (${detail})`);
  }
  console.log(`${cuts.length - failed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}

if (import.meta.main) await main();
