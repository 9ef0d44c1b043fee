/**
 * Gauges that only the database knows: work that waits, states of nodes. They are read when they are asked for, at most
 * every few seconds, once for all who ask meanwhile; a database that does not answer in time leaves them out, and says so
 * by `ostler_database_up`. What was read last is never shown as if it held still.
 */
import { Gauge } from "@prometheus-io/client";
import type { Registry } from "@prometheus-io/client";
import type { Reader } from "../store/postgres/database.ts";
import { fleet, workload } from "../store/fleet-gauges.ts";

export interface Gauges {
  /** Brings the gauges up to date, or takes them away. Never throws, and takes no longer than `PATIENCE_MS`. */
  refresh(): Promise<void>;
}

/** How old what is shown may be: of work, and of the fleet, for which every node is looked at. */
const WORK_MS = 5_000;
const FLEET_MS = 30_000;
const PATIENCE_MS = 2_000;

export function createGauges(registry: Registry, reader: Reader, now: () => number = () => performance.now()): Gauges {
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Gauge({ name: `ostler_${name}`, help, labelNames, registers: [registry] });
  const up = gauge(
    "database_up",
    "1 while the database answers, 0 while it does not; what it alone knows is then left out.",
  );
  const runs = gauge("runs_unfinished", "Unfinished runs of the whole service by state, and by what they wait for.", [
    "state",
    "reason",
  ]);
  const oldest = gauge("runs_oldest_waiting_seconds", "How long the run has waited that waits longest for its turn.");
  const position = gauge("log_position", "Position of the newest transition in the log.");
  const nodes = gauge("nodes", "Nodes by state.", ["state"]);
  const problems = gauge("nodes_power_unreadable", "Nodes whose power could not be read the last time.");
  const maintained = gauge("nodes_in_maintenance", "Nodes in maintenance.");

  const work = every(WORK_MS, now, async () => {
    const found = await workload(reader);
    return () => {
      runs.reset();
      for (const { state, reason, count } of found.runs) runs.set({ state, reason: reason ?? "" }, count);
      oldest.set(found.oldestWaitingSeconds);
      position.set(found.position);
    };
  });
  const machines = every(FLEET_MS, now, async () => {
    const found = await fleet(reader);
    return () => {
      nodes.reset();
      for (const { state, count } of found.nodes) nodes.set({ state }, count);
      problems.set(found.powerProblems);
      maintained.set(found.inMaintenance);
    };
  });

  return {
    async refresh() {
      const isRead = await inTime(Promise.all([work(), machines()]), PATIENCE_MS);
      up.set(isRead ? 1 : 0);
      if (isRead) return;
      for (const gone of [runs, nodes]) gone.reset();
      for (const gone of [oldest, position, problems, maintained]) gone.remove();
    },
  };
}

/** Reads at most once in so many milliseconds, and at the same time only once; then shows what was read. */
function every(ms: number, now: () => number, read: () => Promise<() => void>): () => Promise<void> {
  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<void> | null = null;
  let show = () => {};
  return async () => {
    if (now() - readAt >= ms) {
      reading ??= read()
        .then((given) => {
          show = given;
          readAt = now();
        })
        .finally(() => {
          reading = null;
        });
      await reading;
    }
    show();
  };
}

async function inTime(work: Promise<unknown>, ms: number): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<false>();
  const timer = setTimeout(() => resolve(false), ms);
  const done = work.then(
    () => true,
    () => false,
  );
  return Promise.race([done, late]).finally(() => clearTimeout(timer));
}
