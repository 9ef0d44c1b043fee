/**
 * Metrics in the way of Prometheus: counters and histograms of what the service tells its observer, in a registry of this
 * service's own. docs/operations.md tells what each means. Labels are few and bounded: kinds, steps, drivers, outcomes;
 * never a name of a node or an id. What drivers and clients choose freely is cut off after so many different ones.
 */
import { Counter, Gauge, Histogram, Registry } from "@prometheus-io/client";
import type { Observer, RunAbout } from "../observer.ts";

export interface Metrics {
  readonly observer: Observer;
  readonly registry: Registry;
}

/** Names of calls that are told apart for one driver, and steps of all; further ones are `other`. */
const CALL_NAMES_MAX = 100;
const STEPS_MAX = 500;

const QUICK = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const CALLS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 150];
const STEPS = [0.01, 0.1, 0.5, 1, 5, 15, 60, 180, 600, 1_800, 3_600];
const RUNS = [1, 5, 15, 60, 180, 600, 1_800, 3_600, 10_800, 43_200];

export function createMetrics({ version }: { readonly version: string }): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const counter = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Counter({ name: `ostler_${name}`, help, labelNames, registers });
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Gauge({ name: `ostler_${name}`, help, labelNames, registers });
  const histogram = <Label extends string>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: readonly Label[] = [],
  ) => new Histogram({ name: `ostler_${name}`, help, labelNames, buckets, registers });

  gauge("build_info", "1, with the version in its label.", ["version"]).set({ version }, 1);

  const runsStarted = counter("runs_started_total", "Runs that this process was the first to work on.", ["purpose"]);
  const runsFinished = counter("runs_finished_total", "Runs that this process has ended.", ["purpose", "outcome"]);
  const runSeconds = histogram(
    "run_duration_seconds",
    "From the beginning of a run to its end, waits included.",
    RUNS,
    ["outcome"],
  );
  const operationsAccepted = counter("operations_accepted_total", "Operations that were begun on request.", ["verb"]);
  const operationsFinished = counter(
    "operations_finished_total",
    "Operations that this process has given their final state.",
    ["kind", "outcome"],
  );
  const takeOvers = counter(
    "run_takeovers_total",
    "Runs taken over in the middle of a step from a process that has let go of them.",
  );
  const fencedWrites = counter(
    "fenced_writes_total",
    "Results that were thrown away, because another process has taken the run over.",
  );
  const stepSeconds = histogram(
    "step_duration_seconds",
    "Time inside a step, from one boundary to the next; `outcome` wait: it parked and is entered again.",
    STEPS,
    ["step", "driver", "outcome"],
  );
  const stepsInProgress = gauge("steps_in_progress", "Steps that this process is inside.");
  const callSeconds = histogram("driver_call_duration_seconds", "Calls of drivers to machines (BMCs).", CALLS, [
    "driver",
    "call",
    "outcome",
  ]);
  const admissionSeconds = histogram(
    "admission_duration_seconds",
    "Requests that change something, from the transaction's beginning to the answer.",
    QUICK,
    ["verb"],
  );
  const admittedNodes = counter("admission_nodes_total", "Nodes that operations were begun on.", ["verb"]);
  const refusals = counter("refusals_total", "Refusals, of whole requests or of single nodes.", ["code"]);
  const jobs = gauge("queue_jobs_in_hand", "Jobs of the durable queue that this process works on.", ["queue"]);
  const queueFailures = counter(
    "queue_failures_total",
    "Jobs that failed and are tried again; fetches and heartbeats of the queue that failed.",
    ["what"],
  );
  const appended = counter("transitions_appended_total", "Transitions that this process has committed.");
  const lost = counter("database_connection_losses_total", "Transactions that were lost with their connection.");
  const lag = histogram(
    "stream_lag_seconds",
    "From a transition's being written to its being at hand for the streams of this process.",
    QUICK,
  );
  const streams = gauge("streams_open", "Subscriptions that are open.", ["transport"]);
  const resets = counter("streams_ended_early_total", "Subscriptions that we ended before their time.", ["code"]);
  const requestSeconds = histogram(
    "graphql_request_duration_seconds",
    "Requests of GraphQL; of a subscription only its beginning.",
    QUICK,
    ["type", "outcome"],
  );
  const unclear = counter(
    "graphql_requests_rejected_total",
    "Requests whose document could not be parsed, or was not valid.",
  );
  const callBacks = counter("callbacks_total", "Call-backs of machines; all but TAKEN changed nothing.", ["verdict"]);

  // At 0 from the beginning, so that a rate sees the first.
  for (const verdict of ["TAKEN", "LATE", "DUPLICATE", "FORGED", "UNKNOWN"]) callBacks.inc({ verdict }, 0);
  for (const transport of ["http", "websocket"]) streams.set({ transport }, 0);
  for (const what of ["fetch", "heartbeat", "job"]) queueFailures.inc({ what }, 0);
  jobs.set({ queue: "runs" }, 0);
  for (const type of ["query", "mutation", "subscription"])
    for (const outcome of ["ok", "refused", "error"]) requestSeconds.zero({ type, outcome });
  runsStarted.inc({ purpose: "work" }, 0);
  for (const outcome of ["succeeded", "failed", "aborted", "stopped"])
    runsFinished.inc({ purpose: "work", outcome }, 0);

  const callNames = bounded(CALL_NAMES_MAX);
  const stepNames = bounded(STEPS_MAX);
  const purposeOf = ({ purpose }: RunAbout) => ({ purpose: purpose.toLowerCase() });

  const observer: Observer = {
    async call({ driver, name }, work) {
      const began = performance.now();
      const end = (outcome: string) =>
        callSeconds.observe({ driver, call: callNames(driver, name), outcome }, since(began));
      try {
        const answer = await work();
        end("ok");
        return answer;
      } catch (error) {
        end(kindOf(error));
        throw error;
      }
    },
    async step({ step, driver }, work) {
      const began = performance.now();
      const end = (outcome: string) => {
        stepsInProgress.dec();
        stepSeconds.observe({ step: stepNames("", step), driver, outcome }, since(began));
      };
      stepsInProgress.inc();
      try {
        const answer = await work();
        end(answer.kind);
        return answer;
      } catch (error) {
        end("failed");
        throw error;
      }
    },
    async admission({ verb }, work, endOf) {
      const began = performance.now();
      const answer = await work();
      admissionSeconds.observe({ verb }, since(began));
      const { operationId, nodes, codes, replayed } = endOf(answer);
      for (const code of codes) refusals.inc({ code });
      if (operationId !== null && !replayed) {
        operationsAccepted.inc({ verb });
        admittedNodes.inc({ verb }, nodes);
      }
      return answer;
    },
    request({ type }) {
      const began = performance.now();
      return { within: (work) => work(), end: (outcome) => requestSeconds.observe({ type, outcome }, since(began)) };
    },
    requestRefused: () => unclear.inc(),
    runClaimed(run, { first, takenOver }) {
      if (first) runsStarted.inc(purposeOf(run));
      if (takenOver) takeOvers.inc();
    },
    runEnded(run, state) {
      const outcome = state.toLowerCase();
      runsFinished.inc({ ...purposeOf(run), outcome });
      if (run.startedAt) runSeconds.observe({ outcome }, Math.max(0, (Date.now() - run.startedAt.getTime()) / 1_000));
    },
    operationEnded: ({ kind, state }) =>
      operationsFinished.inc({ kind: kind.toLowerCase(), outcome: state.toLowerCase() }),
    fenced: () => fencedWrites.inc(),
    inHand: (queue, change) => jobs.inc({ queue }, change),
    queueFailed: (what) => queueFailures.inc({ what }),
    appended: (transitions) => appended.inc(transitions),
    connectionLost: () => lost.inc(),
    streamLag: (seconds) => lag.observe(Math.max(0, seconds)),
    streamOpened: (transport) => streams.inc({ transport }),
    streamEnded: (transport) => streams.dec({ transport }),
    streamReset: (code) => resets.inc({ code }),
    calledBack: (verdict) => callBacks.inc({ verdict }),
  };
  return { observer, registry };
}

function since(began: number): number {
  return (performance.now() - began) / 1_000;
}

/** How a call failed: the kind of a driver's error, in lower case; aborted, when its signal ended it; else failed. */
function kindOf(error: unknown): string {
  if (!(error instanceof Error)) return "failed";
  if (error.name === "AbortError") return "aborted";
  if (error.name === "TimeoutError") return "timeout";
  const { kind } = error as { kind?: unknown };
  return error.name === "DriverError" && typeof kind === "string" && KINDS.has(kind) ? kind.toLowerCase() : "failed";
}

const KINDS = new Set(["AUTHENTICATION", "UNREACHABLE", "TIMEOUT", "REFUSED", "OTHER"]);

/** Names of a group as long as there are few; those that come later are `other`. */
function bounded(most: number): (group: string, name: string) => string {
  const groups = new Map<string, Set<string>>();
  return (group, name) => {
    const known = groups.get(group) ?? new Set();
    groups.set(group, known);
    if (known.size < most) known.add(name);
    return known.has(name) ? name : "other";
  };
}
