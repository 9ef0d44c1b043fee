/**
 * Subject `tls`: requests on one kept connection, over TLS and in clear, to two replicas on the same database in
 * alternating rounds. The measures are the CPU of the service and the time of a request.
 */
import { writeFileSync } from "node:fs";
import { Agent as HttpAgent, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { makeCertificate } from "../packages/bmc-simulator/src/certificates.ts";
import { median, printTable, shown } from "./figures.ts";
import { PLUGIN, openFleet, registerFleet } from "./fleet.ts";
import { startServed } from "./service.ts";
import type { Served } from "./service.ts";
import { cpuMs } from "./testbed.ts";
import type { Testbed } from "./testbed.ts";

const NODES = 1_000;
const DAY_MS = 86_400_000;
const QUERIES = {
  "20 nodes": "{ nodes(first: 20) { nodes { id name state } } }",
  "1,000 nodes": "{ nodes(first: 1000) { nodes { id name state } } }",
} as const;

export async function measureTls(
  testbed: Testbed,
  { rounds, requests }: { readonly rounds: number; readonly requests: number },
): Promise<void> {
  await using made = await testbed.database("served");
  const { connection } = made;
  if (!("url" in connection)) throw new Error("A served database has a URL.");
  {
    await using fleet = await openFleet({ connection, concurrency: 1 });
    await registerFleet(fleet.engine, NODES);
  }
  const environment = { DATABASE_URL: connection.url, OSTLER_PLUGINS: PLUGIN, OSTLER_POWER_SECONDS: "0" };
  await using clear = await startServed(testbed, { environment });
  await using secure = await startServed(testbed, {
    environment: { ...environment, ...certificateIn(testbed.folder) },
  });
  const rows: string[][] = [];
  for (const [what, query] of Object.entries(QUERIES)) {
    const spent = {
      clear: { cpu: [] as number[], ms: [] as number[] },
      secure: { cpu: [] as number[], ms: [] as number[] },
    };
    for (const service of [clear, secure]) await send(service, query, requests);
    for (let round = 0; round < 2 * rounds; round += 1) {
      for (const name of round % 2 === 0 ? (["clear", "secure"] as const) : (["secure", "clear"] as const)) {
        const service = name === "clear" ? clear : secure;
        const [before, began] = [cpuMs(service.pid) ?? 0, performance.now()];
        await send(service, query, requests);
        spent[name].cpu.push(((cpuMs(service.pid) ?? 0) - before) / requests);
        spent[name].ms.push((performance.now() - began) / requests);
      }
    }
    const ratio = (measure: "cpu" | "ms") => median(spent.secure[measure]) / median(spent.clear[measure]);
    rows.push([
      what,
      ...[spent.clear.cpu, spent.secure.cpu].map((values) => shown(median(values), 2)),
      shown(ratio("cpu"), 2),
      ...[spent.clear.ms, spent.secure.ms].map((values) => shown(median(values), 2)),
      shown(ratio("ms"), 2),
    ]);
  }
  console.log(`  medians of ${2 * rounds} rounds of ${requests} requests, one after another`);
  printTable(["", "HTTP: CPU ms", "TLS", "ratio", "HTTP: ms", "TLS", "ratio"], rows);
}

function certificateIn(folder: string): Readonly<Record<string, string>> {
  const [cert, key] = [join(folder, "tls-cert.pem"), join(folder, "tls-key.pem")];
  const now = Date.now();
  const made = makeCertificate({
    name: "bench",
    issuer: null,
    hosts: ["127.0.0.1"],
    notBefore: new Date(now - DAY_MS),
    notAfter: new Date(now + DAY_MS),
  });
  writeFileSync(cert, made.certificate);
  writeFileSync(key, made.key, { mode: 0o600 });
  return { OSTLER_TLS_CERT: cert, OSTLER_TLS_KEY: key };
}

/** Sends the query again and again on one connection. */
async function send({ url }: Served, query: string, requests: number): Promise<void> {
  const isSecure = url.startsWith("https:");
  const kept = { keepAlive: true, maxSockets: 1 };
  const agent = isSecure ? new HttpsAgent({ ...kept, rejectUnauthorized: false }) : new HttpAgent(kept);
  const body = JSON.stringify({ query });
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  for (let count = 0; count < requests; count += 1) {
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
    const sent = (isSecure ? httpsRequest : httpRequest)(`${url}/graphql`, { agent, method: "POST", headers });
    sent.on("error", reject);
    sent.on("response", (response) => void buffer(response).then(resolve, reject));
    sent.end(body);
    const answer = await promise;
    if (answer.includes('"errors"')) throw new Error(`The service answered ${answer.toString("utf8", 0, 1_000)}`);
  }
  agent.destroy();
}
