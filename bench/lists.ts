/**
 * Subject `lists`: a page of 1,000 nodes, ten fields each, over HTTP. Compares the service with two hand-written
 * servers and with three other GraphQL servers on the same table. Each is a separate process that this one calls in
 * turns; the measure is the CPU of its process per request. The other servers are in bench/peers and are installed
 * separately.
 */
import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { Agent, request as httpRequest } from "node:http";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import { median, percentile, printTable, shown } from "./figures.ts";
import { MASTER_KEYS } from "./service.ts";
import type { Testbed } from "./testbed.ts";

export interface ListsOptions {
  /** Sizes of the table. */
  readonly nodes: readonly number[];
  readonly rounds: number;
  /** Requests per round. */
  readonly requests: number;
}

interface Server {
  readonly name: string;
  readonly file: string;
  readonly args?: readonly string[];
  readonly path: string;
  readonly query: string;
  /** Name of the list in the response. */
  readonly list: string;
}

interface Running {
  readonly server: Server;
  readonly url: URL;
  cpuMs(): Promise<number>;
}

interface Measured {
  readonly cpuMs: number;
  readonly postgresCpuMs: number | null;
  readonly latencies: readonly number[];
}

const PAGE = 1_000;
const PARALLEL_REQUESTS = 4;
const WARM_UP = 200;
const START_MS = 30_000;

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));
const FIELDS = "uuid name state stage powerState presence hostGroup revision createdAt updatedAt";
const NODES = `query Nodes($first: Int!) { nodes(first: $first) { edges { node { ${FIELDS} } } } }`;
const MACHINES = `query Machines($first: Int!) { allMachines(first: $first, orderBy: [NAME_ASC]) { edges { node { uuid: ${FIELDS.replace("uuid", "rowId")} } } } }`;

const HAND_WRITTEN: readonly Server[] = [
  { name: "hand-written, rows", file: here("hand-written.ts"), args: ["rows"], path: "/", query: "", list: "nodes" },
  { name: "hand-written, text", file: here("hand-written.ts"), args: ["text"], path: "/", query: "", list: "nodes" },
];
const OSTLER: Server = {
  name: "Ostler",
  file: here("../src/main.ts"),
  path: "/graphql",
  query: NODES,
  list: "nodes",
};
const PEERS: readonly Server[] = [
  {
    name: "PostGraphile",
    file: here("peers/postgraphile.mjs"),
    path: "/graphql",
    query: MACHINES,
    list: "allMachines",
  },
  { name: "Mercurius", file: here("peers/mercurius.mjs"), path: "/graphql", query: NODES, list: "nodes" },
  { name: "Apollo Server", file: here("peers/apollo.mjs"), path: "/", query: NODES, list: "nodes" },
];

export async function measureLists(testbed: Testbed, options: ListsOptions): Promise<void> {
  const peers = existsSync(here("peers/node_modules")) ? PEERS : [];
  if (peers.length === 0)
    console.log("  the peers are not installed; run: npm ci --prefix bench/peers --ignore-scripts");
  for (const count of options.nodes) await measureTable(testbed, count, [...HAND_WRITTEN, OSTLER, ...peers], options);
}

async function measureTable(
  testbed: Testbed,
  count: number,
  servers: readonly Server[],
  { rounds, requests }: ListsOptions,
): Promise<void> {
  await using made = await testbed.database("served");
  const { connection } = made;
  if (!("url" in connection)) throw new Error("A served database has a URL.");
  await fillTable(connection.url, count);
  const running: Running[] = [];
  const children: ChildProcess[] = [];
  try {
    for (const server of servers) {
      const child = startServer(server, connection.url);
      children.push(child);
      testbed.watch(child);
      running.push(await ready(server, child));
    }
    const reference = namesIn(await post(running[0] as Running), "nodes");
    if (reference.length !== Math.min(PAGE, count)) throw new Error(`The page has ${reference.length} nodes.`);
    const measured = new Map<string, Measured[]>();
    for (const one of running) {
      const names = namesIn(await post(one), one.server.list);
      if (JSON.stringify(names) !== JSON.stringify(reference))
        throw new Error(`${one.server.name} returns a different list of ${names.length} nodes.`);
      await ask(one, WARM_UP);
    }
    for (let round = 0; round < rounds; round += 1) {
      for (const one of round % 2 === 0 ? running : running.toReversed()) {
        measured.set(one.server.name, [
          ...(measured.get(one.server.name) ?? []),
          await measure(testbed, one, requests),
        ]);
      }
    }
    print(count, servers, measured, { rounds, requests });
  } finally {
    await Promise.all(children.map(ended));
  }
}

function print(
  count: number,
  servers: readonly Server[],
  measured: ReadonlyMap<string, readonly Measured[]>,
  { rounds, requests }: Pick<ListsOptions, "rounds" | "requests">,
): void {
  const of = (name: string) => measured.get(name) ?? [];
  const cpu = (name: string) => median(of(name).map(({ cpuMs }) => cpuMs));
  const [rows = "", text = ""] = HAND_WRITTEN.map(({ name }) => name);
  console.log(
    `  ${Math.min(PAGE, count)} of ${count} nodes × 10 fields; medians of ${rounds} rounds of ${requests} requests, ${PARALLEL_REQUESTS} at a time`,
  );
  printTable(
    ["", "Node CPU ms/request", "to rows", "to text", "PostgreSQL CPU ms", "p50 ms", "p99 ms", "CPU per round"],
    servers.map(({ name }) => {
      const postgresMs = of(name).map(({ postgresCpuMs }) => postgresCpuMs);
      const latencies = of(name).flatMap((one) => one.latencies);
      return [
        name,
        shown(cpu(name), 2),
        shown(cpu(name) / cpu(rows), 2),
        shown(cpu(name) / cpu(text), 2),
        postgresMs.includes(null) ? "–" : shown(median(postgresMs.map(Number)), 1),
        shown(percentile(latencies, 0.5)),
        shown(percentile(latencies, 0.99)),
        of(name)
          .map(({ cpuMs }) => cpuMs.toFixed(2))
          .join(" "),
      ];
    }),
  );
}

/** Fills the table with typical nodes: names by rack, different states and power, some with a host group. */
async function fillTable(url: string, count: number): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    await sql.begin(async (tx) => {
      // Disables the triggers for states, which require a transition for each node.
      await tx`set local session_replication_role = replica`;
      await tx`
        insert into nodes (id, name, project, state, stage, power_state, presence, host_group, driver, borrowed, settings, labels, transition_count, revision, created_at, updated_at)
        select gen_random_uuid(), 'rack' || lpad((n / 40)::text, 4, '0') || '-u' || lpad((n % 40)::text, 2, '0'), 'default', (array['ACTIVE', 'AVAILABLE', 'MANAGEABLE'])[1 + n % 3], (array['DEPLOYED', 'NONE'])[1 + n % 2],
          (array['ON', 'OFF', 'UNKNOWN'])[1 + n % 3], 'DISCOVERED', case when n % 2 = 0 then 'service-worker' end, 'fake', '{}', '{}', jsonb_build_object('rack', (n / 40)::text), 1 + n % 30, 1 + n % 50,
          now() - n * interval '1 minute', now() - n * interval '1 second'
        from generate_series(0, ${count - 1}) n`;
    });
    await sql`comment on table nodes is '@name machine'`;
    await sql`vacuum analyze nodes`;
  } finally {
    await sql.end();
  }
}

function startServer({ file, args = [] }: Server, url: string): ChildProcess {
  return fork(file, [...args], {
    execArgv: ["--import", here("cpu-report.mjs")],
    env: {
      ...process.env,
      NODE_ENV: "production",
      GRAPHILE_ENV: "production",
      DATABASE_URL: url,
      OSTLER_PORT: "0",
      OSTLER_SECRET_KEYS: MASTER_KEYS,
      OSTLER_LOG: "error",
      OSTLER_PLUGINS: "fake",
      OSTLER_POWER_SECONDS: "0",
    },
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
}

/** Resolves when the server listens: peers send a message, Ostler prints its line. */
async function ready(server: Server, child: ChildProcess): Promise<Running> {
  const { promise: address, resolve, reject } = Promise.withResolvers<string>();
  const timer = setTimeout(
    () => reject(new Error(`${server.name} does not listen after ${START_MS / 1_000} s.`)),
    START_MS,
  );
  child.once("exit", (code) => reject(new Error(`${server.name} ended with ${code}.`)));
  child.stdout?.on("data", (chunk: Buffer) => {
    const found = /ready: (http:\/\/[^/]+)/.exec(chunk.toString("utf8"))?.[1];
    if (found !== undefined) resolve(found);
  });
  const waiting: ((milliseconds: number) => void)[] = [];
  child.on("message", (message: { readonly port?: number; readonly cpuMs?: number }) => {
    if (message.port !== undefined) resolve(`http://127.0.0.1:${message.port}`);
    if (message.cpuMs !== undefined) waiting.shift()?.(message.cpuMs);
  });
  const url = new URL(server.path, await address);
  clearTimeout(timer);
  return {
    server,
    url,
    cpuMs: () =>
      new Promise((report) => {
        waiting.push(report);
        child.send("cpu");
      }),
  };
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((done) => {
    child.once("exit", () => done());
    child.kill("SIGKILL");
  });
}

async function measure(testbed: Testbed, one: Running, requests: number): Promise<Measured> {
  const [cpuBefore, postgresBefore] = [await one.cpuMs(), testbed.postgresCpuMs()];
  const latencies = await ask(one, requests);
  const [cpuAfter, postgresAfter] = [await one.cpuMs(), testbed.postgresCpuMs()];
  return {
    cpuMs: (cpuAfter - cpuBefore) / requests,
    postgresCpuMs:
      postgresBefore === null || postgresAfter === null ? null : (postgresAfter - postgresBefore) / requests,
    latencies,
  };
}

/** Sends requests, some at a time. Returns the latency of each in ms. */
async function ask(one: Running, requests: number): Promise<number[]> {
  const latencies: number[] = [];
  let left = requests;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      const start = performance.now();
      await post(one);
      latencies.push(performance.now() - start);
    }
  };
  await Promise.all(Array.from({ length: PARALLEL_REQUESTS }, worker));
  return latencies;
}

const agent = new Agent({ keepAlive: true, maxSockets: PARALLEL_REQUESTS });

function post({ server, url }: Running): Promise<Buffer> {
  const body = JSON.stringify({ query: server.query, variables: { first: PAGE } });
  return new Promise((answer, failed) => {
    const sent = httpRequest(
      url,
      {
        method: "POST",
        agent,
        headers: {
          "content-type": "application/json",
          accept: "application/json",
          "content-length": Buffer.byteLength(body),
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => void chunks.push(chunk));
        response.on("error", failed);
        response.on("end", () => {
          const text = Buffer.concat(chunks);
          if (response.statusCode === 200) answer(text);
          else
            failed(new Error(`${server.name} answers ${response.statusCode}: ${text.toString("utf8").slice(0, 500)}`));
        });
      },
    );
    sent.on("error", failed);
    sent.end(body);
  });
}

function namesIn(answer: Buffer, list: string): string[] {
  const { data, errors } = JSON.parse(answer.toString("utf8")) as {
    data?: Record<string, { edges: { node: { name: string } }[] }>;
    errors?: unknown;
  };
  const edges = data?.[list]?.edges;
  if (!edges) throw new Error(`The response has no list: ${JSON.stringify(errors)}`);
  return edges.map(({ node }) => node.name);
}
