/**
 * Subject `cycle`: what one node costs from managed to inspected, available, active and available again, in each
 * process: the service, its drivers and PostgreSQL. Once with one request for all nodes, once with one request for each
 * node, some of them in flight at a time. With `--against`, a second build of Ostler is measured in the same minutes,
 * in alternating passes, so that their ratio does not depend on other load of the machine. Nodes are selected by name,
 * which older builds know too; with one that has no `provideNodes`, nodes of both builds become available by
 * `commissionNodes`. With `--against off`, the second build stores secrets in clear.
 */
import { MODES, THIS_CHECKOUT, countPass, enroll, measurePass, openBuild, verbsOf } from "./cycle-passes.ts";
import type { Build, Cost, Mode, PassOptions, Passes } from "./cycle-passes.ts";
import { median, printTable, shown } from "./figures.ts";
import type { Testbed } from "./testbed.ts";

export interface CycleOptions extends PassOptions {
  readonly rounds: number;
  /** Folder with the checkout of another build; `off`: this one without encryption; empty: none. */
  readonly against: string;
}

export async function measureCycle(testbed: Testbed, given: CycleOptions): Promise<void> {
  await using parts = new AsyncDisposableStack();
  const builds = [parts.use(await openBuild(testbed, "this build", THIS_CHECKOUT, given))];
  if (given.against === "off") {
    const environment = { OSTLER_SECRET_KEYS: "off" };
    builds.push(parts.use(await openBuild(testbed, "off", THIS_CHECKOUT, { ...given, environment })));
  } else if (given.against !== "")
    builds.push(parts.use(await openBuild(testbed, given.against, given.against, given)));
  const options = { ...given, verbs: await verbsOf(builds) };
  const costs = new Map(builds.flatMap((build) => MODES.map((mode) => [keyOf(build, mode), [] as Cost[]])));
  for (const build of builds) await enroll(build, options);
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const mode of MODES) {
      // The order alternates between rounds.
      for (const build of round % 2 === 1 ? builds : builds.toReversed())
        costs.get(keyOf(build, mode))?.push(await measurePass(build, mode, options));
    }
  }
  console.log(`  ${options.nodes} nodes, per node and cycle of ${options.verbs.join(", ")}`);
  console.log(`  medians of ${options.rounds} rounds`);
  for (const mode of MODES) await printMode(mode, builds, costs, options);
}

function keyOf({ name }: Build, mode: Mode): string {
  return `${name} ${mode}`;
}

async function printMode(
  mode: Mode,
  builds: readonly Build[],
  costs: ReadonlyMap<string, readonly Cost[]>,
  options: CycleOptions & Passes,
): Promise<void> {
  const rows: string[][] = [];
  for (const build of builds) {
    const of = costs.get(keyOf(build, mode)) ?? [];
    const middle = (field: keyof Cost) => median(of.map((cost) => cost[field]));
    const { statements, commits } = await countPass(build, mode, options);
    rows.push([
      build.name,
      ...(["postgresCpuMs", "serviceCpuMs", "driversCpuMs"] as const).map((field) => shown(middle(field), 2)),
      shown(statements),
      shown(commits),
      shown(middle("walKb"), 0),
      of.map(({ starts }) => String(starts)).join(" "),
      shown(middle("cyclesPerSecond")),
      of.map(({ postgresCpuMs }) => shown(postgresCpuMs)).join(" "),
    ]);
  }
  console.log(
    mode === "bulk" ? "  one request for all nodes:" : `  one request per node, ${options.inFlight} in flight:`,
  );
  printTable(
    [
      "",
      "PostgreSQL CPU ms",
      "service CPU ms",
      "drivers CPU ms",
      "statements",
      "commits",
      "WAL kB",
      "drivers' processes started per round",
      "cycles/s",
      "PostgreSQL per round",
    ],
    rows,
  );
  printTable(
    ["peak memory (PSS)", "service MB", "drivers MB", "processes", "PostgreSQL MB", "processes", "in all MB"],
    builds.map((build) => {
      const of = costs.get(keyOf(build, mode)) ?? [];
      const middle = (value: (cost: Cost) => number) => shown(median(of.map(value)), 0);
      return [
        build.name,
        middle(({ serviceMb }) => serviceMb),
        middle(({ driversMb }) => driversMb),
        middle(({ driversProcesses }) => driversProcesses),
        middle(({ postgresMb }) => postgresMb),
        middle(({ postgresProcesses }) => postgresProcesses),
        middle(({ serviceMb, driversMb, postgresMb }) => serviceMb + driversMb + postgresMb),
      ];
    }),
  );
  const [ours, theirs] = builds.map((build) => costs.get(keyOf(build, mode)) ?? []);
  if (!ours || !theirs) return;
  const ratio = (field: keyof Cost) =>
    shown(median(ours.map((cost, round) => cost[field] / (theirs[round]?.[field] ?? Number.NaN))), 2);
  console.log(
    `  this build / ${options.against}, medians of the rounds: PostgreSQL CPU ${ratio("postgresCpuMs")}, service CPU ${ratio("serviceCpuMs")}, drivers CPU ${ratio("driversCpuMs")}, WAL ${ratio("walKb")}`,
  );
}
