/** The embedded PostgreSQL: one owner per folder, and acknowledged data survives the death of the owner. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import { afterAll, describe, expect, test } from "vitest";
import type { Connection } from "../../src/store/postgres/database.ts";
import { startEmbedded } from "../../src/store/postgres/embedded.ts";
import { eventually } from "../support/eventually.ts";

const SCRIPT = fileURLToPath(new URL("../support/embedded-process.ts", import.meta.url));
const folders: string[] = [];
const aFolder = (name = "ostler-embedded-") => {
  const folder = mkdtempSync(join(tmpdir(), name));
  folders.push(folder);
  return folder;
};
let initial: string | undefined;
/** A folder whose database has been started before: a copy, which costs a tenth of initdb. */
async function initialized(): Promise<string> {
  if (initial === undefined) {
    initial = aFolder();
    await (await startEmbedded({ folder: initial, durable: false }))[Symbol.asyncDispose]();
  }
  const folder = aFolder();
  const copied = spawnSync("cp", ["-a", `${initial}/.`, folder], { encoding: "utf8" });
  if (copied.status !== 0) throw new Error(`The data folder could not be copied: ${copied.stderr}`);
  return folder;
}
afterAll(() => {
  // Each is a database, and its files were synchronized.
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}, 120_000);

function connect(connection: Connection) {
  if ("url" in connection) throw new Error("The embedded database is reached by its socket.");
  return postgres({ ...connection, max: 1, onnotice: () => {} });
}

/** Starts an owner in its own process and collects its output. */
function startOwner(folder: string) {
  const child = spawn(process.execPath, [SCRIPT, folder], { stdio: ["ignore", "pipe", "inherit"] });
  const output: { postmaster?: number; row?: number; refused?: string }[] = [];
  const stdout = createInterface({ input: child.stdout });
  stdout.on("line", (line) => output.push(JSON.parse(line) as (typeof output)[number]));
  const closed = once(stdout, "close");
  return {
    output,
    async kill() {
      child.kill("SIGKILL");
      await closed;
    },
    ended: closed,
  };
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe("embedded database", () => {
  test("embedded database refuses a process of the same user that does not have its password [R-215]", async () => {
    await using embedded = await startEmbedded({ folder: await initialized(), durable: false });
    if ("url" in embedded.connection) throw new Error("The embedded database is reached by its socket.");
    const { password, ...without } = embedded.connection;
    expect(password).toHaveLength(64);
    const stranger = postgres({ ...without, max: 1, onnotice: () => {} });
    await expect(stranger`select 1`).rejects.toThrow(/./);
    await stranger.end();
    const owner = connect(embedded.connection);
    expect(await owner`select 1 as one`).toEqual([{ one: 1 }]);
    await owner.end();
  });

  test("embedded database of an earlier release, without a password, keeps its data and gets one [R-215]", async () => {
    const folder = await initialized();
    {
      await using first = await startEmbedded({ folder, durable: false });
      const sql = connect(first.connection);
      await sql`create table kept (id int)`;
      await sql`alter role ostler password null`;
      await sql.end();
    }
    // As an earlier release left it.
    rmSync(join(folder, "pgpass"));
    writeFileSync(join(folder, "data", "pg_hba.conf"), "local all all trust\n");
    await using second = await startEmbedded({ folder, durable: false });
    expect(second.connection).toMatchObject({ password: expect.stringMatching(/^[0-9a-f]{64}$/) });
    const sql = connect(second.connection);
    expect(await sql`select id from kept`).toEqual([]);
    await sql.end();
    expect(readFileSync(join(folder, "data", "pg_hba.conf"), "utf8")).not.toContain("local all all trust");
  });

  /** Gives the folder a row, and damages a file of it as a power cut does. */
  async function damaged(file: string, damage: (whole: string) => string): Promise<string> {
    const folder = await initialized();
    {
      await using first = await startEmbedded({ folder, durable: false });
      const sql = connect(first.connection);
      await sql`create table kept as select 7 as id`;
      await sql.end();
    }
    const path = join(folder, file);
    writeFileSync(path, damage(existsSync(path) ? readFileSync(path, "utf8") : ""));
    return folder;
  }

  test.each<[string, string, (whole: string) => string]>([
    ["password file is empty", "pgpass", () => ""],
    ["password file is cut", "pgpass", (whole) => whole.slice(0, 40)],
    ["password file is cut by one character", "pgpass", (whole) => whole.slice(0, -2)],
    ["password file has zeros", "pgpass", (whole) => "\0".repeat(whole.length)],
    ["password file is a text", "pgpass", () => "a note\n"],
    [
      "password file has the password of another database",
      "pgpass",
      (whole) => whole.replace(/\w{64}/, "a".repeat(64)),
    ],
    ["unfinished password file is there", "pgpass.new", () => "*:*:"],
    ["access rules are empty", "data/pg_hba.conf", () => ""],
    ["lock file is empty", "data/postmaster.pid", () => ""],
    ["lock file is a text", "data/postmaster.pid", () => "\0\0\0"],
    ["lock file is one of single-user mode", "data/postmaster.pid", () => "-1\n"],
    ["lock file of the socket is empty", ".s.PGSQL.5432.lock", () => ""],
    ["note of its owner is empty", "owner.pid", () => ""],
    ["note of its socket is cut", "socket.folder", () => "/tmp"],
  ])("embedded database whose %s after a power cut starts again with its data [R-131]", async (_, file, damage) => {
    const folder = await damaged(file, damage);
    for (const start of ["first", "second"]) {
      await using again = await startEmbedded({ folder, durable: false });
      const sql = connect(again.connection);
      expect(await sql`select id from kept`, start).toEqual([{ id: 7 }]);
      await sql.end();
    }
    expect(readFileSync(join(folder, "pgpass"), "utf8")).toMatch(/^\*:\*:\*:ostler:[0-9a-f]{64}\n$/);
  });

  test("embedded database replaces a note of its socket that names a folder of another program", async () => {
    const folder = join(aFolder(), "x".repeat(120));
    for (const note of ["", tmpdir(), "/etc"]) {
      await using deep = await startEmbedded({ folder, durable: false });
      if ("url" in deep.connection) throw new Error("The embedded database is reached by its socket.");
      expect(deep.connection.host).toMatch(/\/ostler-\w{6}$/);
      folders.push(deep.connection.host);
      writeFileSync(join(folder, "socket.folder"), note);
    }
  });

  test("embedded database leaves a folder alone that has files but no database, and the error says what to do", async () => {
    const folder = aFolder();
    mkdirSync(join(folder, "data"));
    writeFileSync(join(folder, "data", "precious"), "");
    await expect(startEmbedded({ folder, durable: false })).rejects.toThrow(
      /PG_VERSION is missing. Restore the folder/,
    );
    expect(existsSync(join(folder, "data", "precious"))).toBe(true);
  });

  test("embedded database trusts connections by TCP only where it is started with a port [R-215]", async () => {
    const folder = await initialized();
    const rules = () => readFileSync(join(folder, "data", "pg_hba.conf"), "utf8");
    {
      await using _ = await startEmbedded({ folder, durable: false, tcpPort: 20_000 + (process.pid % 12_000) });
      expect(rules()).toContain("127.0.0.1/32 trust");
    }
    await using _ = await startEmbedded({ folder, durable: false });
    expect(rules()).toBe("local all all scram-sha-256\n");
  });

  test("embedded database creates its folder, keeps its data, and starts again", async () => {
    const folder = join(aFolder(), "new", "folder");
    {
      await using first = await startEmbedded({ folder, durable: false });
      const sql = connect(first.connection);
      await sql`create table kept (id int)`;
      await sql`insert into kept values (7)`;
      await sql.end();
    }
    expect(existsSync(join(folder, "owner.pid"))).toBe(false);
    await using second = await startEmbedded({ folder, durable: false });
    const sql = connect(second.connection);
    expect(await sql`select id from kept`).toEqual([{ id: 7 }]);
    const [version] = await sql`show server_version_num`;
    expect(Number(version?.["server_version_num"])).toBeGreaterThanOrEqual(180_000);
    await sql.end();
  });

  test("embedded database listens on no port by default", async () => {
    await using quiet = await startEmbedded({ folder: await initialized(), durable: false });
    const sql = connect(quiet.connection);
    expect(await sql`show listen_addresses`).toEqual([{ listen_addresses: "" }]);
    await sql.end();
  });

  test("embedded database runs in a folder whose path is too long for a socket", async () => {
    await using deep = await startEmbedded({ folder: join(aFolder(), "x".repeat(120)), durable: false });
    const sql = connect(deep.connection);
    expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
    await sql.end();
    if (!("url" in deep.connection)) folders.push(deep.connection.host);
  });

  test.each(["comma, and spaces", "colon:1", `quotes "double" 'single' $HOME`])(
    "embedded database runs in a folder named %s",
    async (name) => {
      const folder = join(aFolder(), name);
      for (const _ of ["first start", "second start"]) {
        await using named = await startEmbedded({ folder, durable: false });
        const sql = connect(named.connection);
        expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
        await sql.end();
        if (!("url" in named.connection)) folders.push(named.connection.host);
      }
    },
  );

  test("embedded database starts over a zombie postmaster", async () => {
    const folder = await initialized();
    // A parent that never waits for its child, which ends after the shell has become another program.
    const parent = spawn("sh", ["-c", "sleep 0.2 & echo $!; exec sleep 60"], { stdio: ["ignore", "pipe", "inherit"] });
    try {
      const [zombie] = (await once(createInterface({ input: parent.stdout }), "line")) as [string];
      await eventually("the child is a zombie", () => /\) Z /.test(readFileSync(`/proc/${zombie}/stat`, "latin1")));
      const lock = `${zombie}\n${join(folder, "data")}\n0\n5432\n${folder}\n\n`;
      writeFileSync(join(folder, "data", "postmaster.pid"), lock);
      writeFileSync(join(folder, ".s.PGSQL.5432.lock"), lock);
      await using again = await startEmbedded({ folder, durable: false });
      const sql = connect(again.connection);
      expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
      await sql.end();
    } finally {
      parent.kill();
    }
  });

  test("embedded database refuses a second owner of its folder, and the first one continues", async () => {
    const folder = await initialized();
    await using first = await startEmbedded({ folder, durable: false });
    const second = startOwner(folder);
    await second.ended;
    expect(second.output).toEqual([
      { refused: expect.stringContaining(`Another Ostler (process ${process.pid}) uses the data directory ${folder}`) },
    ]);
    const sql = connect(first.connection);
    expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
    await sql.end();
  });

  test("embedded database starts although its stale lock file names a process that is not its own", async () => {
    const folder = await initialized();
    const stranger = spawn("sleep", ["60"]);
    try {
      writeFileSync(
        join(folder, "data", "postmaster.pid"),
        `${stranger.pid}\n${join(folder, "data")}\n0\n5432\n${folder}\n\n`,
      );
      await using again = await startEmbedded({ folder, durable: false });
      const sql = connect(again.connection);
      expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
      await sql.end();
      expect(again.pid).not.toBe(stranger.pid);
    } finally {
      stranger.kill();
    }
  });

  test("embedded database that was killed is closed at once", async () => {
    const folder = await initialized();
    const killed = await startEmbedded({ folder, durable: false });
    process.kill(killed.pid, "SIGKILL");
    await eventually("the postmaster has ended", () => !isRunning(killed.pid));
    await killed[Symbol.asyncDispose]();
    expect(existsSync(join(folder, "owner.pid"))).toBe(false);
  });

  test("embedded database that ends is restarted for a caller that keeps it up, until it is closed", async () => {
    const folder = await initialized();
    const events: string[] = [];
    const keepUp = { down: (why: string) => events.push(`down: ${why}`), up: () => events.push("up") };
    const kept = await startEmbedded({ folder, keepUp });
    const sql = connect(kept.connection);
    await sql`create table kept (id int)`;
    await sql`insert into kept values (7)`;
    const first = kept.pid;
    process.kill(first, "SIGKILL");
    await eventually("it is up again", () => events.at(-1) === "up", 30_000);
    expect(events[0]).toMatch(/^down: .*ready to accept connections/);
    expect(kept.pid).not.toBe(first);
    expect(await sql`select id from kept`).toEqual([{ id: 7 }]);
    await sql.end();
    const last = kept.pid;
    await kept[Symbol.asyncDispose]();
    expect(isRunning(last)).toBe(false);
    expect(events.filter((one) => one.startsWith("down"))).toHaveLength(1);
  });

  test("embedded database that is closed during a restart stays down", async () => {
    const folder = await initialized();
    const down = Promise.withResolvers<void>();
    const kept = await startEmbedded({ folder, durable: false, keepUp: { down: () => down.resolve(), up: () => {} } });
    const first = kept.pid;
    process.kill(first, "SIGKILL");
    await down.promise;
    await kept[Symbol.asyncDispose]();
    expect(kept.pid).toBe(first);
    expect(existsSync(join(folder, "owner.pid"))).toBe(false);
  });

  test("embedded database ends with its owner, and every acknowledged row is there at the next start [R-131]", async () => {
    const folder = await initialized();
    const owner = startOwner(folder);
    await eventually("two hundred rows are acknowledged", () => owner.output.length > 200);
    await owner.kill();
    const postmaster = owner.output[0]?.postmaster ?? 0;
    await eventually("the postmaster has ended", () => !isRunning(postmaster));
    const acknowledged = owner.output.flatMap(({ row }) => (row === undefined ? [] : [row]));
    await using again = await startEmbedded({ folder });
    const sql = connect(again.connection);
    const rows = await sql<{ id: number }[]>`select id from rows`;
    const there = new Set(rows.map(({ id }) => id));
    expect(acknowledged.length).toBeGreaterThan(150);
    expect(acknowledged.filter((row) => !there.has(row))).toEqual([]);
    await sql.end();
  });
});
