/**
 * `npm run takeover`: how long work rests when its replica dies. Nodes are each inside a step that takes hours; a replica is
 * killed with SIGKILL, and for each step that it was inside of the time is taken until another replica has entered that
 * step again. Then a new one is started in its place, and so on.
 *
 * Options: --kills 20 --replicas 3 --nodes 60. Prints a line a kill, p50 and the maximum of all steps, and ends
 * `N passed, N failed`.
 */
import { parseArgs } from "node:util";
import { eventually } from "../support/eventually.ts";
import { commission, entered, operationOf, register, scratch, startReplica, startServer } from "./lab.ts";
import type { Replica } from "./lab.ts";

/** P11: by then every run is taken up by another. */
const TAKEN_OVER_MS = 45_000;
const STEP = "deploy.write_image";

interface Result {
  /** From each kill to each entry by another, in ms. */
  readonly rests: readonly number[];
  /** Steps that were over and were entered again all the same. */
  readonly repeated: number;
}

/** Kills the given number of replicas, one after another. */
export async function takeOvers(options: {
  readonly kills: number;
  readonly replicas: number;
  readonly nodes: number;
  readonly say?: (line: string) => void;
}): Promise<Result> {
  const { kills, say = () => {} } = options;
  using place = scratch();
  await using owned = new AsyncDisposableStack();
  const server = owned.use(await startServer(place.folder));
  // The last replica can run all of them.
  const setup = {
    databaseUrl: server.url,
    environment: { OSTLER_CONCURRENCY: String(options.nodes), OSTLER_LOG: "warn", OSTLER_DB_POOL: "8" },
  };
  const start = async () => owned.use(await startReplica(place.folder, setup));
  let living = await Promise.all(Array.from({ length: options.replicas }, start));
  const dead: Replica[] = [];
  const names = Array.from({ length: options.nodes }, (_, index) => `node-${index}`);
  const [first] = living;
  if (!first) throw new Error("There is no replica.");
  await register(first.url, names, { steps: { [STEP]: { delayMs: 3_600_000 } } });
  const operation = await commission(first.url, names);
  const entriesOfStep = () =>
    [...dead, ...living].flatMap((replica) =>
      entered(replica.journal())
        .filter(({ step }) => step === STEP)
        .map((entry) => ({ ...entry, replica })),
    );
  /** The replica that runs the step of each node: the last to have entered it. */
  const inside = () =>
    new Map(
      entriesOfStep()
        .toSorted((a, b) => a.at - b.at)
        .map((entry) => [entry.node, entry.replica]),
    );
  await eventually("all nodes are inside their step", () => inside().size === names.length, 120_000);
  const rests: number[] = [];
  for (let kill = 1; kill <= kills; kill += 1) {
    const held = Map.groupBy(inside(), ([, replica]) => replica);
    const victim = living.toSorted((a, b) => (held.get(b)?.length ?? 0) - (held.get(a)?.length ?? 0))[0];
    const nodes = (victim && held.get(victim)?.map(([node]) => node)) ?? [];
    if (!victim || nodes.length === 0) throw new Error("No replica runs a step.");
    const at = Date.now();
    await victim.kill();
    living = living.filter((one) => one !== victim);
    dead.push(victim);
    const taken = await eventually(
      `all ${nodes.length} steps of the dead replica are entered by others`,
      () => {
        const again = new Map(
          entriesOfStep()
            .filter((entry) => entry.at >= at && entry.replica !== victim)
            .toSorted((a, b) => b.at - a.at)
            .map((entry) => [entry.node, entry.at - at]),
        );
        return nodes.every((node) => again.has(node)) && nodes.map((node) => again.get(node) ?? 0);
      },
      2 * TAKEN_OVER_MS,
    );
    rests.push(...taken);
    say(`kill ${kill}: ${nodes.length} steps, ${seconds(Math.min(...taken))} to ${seconds(Math.max(...taken))}`);
    living.push(await start());
  }
  const { state } = await operationOf(living.at(-1)?.url ?? "", operation);
  if (state !== "RUNNING") throw new Error(`The operation is ${state}.`);
  const others = [...dead, ...living]
    .flatMap((replica) => entered(replica.journal()))
    .filter(({ step }) => step !== STEP);
  return { rests, repeated: others.length - new Set(others.map(({ attempt }) => attempt)).size };
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      kills: { type: "string", default: "20" },
      replicas: { type: "string", default: "3" },
      nodes: { type: "string", default: "60" },
    },
  });
  const { rests, repeated } = await takeOvers({
    kills: Number(values.kills),
    replicas: Number(values.replicas),
    nodes: Number(values.nodes),
    say: (line) => console.log(line),
  });
  const sorted = rests.toSorted((a, b) => a - b);
  const most = sorted.at(-1) ?? Number.POSITIVE_INFINITY;
  console.log(
    `\n${sorted.length} steps were taken over: p50 ${seconds(sorted[Math.floor(sorted.length / 2)] ?? 0)}, maximum ${seconds(most)}`,
  );
  const checks = [most < TAKEN_OVER_MS, repeated === 0];
  if (repeated > 0) console.log(`FAIL ${repeated} steps that were over were entered again`);
  console.log(`\n${checks.filter(Boolean).length} passed, ${checks.filter((ok) => !ok).length} failed`);
  process.exitCode = checks.every(Boolean) ? 0 : 1;
}
