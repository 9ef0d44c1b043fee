/**
 * A database for one test file: a clone of the template, dropped at the end. Fails the test if connections are left
 * open.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import type { Sql } from "postgres";
import { inject } from "vitest";
import type { Connection } from "../../src/store/postgres/database.ts";
import { urlOf } from "./global-setup.ts";

export interface TestDatabase extends AsyncDisposable {
  readonly connection: Connection;
  /** The same by TCP, for other processes. */
  readonly url: string;
  /** A plain connection to it, for what no function of the store asks. */
  readonly sql: Sql;
}

/** How long a closed pool may take to be gone from the server, in ms. */
const LEAVE_MS = 3_000;

export async function testDatabase(options: { readonly empty?: boolean } = {}): Promise<TestDatabase> {
  const server = inject("server");
  const name = `ostler_test_${randomUUID().slice(0, 13).replaceAll("-", "_")}`;
  const admin = postgres(server.url, { max: 1, onnotice: () => {} });
  await (options.empty
    ? admin`create database ${admin(name)}`
    : admin`create database ${admin(name)} template ${admin(server.template)}`);
  const url = urlOf(server.url, name);
  const sql = postgres(url, { max: 1, onnotice: () => {}, connection: { application_name: "test" } });
  return {
    connection: inject("reachedBy") === "socket" && server.socket ? { ...server.socket, database: name } : { url },
    url,
    sql,
    async [Symbol.asyncDispose]() {
      await sql.end();
      const left = await connectionsLeft(admin, name);
      await admin`drop database ${admin(name)} with (force)`;
      await admin.end();
      if (left.length > 0) throw new Error(`Connections were left open: ${left.join("; ")}.`);
    },
  };
}

/** Connections that are left after LEAVE_MS. */
async function connectionsLeft(admin: Sql, name: string): Promise<string[]> {
  for (let waited = 0; ; waited += 25) {
    const rows =
      await admin`select application_name, state, query from pg_stat_activity where datname = ${name} and pid <> pg_backend_pid() and backend_type = 'client backend'`;
    if (rows.length === 0) return [];
    if (waited >= LEAVE_MS) return rows.map((row) => `${row["application_name"]} (${row["state"]}): ${row["query"]}`);
    await delay(25);
  }
}
