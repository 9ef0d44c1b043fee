#!/usr/bin/env node
/** The command line: dispatches to a command. Without a command it runs the service. */
import { migrateDatabaseOnly } from "./commands/migrate.ts";
import { serve } from "./commands/serve.ts";
import { ConfigError, helpText, readConfig, readPlugins } from "./config.ts";
import { describeDrivers } from "./drivers/load.ts";
import { messageOf } from "./errors.ts";
import { buildSchema, schemaText } from "./graphql/schema/schema.ts";
import { createLog } from "./log.ts";

async function main(args: readonly string[]): Promise<void> {
  const [command, ...rest] = args;
  switch (command) {
    case "schema":
      return printAndExit(schemaText(buildSchema(await describeDrivers(readPlugins(process.env, rest)))));
    case "migrate":
      return migrate(rest);
    case "help":
    case "--help":
    case "-h":
      return printAndExit(helpText());
    default:
      return serve(args);
  }
}

/** Exits once the text is flushed: a plugin that was loaded for its declarations may keep a handle open. */
function printAndExit(text: string): void {
  process.stdout.write(text, () => process.exit(0));
}

async function migrate(args: readonly string[]): Promise<void> {
  // PID 1 of a container ignores signals without a handler. The server rolls back the open transaction.
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => process.exit(1));
  const config = readConfig(process.env, args);
  await migrateDatabaseOnly(config, createLog(config.log));
  printAndExit("The database is at the newest migration.\n");
}

main(process.argv.slice(2)).catch((error: unknown) => {
  const [, , command] = process.argv;
  const isPlain = error instanceof ConfigError || command === "schema" || command === "migrate";
  process.stderr.write(`${isPlain ? "" : "Ostler cannot start: "}${messageOf(error)}\n`);
  process.exit(1);
});
