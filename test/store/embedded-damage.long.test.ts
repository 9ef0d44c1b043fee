/** Files of an embedded database as a power cut leaves them, one at a time. The tool `power-cuts` cuts the power. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startEmbedded } from "../../src/store/postgres/embedded.ts";
import { connectToEmbedded, embeddedFolders } from "../support/embedded-folders.ts";

const { initialized } = embeddedFolders();

/** Gives the folder a row, and damages a file of it as a power cut does. */
async function damaged(file: string, damage: (whole: string) => string): Promise<string> {
  const folder = await initialized();
  {
    await using first = await startEmbedded({ folder, durable: false });
    const sql = connectToEmbedded(first.connection);
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
  ["password file has the password of another database", "pgpass", (whole) => whole.replace(/\w{64}/, "a".repeat(64))],
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
    const sql = connectToEmbedded(again.connection);
    expect(await sql`select id from kept`, start).toEqual([{ id: 7 }]);
    await sql.end();
  }
  expect(readFileSync(join(folder, "pgpass"), "utf8")).toMatch(/^\*:\*:\*:ostler:[0-9a-f]{64}\n$/);
});
