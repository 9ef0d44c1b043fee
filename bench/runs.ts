/**
 * Subject `runs`: six-step runs through the engine, compared with the bare loop, on a served and on an embedded
 * database.
 */
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import type { Connection } from "../src/store/postgres/database.ts";
import { openBareLoop } from "./bare-loop.ts";
import { median, printTable, shown } from "./figures.ts";
import { CALLER, openFleet, registerFleet } from "./fleet.ts";
import type { Testbed, Way } from "./testbed.ts";

export interface RunsOptions {
  readonly runs: number;
  readonly rounds: number;
  readonly concurrency: number;
}

interface Measured {
  readonly runsPerSecond: number;
  readonly nodeCpuMs: number;
  readonly postgresCpuMs: number | null;
}

type Worker = "engine" | "bare";

const WAYS: readonly Way[] = ["served", "embedded"];
const POLL_MS = 25;
const WARM_UP_RUNS = 100;

export async function measureRuns(testbed: Testbed, options: RunsOptions): Promise<void> {
  const measured = new Map<string, Measured[]>();
  for (const way of WAYS)
    for (const worker of ["bare", "engine"] as const)
      await measure(testbed, way, worker, { ...options, runs: WARM_UP_RUNS });
  for (let round = 1; round <= options.rounds; round += 1) {
    // The order alternates between rounds.
    const workers: readonly Worker[] = round % 2 === 1 ? ["engine", "bare"] : ["bare", "engine"];
    for (const way of WAYS) {
      for (const worker of workers) {
        const result = await measure(testbed, way, worker, options);
        measured.set(`${way} ${worker}`, [...(measured.get(`${way} ${worker}`) ?? []), result]);
      }
    }
  }
  const of = (way: Way, worker: Worker, field: keyof Measured): number | null => {
    const values = (measured.get(`${way} ${worker}`) ?? []).map((one) => one[field]);
    return values.some((value) => value === null) ? null : median(values as number[]);
  };
  const ratio = (way: Way, field: keyof Measured) => {
    const [engine, bare] = [of(way, "engine", field), of(way, "bare", field)];
    return engine === null || bare === null ? null : engine / bare;
  };
  const rows = WAYS.flatMap((way) => [
    ...(["bare", "engine"] as const).map((worker) => [
      `${way}, ${worker}`,
      shown(of(way, worker, "runsPerSecond"), 0),
      shown(of(way, worker, "nodeCpuMs"), 2),
      shown(of(way, worker, "postgresCpuMs"), 2),
      spread(measured.get(`${way} ${worker}`) ?? []),
    ]),
    [
      `${way}, engine / bare`,
      shown(ratio(way, "runsPerSecond"), 2),
      shown(ratio(way, "nodeCpuMs"), 2),
      shown(ratio(way, "postgresCpuMs"), 2),
      "",
    ],
  ]);
  console.log(
    `  ${options.runs} commissions of six steps, ${options.concurrency} at a time; medians of ${options.rounds} rounds`,
  );
  printTable(["", "runs/s", "Node CPU ms/run", "PostgreSQL CPU ms/run", "runs/s per round"], rows);
}

function spread(rounds: readonly Measured[]): string {
  return rounds.map(({ runsPerSecond }) => runsPerSecond.toFixed(0)).join(" ");
}

async function measure(
  testbed: Testbed,
  way: Way,
  worker: Worker,
  { runs, concurrency }: RunsOptions,
): Promise<Measured> {
  await using made = await testbed.database(way);
  const { connection } = made;
  if (worker === "engine") {
    await using fleet = await openFleet({ connection, concurrency });
    await admit(fleet.engine, runs);
    return await timed(testbed, runs, connection, async (finished) => {
      await fleet.engine.start();
      await finished();
    });
  }
  {
    // Admission is not measured, so the engine does it for the bare loop too.
    await using fleet = await openFleet({ connection, concurrency });
    await admit(fleet.engine, runs);
  }
  await using loop = await openBareLoop({ connection, concurrency });
  return await timed(testbed, runs, connection, () => loop.work());
}

async function admit(engine: Parameters<typeof registerFleet>[0], count: number): Promise<void> {
  await registerFleet(engine, count);
  const { refusals } = await engine.submit(CALLER, { kind: "COMMISSION", nodes: { all: true } });
  if (refusals.length > 0) throw new Error(refusals[0]?.message);
}

async function timed(
  testbed: Testbed,
  runs: number,
  connection: Connection,
  work: (finished: () => Promise<void>) => Promise<void>,
): Promise<Measured> {
  const options = { max: 1, onnotice: () => {} };
  const sql = "url" in connection ? postgres(connection.url, options) : postgres({ ...connection, ...options });
  const finished = async () => {
    while ((await sql`select 1 from operations where finished_at is null`).length > 0) await delay(POLL_MS);
  };
  try {
    await sql`vacuum analyze`;
    const cpuBefore = process.cpuUsage();
    const postgresBefore = testbed.postgresCpuMs();
    const start = performance.now();
    await work(finished);
    const seconds = (performance.now() - start) / 1000;
    const { user, system } = process.cpuUsage(cpuBefore);
    const postgresAfter = testbed.postgresCpuMs();
    await requireSameRows(sql, runs);
    return {
      runsPerSecond: runs / seconds,
      nodeCpuMs: (user + system) / 1000 / runs,
      postgresCpuMs: postgresBefore === null || postgresAfter === null ? null : (postgresAfter - postgresBefore) / runs,
    };
  } finally {
    await sql.end({ timeout: 5 });
  }
}

/** Engine and loop must leave the same rows; otherwise they cannot be compared. */
async function requireSameRows(sql: postgres.Sql, runs: number): Promise<void> {
  const [row] = await sql`
    select (select count(*) from nodes where state = 'ACTIVE' and stage = 'DEPLOYED' and power_state = 'OFF' and transition_count = 9)::int as nodes,
           (select count(*) from runs where state = 'SUCCEEDED' and position = 6 and leg = 3)::int as runs,
           (select count(*) from attempts where state = 'SUCCEEDED')::int as attempts,
           (select count(*) from inventories)::int as inventories,
           (select count(*) from transitions)::int as transitions,
           (select state from operations) as operation`;
  const found = JSON.stringify(row);
  const expected = JSON.stringify({
    nodes: runs,
    runs,
    attempts: 6 * runs,
    inventories: runs,
    transitions: 9 * runs,
    operation: "SUCCEEDED",
  });
  if (found !== expected)
    throw new Error(`The rows do not match ${runs} six-step runs: ${found} instead of ${expected}.`);
}
