/**
 * `npm run tool -- demo-vm`: the lab of the end-to-end test, kept running for people without a spare server. Prints the
 * address of GraphiQL and the mutations to paste. Ctrl-C ends everything.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import { missingForLab } from "./prerequisites.ts";
import { runInNamespace } from "./namespace.ts";
import { prepare } from "./prepare.ts";

const { values } = parseArgs({ options: { port: { type: "string", default: "4000" } } });

/** Sockets of the file system reach into the network namespace of the service. */
async function forward(port: number, socket: string): Promise<void> {
  const server = createServer((client) => {
    const service = createConnection(socket);
    const end = () => {
      client.destroy();
      service.destroy();
    };
    for (const side of [client, service]) side.on("error", end).on("close", end);
    client.pipe(service).pipe(client);
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
}

async function main(): Promise<number> {
  const missing = missingForLab();
  if (missing !== null) {
    console.error(`The demonstration cannot run. ${missing}`);
    return 1;
  }
  const port = Number(values.port);
  const artifacts = await prepare({});
  const folder = mkdtempSync(join(tmpdir(), "ostler-demo-"));
  try {
    await forward(port, join(folder, "service.sock"));
    const words = JSON.stringify({ folder, port, artifacts });
    const file = fileURLToPath(new URL("demo-inside.ts", import.meta.url));
    return await runInNamespace(file, [words], (pid) => writeFileSync(join(folder, "pid"), String(pid)));
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

try {
  process.exit(await main());
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
