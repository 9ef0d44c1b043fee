/**
 * Gauges read from the database: waiting runs, sessions of agents and states of nodes. A scrape reads them at most
 * every few seconds; concurrent scrapes share one read. If the database does not answer in time, the gauges are removed
 * rather than stale, and `ostler_database_up` is 0.
 */
import { withinTime } from "../runtime/timeout.ts";
import { Gauge } from "@prometheus-io/client";
import type { Registry } from "@prometheus-io/client";
import type { Reader } from "../store/postgres/database.ts";
import { AGENT_SESSION_STATES, fleet, openAgentSessions, workload } from "../store/fleet-gauges.ts";

export interface Gauges {
  /** Updates the gauges, or removes them. Never throws; takes at most `TIMEOUT_MS`. */
  refresh(): Promise<void>;
}

/** Maximum age of the gauges of runs, and of those of the fleet, which scan every node. */
const RUNS_MS = 5_000;
const FLEET_MS = 30_000;
const TIMEOUT_MS = 2_000;

export function createGauges(registry: Registry, reader: Reader, now: () => number = () => performance.now()): Gauges {
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Gauge({ name: `ostler_${name}`, help, labelNames, registers: [registry] });
  const up = gauge("database_up", "1 if the database answers; 0 if not, and gauges read from it are absent.");
  const runs = gauge("runs_unfinished", "Unfinished runs of the whole service, by state and by what they wait for.", [
    "state",
    "reason",
  ]);
  const oldest = gauge("runs_oldest_waiting_seconds", "Longest wait of a run for its start or for a slot, in seconds.");
  const position = gauge("log_position", "Position of the newest transition in the log.");
  const sessions = gauge("agent_sessions", "Open sessions of agents by state.", ["state"]);
  const nodes = gauge("nodes", "Nodes by state.", ["state"]);
  const problems = gauge("nodes_power_unreadable", "Nodes whose last power reading failed.");
  const maintained = gauge("nodes_in_maintenance", "Nodes in maintenance.");

  const work = every(RUNS_MS, now, async () => {
    const [found, open] = await Promise.all([workload(reader), openAgentSessions(reader)]);
    return () => {
      for (const state of AGENT_SESSION_STATES) sessions.set({ state }, 0);
      for (const { state, count } of open) sessions.set({ state }, count);
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
      const isRead = await inTime(Promise.all([work(), machines()]), TIMEOUT_MS);
      up.set(isRead ? 1 : 0);
      if (isRead) return;
      for (const stale of [runs, sessions, nodes]) stale.reset();
      for (const stale of [oldest, position, problems, maintained]) stale.remove();
    },
  };
}

/** The circuit breakers of this process. */
export interface OpenCircuits {
  /** Number of open circuits of each driver. */
  openByDriver(): ReadonlyMap<string, number>;
}

/** Publishes the open circuits of this process. */
export function createCircuitGauge(registry: Registry, circuits: OpenCircuits): { refresh(): void } {
  const open = new Gauge({
    name: "ostler_circuits_open",
    help: "Management controllers to which calls fail at once, in this process, by driver.",
    labelNames: ["driver"],
    registers: [registry],
  });
  return {
    refresh() {
      open.reset();
      for (const [driver, count] of circuits.openByDriver()) open.set({ driver }, count);
    },
  };
}

/** Reads at most once every `ms`, one read at a time, and publishes the last result. */
function every(ms: number, now: () => number, read: () => Promise<() => void>): () => Promise<void> {
  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<void> | null = null;
  let publish = () => {};
  return async () => {
    if (now() - readAt >= ms) {
      reading ??= read()
        .then((result) => {
          publish = result;
          readAt = now();
        })
        .finally(() => {
          reading = null;
        });
      await reading;
    }
    publish();
  };
}

async function inTime(work: Promise<unknown>, ms: number): Promise<boolean> {
  const done = work.then(
    () => true,
    () => false,
  );
  return withinTime(ms, done, false);
}
