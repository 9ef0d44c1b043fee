/** The embedded PostgreSQL: one owner per folder, and acknowledged data survives the death of the owner. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import { describe, expect, test } from "vitest";
import { startEmbedded } from "../../src/store/postgres/embedded.ts";
import { connectToEmbedded, embeddedFolders } from "../support/embedded-folders.ts";
import { eventually } from "../support/eventually.ts";

const SCRIPT = fileURLToPath(new URL("../support/embedded-process.ts", import.meta.url));
const { aFolder, initialized, alsoRemove } = embeddedFolders();

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
    const owner = connectToEmbedded(embedded.connection);
    expect(await owner`select 1 as one`).toEqual([{ one: 1 }]);
    await owner.end();
  });

  test("embedded database of an earlier release, without a password, keeps its data and gets one [R-215]", async () => {
    const folder = await initialized();
    {
      await using first = await startEmbedded({ folder, durable: false });
      const sql = connectToEmbedded(first.connection);
      await sql`create table kept (id int)`;
      await sql`alter role ostler password null`;
      await sql.end();
    }
    // As an earlier release left it.
    rmSync(join(folder, "pgpass"));
    writeFileSync(join(folder, "data", "pg_hba.conf"), "local all all trust\n");
    await using second = await startEmbedded({ folder, durable: false });
    expect(second.connection).toMatchObject({ password: expect.stringMatching(/^[0-9a-f]{64}$/) });
    const sql = connectToEmbedded(second.connection);
    expect(await sql`select id from kept`).toEqual([]);
    await sql.end();
    expect(readFileSync(join(folder, "data", "pg_hba.conf"), "utf8")).not.toContain("local all all trust");
  });

  test("embedded database replaces a note of its socket that names a folder of another program", async () => {
    const folder = join(aFolder(), "x".repeat(120));
    for (const note of ["", tmpdir(), "/etc"]) {
      await using deep = await startEmbedded({ folder, durable: false });
      if ("url" in deep.connection) throw new Error("The embedded database is reached by its socket.");
      expect(deep.connection.host).toMatch(/\/ostler-\w{6}$/);
      alsoRemove(deep.connection.host);
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
      const sql = connectToEmbedded(first.connection);
      await sql`create table kept (id int)`;
      await sql`insert into kept values (7)`;
      await sql.end();
    }
    expect(existsSync(join(folder, "owner.pid"))).toBe(false);
    await using second = await startEmbedded({ folder, durable: false });
    const sql = connectToEmbedded(second.connection);
    expect(await sql`select id from kept`).toEqual([{ id: 7 }]);
    const [version] = await sql`show server_version_num`;
    expect(Number(version?.["server_version_num"])).toBeGreaterThanOrEqual(180_000);
    await sql.end();
  });

  test("embedded database listens on no port by default", async () => {
    await using quiet = await startEmbedded({ folder: await initialized(), durable: false });
    const sql = connectToEmbedded(quiet.connection);
    expect(await sql`show listen_addresses`).toEqual([{ listen_addresses: "" }]);
    await sql.end();
  });

  test("embedded database runs in a folder whose path is too long for a socket", async () => {
    await using deep = await startEmbedded({ folder: join(aFolder(), "x".repeat(120)), durable: false });
    const sql = connectToEmbedded(deep.connection);
    expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
    await sql.end();
    if (!("url" in deep.connection)) alsoRemove(deep.connection.host);
  });

  test("embedded database runs in a folder whose name has characters of lists, paths and shells", async () => {
    const folder = join(aFolder(), `comma, colon:1 "double" 'single' $HOME`);
    for (const _ of ["first start", "second start"]) {
      await using named = await startEmbedded({ folder, durable: false });
      const sql = connectToEmbedded(named.connection);
      expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
      await sql.end();
      if (!("url" in named.connection)) alsoRemove(named.connection.host);
    }
  });

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
      const sql = connectToEmbedded(again.connection);
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
    const sql = connectToEmbedded(first.connection);
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
      const sql = connectToEmbedded(again.connection);
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
    const sql = connectToEmbedded(kept.connection);
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
    const sql = connectToEmbedded(again.connection);
    const rows = await sql<{ id: number }[]>`select id from rows`;
    const there = new Set(rows.map(({ id }) => id));
    expect(acknowledged.length).toBeGreaterThan(150);
    expect(acknowledged.filter((row) => !there.has(row))).toEqual([]);
    await sql.end();
  });
});
