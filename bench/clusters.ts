/**
 * Subject `clusters`: a cluster of deployed nodes in one process with the engine. The pending changes of the cluster,
 * before and after an edit that concerns every node, and `applyCluster` with nothing to do, beside the dry run of a
 * deployment of the same nodes.
 */
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { CALLER, openFleet, registerFleet } from "./fleet.ts";
import type { Fleet } from "./fleet.ts";
import { median, printTable, shown } from "./figures.ts";
import { DRIVER } from "./six-step-driver.ts";
import type { Testbed } from "./testbed.ts";

const CLUSTER = { name: "bench" };
/** Reads in one measurement: the CPU time of PostgreSQL is known in steps of 10 ms. */
const READS = 20;

export async function measureClusters(
  testbed: Testbed,
  { nodes, rounds }: { readonly nodes: number; readonly rounds: number },
): Promise<void> {
  await using made = await testbed.database("served");
  if (!("url" in made.connection)) throw new Error("A served database has a URL.");
  await using fleet = await openFleet({ connection: made.connection, concurrency: 8 });
  const { engine, database } = fleet;
  const { clusterId } = await engine.createCluster(CALLER, { ...CLUSTER, variables: { ntp: "10.0.0.1" } });
  await deployOne(fleet);
  await fill(made.connection.url, nodes);
  const read = async () => (await engine.pendingChanges(database.reader, [clusterId ?? ""])).get(clusterId ?? "");
  const rows: string[][] = [];
  const add = async (name: string, times: number, work: () => Promise<unknown>) => {
    const figures: { readonly ms: number; readonly postgresMs: number }[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const [before, start] = [testbed.postgresCpuMs() ?? Number.NaN, performance.now()];
      for (let one = 0; one < times; one += 1) await work();
      const ms = (performance.now() - start) / times;
      figures.push({ ms, postgresMs: ((testbed.postgresCpuMs() ?? Number.NaN) - before) / times });
    }
    const [ms, postgresMs] = [median(figures.map((one) => one.ms)), median(figures.map((one) => one.postgresMs))];
    rows.push([name, shown(ms, 0), shown(postgresMs, 0)]);
    return ms;
  };
  await add("pendingChanges, none", READS, read);
  const planned = await add("deployNodes, dry run", 1, () => dryRun(fleet));
  const applied = await add("applyCluster, nothing to do", 1, () => engine.applyCluster(CALLER, { cluster: CLUSTER }));
  await engine.updateCluster(CALLER, CLUSTER, { variables: { ntp: "10.0.0.2" } });
  if ((await read())?.count !== nodes) throw new Error("Not all nodes are pending after the edit.");
  await add("pendingChanges, all", READS, read);
  await add("applyCluster, dry run for all", 1, () => engine.applyCluster(CALLER, { cluster: CLUSTER, dryRun: true }));
  console.log(`  ${nodes} deployed nodes in one cluster; medians of ${rounds} rounds`);
  printTable(["request", "ms", "PostgreSQL CPU ms"], rows);
  console.log(
    `  applyCluster with nothing to do takes ${shown(applied / planned, 2)} times the dry run of deployNodes`,
  );
}

function dryRun({ engine }: Fleet) {
  const options = { reinstall: true };
  return engine.submit(CALLER, { kind: "DEPLOY", nodes: { cluster: CLUSTER }, options, dryRun: true });
}

/** Deploys one node, whose inputs the others get. */
async function deployOne({ engine, database }: Fleet): Promise<void> {
  await registerFleet(engine, 1);
  await engine.updateCluster(CALLER, CLUSTER, { add: { names: ["n00000"] } });
  await engine.start();
  const { operationId } = await engine.applyCluster(CALLER, { cluster: CLUSTER });
  if (operationId === null) throw new Error("The first node was not deployed.");
  for (;;) {
    const { counts } = await countOf(database);
    if (counts > 0) return;
    await delay(50);
  }
}

async function countOf({ reader }: Fleet["database"]): Promise<{ readonly counts: number }> {
  const [row] = await reader.execute<{ counts: number }>(
    "select count(*)::int as counts from nodes where state = 'ACTIVE'",
  );
  return { counts: row?.counts ?? 0 };
}

/** Copies of the deployed node, inserted directly. */
async function fill(url: string, count: number): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    await sql.begin(async (tx) => {
      // Disables the triggers for states, which require a transition for each node.
      await tx`set local session_replication_role = replica`;
      await tx`
        insert into nodes (id, name, project, state, stage, power_state, presence, driver, borrowed, settings, labels, cluster_id, transition_count, revision)
        select gen_random_uuid(), 'm' || lpad(n::text, 6, '0'), 'default', 'ACTIVE', 'DEPLOYED', 'ON', 'UNSEEN', ${DRIVER}, '{}', jsonb_build_object(${DRIVER}::text, '{}'::jsonb), '{}', c.id, 1, 1
        from generate_series(1, ${count - 1}) n, clusters c`;
      await tx`
        insert into node_deployments (node_id, system, configuration)
        select n.id, d.system, d.configuration from nodes n, node_deployments d where n.name like 'm%'`;
    });
    await sql`vacuum analyze`;
    await sql`checkpoint`;
  } finally {
    await sql.end();
  }
}
