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
  const { OSTLER_HOST, OSTLER_PORT, OSTLER_TLS_CERT, OSTLER_DATA, OSTLER_TOKEN_FILE } = process.env;
  const hasSettings = [OSTLER_HOST, OSTLER_PORT, OSTLER_TLS_CERT].some((value) => value !== undefined);
  const own = hasSettings ? (await import("./commands/own-service.ts")).ownService(process.env) : null;
  const { runCli } = await import("../packages/cli/src/main.ts");
  // With the settings of a service it is that one's token, which no other service may receive.
  const ownTokenFile = OSTLER_DATA === undefined ? undefined : OSTLER_TOKEN_FILE;
  if (ownTokenFile !== undefined) delete process.env["OSTLER_TOKEN_FILE"];
  await runCli(isOfCommand ? [...args.slice(1), "--help"] : args, own, ownTokenFile);
}
