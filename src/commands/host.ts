#!/usr/bin/env -S node --max-semi-space-size=16
/**
 * The command line: dispatches to a command. Without a command it runs the service. Each command loads its modules
 * after the configuration is checked, so that a mistake in it is reported within a moment.
 */
import { ConfigError } from "./config/values.ts";
import { helpText } from "./config/variables.ts";
import { readConfig, readPlugins } from "./config/config.ts";
import type { Config } from "./config/config.ts";
import { SettingError, messageOf } from "./errors.ts";
import { createLog, logDestination } from "./log.ts";
import type { Log } from "./log.ts";
import { cacheCompiledModules } from "./runtime/compile-cache.ts";
import { omitMemoryFromCoreDumps } from "./runtime/core-dumps.ts";
import { limitHeapGrowth } from "./runtime/heap-growth.ts";
import { hideSecrets } from "./runtime/hidden-secrets.ts";

async function main(args: readonly string[]): Promise<void> {
  const [command, ...rest] = args;
  switch (command) {
    case "schema":
      return printSchema(rest);
    case "migrate":
      return migrate(rest);
    case "token":
      return printToken(rest);
    case "secrets":
      return runSecretsCommand(rest);
    case "boot":
      return printBoot(rest);
    case "image":
      return printImage(rest);
    case "help":
    case "--help":
    case "-h":
      return rest[0] === undefined || rest[0] === "flags"
        ? printAndExit(helpText(rest[0]))
        : runClient([...rest, "--help"]);
    default:
      return command === undefined || command.startsWith("-") ? serve(args) : runClient(args);
  }
}

/** All other words are commands of packages/cli, which speaks to a running service, or mistakes that it explains. */
async function runClient(args: readonly string[]): Promise<void> {
  const { OSTLER_HOST, OSTLER_PORT, OSTLER_TLS_CERT } = process.env;
  const hasSettings = [OSTLER_HOST, OSTLER_PORT, OSTLER_TLS_CERT].some((value) => value !== undefined);
  // Loaded only when needed: it takes longer than a command does.
  const own = hasSettings ? (await import("./commands/own-service.ts")).ownService(process.env) : null;
  const { runCli } = await import("../packages/cli/src/main.ts");
  return runCli(args, own);
}

async function serve(args: readonly string[]): Promise<void> {
  const config = readConfig(process.env, args);
  const log = createLog(config.log, logDestination(config.logFormat));
  protectSecrets(config, log);
  cacheCompiledModules();
  limitHeapGrowth();
  const { runService } = await import("./commands/serve.ts");
  await runService(config, log);
}

/** Before a plugin is loaded, and before a process is started, which inherits the setting for core dumps. */
function protectSecrets({ token, secretKeys, databaseUrl, listenUrl }: Config, log: Log): void {
  if (!hideSecrets(process.env, [token, secretKeys, databaseUrl, listenUrl]))
    log.warn("secrets in the environment and the command line of this process cannot be hidden from its drivers");
  if (!omitMemoryFromCoreDumps()) log.warn("a core dump of this process would contain its memory, and so secrets");
}

async function printSchema(args: readonly string[]): Promise<void> {
  const { plugins, pluginFolder } = readPlugins(process.env, args);
  hideSecrets(process.env, []);
  const { describeDrivers } = await import("./drivers/load.ts");
  const { buildSchema, schemaText } = await import("./graphql/schema/schema.ts");
  printAndExit(schemaText(buildSchema(await describeDrivers(plugins, pluginFolder))));
}

async function printBoot(args: readonly string[]): Promise<void> {
  const { bootText } = await import("./commands/boot.ts");
  printAndExit(bootText(process.env, args));
}

async function printImage(args: readonly string[]): Promise<void> {
  const { imageCommand } = await import("./commands/image.ts");
  printAndExit(await imageCommand(process.env, args));
}

async function printToken(args: readonly string[]): Promise<void> {
  const { tokenCommand } = await import("./commands/token.ts");
  printAndExit(await tokenCommand(process.env, args));
}

/** Exits once the text is flushed: a plugin that was loaded for its declarations may keep a handle open. */
function printAndExit(text: string, code = 0): void {
  process.stdout.write(text, () => process.exit(code));
}

async function migrate(args: readonly string[]): Promise<void> {
  // PID 1 of a container ignores signals without a handler. The server rolls back the open transaction.
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => process.exit(1));
  const config = readConfig(process.env, args);
  const { migrateDatabaseOnly } = await import("./commands/migrate.ts");
  await migrateDatabaseOnly(config, createLog(config.log, logDestination(config.logFormat)));
  printAndExit("The database is at the newest migration.\n");
}

async function runSecretsCommand([name = "", ...flags]: readonly string[]): Promise<void> {
  const config = readConfig(process.env, flags);
  const log = createLog("warn", logDestination(config.logFormat));
  protectSecrets(config, log);
  const { secretsCommand } = await import("./commands/secrets.ts");
  const { lines, isComplete } = await secretsCommand(name, config, log);
  printAndExit(`${lines.join("\n")}\n`, isComplete ? 0 : 1);
}

main(process.argv.slice(2)).catch((error: unknown) => {
  const isCommand = /^(schema|migrate|secrets|token|boot|image)$/.test(process.argv[2] ?? "");
  const isPlain = isCommand || error instanceof ConfigError;
  process.stderr.write(`${isPlain ? "" : "Ostler cannot start: "}${messageOf(error)}\n`);
  // EX_CONFIG of sysexits.h, after which the unit does not try again.
  process.exit(!isCommand && error instanceof SettingError ? 78 : 1);
});
