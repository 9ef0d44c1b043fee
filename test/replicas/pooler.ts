/**
 * `npm run tool -- pooler`: the service behind a PgBouncer in transaction mode, as installed on this computer (Debian:
 * `apt install pgbouncer`). An API replica and a worker replica use it for everything except one LISTEN connection
 * each. A fleet is commissioned while a subscriber follows, PgBouncer is restarted in the middle, and one replica is
 * killed. Finally the start without a separate LISTEN address must be refused.
 *
 * Prints a line per check, and finally `N passed, N failed`.
 */
import { spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { eventually } from "../support/eventually.ts";
import { check, prove } from "../support/proof.ts";
import { wholeLog } from "../support/transition-log.ts";
import { ask, commission, entered, follow, operationOf, register, scratch, startReplica, startServer } from "./lab.ts";

const NODES = 100;
/** Connections from PgBouncer to the server: fewer than one replica would open. */
const POOL = 12;
const UNPRIVILEGED_ID = 65_534;

interface Pooler extends AsyncDisposable {
  readonly url: string;
  restart(): Promise<void>;
}

async function startPooler(folder: string, server: string): Promise<Pooler> {
  const { hostname, port, pathname, username } = new URL(server);
  const own = Number(port) - 1;
  const config = join(folder, "pgbouncer.ini");
  const users = join(folder, "users.txt");
  writeFileSync(users, `"${username}" ""\n`);
  writeFileSync(
    config,
    `[databases]\n${pathname.slice(1)} = host=${hostname} port=${port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${own}\nunix_socket_dir =\nauth_type = trust\nauth_file = ${users}\npool_mode = transaction\nmax_client_conn = 500\ndefault_pool_size = ${POOL}\nlogfile = ${join(folder, "pgbouncer.log")}\npidfile = ${join(folder, "pgbouncer.pid")}\n`,
  );
  // PgBouncer does not run as root.
  const identity = process.getuid?.() === 0 ? { uid: UNPRIVILEGED_ID, gid: UNPRIVILEGED_ID } : {};
  chmodSync(folder, 0o777);
  let child: ChildProcess;
  const start = async () => {
    child = spawn("pgbouncer", ["-q", config], { stdio: "ignore", ...identity });
    await eventually("PgBouncer listens", () => isOpen(own), 10_000);
  };
  const stop = async () => {
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  };
  await start();
  return {
    url: `postgres://${username}@127.0.0.1:${own}${pathname}`,
    async restart() {
      await stop();
      await start();
    },
    [Symbol.asyncDispose]: stop,
  };
}

function isOpen(port: number): Promise<boolean> {
  return new Promise((answer) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      answer(true);
    });
    socket.once("error", () => answer(false));
  });
}

async function main(): Promise<void> {
  using place = scratch();
  await using owned = new AsyncDisposableStack();
  const server = owned.use(await startServer(place.folder));
  const pooler = owned.use(await startPooler(place.folder, server.url));
  const direct = postgres(server.url, { max: 1, onnotice: () => {} });
  owned.defer(() => direct.end());
  const start = async (role: string, more: Readonly<Record<string, string>> = {}) =>
    owned.use(
      await startReplica(place.folder, {
        databaseUrl: pooler.url,
        environment: { OSTLER_ROLE: role, OSTLER_LISTEN_URL: server.url, OSTLER_LOG: "info", ...more },
      }),
    );

  const [api, engine] = await Promise.all([start("api"), start("engine")]);
  check(
    "two replicas that start together migrate through it, and find it out",
    [api, engine].every((one) => one.log().includes('"isPooled":true')),
  );
  const spare = await start("engine");
  const names = Array.from({ length: NODES }, (_, index) => `node-${index}`);
  await register(api.url, names, { delayMs: 60, waitSeconds: 1 });
  const reader = follow(api.url);
  const began = Date.now();
  const operation = await commission(api.url, names);
  await eventually(
    "half of the steps are entered",
    () => [engine, spare].flatMap((one) => entered(one.journal())).length > NODES * 3,
    60_000,
  );
  const [waiting] = await direct<
    { count: number }[]
  >`select count(*)::int as count from pg_stat_activity where datname = current_database() and query ilike 'listen%'`;
  check("one connection of each replica listens, at the server itself", waiting?.count === 3, `${waiting?.count} of 3`);
  const [shared] = await direct<
    { count: number }[]
  >`select count(*)::int as count from pg_stat_activity where datname = current_database() and backend_type = 'client backend' and query not ilike 'listen%' and pid <> pg_backend_pid()`;
  check("all others share the pool", (shared?.count ?? 99) <= POOL, `${shared?.count} connections for three replicas`);
  await pooler.restart();
  await delay(500);
  await engine.kill();
  await eventually(
    "the operation has ended",
    async () => (await operationOf(api.url, operation).catch(() => null))?.finishedAt != null,
    120_000,
  );
  const { state } = await operationOf(api.url, operation);
  check(
    "a commission succeeds, though PgBouncer was restarted and a replica killed in the middle",
    state === "SUCCEEDED",
    `${state}, ${((Date.now() - began) / 1_000).toFixed(1)} s`,
  );
  const log = await wholeLog(api.url);
  check(
    "the log has no hole",
    log.every(({ cursor }, index) => Number.parseInt(cursor, 10) === index + 1),
    `${log.length} transitions`,
  );
  await eventually("the subscriber has seen all", () => reader.seen.length >= log.length, 20_000);
  check(
    "the subscriber has missed nothing and seen nothing twice",
    reader.seen.length === log.length &&
      reader.seen.every(({ cursor }, index) => Number.parseInt(cursor, 10) === index + 1),
    `${reader.seen.length} of ${log.length}`,
  );
  await reader.close();

  await register(api.url, ["slow"], { steps: { "inspect.collect_inventory": { silent: true } } });
  const stuck = await commission(api.url, ["slow"]);
  await eventually("the step is entered", () => entered(spare.journal()).some(({ node }) => node === "slow"));
  const abortedAt = Date.now();
  await ask(api.url, "mutation ($id: ID!) { abort(input: { work: { operationId: $id } }) { errors { message } } }", {
    id: stuck,
  });
  await eventually("it is aborted", async () => (await operationOf(api.url, stuck)).finishedAt !== null, 60_000);
  check("an abort that is asked of one replica reaches the step in the other", true, `${Date.now() - abortedAt} ms`);

  const [locks] = await direct<
    { count: number }[]
  >`select count(*)::int as count from pg_locks where locktype = 'advisory'`;
  check("no lock is left in the pool", locks?.count === 0, `${locks?.count}`);
  for (const [who, replica] of [
    ["the one that serves", api],
    ["the one that works", spare],
  ] as const) {
    const flaws = replica
      .log()
      .split("\n")
      .filter(
        (line) =>
          /prepared statement|unsupported startup|08P01/.test(line) &&
          !/server conn crashed|closed|terminat|login|shutting|client_login/i.test(line),
      );
    check(`${who} has nothing to say of prepared statements or settings`, flaws.length === 0, flaws[0] ?? "");
  }
  for (const replica of [api, spare]) {
    const { code, ms } = await replica.end();
    check("a replica ends with 0", code === 0, `${ms.toFixed(0)} ms`);
  }

  const deaf = await startReplica(place.folder, { databaseUrl: pooler.url }).then(
    async (started) => {
      await started.kill();
      return "";
    },
    (error: unknown) => String(error),
  );
  check(
    "a start without OSTLER_LISTEN_URL is refused with one sentence that names it",
    /LISTEN does not work.*OSTLER_LISTEN_URL/.test(deaf),
    deaf.split("\n").at(-2) ?? deaf,
  );
}

const installed = spawnSync("pgbouncer", ["--version"], { encoding: "utf8" });
if (installed.status !== 0) {
  console.log("PgBouncer is not installed here, so nothing was tried. Debian: apt install pgbouncer.");
  process.exitCode = 1;
} else {
  console.log(installed.stdout.split("\n")[0]);
  await prove(main);
}
