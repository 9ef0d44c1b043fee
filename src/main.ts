/** The process: reads the configuration, runs the service, and ends it in order when it is told to. */
import { startService } from "./app.ts";
import { ConfigError, readConfig } from "./config.ts";
import { messageOf } from "./errors.ts";
import { createLog } from "./log.ts";

/** Within this time a process that was told to end has ended. */
const END_MS = 10_000;

async function main(): Promise<void> {
  const config = readConfig(process.env, process.argv.slice(2));
  const log = createLog(config.log);
  const service = await startService(config, log);
  process.stdout.write(`Ostler is ready: ${service.url}/graphql\n`);
  let ending = false;
  const end = (signal: string) => {
    if (ending) return;
    ending = true;
    log.info({ signal }, "told to end");
    setTimeout(() => {
      log.warn("not everything ended in time");
      process.exit(1);
    }, END_MS).unref();
    service[Symbol.asyncDispose]().then(
      () => process.exit(0),
      (error: unknown) => {
        log.error({ err: error }, "the end was not clean");
        process.exit(1);
      },
    );
  };
  // Left behind by a driver or a library, long after whoever waited for it has gone: worth a line, not the process.
  process.on("unhandledRejection", (error) => log.error({ err: error }, "a promise was rejected and nobody had waited for it"));
  process.on("SIGTERM", end);
  process.on("SIGINT", end);
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof ConfigError ? "" : "Ostler cannot start: "}${messageOf(error)}\n`);
  process.exit(1);
});
