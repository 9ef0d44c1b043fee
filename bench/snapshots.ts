/**
 * Subject `snapshots`: the CPU of a snapshot by stream against the same nodes by pages of 500, and of a resolved page
 * against one of stored fields. All with the same service, in turns in the same run, so that the ratios hold on a
 * machine with other load. The service is a process of its own; half of the nodes have an unfinished run.
 */
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import { WebSocket } from "ws";
import { median, printTable, shown } from "./figures.ts";
import { request } from "./request.ts";
import { startServed } from "./service.ts";
import type { Served } from "./service.ts";
import type { Testbed } from "./testbed.ts";

export interface SnapshotsOptions {
  readonly nodes: number;
  readonly rounds: number;
}

/** Verbs of more nodes exceed the limit on the cost of a request. */
const PAGE = 500;
const CLUSTERS = 100;

const SELECTIONS = {
  "stored fields": "name state stage powerState presence hostGroup revision updatedAt",
  cluster: "name state cluster { name }",
  currentRun: "name state currentRun { state createdAt }",
  targetState: "name state targetState",
  "three relations": "name state cluster { name } currentRun { state createdAt } targetState",
  drivers: "name state drivers { name }",
  verbs: "name state verbs { verb allowed }",
} as const;

/** CPU of one way, in ms. */
interface Cost {
  readonly service: number;
  readonly postgres: number;
}

export async function measureSnapshots(testbed: Testbed, { nodes, rounds }: SnapshotsOptions): Promise<void> {
  await using made = await testbed.database("served");
  const { connection } = made;
  if (!("url" in connection)) throw new Error("A served database has a URL.");
  await fillTables(connection.url, nodes);
  await using service = await startServed(testbed, {
    environment: { DATABASE_URL: connection.url, OSTLER_PLUGINS: "fake", OSTLER_POWER_SECONDS: "0" },
    nodeArgs: ["--import", fileURLToPath(new URL("cpu-report.mjs", import.meta.url))],
  });
  const names = Object.keys(SELECTIONS) as (keyof typeof SELECTIONS)[];
  const costs = new Map<string, { readonly stream: Cost; readonly pages: Cost }[]>();
  // The first round only warms up.
  for (let round = 0; round <= rounds; round += 1) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const selection = SELECTIONS[name];
      const pages = await costOf(testbed, service, () => readPages(service, selection, nodes));
      const stream = await costOf(testbed, service, () => readSnapshot(service, selection, nodes));
      if (round > 0) costs.set(name, [...(costs.get(name) ?? []), { stream, pages }]);
    }
  }
  print(nodes, costs);
}

function print(nodes: number, costs: ReadonlyMap<string, readonly { stream: Cost; pages: Cost }[]>): void {
  const per = 1_000 / nodes;
  const medians = (name: string) => {
    const all = costs.get(name) ?? [];
    const of = (take: (one: { stream: Cost; pages: Cost }) => number) => median(all.map(take)) * per;
    return {
      stream: { service: of(({ stream }) => stream.service), postgres: of(({ stream }) => stream.postgres) },
      pages: { service: of(({ pages }) => pages.service), postgres: of(({ pages }) => pages.postgres) },
    };
  };
  const stored = medians("stored fields").pages.service;
  console.log(`  ${nodes} nodes; CPU in ms per 1,000 nodes, medians`);
  printTable(
    ["selection", "pages", "to stored", "PostgreSQL", "stream", "PostgreSQL", "stream to pages"],
    [...costs.keys()].map((name) => {
      const { stream, pages } = medians(name);
      return [
        name,
        shown(pages.service, 2),
        shown(pages.service / stored, 2),
        shown(pages.postgres, 2),
        shown(stream.service, 2),
        shown(stream.postgres, 2),
        shown((stream.service + stream.postgres) / (pages.service + pages.postgres), 2),
      ];
    }),
  );
}

async function costOf(testbed: Testbed, service: Served, work: () => Promise<void>): Promise<Cost> {
  const [before, postgresBefore] = [await cpuMs(service), testbed.postgresCpuMs()];
  await work();
  const [after, postgresAfter] = [await cpuMs(service), testbed.postgresCpuMs()];
  return { service: after - before, postgres: (postgresAfter ?? Number.NaN) - (postgresBefore ?? Number.NaN) };
}

/** CPU time of the service so far, in ms. */
function cpuMs({ child }: Served): Promise<number> {
  return new Promise((resolve) => {
    child.once("message", (message: { readonly cpuMs: number }) => resolve(message.cpuMs));
    child.send("cpu");
  });
}

interface Page {
  readonly nodes: {
    readonly nodes: readonly { readonly name: string }[];
    readonly pageInfo: { readonly endCursor: string; readonly hasNextPage: boolean };
  };
}

async function readPages(service: Served, selection: string, nodes: number): Promise<void> {
  const query = `query Page($after: String) { nodes(first: ${PAGE}, after: $after) { nodes { ${selection} } pageInfo { endCursor hasNextPage } } }`;
  let count = 0;
  for (let after: string | null = null; ;) {
    const page: Page = await request<Page>(service, query, { after });
    count += page.nodes.nodes.length;
    if (!page.nodes.pageInfo.hasNextPage) break;
    after = page.nodes.pageInfo.endCursor;
  }
  if (count !== nodes) throw new Error(`${count} nodes came by pages, not ${nodes}.`);
}

async function readSnapshot({ url }: Served, selection: string, nodes: number): Promise<void> {
  const query = `subscription { nodeTransitions(snapshot: true) { ... on NodeSnapshot { node { ${selection} } } ... on StreamBookmark { snapshotComplete } } }`;
  const socket = new WebSocket(`${url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
  let count = 0;
  await new Promise<void>((resolve, reject) => {
    socket.on("open", () => socket.send('{"type":"connection_init"}'));
    socket.on("error", reject);
    socket.on("message", (data: Buffer) => {
      const text = data.toString("latin1");
      if (text.includes('"node":{')) count += 1;
      else if (text.includes("connection_ack"))
        socket.send(JSON.stringify({ type: "subscribe", id: "1", payload: { query } }));
      else if (text.includes('"snapshotComplete":true')) resolve();
      else reject(new Error(`The stream sent ${text.slice(0, 500)}`));
    });
  });
  socket.terminate();
  if (count !== nodes) throw new Error(`${count} nodes came by the stream, not ${nodes}.`);
}

/** Nodes in clusters; every second one has a run that holds. */
async function fillTables(url: string, nodes: number): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  const operation = randomUUID();
  try {
    await sql.begin(async (tx) => {
      // Disables the triggers for states, which require a transition for each node.
      await tx`set local session_replication_role = replica`;
      await tx`
        insert into clusters (id, name, project, variables)
        select gen_random_uuid(), 'cluster-' || n, 'default', '{}' from generate_series(0, ${CLUSTERS - 1}) n`;
      await tx`
        insert into nodes (id, name, project, state, stage, power_state, presence, host_group, driver, borrowed, settings, labels, cluster_id, transition_count, revision)
        select gen_random_uuid(), 'rack' || lpad((n / 40)::text, 4, '0') || '-u' || lpad((n % 40)::text, 2, '0'), 'default',
          case when n % 2 = 0 then 'CLEAN_HOLD' else 'AVAILABLE' end, 'NONE', 'ON', 'DISCOVERED', 'worker', 'fake', '{}', '{}', '{}',
          (select id from clusters where name = 'cluster-' || n % ${CLUSTERS}), 1, 1
        from generate_series(0, ${nodes - 1}) n`;
      await tx`
        insert into operations (id, kind, state, project, actor, options, on_failure, variables, total_count)
        values (${operation}, 'CLEAN', 'RUNNING', 'default', 'benchmark', '{}', 'CONTINUE', '{}', ${nodes})`;
      await tx`insert into plans (hash, plan) values ('bench', '{"steps": []}')`;
      await tx`
        insert into runs (id, operation_id, node_id, node_name, ordinal, state, plan_hash, variables, target, moves_state)
        select gen_random_uuid(), ${operation}, id, name, row_number() over (), 'HOLDING', 'bench', '{}', 'AVAILABLE', true
        from nodes where state = 'CLEAN_HOLD'`;
    });
    await sql`vacuum analyze`;
  } finally {
    await sql.end();
  }
}
