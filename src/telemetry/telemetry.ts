/**
 * The operations' view: metrics for Prometheus, traces through OpenTelemetry, and lines of the log, all made of what the
 * service tells its observer. Nothing else of the service knows of it.
 */
import { Registry, collectDefaultMetrics } from "@prometheus-io/client";
import type { Engine } from "../engine/engine.ts";
import type { Log } from "../log.ts";
import { combineObservers } from "../observer.ts";
import type { Observer } from "../observer.ts";
import type { Reader } from "../store/postgres/database.ts";
import { watchedEngine } from "./instrumentation.ts";
import { createGauges } from "./gauges.ts";
import { createJournal } from "./journal.ts";
import { createMetrics } from "./metrics.ts";
import { createTraces } from "./traces.ts";

export interface Telemetry extends AsyncDisposable {
  /** To be told what happens. */
  readonly observer: Observer;
  /** The engine, with the observer told of what is asked of it. */
  watch(engine: Engine): Engine;
  /** What Prometheus is answered; `reader` is asked for what the database alone knows. */
  scrapeOf(reader: Reader): () => Promise<Scrape>;
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
  const told = combineObservers(metrics.observer, createJournal(log));
  const observer = traces ? combineObservers(told, traces.observer) : told;
  return {
    observer,
    watch: (engine) => watchedEngine(engine, observer),
    scrapeOf(reader) {
      const gauges = createGauges(metrics.registry, reader);
      return async () => {
        await gauges.refresh();
        const texts = await Promise.all([metrics.registry.metrics(), ofProcess().metrics()]);
        return { contentType: metrics.registry.contentType, text: texts.join("\n") };
      };
    },
    async [Symbol.asyncDispose]() {
      await traces?.[Symbol.asyncDispose]();
    },
  };
}

let processRegistry: Registry | undefined;

/** Memory, CPU, the event loop and handles: of the process, however many services are in it, and measured as long as it lives. */
function ofProcess(): Registry {
  if (processRegistry) return processRegistry;
  processRegistry = new Registry();
  collectDefaultMetrics({ register: processRegistry, eventLoopUtilizationTimeout: 1_000 });
  return processRegistry;
}
