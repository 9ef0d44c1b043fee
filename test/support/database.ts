/**
 * A database for one test or one file: a clone of the template. Fails the test if connections are left open.
 *
 * A clone costs ten times as much as restoring the rows of one. So a database that is closed is restored and used
 * again, by any process of the run, unless more than its rows has changed.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import type { Sql } from "postgres";
import { inject } from "vitest";
import type { Connection } from "../../src/store/postgres/database.ts";
import { urlOf } from "./global-setup.ts";
import { restored } from "./spare-databases.ts";

export interface TestDatabase extends AsyncDisposable {
  readonly connection: Connection;
  /** The same by TCP, for other processes. */
  readonly url: string;
  /** A plain connection to it, for what no function of the store asks. */
  readonly sql: Sql;
}

/** How long a closed pool may take to be gone from the server, in ms. */
const LEAVE_MS = 3_000;
const ASK_EVERY_MS = 5;
/** Application name of `TestDatabase.sql`. */
const OWN = "test";

/**
 * The connection to the server's database `postgres`, of all test databases of this process: a connection costs 8 ms of
 * CPU time. It ends with the process.
 */
let shared: Sql | undefined;

export async function testDatabase(options: { readonly empty?: boolean } = {}): Promise<TestDatabase> {
  const server = inject("server");
  const restoration = options.empty ? null : server.restoration;
  const admin = (shared ??= postgres(server.url, { max: 1, fetch_types: false, onnotice: () => {} }));
  const name =
    (restoration && (await takeSpare(admin))) ?? (await create(admin, options.empty ? null : server.template));
  const url = urlOf(server.url, name);
  const sql = postgres(url, { max: 1, onnotice: () => {}, connection: { application_name: OWN } });
  return {
    connection: inject("reachedBy") === "socket" && server.socket ? { ...server.socket, database: name } : { url },
    url,
    sql,
    async [Symbol.asyncDispose]() {
      const left = await connectionsLeft(admin, name, OWN);
      const isSpare = restoration !== null && left.length === 0 && (await restored(sql, restoration));
      await sql.end();
      if (isSpare && (await connectionsLeft(admin, name)).length === 0)
        await admin`insert into spare_databases values (${name})`;
      else await admin`drop database ${admin(name)} with (force)`;
      if (left.length > 0) throw new Error(`Connections were left open: ${left.join("; ")}.`);
    },
  };
}

async function create(admin: Sql, template: string | null): Promise<string> {
  const name = `ostler_test_${randomUUID().slice(0, 13).replaceAll("-", "_")}`;
  await (template === null
    ? admin`create database ${admin(name)}`
    : admin`create database ${admin(name)} template ${admin(template)}`);
  return name;
}

/** A database that was restored, if there is one. */
async function takeSpare(admin: Sql): Promise<string | null> {
  const [row] = await admin<{ name: string }[]>`
    delete from spare_databases where name = (select name from spare_databases limit 1 for update skip locked) returning name`;
  return row?.name ?? null;
}

/** Connections that are left after LEAVE_MS, except those of one application. */
async function connectionsLeft(admin: Sql, name: string, except = ""): Promise<string[]> {
  for (let waited = 0; ; waited += ASK_EVERY_MS) {
    const rows =
      await admin`select application_name, state, query from pg_stat_activity where datname = ${name} and pid <> pg_backend_pid() and backend_type = 'client backend' and application_name <> ${except}`;
    if (rows.length === 0) return [];
    if (waited >= LEAVE_MS) return rows.map((row) => `${row["application_name"]} (${row["state"]}): ${row["query"]}`);
    await delay(ASK_EVERY_MS);
  }
}
