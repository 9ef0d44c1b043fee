/**
 * Subject `admission`: one mutation that commissions a whole fleet, over HTTP, from the request to the response, in a
 * service in a separate process. In addition to the time: the CPU of the service and of PostgreSQL, the peak memory of
 * the service, and for how long the positions of the logs were locked, measured in the database by a transaction that
 * locks them again and again: what any other writer would have waited for.
 */
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { median, printTable, shown } from "./figures.ts";
import { PLUGIN } from "./fleet.ts";
import { request } from "./request.ts";
import { startServed } from "./service.ts";
import { DRIVER } from "./six-step-driver.ts";
import { cpuMs, rssMb } from "./testbed.ts";
import type { Testbed } from "./testbed.ts";

const MUTATION =
  "mutation { commissionNodes(input: { nodes: { all: true } }) { operation { uuid totalCount } errors { code message } } }";
/** The runs that begin after the answer compete for the locks as well; they are watched for this long. */
const AFTERWARDS_MS = 3_000;
const PROBE_EVERY_MS = 2;

/** Longest waits for the positions of the logs, in ms. */
interface Waits {
  readonly transitions: number;
  readonly changes: number;
}

interface Admission {
  readonly answerMs: number;
  readonly serviceCpuMs: number;
  readonly postgresCpuMs: number | null;
  readonly peakMb: number | null;
  /** Longest waits until the answer, and after it. */
  readonly waits: Waits;
  readonly waitsAfterwards: Waits;
}

export async function measureAdmission(
  testbed: Testbed,
  {
    nodes,
    rounds,
    concurrency,
  }: { readonly nodes: readonly number[]; readonly rounds: number; readonly concurrency: number },
): Promise<void> {
  const rows: string[][] = [];
  for (const count of nodes) {
    const all: Admission[] = [];
    for (let round = 1; round <= rounds; round += 1) all.push(await admit(testbed, count, concurrency));
    const of = (take: (one: Admission) => number | null) => median(all.map((one) => take(one) ?? Number.NaN));
    const worst = (take: (one: Admission) => number) => shown(Math.max(...all.map(take)), 0);
    rows.push([
      String(count),
      shown(
        of(({ answerMs }) => answerMs),
        0,
      ),
      shown((of(({ answerMs }) => answerMs) / count) * 1000, 0),
      shown((of(({ serviceCpuMs }) => serviceCpuMs) / count) * 1000, 0),
      shown((of(({ postgresCpuMs }) => postgresCpuMs) / count) * 1000, 0),
      shown(
        of(({ peakMb }) => peakMb),
        0,
      ),
      worst(({ waits }) => waits.transitions),
      worst(({ waits }) => waits.changes),
      worst(({ waitsAfterwards }) => waitsAfterwards.transitions),
      worst(({ waitsAfterwards }) => waitsAfterwards.changes),
    ]);
  }
  console.log(
    `  one commissionNodes on all nodes, over HTTP; medians of ${rounds}; longest waits for the positions of the logs`,
  );
  printTable(
    [
      "nodes",
      "ms",
      "µs/node",
      "service CPU µs",
      "PostgreSQL",
      "peak RSS MB",
      "transitions ms",
      "changes ms",
      "transitions afterwards",
      "changes afterwards",
    ],
    rows,
  );
}

async function admit(testbed: Testbed, count: number, concurrency: number): Promise<Admission> {
  await using made = await testbed.database("served");
  if (!("url" in made.connection)) throw new Error("A served database has a URL.");
  const { url } = made.connection;
  await fillNodes(url, count);
  await using service = await startServed(testbed, {
    environment: {
      DATABASE_URL: url,
      OSTLER_PLUGINS: PLUGIN,
      OSTLER_POWER_SECONDS: "0",
      OSTLER_CONCURRENCY: String(concurrency),
    },
    nodeArgs: ["--max-semi-space-size=16"],
  });
  await request(service, "{ __typename }");
  await using probe = probeLocks(url);
  await delay(AFTERWARDS_MS);
  probe.taken();
  const [cpuBefore, postgresBefore, start] = [cpuMs(service.pid), testbed.postgresCpuMs(), performance.now()];
  const data = await request<{ commissionNodes: { operation: { totalCount: number } | null } }>(service, MUTATION);
  const answerMs = performance.now() - start;
  const [cpuAfter, postgresAfter] = [cpuMs(service.pid), testbed.postgresCpuMs()];
  const peakMb = rssMb(service.pid, "peak");
  const waits = probe.taken();
  if (data.commissionNodes.operation?.totalCount !== count)
    throw new Error(`Fewer than ${count} nodes were admitted: ${JSON.stringify(data)}`);
  await delay(AFTERWARDS_MS);
  return {
    answerMs,
    serviceCpuMs: Number(cpuAfter) - Number(cpuBefore),
    postgresCpuMs: postgresBefore === null || postgresAfter === null ? null : postgresAfter - postgresBefore,
    peakMb,
    waits,
    waitsAfterwards: probe.taken(),
  };
}

/** Registered nodes, inserted directly. */
async function fillNodes(url: string, count: number): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    await sql.begin(async (tx) => {
      // Disables the triggers for states, which require a transition for each node.
      await tx`set local session_replication_role = replica`;
      await tx`
        insert into nodes (id, name, project, state, stage, power_state, presence, driver, borrowed, settings, labels, transition_count, revision)
        select gen_random_uuid(), 'n' || lpad(n::text, 6, '0'), 'default', 'ENROLLED', 'NONE', 'UNKNOWN', 'UNSEEN', ${DRIVER}, '{}', jsonb_build_object(${DRIVER}::text, '{}'::jsonb), '{}', 1, 1
        from generate_series(0, ${count - 1}) n`;
    });
    await sql`vacuum analyze`;
    await sql`checkpoint`;
  } finally {
    await sql.end();
  }
}

interface Probe extends AsyncDisposable {
  /** The longest waits since the last call. */
  taken(): Waits;
}

/** Locks the positions of both logs again and again, and measures each wait. */
function probeLocks(url: string): Probe {
  const sql = postgres(url, { max: 2, onnotice: () => {} });
  let isOver = false;
  const longest = { transitions: 0, changes: 0 };
  const probe = async (log: keyof Waits, table: string) => {
    while (!isOver) {
      const [row] = await sql<{ ms: number }[]>`
        with began as materialized (select clock_timestamp() as at),
             locked as materialized (select position from ${sql(table)} positions, began for update of positions)
        select (extract(epoch from clock_timestamp() - began.at) * 1000)::float8 as ms from began, locked`;
      longest[log] = Math.max(longest[log], row?.ms ?? Number.NaN);
      await delay(PROBE_EVERY_MS);
    }
  };
  const probing = Promise.all([probe("transitions", "feed_position"), probe("changes", "change_position")]);
  return {
    taken() {
      const taken = { ...longest };
      Object.assign(longest, { transitions: 0, changes: 0 });
      return taken;
    },
    async [Symbol.asyncDispose]() {
      isOver = true;
      await probing;
      await sql.end();
    },
  };
}
