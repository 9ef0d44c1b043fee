#!/usr/bin/env -S node --max-semi-space-size=16
/**
 * The command line. Words for the host of the service are those of commands/host.ts; all others work with a running
 * service, or are mistakes that packages/cli explains. Only modules of one are loaded: a shell waits for completion.
 */
const args = process.argv.slice(2);
const [command = "", topic] = args;
const isOfCommand = command === "help" && topic !== undefined && topic !== "flags";

if (/^(-.*|schema|migrate|token|secrets|boot|image|help)?$/.test(command) && !isOfCommand) {
  const { runHost } = await import("./commands/host.ts");
  await runHost(args);
} else {
  const { OSTLER_HOST, OSTLER_PORT, OSTLER_TLS_CERT, OSTLER_DATA } = process.env;
  const hasAddress = [OSTLER_HOST, OSTLER_PORT, OSTLER_TLS_CERT].some((value) => value !== undefined);
  const own = hasAddress ? (await import("./commands/own-service.ts")).ownService(process.env) : null;
  const { runCli } = await import("../packages/cli/src/main.ts");
  const isOnHost = hasAddress || OSTLER_DATA !== undefined;
  await runCli(isOfCommand ? [...args.slice(1), "--help"] : args, isOnHost ? own : undefined);
}
