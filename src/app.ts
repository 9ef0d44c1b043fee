/**
 * The composition root: from a configuration to a running service, and back. First the service says that it is not ready
 * and takes no more work; then its parts are ended in the reverse order: the server, which answers what is due, the engine,
 * which lets steps come to their boundary and hands their runs back, and the database last. The lease of a step that takes
 * longer runs out by itself.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "./config.ts";
import { shownConfig } from "./config.ts";
import { registerDemonstrationFleet } from "./demo.ts";
import { loadPlugins } from "./drivers/load.ts";
import { createEngine } from "./engine/engine.ts";
import type { Engine } from "./engine/engine.ts";
import { createTail } from "./feed/tail.ts";
import { buildSchema, hashOfSchema, schemaText } from "./graphql/schema.ts";
import type { Log } from "./log.ts";
import { startServer } from "./http/server.ts";
import { createBell } from "./store/bell.ts";
import { migrateDatabase, openDatabase } from "./store/database.ts";
import type { Connection } from "./store/database.ts";
import { startEmbedded } from "./store/embedded.ts";

export interface Service extends AsyncDisposable {
  readonly url: string;
  readonly engine: Engine;
}

export const VERSION = (JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string }).version;

export async function startService(config: Config, log: Log): Promise<Service> {
  log.info({ version: VERSION, config: shownConfig(config) }, "starting");
  await using parts = new AsyncDisposableStack();
  const registry = parts.use(await loadPlugins(config.plugins, log));
  const connection = await connectionOf(config, parts, log);
  await migrateDatabase(connection);
  const database = parts.use(await openDatabase({ connection }));
  const bell = parts.use(await createBell(database, (error) => log.warn({ err: error }, "the doorbell could not be rung")));
  const tail = parts.use(await createTail({ database, bell, log }));
  const engine = parts.use(await createEngine({ database, registry, bell, log, concurrency: config.concurrency, powerSeconds: config.powerSeconds, retentionDays: config.retentionDays }));
  const schema = buildSchema(registry.drivers);
  const text = schemaText(schema);
  const services = { database, registry, engine, tail, version: VERSION, schemaHash: hashOfSchema(text) };
  if (config.demo) await registerDemonstrationFleet(engine, database.reader, log);
  const server = parts.use(await startServer({ host: config.host, port: config.port, token: config.token, origins: config.origins, introspection: config.introspection, bodyBytesMax: config.bodyKb * 1024, schema, schemaText: text, services, log }));
  await engine.start();
  log.info({ url: `${server.url}/graphql` }, "ready");
  const running = parts.move();
  return {
    url: server.url,
    engine,
    async [Symbol.asyncDispose]() {
      log.info("stopping");
      server.rest();
      engine.rest();
      await running.disposeAsync();
      log.info("stopped");
    },
  };
}

async function connectionOf(config: Config, parts: AsyncDisposableStack, log: Log): Promise<Connection> {
  if (config.databaseUrl !== null) return { url: config.databaseUrl };
  const embedded = parts.use(await startEmbedded({ folder: join(config.data, "postgres") }));
  log.info({ folder: config.data }, "embedded database is up");
  return embedded.connection;
}
