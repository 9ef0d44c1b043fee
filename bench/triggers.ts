/**
 * Subject `triggers`: what recording changes costs PostgreSQL in a cycle of a node (cycle-passes.ts). Passes with the
 * triggers that record and passes in which they are disabled alternate, on one service and one database. The cost with
 * triggers contains the numbering of what they record.
 */
import { MODES, THIS_CHECKOUT, enroll, measurePass, openBuild, verbsOf } from "./cycle-passes.ts";
import type { Build, Cost, Mode, PassOptions, Passes } from "./cycle-passes.ts";
import { median, printTable, shown } from "./figures.ts";
import type { Testbed } from "./testbed.ts";

export interface TriggersOptions extends PassOptions {
  readonly rounds: number;
}

/** Costs of a round, per node and cycle. */
interface Round {
  readonly enabled: Cost;
  readonly disabled: Cost;
  /** Recorded changes. */
  readonly changes: number;
}

export async function measureTriggers(testbed: Testbed, given: TriggersOptions): Promise<void> {
  await using build = await openBuild(testbed, "this build", THIS_CHECKOUT, given);
  const passes: Passes = { ...given, verbs: await verbsOf([build]) };
  await enroll(build, passes);
  const rows: string[][] = [];
  for (const mode of MODES) {
    const rounds: Round[] = [];
    for (let index = 0; index < given.rounds; index += 1)
      rounds.push(await measureRound(build, mode, { ...passes, isFirstDisabled: index % 2 === 1 }));
    rows.push(rowOf(mode, rounds));
  }
  console.log(`  ${given.nodes} nodes, per node and cycle of ${passes.verbs.join(", ")}`);
  console.log(`  medians of ${given.rounds} rounds; ratios: with triggers / without, each round`);
  printTable(
    ["", "PostgreSQL CPU ms", "without", "ratio", "rounds", "changes", "µs per change", "WAL kB", "without", "ratio"],
    rows,
  );
}

function rowOf(mode: Mode, rounds: readonly Round[]): string[] {
  const middle = (of: (round: Round) => number) => median(rounds.map(of));
  const ratio = (field: keyof Cost) => (round: Round) => round.enabled[field] / round.disabled[field];
  const pair = (field: keyof Cost, digits: number) => [
    shown(
      middle(({ enabled }) => enabled[field]),
      digits,
    ),
    shown(
      middle(({ disabled }) => disabled[field]),
      digits,
    ),
    shown(middle(ratio(field)), 2),
  ];
  const perChange = ({ enabled, disabled, changes }: Round) =>
    ((enabled.postgresCpuMs - disabled.postgresCpuMs) * 1_000) / changes;
  return [
    mode === "bulk" ? "one request for all nodes" : "one request per node",
    ...pair("postgresCpuMs", 2),
    rounds.map((round) => shown(ratio("postgresCpuMs")(round), 2)).join(" "),
    shown(middle(({ changes }) => changes)),
    shown(middle(perChange), 0),
    ...pair("walKb", 0),
  ];
}

async function measureRound(
  build: Build,
  mode: Mode,
  passes: Passes & { readonly isFirstDisabled: boolean },
): Promise<Round> {
  const disabledFirst = passes.isFirstDisabled ? await measureDisabled(build, mode, passes) : null;
  const { sql } = build;
  await setTriggers(build, "enable");
  const before = await recorded(sql);
  const enabled = await measurePass(build, mode, passes);
  const cycles = mode === "bulk" ? passes.nodes : Math.min(passes.nodes, passes.singles);
  const changes = ((await recorded(sql)) - before) / cycles;
  return { enabled, changes, disabled: disabledFirst ?? (await measureDisabled(build, mode, passes)) };
}

async function measureDisabled(build: Build, mode: Mode, passes: Passes): Promise<Cost> {
  await setTriggers(build, "disable");
  return measurePass(build, mode, passes);
}

/** Number of changes that were ever recorded. */
async function recorded(sql: Build["sql"]): Promise<number> {
  const [row] = await sql`select last_value from change_inbox_id_seq`;
  return Number(row?.["last_value"]);
}

/** Triggers that record changes; what they recorded before is numbered first. */
async function setTriggers({ sql }: Build, verb: "enable" | "disable"): Promise<void> {
  await sql`select number_changes(1000000)`;
  const triggers = await sql<{ table: string; name: string }[]>`
    select tgrelid::regclass::text as table, tgname as name from pg_trigger where tgname like '%\_recorded%'`;
  if (triggers.length === 0) throw new Error("The database has no triggers that record changes.");
  for (const { table, name } of triggers) await sql.unsafe(`alter table "${table}" ${verb} trigger "${name}"`);
}
