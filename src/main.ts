#!/usr/bin/env node
/** The process: without a command it reads the configuration, runs the service, and ends it in order when it is told to. A command does one thing, and ends. */
import { startService } from "./app.ts";
import type { Service } from "./app.ts";
import { ConfigError, helpText, readConfig, readPlugins } from "./config.ts";
import { describeDrivers } from "./drivers/load.ts";
import { messageOf } from "./errors.ts";
import { buildSchema, schemaText } from "./graphql/schema/schema.ts";
import { createLog } from "./log.ts";
import { migrateOnly } from "./commands/migrate.ts";

/** Within this time a process that was told to end has ended. */
const END_MS = 10_000;

async function main(args: readonly string[]): Promise<void> {
  const [command, ...rest] = args;
  switch (command) {
    case "schema":
      return say(schemaText(buildSchema(await describeDrivers(readPlugins(process.env, rest)))));
    case "migrate":
      return migrate(rest);
    case "help":
    case "--help":
    case "-h":
      return say(helpText());
    default:
      return serve(args);
  }
}

/** Writes all of it, and ends: a plugin that was only asked what it declares may hold something open. */
function say(text: string): void {
  process.stdout.write(text, () => process.exit(0));
}

async function migrate(args: readonly string[]): Promise<void> {
  // What is under way in the server is rolled back there; the first process of a container has no other answer to a signal.
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => process.exit(1));
  const config = readConfig(process.env, args);
  await migrateOnly(config, createLog(config.log));
  say("The database is at the newest migration.\n");
}

async function serve(args: readonly string[]): Promise<void> {
  const config = readConfig(process.env, args);
  const log = createLog(config.log);
  let service: Service | undefined;
  let ending = false;
  const end = (signal: string) => {
    if (ending) return;
    ending = true;
    log.info({ signal }, "told to end");
    // Keeps the process until the end as well: where the database is away, nothing else might.
    setTimeout(() => {
      log.warn("not everything ended in time");
      process.exit(1);
    }, END_MS);
    if (service) stop(service);
    // Nothing is served or worked on yet, and what is under way in a server is rolled back there; an embedded one is ended first.
    else if (config.databaseUrl !== null) process.exit(0);
  };
  const stop = (running: Service) => {
    running[Symbol.asyncDispose]().then(
      () => process.exit(0),
      (error: unknown) => {
        log.error({ err: error }, "the end was not clean");
        process.exit(1);
      },
    );
  };
  // Left behind by a driver or a library, long after whoever waited for it has gone: worth a line, not the process.
  process.on("unhandledRejection", (error) =>
    log.error({ err: error }, "a promise was rejected and nobody had waited for it"),
  );
  // Before the start, which may wait for its database: the first process of a container has no other answer to a signal.
  process.on("SIGTERM", end);
  process.on("SIGINT", end);
  service = await startService(config, log);
  if (ending) return stop(service);
  process.stdout.write(`Ostler is ready: ${service.url}${config.role === "engine" ? "" : "/graphql"}\n`);
}

main(process.argv.slice(2)).catch((error: unknown) => {
  const [, , command] = process.argv;
  const isPlain = error instanceof ConfigError || command === "schema" || command === "migrate";
  process.stderr.write(`${isPlain ? "" : "Ostler cannot start: "}${messageOf(error)}\n`);
  process.exit(1);
});
