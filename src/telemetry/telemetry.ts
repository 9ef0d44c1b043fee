/**
 * Observability: Prometheus metrics, OpenTelemetry traces and log lines, all derived from the events that the service
 * reports to its observer. No other part of the service depends on this directory.
 */
import { Registry, collectDefaultMetrics } from "@prometheus-io/client";
import type { Engine } from "../engine/engine.ts";
import type { Log } from "../log.ts";
import { combineObservers } from "../observer.ts";
import type { Observer } from "../observer.ts";
import type { Reader } from "../store/postgres/database.ts";
import { instrumentEngine } from "./instrumentation.ts";
import { createCircuitGauge, createGauges } from "./gauges.ts";
import type { OpenCircuits } from "./gauges.ts";
import { createJournal } from "./journal.ts";
import { createMetrics } from "./metrics.ts";
import { createTraces } from "./traces.ts";

interface Telemetry extends AsyncDisposable {
  /** Receives the service's events. */
  readonly observer: Observer;
  /** Wraps the engine so that its requests are reported to the observer. */
  watch(engine: Engine): Engine;
  /** The response to a Prometheus scrape; gauges are read from the database through `reader`. */
  scrapeOf(reader: Reader, circuits: OpenCircuits): () => Promise<Scrape>;
}

export interface Scrape {
  readonly contentType: string;
  readonly text: string;
}

export async function createTelemetry({
  log,
  version,
}: {
  readonly log: Log;
  readonly version: string;
}): Promise<Telemetry> {
  const metrics = createMetrics({ version });
  const traces = await createTraces({ log, version });
  const combined = combineObservers(metrics.observer, createJournal(log));
  const observer = traces ? combineObservers(combined, traces.observer) : combined;
  return {
    observer,
    watch: (engine) => instrumentEngine(engine, observer),
    scrapeOf(reader, circuits) {
      const circuitGauge = createCircuitGauge(metrics.registry, circuits);
      const gauges = createGauges(metrics.registry, reader);
      return async () => {
        await gauges.refresh();
        circuitGauge.refresh();
        const texts = await Promise.all([metrics.registry.metrics(), registryOfProcess().metrics()]);
        return { contentType: metrics.registry.contentType, text: texts.join("\n") };
      };
    },
    async [Symbol.asyncDispose]() {
      await traces?.[Symbol.asyncDispose]();
    },
  };
}

let processRegistry: Registry | undefined;

/**
 * Metrics of the process: memory, CPU, event loop, handles. Shared by all services in the process and never disposed
 * of.
 */
function registryOfProcess(): Registry {
  if (processRegistry) return processRegistry;
  processRegistry = new Registry();
  collectDefaultMetrics({ register: processRegistry, eventLoopUtilizationTimeout: 1_000 });
  return processRegistry;
}
