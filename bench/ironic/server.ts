/**
 * An OpenStack Ironic from Debian's packages, for the comparison in side-by-side.ts: standalone, without
 * authentication, with its hardware type `fake-hardware` and no delay, on a PostgreSQL of the version that Ostler
 * brings. Options that are not named here have Ironic's defaults, such as automated cleaning, periodic tasks, and
 * numbers of workers and connections.
 */
import { spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { startEmbedded } from "../../src/store/postgres/embedded.ts";
import { cpuMs, cpuMsOfChildren, end, freePort, memoryMbOfTree } from "../testbed.ts";
import type { Testbed } from "../testbed.ts";

/** `one`: API and conductor in one process, as in Metal3. `two`: as services of their own, with JSON RPC. */
export type Layout = "one" | "two";

export interface Ironic extends AsyncDisposable {
  readonly url: string;
  readonly sql: postgres.Sql;
  /** CPU time so far, in ms. That of the session `sql` is not counted. */
  cpu(): { readonly service: number; readonly postgres: number };
  memoryMb(): number;
}

const PYTHON = "/usr/bin/python3";
const DATABASE = "ironic";
const START_MS = 300_000;
const POLL_MS = 200;
const LOG_TAIL = 2_000;

const PROCESSES: Readonly<Record<Layout, readonly string[]>> = {
  one: ["singleprocess"],
  two: ["conductor", "api"],
};

/** The installed version of Ironic. Throws if a package is missing. */
export function ironicVersion(): string {
  const program = "import importlib.metadata as m, psycopg2, ironic.conf; print(m.version('ironic'))";
  const { status, stdout, stderr } = spawnSync(PYTHON, ["-c", program], { encoding: "utf8" });
  if (status === 0) return stdout.trim();
  throw new Error(
    "OpenStack Ironic is not installed. On Debian 12, as root: " +
      "apt-get install --no-install-recommends python3-ironic python3-psycopg2. " +
      `Python: ${(stderr ?? "").trim().split("\n").at(-1) ?? ""}`,
  );
}

export async function startIronic(testbed: Testbed, layout: Layout): Promise<Ironic> {
  await using parts = new AsyncDisposableStack();
  const folder = join(testbed.folder, `ironic-${layout}`);
  mkdirSync(folder);
  const server = parts.use(await startEmbedded({ folder: join(folder, "postgres") }));
  const { connection } = server;
  if ("url" in connection) throw new Error("The embedded database is reached by its socket.");
  const admin = postgres({ ...connection, max: 1, onnotice: () => {} });
  await admin`create database ${admin(DATABASE)}`;
  await admin.end();
  const port = await freePort();
  const config = join(folder, "ironic.conf");
  const { host, port: socketPort, user, password } = connection;
  const login = password === undefined ? user : `${user}:${encodeURIComponent(password)}`;
  const database = `postgresql+psycopg2://${login}@/${DATABASE}?host=${host}&port=${socketPort}`;
  writeFileSync(config, configuration({ folder, database, layout, port, rpcPort: await freePort() }), { mode: 0o600 });
  await completed(launch(testbed, { command: "dbsync", args: ["--config-file", config, "create_schema"], folder }));
  const children: ChildProcess[] = [];
  for (const command of PROCESSES[layout]) {
    const child = launch(testbed, { command, args: ["--config-file", config], folder });
    parts.defer(() => end(child));
    children.push(child);
  }
  // One session for the whole time, because its CPU time is subtracted.
  const sql = postgres({ ...connection, database: DATABASE, max: 1, max_lifetime: null, onnotice: () => {} });
  parts.defer(() => sql.end({ timeout: 5 }));
  const url = `http://127.0.0.1:${port}`;
  await untilReady(url, children, join(folder, "ironic.log"));
  const [session] = await sql`select pg_backend_pid() as pid`;
  const pids = children.map(({ pid }) => pid ?? 0);
  const opened = parts.move();
  return {
    url,
    sql,
    cpu: () => ({
      service: pids.reduce((sum, pid) => sum + (cpuMs(pid) ?? 0) + (cpuMsOfChildren(pid) ?? 0), 0),
      postgres: (cpuMs(server.pid) ?? 0) + (cpuMsOfChildren(server.pid) ?? 0) - (cpuMs(Number(session?.["pid"])) ?? 0),
    }),
    memoryMb: () => [server.pid, ...pids].reduce((sum, pid) => sum + (memoryMbOfTree(pid) ?? 0), 0),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

interface Setup {
  readonly folder: string;
  readonly database: string;
  readonly layout: Layout;
  readonly port: number;
  readonly rpcPort: number;
}

/** Interfaces that do nothing where there are some, so that no driver asks for more than its states and steps. */
function configuration({ folder, database, layout, port, rpcPort }: Setup): string {
  return `[DEFAULT]
auth_strategy = noauth
host = 127.0.0.1
my_ip = 127.0.0.1
rpc_transport = ${layout === "one" ? "none" : "json-rpc"}
state_path = ${folder}
log_file = ${join(folder, "ironic.log")}
default_log_levels = ${["ironic", "ironic_lib", "eventlet", "oslo", "stevedore", "urllib3"].map((name) => `${name}=ERROR`).join(",")}
enabled_hardware_types = fake-hardware
enabled_bios_interfaces = no-bios
enabled_boot_interfaces = fake
enabled_console_interfaces = no-console
enabled_deploy_interfaces = fake
enabled_inspect_interfaces = fake
enabled_management_interfaces = fake
enabled_network_interfaces = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = no-raid
enabled_rescue_interfaces = no-rescue
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor
[api]
host_ip = 127.0.0.1
port = ${port}
[database]
connection = ${database.replaceAll("%", "%%")}
[dhcp]
dhcp_provider = none
[json_rpc]
auth_strategy = noauth
host_ip = 127.0.0.1
port = ${rpcPort}
[oslo_concurrency]
lock_path = ${folder}
`;
}

/** One of Ironic's programs. The packages of its services need not be installed, as they start daemons. */
function launch(
  testbed: Testbed,
  { command, args, folder }: { readonly command: string; readonly args: readonly string[]; readonly folder: string },
): ChildProcess {
  const output = openSync(join(folder, "output.log"), "a");
  const child = spawn(PYTHON, ["-c", `import sys; from ironic.cmd.${command} import main; sys.exit(main())`, ...args], {
    cwd: folder,
    stdio: ["ignore", output, output],
  });
  closeSync(output);
  testbed.watch(child);
  return child;
}

async function completed(child: ChildProcess): Promise<void> {
  const status = await new Promise((resolve) => child.once("exit", resolve));
  if (status !== 0) throw new Error(`Ironic's database could not be created: ${child.spawnargs.join(" ")}`);
}

/** Waits until the API answers and the conductor has registered its hardware type. */
async function untilReady(url: string, children: readonly ChildProcess[], logFile: string): Promise<void> {
  const deadline = performance.now() + START_MS;
  while (performance.now() < deadline) {
    const ended = children.find(({ exitCode }) => exitCode !== null);
    if (ended) throw new Error(`Ironic ended: ${readFileSync(logFile, "utf8").slice(-LOG_TAIL)}`);
    try {
      const { drivers } = (await (await fetch(`${url}/v1/drivers`)).json()) as { drivers?: readonly unknown[] };
      if ((drivers?.length ?? 0) > 0) return;
    } catch {
      // It does not listen yet.
    }
    await delay(POLL_MS);
  }
  throw new Error(`Ironic was not ready after ${START_MS / 1_000} s: see ${logFile}`);
}
