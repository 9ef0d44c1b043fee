/**
 * Once for the whole of `vitest run`: a throw-away PostgreSQL, and in it a template database with all migrations,
 * from which each test file clones its own. At the end everything is gone again.
 */
import { rmSync } from "node:fs";
import { createServer } from "node:net";
import postgres from "postgres";
import type { Sql } from "postgres";
import type { TestProject } from "vitest/node";
import { migrateDatabase } from "../../src/store/postgres/database.ts";
import { startEmbedded } from "../../src/store/postgres/embedded.ts";
import { createDataFolder } from "./data-folder.ts";
import { prepareTemplate } from "./spare-databases.ts";
import type { Restoration } from "./spare-databases.ts";

/** Where tests find the server, and the database that they clone. */
export interface TestServer {
  /** The socket of the embedded server; null where TEST_DATABASE_URL names another. */
  readonly socket: {
    readonly host: string;
    readonly port: number;
    readonly user: string;
    readonly password?: string;
  } | null;
  /** URL of the server's database `postgres`. */
  readonly url: string;
  readonly template: string;
  /** How used databases are restored; null: they are dropped, as another server may not allow more. */
  readonly restoration: Restoration | null;
}

declare module "vitest" {
  interface ProvidedContext {
    server: TestServer;
    /** How the tests of a project reach the server. */
    reachedBy: "socket" | "tcp";
  }
}

export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const template = `ostler_template_${process.pid}`;
  const given = process.env["TEST_DATABASE_URL"];
  const started = given ? null : await startThrowAway();
  const url = given ?? `postgres://ostler@127.0.0.1:${started?.port}/postgres`;
  const admin = postgres(url, { max: 1, onnotice: () => {} });
  await admin`create database ${admin(template)}`;
  await migrateDatabase({ url: urlOf(url, template) });
  const restoration = started && (await keepSpares(admin, urlOf(url, template)));
  project.provide("server", { socket: started?.socket ?? null, url, template, restoration });
  return async () => {
    const left = started
      ? await admin`select datname from pg_database where datname like 'ostler_test_%' and datname not in (select name from spare_databases)`
      : [];
    await admin`drop database ${admin(template)}`;
    await admin.end();
    await started?.end();
    if (left.length > 0)
      throw new Error(`Test databases were left behind: ${left.map(({ datname }) => String(datname)).join(", ")}.`);
  };
}

/** The URL of another database on the same server. */
export function urlOf(server: string, database: string): string {
  const url = new URL(server);
  url.pathname = `/${database}`;
  return url.href;
}

async function startThrowAway() {
  const folder = createDataFolder();
  const port = await freePort();
  const embedded = await startEmbedded({ folder, durable: false, tcpPort: port });
  const { connection } = embedded;
  if ("url" in connection) throw new Error("The embedded database is reached by its socket.");
  const { database: _, ...socket } = connection;
  return {
    port,
    socket,
    async end() {
      await embedded[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Lets test databases be used again. */
async function keepSpares(admin: Sql, template: string): Promise<Restoration> {
  await admin`create table spare_databases (name text primary key)`;
  // It would collect statistics in a database at any time, also between two tests.
  await admin`alter system set autovacuum = off`;
  await admin`select pg_reload_conf()`;
  const sql = postgres(template, { max: 1, onnotice: () => {} });
  try {
    return await prepareTemplate(sql);
  } finally {
    await sql.end();
  }
}

/** A port that is free now, below those that the kernel gives to outgoing connections. */
async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries += 1) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    if (await isFree(port)) return port;
  }
  throw new Error("No free port between 20000 and 32000 was found for the test database.");
}

function isFree(port: number): Promise<boolean> {
  return new Promise((answer) => {
    const server = createServer();
    server.once("error", () => answer(false));
    server.listen(port, "127.0.0.1", () => server.close(() => answer(true)));
  });
}
