/**
 * Subject `statements`: the number of statements of a six-step run, by kind, from PostgreSQL's log. The only figure
 * without noise: it changes only with the code.
 */
import { readFileSync } from "node:fs";
import postgres from "postgres";
import { setTimeout as delay } from "node:timers/promises";
import { printTable } from "./figures.ts";
import { CALLER, openFleet, registerFleet } from "./fleet.ts";
import type { Testbed } from "./testbed.ts";

const RUNS = 200;
/** Statements below this number per run are periodic and not part of a run. */
const SHARE_SHOWN_MIN = 0.02;
const TEXT_LENGTH_MAX = 110;

export async function countStatements(
  testbed: Testbed,
  { concurrency }: { readonly concurrency: number },
): Promise<void> {
  await using made = await testbed.database("served");
  const { connection, name } = made;
  if (!("url" in connection)) throw new Error("A served database has a URL.");
  {
    await using fleet = await openFleet({ connection, concurrency });
    await registerFleet(fleet.engine, RUNS);
    const { refusals } = await fleet.engine.submit(CALLER, { kind: "COMMISSION", nodes: { all: true } });
    if (refusals.length > 0) throw new Error(refusals[0]?.message);
  }
  const sql = postgres(connection.url, { max: 1, onnotice: () => {} });
  // Applies to new connections only, so this connection is not logged.
  await sql`alter database ${sql(name)} set log_statement = 'all'`;
  const from = readFileSync(testbed.logFile).length;
  {
    await using fleet = await openFleet({ connection, concurrency });
    await fleet.engine.start();
    while ((await sql`select 1 from operations where finished_at is null`).length > 0) await delay(25);
  }
  await sql.end();
  const counts = new Map<string, number>();
  for (const statement of statementsIn(readFileSync(testbed.logFile).subarray(from).toString("utf8")))
    counts.set(statement, (counts.get(statement) ?? 0) + 1);
  const rows = [...counts]
    .map(([text, count]) => ({ text, share: count / RUNS }))
    .toSorted((a, b) => b.share - a.share);
  const total = rows.reduce((sum, { share }) => sum + share, 0);
  const frames = rows.filter(({ text }) => /^(begin|commit)$/.test(text)).reduce((sum, { share }) => sum + share, 0);
  console.log(
    `  ${RUNS} runs of six steps: ${total.toFixed(1)} statements per run, ${frames.toFixed(1)} of them begin and commit`,
  );
  printTable(
    ["statement", "per run"],
    rows.filter(({ share }) => share >= SHARE_SHOWN_MIN).map(({ text, share }) => [text, share.toFixed(2)]),
  );
}

/** The statements of a log, shortened and without values. */
function statementsIn(log: string): string[] {
  return log.split(/^(?=\d{4}-\d\d-\d\d )/m).flatMap((entry) => {
    const text = /LOG: {2}(?:statement|execute [^:]*): ([\s\S]*)/.exec(entry)?.[1];
    return text === undefined ? [] : [shortened(text)];
  });
}

function shortened(text: string): string {
  return text
    .trim()
    .replace(/\s+/g, " ")
    .replaceAll('"', "")
    .replace(/^select .*? from /i, "select … from ")
    .replace(/\(\$\d+(, \$\d+)+\)/g, "($…)")
    .replace(/'[^']*'/g, "'…'")
    .slice(0, TEXT_LENGTH_MAX);
}
