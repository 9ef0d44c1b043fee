/** `ostler`: runs the service until SIGTERM or SIGINT, then shuts it down in order. */
import { startService } from "../app.ts";
import type { Service } from "../app.ts";
import { urlWithoutSecrets } from "../config/config.ts";
import type { Config } from "../config/config.ts";
import type { Log } from "../log.ts";
import { keepCompiledModules } from "../runtime/compile-cache.ts";

/** Upper bound on a shutdown; afterwards the process exits with 1. */
const SHUTDOWN_MS = 10_000;

export async function runService(config: Config, log: Log): Promise<void> {
  let service: Service | undefined;
  let isShuttingDown = false;
  const onSignal = (signal: string) => {
    if (isShuttingDown) return;
    isShuttingDown = true;
    log.info({ signal }, "shutting down");
    // Also keeps the event loop alive: without the database nothing else may.
    setTimeout(() => {
      log.warn("the shutdown did not finish in time");
      process.exit(1);
    }, SHUTDOWN_MS);
    if (service) shutDown(service);
    // Nothing is served or running yet, and a server rolls back the open transaction. An embedded database is stopped
    // by the end of the start.
    else if (config.databaseUrl !== null) process.exit(0);
  };
  const shutDown = (running: Service) => {
    running[Symbol.asyncDispose]().then(
      () => process.exit(0),
      (error: unknown) => {
        log.error({ err: error }, "the shutdown failed");
        process.exit(1);
      },
    );
  };
  // A driver or a library may leave a rejected promise long after its caller is done. Log it; keep the process.
  process.on("unhandledRejection", (error) => log.error({ err: error }, "unhandled promise rejection"));
  // Registered before the start, which may wait for the database: PID 1 of a container ignores signals without a
  // handler.
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, onSignal);
  service = await startService(config, log);
  if (isShuttingDown) return shutDown(service);
  process.stdout.write(`Ostler is ready: ${service.url}${config.role === "engine" ? "" : "/graphql"}\n`);
  if (process.stdout.isTTY) {
    const data = config.databaseUrl === null ? config.data : urlWithoutSecrets(config.databaseUrl);
    process.stdout.write(`The data is in ${data}.\nPress Ctrl-C to stop.\n`);
  }
  keepCompiledModules();
}
