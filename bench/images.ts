/**
 * Subject `images`: what downloads of a stored image cost the API of the same process. Queries run one after the other,
 * first alone, then while clients download the image at the same time over HTTP. The clients have a thread of their
 * own, but share the cores of this machine with the service.
 */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import postgres from "postgres";
import { percentile, printTable, shown } from "./figures.ts";
import { mutate, request } from "./request.ts";
import { startServed } from "./service.ts";
import type { Served } from "./service.ts";
import type { Testbed } from "./testbed.ts";

const SECRET = randomBytes(32).toString("base64url");
const QUERY = "{ nodes(first: 50) { totalCount nodes { id name state powerState labels { key value } } } }";
const EVERY_MS = 5;
const WARM_UP = 200;

export interface ImagesOptions {
  readonly clients: number;
  readonly megabytes: number;
  readonly seconds: number;
}

export async function measureImages(testbed: Testbed, options: ImagesOptions): Promise<void> {
  await using made = await testbed.database("served");
  const { connection } = made;
  if (!("url" in connection)) throw new Error("A served database has a URL.");
  const port = await freePort();
  const folder = join(testbed.folder, "images");
  await using service = await startServed(testbed, {
    environment: {
      DATABASE_URL: connection.url,
      OSTLER_DATA: testbed.folder,
      OSTLER_IMAGE_DIR: folder,
      OSTLER_PROVISION_HOST: "127.0.0.1",
      OSTLER_PROVISION_PORT: String(port),
    },
    args: ["--plugins", "fake"],
  });
  const image = await storeImage(service, folder, options.megabytes);
  const session = await openSession(service, connection.url);
  for (let count = 0; count < WARM_UP; count += 1) await request(service, QUERY);
  const idle = await latenciesMs(service, options.seconds);
  const clients = new Worker(new URL("image-clients.ts", import.meta.url), {
    workerData: {
      url: `http://127.0.0.1:${port}/images/${image}`,
      authorization: `Bearer ${session}.${SECRET}`,
      clients: options.clients,
    },
  });
  await once(clients, "message");
  const start = performance.now();
  const loaded = await latenciesMs(service, options.seconds);
  const elapsed = (performance.now() - start) / 1000;
  clients.postMessage("stop");
  const [bytes] = (await once(clients, "message")) as [number];
  await clients.terminate();
  const rate = bytes / 1_000_000 / elapsed;
  console.log(
    `  ${options.clients} downloads of ${options.megabytes} MB at a time, together ${rate.toFixed(0)} MB/s; a query each ${EVERY_MS} ms`,
  );
  printTable(
    ["queries", "number", "p50 ms", "p99 ms", "worst ms"],
    [row("idle", idle), row("during the downloads", loaded)],
  );
}

function row(name: string, values: readonly number[]): string[] {
  const figures = [percentile(values, 0.5), percentile(values, 0.99), Math.max(...values)];
  return [name, String(values.length), ...figures.map((value) => shown(value))];
}

async function latenciesMs(service: Served, seconds: number): Promise<number[]> {
  const values: number[] = [];
  for (const end = performance.now() + seconds * 1000; performance.now() < end;) {
    const start = performance.now();
    await request(service, QUERY);
    values.push(performance.now() - start);
    await delay(EVERY_MS);
  }
  return values;
}

/** Returns the UUID of the image. */
async function storeImage(service: Served, folder: string, megabytes: number): Promise<string> {
  mkdirSync(folder, { recursive: true });
  const content = Buffer.alloc(megabytes * 1_000_000, randomBytes(1_000_000));
  const value = createHash("sha256").update(content).digest("hex");
  writeFileSync(join(folder, `sha256-${value}`), content);
  const { registerImages } = await mutate<{ registerImages: { images: readonly { uuid: string }[] } }>(
    service,
    "mutation Register($input: RegisterImagesInput!) { registerImages(input: $input) { images { uuid } errors { message } } }",
    {
      input: {
        images: [{ name: "bench", format: "RAW", sizeBytes: content.length, checksum: { value }, architecture: "X64" }],
      },
    },
  );
  const [image] = registerImages.images;
  if (!image) throw new Error("The service has registered no image.");
  return image.uuid;
}

/** Starts work that does not end on one of 50 nodes, with a session of an agent. Returns the session. */
async function openSession(service: Served, database: string): Promise<string> {
  const nodes = Array.from({ length: 50 }, (_, index) => ({
    name: `node-${index}`,
    driver: { fake: { steps: { "inspect.collect_inventory": { silent: true } } } },
    labels: [{ key: "room", value: String(index % 5) }],
  }));
  await mutate(
    service,
    "mutation Register($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { message } } }",
    { input: { nodes } },
  );
  await mutate(
    service,
    'mutation { commissionNodes(input: { nodes: { names: ["node-0"] }, until: AVAILABLE }) { errors { message } } }',
  );
  const sql = postgres(database, { max: 1, onnotice: () => {} });
  try {
    const [run] = await sql<{ id: string; node: string }[]>`select id, node_id as node from runs`;
    if (!run) throw new Error("No run was started.");
    const id = randomUUID();
    const hash = createHash("sha256").update(SECRET).digest("hex");
    await sql`
      insert into agent_sessions (id, node_id, run_id, secret_hash, medium, architecture, kernel_arguments)
      values (${id}, ${run.node}, ${run.id}, ${hash}, 'ISO', 'X64', '[]')`;
    return id;
  } finally {
    await sql.end();
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
