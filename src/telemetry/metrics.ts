/**
 * Prometheus metrics: counters and histograms of the events that the service reports to its observer, in a registry per
 * service. docs/operations.md documents each. Labels are bounded: kinds, steps, drivers and outcomes, never a node's
 * name or an id. The number of distinct names that drivers can choose is limited; further names become `other`.
 */
import { Counter, Gauge, Histogram, Registry } from "@prometheus-io/client";
import { FAILURE_KINDS } from "../errors.ts";
import type { Observer, RunAbout } from "../observer.ts";

export interface Metrics {
  readonly observer: Observer;
  readonly registry: Registry;
}

/** Maximum number of distinct call names per driver, and of step names in all. */
const CALL_NAMES_MAX = 100;
const STEPS_MAX = 500;

const QUICK = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const CALLS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 150];
const STEPS = [0.01, 0.1, 0.5, 1, 5, 15, 60, 180, 600, 1_800, 3_600];
const RUNS = [1, 5, 15, 60, 180, 600, 1_800, 3_600, 10_800, 43_200];

export function createMetrics({ version }: { readonly version: string }): Metrics {
  const registry = new Registry();
  const make = factoriesOf(registry);
  make.gauge("build_info", "Always 1; the label holds the version.", ["version"]).set({ version }, 1);

  const instruments = { ...runInstruments(make), ...requestInstruments(make), ...portInstruments(make) };
  startAtZero(instruments);
  return { observer: observerOf(instruments), registry };
}

/** Creates instruments named `ostler_…` in one registry. */
function factoriesOf(registry: Registry) {
  const registers = [registry];
  return {
    counter: <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
      new Counter({ name: `ostler_${name}`, help, labelNames, registers }),
    gauge: <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
      new Gauge({ name: `ostler_${name}`, help, labelNames, registers }),
    histogram: <Label extends string>(
      name: string,
      help: string,
      buckets: number[],
      labelNames: readonly Label[] = [],
    ) => new Histogram({ name: `ostler_${name}`, help, labelNames, buckets, registers }),
  };
}

type Factories = ReturnType<typeof factoriesOf>;

/** Instruments of operations, runs, steps, claims and the database. */
function runInstruments({ counter, gauge, histogram }: Factories) {
  return {
    runsStarted: counter("runs_started_total", "Runs that this process started.", ["purpose"]),
    runsFinished: counter("runs_finished_total", "Runs that ended in this process.", ["purpose", "outcome"]),
    runsUndone: counter("runs_undone_total", "Ended runs that a clean-up of this process has undone."),
    runSeconds: histogram("run_duration_seconds", "Time from the start of a run to its end, including waits.", RUNS, [
      "outcome",
    ]),
    operationsAccepted: counter("operations_accepted_total", "Operations accepted.", ["verb"]),
    operationsFinished: counter(
      "operations_finished_total",
      "Operations that reached their final state in this process.",
      ["kind", "outcome"],
    ),
    takeOvers: counter(
      "run_takeovers_total",
      "Runs taken over in the middle of a step from a replica whose lease expired.",
    ),
    fencedWrites: counter("fenced_writes_total", "Results discarded because another replica had taken over the run."),
    stepSeconds: histogram(
      "step_duration_seconds",
      "Time spent in a step per entry; outcome `wait`: the step parked and is entered again.",
      STEPS,
      ["step", "driver", "outcome"],
    ),
    stepsInProgress: gauge("steps_in_progress", "Steps that this process is executing."),
    callSeconds: histogram("driver_call_duration_seconds", "Calls from drivers to machines (BMCs).", CALLS, [
      "driver",
      "call",
      "outcome",
    ]),
    claims: gauge("claims_in_hand", "Runs and discoveries that this process has claimed.", ["kind"]),
    claimFailures: counter(
      "claim_failures_total",
      "Failed claims and renewals of leases, and claimed work that failed and is tried again.",
      ["what"],
    ),
    appended: counter("transitions_appended_total", "Transitions committed by this process."),
    clockSteps: counter(
      "database_clock_steps_total",
      "Times that the clock of the database was set and this process corrected what waits.",
    ),
    lost: counter("database_connection_losses_total", "Transactions that failed because their connection was lost."),
  };
}

/** Instruments of requests, refusals, streams and callbacks. */
function requestInstruments({ counter, gauge, histogram }: Factories) {
  return {
    admissionSeconds: histogram(
      "admission_duration_seconds",
      "Duration of mutating requests in the engine, from the start of the transaction to the answer.",
      QUICK,
      ["verb"],
    ),
    admittedNodes: counter("admission_nodes_total", "Nodes accepted into operations.", ["verb"]),
    refusals: counter("refusals_total", "Refusals of whole requests or of single nodes.", ["code"]),
    lag: histogram(
      "stream_lag_seconds",
      "Time from the commit of a transition until the streams of this process can deliver it.",
      QUICK,
    ),
    streams: gauge("streams_open", "Open subscriptions.", ["transport"]),
    resets: counter("streams_ended_early_total", "Subscriptions that the service ended early.", ["code"]),
    requestSeconds: histogram(
      "graphql_request_duration_seconds",
      "Duration of GraphQL requests; for a subscription, of its start.",
      QUICK,
      ["type", "outcome"],
    ),
    failedLogins: counter("failed_logins_total", "Requests and connections without a valid token.", ["reason"]),
    unclear: counter("graphql_requests_rejected_total", "Requests whose document could not be parsed or is not valid."),
    callbacks: counter("callbacks_total", "Callbacks from machines; every verdict except TAKEN changed nothing.", [
      "verdict",
    ]),
  };
}

/** Instruments of the certificate of the port, and of the listener for machines. */
function portInstruments({ counter, gauge }: Factories) {
  return {
    certificateExpires: gauge(
      "tls_certificate_expires_seconds",
      "Seconds until the certificate of this process's port expires, negative afterwards; absent without TLS.",
    ),
    machineRequests: counter(
      "provisioning_requests_total",
      "Requests to the listener for machines; status `cut`: the connection ended before the response.",
      ["request", "status"],
    ),
    fileBytes: counter("provisioning_sent_bytes_total", "Bytes of files sent to machines and BMCs.", ["file"]),
    agentRefusals: counter("agents_refused_total", "Requests of agents that were refused.", ["reason"]),
  };
}

type Instruments = ReturnType<typeof runInstruments> &
  ReturnType<typeof requestInstruments> &
  ReturnType<typeof portInstruments>;

/** Starts counters at 0, so that rate() sees the first increment. Without TLS no certificate expires. */
function startAtZero({
  runsStarted,
  runsFinished,
  claims,
  claimFailures,
  streams,
  requestSeconds,
  callbacks,
  fileBytes,
  agentRefusals,
  certificateExpires,
}: Instruments): void {
  certificateExpires.remove();
  for (const file of ["boot_file", "boot_medium", "image"]) fileBytes.inc({ file }, 0);
  for (const reason of ["unknown", "second"]) agentRefusals.inc({ reason }, 0);
  for (const verdict of ["TAKEN", "LATE", "DUPLICATE", "FORGED", "UNKNOWN"]) callbacks.inc({ verdict }, 0);
  for (const transport of ["http", "websocket"]) streams.set({ transport }, 0);
  for (const what of ["claim", "lease", "run", "operation"]) claimFailures.inc({ what }, 0);
  claims.set({ kind: "run" }, 0);
  for (const type of ["query", "mutation", "subscription"])
    for (const outcome of ["ok", "refused", "error"]) requestSeconds.zero({ type, outcome });
  runsStarted.inc({ purpose: "work" }, 0);
  for (const outcome of ["succeeded", "failed", "aborted", "stopped"])
    runsFinished.inc({ purpose: "work", outcome }, 0);
}

/** Reports each event to its instruments. */
function observerOf(to: Instruments): Observer {
  return { ...workObserver(to), ...portObserver(to) };
}

type PortEvents = "certificateUsed" | "machineAnswered" | "fileBytesSent" | "agentRefused";

function portObserver(to: Instruments): Pick<Observer, PortEvents> {
  return {
    certificateUsed(expiresAt) {
      const { certificateExpires } = to;
      // Called at each scrape; the type lacks it.
      const collect = () => certificateExpires.set((expiresAt.getTime() - Date.now()) / 1_000);
      Object.assign(certificateExpires, { collect });
    },
    machineAnswered: (request, status) =>
      to.machineRequests.inc({ request, status: status === null ? "cut" : String(status) }),
    fileBytesSent: (file, bytes) => to.fileBytes.inc({ file }, bytes),
    agentRefused: (reason) => to.agentRefusals.inc({ reason }),
  };
}

function workObserver(to: Instruments): Omit<Observer, PortEvents> {
  const callNames = boundNames(CALL_NAMES_MAX);
  const stepNames = boundNames(STEPS_MAX);
  const purposeOf = ({ purpose }: RunAbout) => ({ purpose: purpose.toLowerCase() });

  return {
    async call({ driver, name }, work) {
      const startedAtMs = performance.now();
      const end = (outcome: string) =>
        to.callSeconds.observe({ driver, call: callNames(driver, name), outcome }, since(startedAtMs));
      try {
        const answer = await work();
        end("ok");
        return answer;
      } catch (error) {
        end(outcomeOfError(error));
        throw error;
      }
    },
    async step({ step, driver }, work) {
      const startedAtMs = performance.now();
      const end = (outcome: string) => {
        to.stepsInProgress.dec();
        to.stepSeconds.observe({ step: stepNames("", step), driver, outcome }, since(startedAtMs));
      };
      to.stepsInProgress.inc();
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
      const startedAtMs = performance.now();
      const answer = await work();
      to.admissionSeconds.observe({ verb }, since(startedAtMs));
      const { operationId, nodes, codes, replayed } = endOf(answer);
      for (const code of codes) to.refusals.inc({ code });
      if (operationId !== null && !replayed) {
        to.operationsAccepted.inc({ verb });
        to.admittedNodes.inc({ verb }, nodes);
      }
      return answer;
    },
    request({ type }) {
      const startedAtMs = performance.now();
      return {
        within: (work) => work(),
        end: (outcome) => to.requestSeconds.observe({ type, outcome }, since(startedAtMs)),
      };
    },
    requestRefused: () => to.unclear.inc(),
    loginFailed: (reason) => to.failedLogins.inc({ reason }),
    runClaimed(run, { first, takenOver }) {
      if (first) to.runsStarted.inc(purposeOf(run));
      if (takenOver) to.takeOvers.inc();
    },
    runEnded({ startedAt, ...run }, state) {
      const outcome = state.toLowerCase();
      to.runsFinished.inc({ ...purposeOf(run), outcome });
      if (startedAt) to.runSeconds.observe({ outcome }, Math.max(0, (Date.now() - startedAt.getTime()) / 1_000));
    },
    runsUndone: (runs) => to.runsUndone.inc(runs),
    operationEnded: ({ kind, state }) =>
      to.operationsFinished.inc({ kind: kind.toLowerCase(), outcome: state.toLowerCase() }),
    fenced: () => to.fencedWrites.inc(),
    inHand: (kind, change) => to.claims.inc({ kind }, change),
    claimFailed: (what) => to.claimFailures.inc({ what }),
    appended: (transitions) => to.appended.inc(transitions),
    connectionLost: () => to.lost.inc(),
    clockStepped: () => to.clockSteps.inc(),
    streamLag: (seconds) => to.lag.observe(Math.max(0, seconds)),
    streamOpened: (transport) => to.streams.inc({ transport }),
    streamEnded: (transport) => to.streams.dec({ transport }),
    streamReset: (code) => to.resets.inc({ code }),
    calledBack: (outcome) => to.callbacks.inc({ verdict: outcome }),
  };
}

/** Seconds since `startedAtMs`. */
function since(startedAtMs: number): number {
  return (performance.now() - startedAtMs) / 1_000;
}

/** Outcome label of a failed call: the kind of the driver's error, `aborted`, `timeout` or `failed`. */
function outcomeOfError(error: unknown): string {
  if (!(error instanceof Error)) return "failed";
  if (error.name === "AbortError") return "aborted";
  if (error.name === "TimeoutError") return "timeout";
  const { kind } = error as { kind?: unknown };
  return error.name === "DriverError" && typeof kind === "string" && KINDS.has(kind) ? kind.toLowerCase() : "failed";
}

const KINDS: ReadonlySet<string> = new Set(FAILURE_KINDS);

/** Keeps the first `most` names of a group; maps further names to `other`. */
function boundNames(most: number): (group: string, name: string) => string {
  const groups = new Map<string, Set<string>>();
  return (group, name) => {
    const known = groups.get(group) ?? new Set();
    groups.set(group, known);
    if (known.size < most) known.add(name);
    return known.has(name) ? name : "other";
  };
}
