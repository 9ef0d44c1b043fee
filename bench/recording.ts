/**
 * Subject `recording`: what the triggers that record changes cost PostgreSQL, per changed row, and what numbering
 * costs, per change. CPU time of the session that writes, on two databases in alternating rounds; one of them has no
 * triggers that record.
 */
import { readFileSync } from "node:fs";
import postgres from "postgres";
import { median, printTable, shown } from "./figures.ts";
import { openFleet, registerFleet } from "./fleet.ts";
import type { Testbed } from "./testbed.ts";

const NODES = 200;
const AT_ONCE = 20;

/** Statements of a loop over `i`. `ids`: the nodes. */
const CASES = {
  "one node per transaction, in facts of filters": `update nodes set presence = case presence when 'UP' then 'DOWN' else 'UP' end where id = ids[i % ${NODES} + 1]; commit`,
  "one node per transaction, in no filter": `update nodes set description = i::text where id = ids[i % ${NODES} + 1]; commit`,
  "one node per transaction, not recorded": `update nodes set power_checked_at = now() where id = ids[i % ${NODES} + 1]; commit`,
  [`${AT_ONCE} nodes per statement, in facts of filters`]: `if i % ${AT_ONCE} = 0 then update nodes set presence = case presence when 'UP' then 'DOWN' else 'UP' end where id = any(ids[i % ${NODES} + 1:i % ${NODES} + ${AT_ONCE}]); commit; end if`,
} as const;

interface Writer extends AsyncDisposable {
  /** CPU time of the session per change, in µs. */
  measure(statement: string, changes: number): Promise<number>;
  /** CPU time of numbering, per change. */
  number(): Promise<number>;
}

export async function measureRecording(
  testbed: Testbed,
  { changes, rounds }: { readonly changes: number; readonly rounds: number },
): Promise<void> {
  await using recorded = await openWriter(testbed);
  await using plain = await openWriter(testbed, "without recording");
  const costs = new Map<string, { readonly recorded: number; readonly plain: number }[]>();
  const numbering: number[] = [];
  // The first round only warms up.
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, statement] of Object.entries(CASES)) {
      const first = await (round % 2 === 0 ? recorded : plain).measure(statement, changes);
      const second = await (round % 2 === 0 ? plain : recorded).measure(statement, changes);
      const numbered = await recorded.number();
      if (round === 0) continue;
      const cost = round % 2 === 0 ? { recorded: first, plain: second } : { recorded: second, plain: first };
      costs.set(name, [...(costs.get(name) ?? []), cost]);
      if (!Number.isNaN(numbered)) numbering.push(numbered);
    }
  }
  console.log(`  CPU of PostgreSQL in µs per changed row, medians of ${rounds} rounds with ${changes} rows each`);
  printTable(
    ["update of", "with triggers", "without", "difference"],
    [...costs].map(([name, all]) => [
      name,
      shown(median(all.map((cost) => cost.recorded))),
      shown(median(all.map((cost) => cost.plain))),
      shown(median(all.map((cost) => cost.recorded - cost.plain))),
    ]),
  );
  console.log(`  numbering: ${shown(median(numbering))} µs per change`);
}

async function openWriter(testbed: Testbed, kind?: "without recording"): Promise<Writer> {
  await using parts = new AsyncDisposableStack();
  const made = parts.use(await testbed.database("served"));
  const { connection } = made;
  if (!("url" in connection)) throw new Error("A served database has a URL.");
  {
    await using fleet = await openFleet({ connection, concurrency: 1 });
    await registerFleet(fleet.engine, NODES);
  }
  const sql = postgres(connection.url, { max: 1, onnotice: () => {}, connection: { synchronous_commit: "off" } });
  parts.defer(() => sql.end({ timeout: 5 }));
  if (kind) await sql`drop trigger nodes_recorded_update on nodes`;
  const [session] = await sql`select pg_backend_pid() as pid`;
  const cpuUs = () => Number(readFileSync(`/proc/${String(session?.["pid"])}/schedstat`, "latin1").split(" ")[0]) / 1e3;
  const opened = parts.move();
  return {
    async measure(statement, changes) {
      await sql`truncate change_inbox`;
      await sql`vacuum nodes`;
      const before = cpuUs();
      await sql.unsafe(
        `do $$ declare ids uuid[] := (select array_agg(id) from nodes); begin for i in 1..${changes} loop ${statement}; end loop; end $$`,
      );
      return (cpuUs() - before) / changes;
    },
    async number() {
      const before = cpuUs();
      const [row] = await sql<{ moved: number }[]>`select number_changes(1000000) as moved`;
      const moved = row?.moved ?? 0;
      return moved === 0 ? Number.NaN : (cpuUs() - before) / moved;
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}
