/**
 * The commands on the host of the service; without one, the service itself. Each loads its modules after the
 * configuration is checked, so that a mistake in it is reported within a moment.
 */
import { ConfigError } from "../config/values.ts";
import { helpText } from "../config/variables.ts";
import { readConfig, readPlugins } from "../config/config.ts";
import type { Config } from "../config/config.ts";
import { SettingError, messageOf } from "../errors.ts";
import { createLog, logDestination } from "../log.ts";
import type { Log } from "../log.ts";
import { cacheCompiledModules } from "../runtime/compile-cache.ts";
import { omitMemoryFromCoreDumps } from "../runtime/core-dumps.ts";
import { limitHeapGrowth } from "../runtime/heap-growth.ts";
import { hideSecrets } from "../runtime/hidden-secrets.ts";

export async function runHost(args: readonly string[]): Promise<void> {
  const [command = "", ...rest] = args;
  const run = COMMANDS[command];
  try {
    await (run ? run(rest) : serve(args));
  } catch (error) {
    const isPlain = run !== undefined || error instanceof ConfigError;
    process.stderr.write(`${isPlain ? "" : "Ostler cannot start: "}${messageOf(error)}\n`);
    // EX_CONFIG of sysexits.h, after which the unit does not try again.
    process.exit(!run && error instanceof SettingError ? 78 : 1);
  }
}

const printHelp = ([topic]: readonly string[]) => printAndExit(helpText(topic));

const COMMANDS: Readonly<Record<string, (words: readonly string[]) => void | Promise<void>>> = {
  schema: printSchema,
  migrate,
  token: printToken,
  secrets: runSecretsCommand,
  boot: printBoot,
  image: printImage,
  help: printHelp,
  "--help": printHelp,
  "-h": printHelp,
};

async function serve(args: readonly string[]): Promise<void> {
  const config = readConfig(process.env, args);
  const log = createLog(config.log, logDestination(config.logFormat));
  protectSecrets(config, log);
  cacheCompiledModules();
  limitHeapGrowth();
  const { runService } = await import("./serve.ts");
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
  const { describeDrivers } = await import("../drivers/load.ts");
  const { buildSchema, schemaText } = await import("../graphql/schema/schema.ts");
  printAndExit(schemaText(buildSchema(await describeDrivers(plugins, pluginFolder))));
}

async function printBoot(args: readonly string[]): Promise<void> {
  const { bootText } = await import("./boot.ts");
  printAndExit(bootText(process.env, args));
}

async function printImage(args: readonly string[]): Promise<void> {
  const { imageCommand } = await import("./image.ts");
  printAndExit(await imageCommand(process.env, args));
}

async function printToken(args: readonly string[]): Promise<void> {
  const { tokenCommand } = await import("./token.ts");
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
  const { migrateDatabaseOnly } = await import("./migrate.ts");
  await migrateDatabaseOnly(config, createLog(config.log, logDestination(config.logFormat)));
  printAndExit("The database is at the newest migration.\n");
}

async function runSecretsCommand([name = "", ...flags]: readonly string[]): Promise<void> {
  const config = readConfig(process.env, flags);
  const log = createLog("warn", logDestination(config.logFormat));
  protectSecrets(config, log);
  const { secretsCommand } = await import("./secrets.ts");
  const { lines, isComplete } = await secretsCommand(name, config, log);
  printAndExit(`${lines.join("\n")}\n`, isComplete ? 0 : 1);
}
